/**
 * One input on several threads (--jobs), its output in order:
 *
 *   files ─▶ blocks ─ cut behind a newline ─▶ pieces ─▶ threads (this one is one), each with a row of stages of its own
 *              ▲                                          │ where untouched lines stand, changed ones, sums
 *              └─────────── used again ◀── written ◀──────┘ one piece after the other
 *
 * Blocks are shared memory: a thread reads the lines where they stand, and untouched ones are written from there. A piece
 * is handed out only while fewer than two a thread are on their way, so nothing grows with the input. What is read here
 * costs 4 % of what the threads do, and tells each of them the number of its first line.
 */
import { type Account, addAccount } from './account.ts';
import { type FileInput, regularFile } from './input.ts';
import type { Item } from './item.ts';
import { type LineSource, longLine } from './line.ts';
import type { Output } from './output.ts';
import type { Whole } from './stage.ts';

const NEWLINE = 10;

/** Whole lines of a file, or a failed item in the place of one line that is too long to keep. */
export interface Piece {
  name: string;
  /** lines of the file before this piece */
  linesBefore: number;
  bytes?: { block: Block; length: number };
  item?: Item;
}

/** Memory that all threads see. A thread is sent it once, since V8 counts what it is sent, and collects in haste. */
export interface Block {
  number: number;
  memory: SharedArrayBuffer;
}

export type Part = [from: number, to: number] | Uint8Array;

/** What a thread made of a piece. */
export interface Done {
  /** what goes to `path` (null where there is one output): ranges of the piece, and bytes of the thread's own */
  outputs: { path: string | null; parts: Part[] }[];
  /** failed items for `--failures` as text, by its path */
  sides: Map<string, string[]>;
  /** what stages left for the sum, with their place in the row */
  left: [index: number, part: unknown][];
  account: Account;
}

export interface Thread {
  /** Pieces that are given while it works wait for their turn. */
  work(piece: Piece): Promise<Done>;
}

export interface Work {
  files: readonly string[];
  /** each resolves once it is ready; the first that is begins */
  threads: readonly Promise<Thread>[];
  source: Omit<LineSource, 'name'>;
  /** bytes that are read at once */
  blockSize: number;
  account: Account;
  output: Output;
  sides: ReadonlyMap<string, { write(line: string): void }>;
  /** by their place in the row */
  wholes: ReadonlyMap<number, Whole>;
  stopped(): boolean;
}

/** Resolves once all was handed to the output, or once a stop was heeded. */
export async function workApart(work: Work): Promise<void> {
  const { threads, account, output, sides, wholes } = work;
  const blocks = blocksOf(work.blockSize);
  const pieces = piecesOf(work, blocks);
  const underway: { piece: Piece; thread: Thread; done: Promise<Done> }[] = [];
  const load = new Map<Thread, number>(); // pieces of each that is ready
  let unopened: { error: unknown } | null = null;
  for (const thread of threads) {
    thread.then(
      ready => load.set(ready, 0),
      error => {
        unopened ??= { error };
      },
    );
  }
  await Promise.race(threads);
  const idlest = (): Thread => [...load].reduce((a, b) => (b[1] < a[1] ? b : a))[0];

  for (;;) {
    if (unopened) throw (unopened as { error: unknown }).error;
    while (underway.length < 2 * load.size) {
      const { value: piece } = pieces.next();
      if (!piece) break;
      const thread = idlest();
      load.set(thread, (load.get(thread) as number) + 1);
      const done = thread.work(piece);
      done.catch(() => {}); // it is heard when its turn comes
      underway.push({ piece, thread, done });
    }
    const next = underway.shift();
    if (next === undefined) break;
    const done = await next.done;
    load.set(next.thread, (load.get(next.thread) as number) - 1);
    addAccount(account, done.account);
    for (const [index, part] of done.left) wholes.get(index)?.take(part);
    for (const [path, lines] of done.sides) for (const line of lines) sides.get(path)?.write(line);
    await write(next.piece, done, output);
    if (next.piece.bytes) blocks.give(next.piece.bytes.block);
  }
  for (const whole of wholes.values()) whole.end();
}

async function write({ bytes: own }: Piece, { outputs }: Done, output: Output): Promise<void> {
  const block = own ? Buffer.from(own.block.memory) : Buffer.alloc(0);
  for (const { path, parts } of outputs) {
    for (const part of parts) {
      const bytes = Array.isArray(part)
        ? block.subarray(...part)
        : Buffer.from(part.buffer, part.byteOffset, part.length);
      if (!output.pass(bytes, path)) await new Promise<void>(resolve => output.ready(resolve));
    }
  }
}

function* piecesOf(work: Work, blocks: Blocks): Generator<Piece, undefined> {
  const { files, source, stopped } = work;
  for (const path of files) {
    const file = regularFile(path);
    if (file === null) throw new Error(`no regular file any more: ${path}`);
    try {
      for (const piece of cut(file, { ...source, name: file.name }, blocks)) {
        if (stopped()) return;
        yield piece;
      }
    } finally {
      file.close();
    }
  }
}

function* cut(file: FileInput, source: LineSource, blocks: Blocks): Generator<Piece> {
  const { name } = source;
  let block = blocks.take(0);
  let bytes = Buffer.from(block.memory);
  let filled = 0;
  let linesBefore = 0;
  for (;;) {
    const got = file.fill(bytes, filled);
    filled += got;
    if (got === 0) break;
    const length = bytes.lastIndexOf(NEWLINE, filled - 1) + 1;
    if (length > 0) {
      const piece: Piece = { name, linesBefore, bytes: { block, length } };
      linesBefore += newlinesIn(bytes, length);
      const rest = bytes.subarray(length, filled);
      block = blocks.take(2 * rest.length);
      bytes = Buffer.from(block.memory);
      filled = rest.copy(bytes);
      yield piece;
    } else if (filled > source.maxLine) {
      const long = longLine(source);
      let end = -1;
      do {
        long.add(bytes.subarray(0, filled));
        filled = file.fill(bytes, 0);
        end = bytes.subarray(0, filled).indexOf(NEWLINE);
      } while (filled > 0 && end < 0);
      long.add(bytes.subarray(0, Math.max(end, 0)));
      linesBefore += 1;
      yield { name, linesBefore, item: long.end(linesBefore) };
      filled = end < 0 ? 0 : bytes.copy(bytes, 0, end + 1, filled);
    } else if (filled === bytes.length) {
      const larger = blocks.take(2 * filled);
      bytes.copy(Buffer.from(larger.memory));
      blocks.give(block);
      block = larger;
      bytes = Buffer.from(block.memory);
    }
  }
  if (filled > 0) yield { name, linesBefore, bytes: { block, length: filled } };
  else blocks.give(block);
}

/** Memory that is used again, in sizes that double, so that what long lines need is soon there. */
interface Blocks {
  take(least: number): Block;
  give(block: Block): void;
}

function blocksOf(size: number): Blocks {
  const free: Block[] = [];
  let made = 0;
  return {
    take(least) {
      const at = free.findIndex(({ memory }) => memory.byteLength >= least);
      if (at >= 0) return free.splice(at, 1)[0] as Block;
      let bytes = size;
      while (bytes < least) bytes *= 2;
      made += 1;
      return { number: made, memory: new SharedArrayBuffer(bytes) };
    },
    give: block => void free.push(block),
  };
}

function newlinesIn(block: Buffer, end: number): number {
  let count = 0;
  for (let at = block.indexOf(NEWLINE); at >= 0 && at < end; at = block.indexOf(NEWLINE, at + 1)) count += 1;
  return count;
}
