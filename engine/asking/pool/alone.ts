/**
 * What live calls have where no batch is beside them: the time to the first token that 95 of 100 of them are within, by
 * the size of what is asked, since a prompt of 8,000 tokens takes longer than one of 80 whatever else is there.
 */

/** Times kept of each size: those of a busy hour are not forgotten in ten quiet minutes. */
const KEPT = 512;
/** Of fewer nobody says what 95 of 100 are within. */
const ENOUGH = 8;
/** Once there are many, it is looked at again after so many more. */
const RENEWED_AFTER = 16;
const SHARE = 0.95;
/** Sizes are told apart by powers of two of bytes, up to 2 to the power of so much. */
const SIZES = 32;

/** So many times what they have alone live calls may have beside batches, where no objective is set. */
export const WORSE = 1.3;

interface Times {
  readonly kept: Float64Array;
  count: number;
  /** what 95 of 100 are within, as of so many */
  within: number;
  asOf: number;
}

const sizeOf = (bytes: number): number => Math.min(SIZES - 1, 31 - Math.clz32(Math.max(1, bytes)));

export class Alone {
  readonly #bySize: (Times | undefined)[] = [];
  /** ms; null: so many times what they have alone */
  objective: number | null;

  constructor(objective: number | null) {
    this.objective = objective;
  }

  /** A call of so many bytes had its first token after `ms`. */
  note(bytes: number, ms: number): void {
    const size = sizeOf(bytes);
    this.#bySize[size] ??= { kept: new Float64Array(KEPT), count: 0, within: Number.NaN, asOf: 0 };
    const times = this.#bySize[size];
    times.kept[times.count++ % KEPT] = ms;
  }

  /** Whether enough is known of calls of about that size. */
  knows(bytes: number): boolean {
    return (this.#bySize[sizeOf(bytes)]?.count ?? 0) >= ENOUGH;
  }

  /**
   * ms within which 95 of 100 calls of that size have their first token; null where nobody knows. Where only others are
   * known it is at most that of larger ones, and grows with the size at most.
   */
  within(bytes: number): number | null {
    const size = sizeOf(bytes);
    for (let away = 0; away < SIZES; away++) {
      const smaller = this.#at(size - away);
      if (smaller !== null) return smaller * 2 ** away;
      const larger = this.#at(size + away);
      if (larger !== null) return larger;
    }
    return null;
  }

  /** ms that a call of that size may take beside batches: an objective that it has not even alone binds nobody. */
  aim(bytes: number): number | null {
    const alone = this.within(bytes);
    if (this.objective === null) return alone === null ? null : WORSE * alone;
    return alone === null || alone <= this.objective ? this.objective : WORSE * alone;
  }

  #at(size: number): number | null {
    const times = this.#bySize[size];
    if (times === undefined || times.count < ENOUGH) return null;
    const since = times.count - times.asOf;
    if (since >= RENEWED_AFTER || (since > 0 && times.count < 4 * RENEWED_AFTER)) {
      const sorted = times.kept.slice(0, Math.min(KEPT, times.count)).sort();
      times.within = sorted[Math.min(sorted.length - 1, Math.floor(SHARE * sorted.length))] as number;
      times.asOf = times.count;
    }
    return times.within;
  }
}
