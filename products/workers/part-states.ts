/**
 * The parts of one work: which are open, and which shards are whole. Made from the disk at each start, so that it never
 * knows more than the disk does.
 *
 *   part 0 ─ done ─────────────────────────────► shard whole
 *     ├── half handed back ─► part 1 (the rest) ─► …
 *     └── cut ─► part 1, part 2
 *
 * What became of a part is FOLDER/done/ROOT.PART, made once and for all. The first line says which lines it has and which
 * parts follow it; behind it are the lines. Whoever makes the file first has closed the part: `link` is exclusive (on NFS
 * too), so a second result, and one of a part that was cut meanwhile, finds the name taken.
 */
import { closeSync, readdirSync, readSync } from 'node:fs';
import { join } from 'node:path';
import {
  makeFolder,
  OWNER_ONLY,
  openKept,
  readKept,
  removeUnfinished,
  writeOnce,
} from '../../engine/core/files/durable.ts';
import type { AskedTotals } from '../../engine/core/item/account.ts';
import { dataError } from '../../engine/core/item/failure.ts';
import type { PartName } from './protocol.ts';

/** Lines of a shard, counted from 0. */
type Ordinals = readonly number[];

export interface Part {
  root: number;
  part: number;
  /** whose workers may take it, of the groups of its work */
  group: string;
  /** of the shard */
  lines: Ordinals;
  /** how often it could not be done, or its worker was lost and had begun nothing else */
  tries: number;
  /** how often its worker was lost with other parts */
  doubts: number;
  /** it may take its workers with it, and is given out to be asked alone */
  isSuspect: boolean;
  /** the pointer to it in the queue, and since when (ms) */
  offer: { id: string; at: number } | null;
  lease: Lease | null;
}

export interface Lease {
  worker: string;
  /** ms: given at, and lapses at */
  at: number;
  until: number;
  /** lines that have an answer, as the worker said last */
  done: number;
}

export type Cut = (Pick<Part, 'lines'> & Partial<Pick<Part, 'tries' | 'doubts' | 'isSuspect'>>)[];

/** What became of a part. */
export interface Made {
  /** the lines that it has, in this order */
  answered: Ordinals;
  /** who did it; null for the coordinator */
  worker: string | null;
  asked: AskedTotals | null;
  model: string | null;
}

interface Done extends Made {
  root: number;
  part: number;
  /** what is left of it, as new parts */
  into: { part: number; lines: Ordinals }[];
}

type Name = Pick<PartName, 'root' | 'part'>;

/** What waits of a group: parts, and their lines. */
interface Waiting {
  list: Part[];
  lines: number;
}

interface ShardState {
  group: string;
  open: number;
  nextPart: number;
  /** in no order; some may be missing */
  results: Done[];
}

export class Parts {
  /** how many wait, and their lines */
  readonly waiting = { parts: 0, lines: 0 };
  /** how many lines, and how many shards, are done */
  readonly done = { lines: 0, shards: 0 };
  /** that all results say they took, those of earlier processes among them */
  tokens = 0;
  readonly #folder: string;
  readonly #shards: ShardState[];
  readonly #open = new Map<string, Part>();
  readonly #waiting = new Map<string, Waiting>();
  readonly #out = new Set<Part>();

