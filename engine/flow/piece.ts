/** A thread at work on the pieces of an input (see apart.ts): the row of stages over one piece after the other. */
import _ from 'highland';
import { taken } from './account.ts';
import type { Done, Part, Piece } from './apart.ts';
import type { ByteInput } from './input.ts';
import type { Item } from './item.ts';
import { drain, openRow, type Placed, readingOf } from './join.ts';
import { readItems } from './lines.ts';
import { type Output, output, toNowhere } from './output.ts';
import { sideText } from './side.ts';

const NOWHERE = toNowhere();

/** `pathOf` gives the path for a line; null where there is one output, undefined where there is none. */
export async function openPieces(
  row: readonly Placed[],
  pathOf: ((line: Item) => string) | null | undefined,
): Promise<(piece: Piece) => Promise<Done>> {
  const account = row[0]?.tools.account;
  if (account === undefined) throw new Error('a row has at least one stage');
  let sides: Done['sides'] = new Map();
  let left: Done['left'] = [];
  const flow = await openRow(row, {
    side: path => ({
      write(line) {
        const lines = sides.get(path) ?? [];
        sides.set(path, lines);
        lines.push(sideText(line));
      },
    }),
    leave: (index, part) => left.push([index, part]),
  });
  const gathered = pathOf === undefined ? null : gather(pathOf);

  return async piece => {
    const { bytes, item } = piece;
    const block = bytes ? Buffer.from(bytes.block.memory, 0, bytes.length) : null;
    const items = block
      ? readItems([inputOf(piece, block)], { ...readingOf(row), stopped: () => false })
      : _(item ? [item] : []);
    gathered?.begin(block);
    await drain(flow(items), gathered ?? NOWHERE, account);
    const done = { outputs: (await gathered?.taken()) ?? [], sides, left, account: taken(account) };
    sides = new Map();
    left = [];
    return done;
  };
}

function inputOf({ name, linesBefore }: Piece, block: Buffer): ByteInput {
  let next: Buffer | null = block;
  return {
    name,
    linesBefore,
    regular: true,
    borrowed: true,
    read() {
      const got = next;
      next = null;
      return got;
    },
    close() {},
  };
}

/** An output whose lines are for another thread to write. */
interface Gathered extends Output {
  begin(block: Buffer | null): void;
  taken(): Promise<Done['outputs']>;
}

/** Untouched lines are told by where they stand in the block; only changed ones travel. */
function gather(pathOf: ((line: Item) => string) | null): Gathered {
  let block: Buffer | null = null;
  const outputs = new Map<string | null, { output: Output; parts: Part[] }>();
  const outputFor = (path: string | null): Output => {
    const known = outputs.get(path);
    if (known) return known.output;
    const opened = { parts: [] as Part[], output: NOWHERE };
    const put = (bytes: Buffer): boolean => {
      if (bytes.buffer !== block?.buffer) opened.parts.push(new Uint8Array(bytes));
      else addRange(opened.parts, bytes.byteOffset, bytes.byteOffset + bytes.length);
      return true;
    };
    const toThread = { keeps: false, put, ready: (act: () => void) => act(), end: async () => {} };
    opened.output = output(toThread, error => {
      throw error;
    });
    outputs.set(path, opened);
    return opened.output;
  };
  return {
    write: line => outputFor(pathOf?.(line) ?? null).write(line),
    ready: act => act(),
    pass: () => true,
    async end() {},
    begin(next) {
      block = next;
    },
    async taken() {
      const gathered: Done['outputs'] = [];
      for (const [path, opened] of outputs) {
        await opened.output.end();
        if (opened.parts.length > 0) gathered.push({ path, parts: opened.parts });
        opened.parts = [];
      }
      return gathered;
    },
  };
}

function addRange(parts: Part[], from: number, to: number): void {
  const last = parts.at(-1);
  if (Array.isArray(last) && last[1] === from) last[1] = to;
  else parts.push([from, to]);
}
