/**
 * The parts of one work: which are open, and which shards are whole. Made from the disk at each start, so that it never
 * knows more than the disk does.
 *
 *   part 0 ─ done ─────────────────────────────► shard whole
 *     ├── half handed back ─► part 1 (the rest) ─► …
 *     └── cut ─► part 1, part 2
 */
import type { Done, DoneBook, Ordinals } from './done.ts';
import type { PartName } from './protocol.ts';

export interface Part {
  root: number;
  part: number;
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

export interface Parts {
  /** the first of those that are open, neither offered nor held */
  first(): Part | undefined;
  /** how many wait, and their lines */
  readonly waiting: { parts: number; lines: number };
  /** those that are offered or held */
  readonly out: ReadonlySet<Part>;
  find(name: Pick<PartName, 'root' | 'part'>): Part | undefined;
  offer(part: Part, id: string, now: number): void;
  lend(part: Part, lease: Lease): void;
  /** how many lines, and how many shards, are done */
  readonly done: { lines: number; shards: number };
  /**
   * Closes a part with lines that are its own, and with what is left of it as new parts. False where another process has
   * closed it.
   */
  close(
    part: Part,
    made: Pick<Done, 'answered' | 'worker' | 'asked' | 'model'>,
    lines: readonly Buffer[],
    rest: Cut,
  ): boolean;
  /** An open part waits again, before the others. */
  back(part: Part): void;
  /** results that a shard has, in no order; the shard may lack some */
  resultsOf(root: number): Done[];
  isWhole(root: number): boolean;
}

/** `shards` are the numbers of lines of each. */
export function openParts(shards: readonly number[], book: DoneBook): Parts {
  const results = new Map<number, Done[]>();
  const open = new Map<string, Part>();
  const openOf: number[] = shards.map(() => 0);
  const nextPart: number[] = shards.map(() => 1);
  const waiting: Part[] = [];
  const out = new Set<Part>();
  const waits = { parts: 0, lines: 0 };
  const done = { lines: 0, shards: 0 };
  const nameOf = (root: number, part: number): string => `${root}.${part}`;

  function begin(root: number, part: number, cut: Cut[number]): Part {
    const { lines, tries = 0, doubts = 0, isSuspect = false } = cut;
    const made = { root, part, lines, tries, doubts, isSuspect, offer: null, lease: null };
    open.set(nameOf(root, part), made);
    openOf[root] = (openOf[root] as number) + 1;
    nextPart[root] = Math.max(nextPart[root] as number, part + 1);
    return made;
  }
  function wait(part: Part): void {
    waiting.unshift(part);
    waits.parts += 1;
    waits.lines += part.lines.length;
  }
  function leave(part: Part): void {
    const at = waiting.indexOf(part);
    if (at < 0) return;
    waiting.splice(at, 1);
    waits.parts -= 1;
    waits.lines -= part.lines.length;
  }
  function end(one: Done): void {
    const { root, part } = one;
    open.delete(nameOf(root, part));
    openOf[root] = (openOf[root] as number) - 1;
    done.lines += one.answered.length;
    if (one.answered.length > 0) results.set(root, [...(results.get(root) ?? []), one]);
    if (openOf[root] === 0) done.shards += 1;
  }

  const before = new Map<number, Done[]>();
  for (const one of book.all()) before.set(one.root, [...(before.get(one.root) ?? []), one]);
  for (const [root, lines] of shards.entries()) {
    begin(root, 0, { lines: Array.from({ length: lines }, (_, at) => at) });
    // a part has a higher number than the one that it was left of
    for (const one of (before.get(root) ?? []).sort((a, b) => a.part - b.part)) {
      for (const { part, lines } of one.into) begin(root, part, { lines });
      end(one);
    }
  }
  for (const part of open.values()) {
    waiting.push(part);
    waits.parts += 1;
    waits.lines += part.lines.length;
  }

  return {
    first: () => waiting[0],
    waiting: waits,
    out,
    offer(part, id, now) {
      leave(part);
      part.offer = { id, at: now };
      out.add(part);
    },
    lend(part, lease) {
      if (!out.has(part)) leave(part);
      part.offer = null;
      part.lease = lease;
      out.add(part);
    },
    find: ({ root, part }) => open.get(nameOf(root, part)),
    done,
    close(part, made, lines, rest) {
      const { root } = part;
      const first = nextPart[root] as number;
      const into = rest.map((cut, at) => ({ part: first + at, lines: cut.lines }));
      const one = { root, part: part.part, ...made, into };
      if (!book.close(one, lines)) return false;
      const left = rest.map((cut, at) => begin(root, first + at, cut));
      end(one);
      if (!out.delete(part)) leave(part);
      for (const one of left.reverse()) wait(one);
      return true;
    },
    back(part) {
      [part.offer, part.lease] = [null, null];
      if (out.delete(part)) wait(part);
    },
    resultsOf: root => results.get(root) ?? [],
    isWhole: root => openOf[root] === 0,
  };
}