  /** Of each shard how many lines it has, and whose workers may take it. */
  constructor(work: string, shards: readonly { lines: number; group: string }[]) {
    this.#folder = join(work, 'done');
    this.#shards = shards.map(({ group }) => ({ group, open: 0, nextPart: 1, results: [] }));
    makeFolder(this.#folder, OWNER_ONLY.folder);
    removeUnfinished(this.#folder);
    const before: Done[][] = shards.map(() => []);
    for (const name of readdirSync(this.#folder)) {
      const one = readHead(join(this.#folder, name));
      before[one.root]?.push(one);
    }
    for (const [root, { lines, group }] of shards.entries()) {
      this.#waiting.set(group, { list: [], lines: 0 });
      this.#begin(root, 0, { lines: Array.from({ length: lines }, (_, at) => at) });
      // a part has a higher number than the one that it was left of
      for (const one of (before[root] as Done[]).sort((a, b) => a.part - b.part)) {
        for (const { part, lines } of one.into) this.#begin(root, part, { lines });
        this.#end(one);
      }
    }
    for (const part of this.#open.values()) {
      this.waitingIn(part.group).list.push(part);
      this.#count(part, 1);
    }
  }

  /** those that are offered or held */
  get out(): ReadonlySet<Part> {
    return this.#out;
  }

  /** those of a group that are open, neither offered nor held, the next one first */
  waitingIn(group: string): Readonly<Waiting> {
    return this.#waiting.get(group) as Waiting;
  }

  find(name: Name): Part | undefined {
    return this.#open.get(keyOf(name));
  }

  offer(part: Part, id: string, now: number): void {
    this.#leave(part);
    part.offer = { id, at: now };
    this.#out.add(part);
  }

  lend(part: Part, lease: Lease): void {
    if (!this.#out.has(part)) this.#leave(part);
    part.offer = null;
    part.lease = lease;
    this.#out.add(part);
  }

  /** An open part waits again, before the others. */
  back(part: Part): void {
    [part.offer, part.lease] = [null, null];
    if (this.#out.delete(part)) this.#wait(part);
  }

  /**
   * Closes a part with lines that are its own, and with what is left of it as new parts. False where another process has
   * closed it. Throws what the disk says.
   */
  close(part: Part, made: Made, lines: readonly Buffer[], rest: Cut): boolean {
    const { root } = part;
    const first = this.#of(root).nextPart;
    const into = rest.map((cut, at) => ({ part: first + at, lines: cut.lines }));
    const one = { root, part: part.part, ...made, into };
    const bytes = Buffer.concat([Buffer.from(`${JSON.stringify(one)}\n`), ...lines]);
    if (!writeOnce(this.#pathOf(one), bytes)) return false;
    const left = rest.map((cut, at) => this.#begin(root, first + at, cut));
    this.#end(one);
    if (!this.#out.delete(part)) this.#leave(part);
    for (const one of left.reverse()) this.#wait(one);
    return true;
  }

  isWhole(root: number): boolean {
    return this.#of(root).open === 0;
  }

  /** Results that a shard has, each with its lines; the shard may lack some. */
  resultsOf(root: number): { answered: Ordinals; lines: Buffer }[] {
    return this.#of(root).results.map(one => {
      const bytes = readKept(this.#pathOf(one));
      return { answered: one.answered, lines: bytes.subarray(bytes.indexOf(NEWLINE) + 1) };
    });
  }

  #of(root: number): ShardState {
    return this.#shards[root] as ShardState;
  }

  #pathOf(name: Name): string {
    return join(this.#folder, keyOf(name));
  }

  #begin(root: number, part: number, cut: Cut[number]): Part {
    const { lines, tries = 0, doubts = 0, isSuspect = false } = cut;
    const shard = this.#of(root);
    const { group } = shard;
    const made = { root, part, group, lines, tries, doubts, isSuspect, offer: null, lease: null };
    this.#open.set(keyOf(made), made);
    shard.open += 1;
    shard.nextPart = Math.max(shard.nextPart, part + 1);
    return made;
  }

  #end(one: Done): void {
    this.#open.delete(keyOf(one));
    const shard = this.#of(one.root);
    shard.open -= 1;
    this.done.lines += one.answered.length;
    this.tokens += (one.asked?.promptTokens ?? 0) + (one.asked?.completionTokens ?? 0);
    if (one.answered.length > 0) shard.results.push(one);
    if (shard.open === 0) this.done.shards += 1;
  }

  #wait(part: Part): void {
    this.waitingIn(part.group).list.unshift(part);
    this.#count(part, 1);
  }

  #leave(part: Part): void {
    const { list } = this.waitingIn(part.group);
    const at = list.indexOf(part);
    if (at < 0) return;
    list.splice(at, 1);
    this.#count(part, -1);
  }

  #count({ group, lines }: Part, by: 1 | -1): void {
    (this.#waiting.get(group) as Waiting).lines += by * lines.length;
    this.waiting.parts += by;
    this.waiting.lines += by * lines.length;
  }
}

const NEWLINE = 0x0a;
/** bytes of a first line are read in pieces of this */
const PIECE = 8 * 1024;

const keyOf = ({ root, part }: Name): string => `${root}.${part}`;

function readHead(path: string): Done {
  const fd = openKept(path);
  let head = Buffer.alloc(0);
  try {
    for (;;) {
      const piece = Buffer.allocUnsafe(PIECE);
      const got = readSync(fd, piece, 0, PIECE, head.length);
      head = Buffer.concat([head, piece.subarray(0, got)]);
      const end = head.indexOf(NEWLINE);
      if (end >= 0) return JSON.parse(head.toString('utf8', 0, end)) as Done;
      if (got === 0) throw new Error('no whole first line');
    }
  } catch (error) {
    throw dataError(`${path}: expected a result that fw wrote, found ${(error as Error).message}`);
  } finally {
    closeSync(fd);
  }
}
