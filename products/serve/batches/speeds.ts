/**
 * How fast the servers of a model answer lines of batches: seen while there is more to do than comes back, and kept for the
 * next batch. Models that one server has, or one batch names, share what these servers do.
 */

/** What of a batch is looked at, once a second or so. */
export interface Progress {
  id: string;
  models: readonly string[];
  /** lines that came back after they were asked, and what these took, in tokens */
  done: number;
  tokens: number;
  left: number;
  /** somebody answers it now */
  isAsked: boolean;
}

/** The more recent the more it counts: sums that fade. */
interface Speed {
  ms: number;
  lines: number;
  tokens: number;
  /** in all */
  seen: { ms: number; lines: number };
}

/** ms of work in which what was seen counts half as much; results of workers come some hundred lines at a time */
const FADES = 90_000;
/** ms: a longer time between two looks says nothing, since this process stood still or its clock jumped */
const LONGEST = 30_000;
/** Lines from which on a speed is known; and how few do after how many ms. */
const ENOUGH = 20;
const FEW = { lines: 3, ms: 120_000 };

export class Speeds {
  /** by model; those of one group share one */
  readonly #known = new Map<string, Speed>();
  #last: { at: number; batches: ReadonlyMap<string, Progress> } = { at: 0, batches: new Map() };

  /** `batches`: those that are open, and those that were at the last look. `now` in ms. */
  look(batches: readonly Progress[], groups: Groups, now: number): void {
    const { at, batches: before } = this.#last;
    this.#last = { at: now, batches: new Map(batches.map(one => [one.id, one])) };
    const ms = now - at;
    if (ms <= 0 || ms > LONGEST) return;
    const sums = new Map<string, { lines: number; tokens: number; left: number; isAsked: boolean }>();
    for (const { id, models, done, tokens, left } of batches) {
      const last = before.get(id);
      if (last === undefined || models.length === 0) continue;
      const group = groups.of(models);
      const sum = sums.get(group) ?? { lines: 0, tokens: 0, left: 0, isAsked: false };
      sum.lines += Math.max(0, done - last.done);
      sum.tokens += Math.max(0, tokens - last.tokens);
      sum.left += left;
      sum.isAsked ||= last.isAsked;
      sums.set(group, sum);
    }
    for (const [group, sum] of sums) if (sum.isAsked) this.#note(groups.in(group), ms, sum);
  }

  /** Lines a second; null where too few were seen. */
  of(models: readonly string[]): number | null {
    const speed = this.#find(models);
    if (speed === undefined || speed.ms === 0) return null;
    const { lines, ms } = speed.seen;
    const isKnown = lines >= ENOUGH || (lines >= FEW.lines && ms >= FEW.ms);
    return isKnown ? (1000 * speed.lines) / speed.ms : null;
  }

  /** Whether any line of these was answered. */
  hasSeen(models: readonly string[]): boolean {
    return (this.#find(models)?.seen.lines ?? 0) > 0;
  }

  /** Tokens of a line; null where servers do not say, or none was seen. */
  tokensOf(models: readonly string[]): number | null {
    const { tokens = 0, lines = 0 } = this.#find(models) ?? {};
    return tokens > 0 && lines > 0 ? tokens / lines : null;
  }

  #find(models: readonly string[]): Speed | undefined {
    for (const model of models) {
      const known = this.#known.get(model);
      if (known !== undefined) return known;
    }
    return undefined;
  }

  #note(
    models: readonly string[],
    ms: number,
    { lines, tokens, left }: { lines: number; tokens: number; left: number },
  ): void {
    const old = this.#find(models) ?? { ms: 0, lines: 0, tokens: 0, seen: { ms: 0, lines: 0 } };
    const keeps = 2 ** (-ms / FADES);
    const speed = {
      ms: old.ms * keeps + ms,
      lines: old.lines * keeps + lines,
      tokens: old.tokens * keeps + tokens,
      seen: { ms: old.seen.ms + ms, lines: old.seen.lines + lines },
    };
    // the end of the work is no measure of the servers, unless they were faster still
    const isFull = left > lines;
    if (!isFull && old.ms > 0 && speed.lines * old.ms < old.lines * speed.ms) return;
    for (const model of models) this.#known.set(model, speed);
  }
}

/** Models that are answered by the same servers: each of `sets` belongs together. */
export class Groups {
  readonly #parents = new Map<string, string>();
  readonly #members = new Map<string, string[]>();

  constructor(sets: Iterable<readonly string[]>) {
    for (const [first, ...others] of sets) {
      if (first === undefined) continue;
      const root = this.#root(first);
      for (const other of others) this.#parents.set(this.#root(other), root);
      this.#parents.set(root, root);
    }
    for (const model of this.#parents.keys()) {
      const root = this.#root(model);
      this.#members.set(root, [...(this.#members.get(root) ?? []), model]);
    }
  }

  /** The name of the group of `models`, which all are in one. */
  of([model = '']: readonly string[]): string {
    return this.#root(model);
  }

  in(group: string): readonly string[] {
    return this.#members.get(group) ?? [group];
  }

  #root(model: string): string {
    let root = model;
    for (
      let next = this.#parents.get(root);
      next !== undefined && next !== root;
      next = this.#parents.get(root)
    )
      root = next;
    return root;
  }
}
