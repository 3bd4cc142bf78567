/** Two runs that are looked at beside each other: which rows belong together, made once both have been read. */
import { DIFFERS, type Joined, joinRuns, type RunHashes } from './beside.ts';
import { hashOf } from './rows/chunk.ts';
import type { Run } from './rows/run.ts';

/** Why a pair is looked at: by what it differs, or that it is none. */
export const WAYS = ['decision', 'rung', 'text', 'first', 'second', 'same'] as const;
export type Way = (typeof WAYS)[number];

export class Pairs {
  readonly first: Run;
  readonly second: Run;
  #joined: Joined | null = null;
  #version = '';

  constructor(first: Run, second: Run) {
    this.first = first;
    this.second = second;
  }

  /** Null while one of them is still read. */
  joined(): Joined | null {
    if (!this.first.state().done || !this.second.state().done) return null;
    const version = `${this.first.index.version} ${this.second.index.version}`;
    if (version !== this.#version) {
      this.#joined = joinRuns(hashesOf(this.first), hashesOf(this.second));
      this.#version = version;
    }
    return this.#joined;
  }
}

/** By what a pair differs: of both runs `decision`, `rung`, `text`, or `same`; else the run that alone has it. */
export function waysOf({ first, second, differs }: Joined, pair: number): Way[] {
  if (second[pair] === -1) return ['first'];
  if (first[pair] === -1) return ['second'];
  const by = differs[pair] as number;
  const ways = (['decision', 'rung', 'text'] as const).filter(way => (by & DIFFERS[way]) > 0);
  return ways.length === 0 ? ['same'] : ways;
}

export const countOf = ({ counts }: Joined, way: Way): number =>
  way === 'first' ? counts.onlyFirst : way === 'second' ? counts.onlySecond : counts[way];

/** What the index has of each row, end to end. */
function hashesOf({ index }: Run): RunHashes {
  const { rows, chunks, gone } = index;
  const made = (): Float64Array => new Float64Array(rows).fill(Number.NaN);
  const hashes = { ids: made(), decided: made(), said: made(), rungs: made() };
  const column = index.column('rung');
  const rungs = column === undefined ? [] : (index.columns[column]?.values ?? []).map(hashOf);
  for (const { first, ids, decided, said, columns } of chunks) {
    hashes.ids.set(ids, first);
    if (decided !== null) hashes.decided.set(decided, first);
    if (said !== null) hashes.said.set(said, first);
    const own = columns.find(each => each.column === column);
    own?.data.forEach((code, at) => {
      hashes.rungs[first + at] = rungs[code - 1] ?? Number.NaN;
    });
  }
  // a row that was read again, longer, has its new place
  for (const row of gone) hashes.ids[row] = Number.NaN;
  return hashes;
}
