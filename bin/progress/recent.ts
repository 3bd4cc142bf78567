/**
 * Rates over the last seconds, and when a run will be over at the rate of the last minutes. Counts since the start say
 * what a run was like; a person who looks wants to know what it is like.
 */

/** Counts that only grow. */
export interface Counts {
  items: number;
  calls: number;
  prompt: number;
  cached: number;
  completion: number;
  /** ms in which this process's one thread had something to do */
  busy: number;
}

/** a second each; calls take seconds, so that fewer would jump */
const RATES_OVER = 10_000;

export interface Recent {
  /** `at` in ms */
  add(at: number, counts: Counts): void;
  /** a second each, over the last ten seconds; all 0 before there are two looks */
  rates(): Counts;
}

export function createRecent(): Recent {
  const looks: { at: number; counts: Counts }[] = [];
  return {
    add(at, counts) {
      looks.push({ at, counts });
      while ((looks[1]?.at ?? at) <= at - RATES_OVER) looks.shift();
    },
    rates() {
      const [first, last] = [looks[0], looks.at(-1)];
      const rate = (of: keyof Counts): number => {
        if (first === undefined || last === undefined || first.at === last.at) return 0;
        return ((last.counts[of] - first.counts[of]) * 1000) / (last.at - first.at);
      };
      return {
        items: rate('items'),
        calls: rate('calls'),
        prompt: rate('prompt'),
        cached: rate('cached'),
        completion: rate('completion'),
        busy: rate('busy'),
      };
    },
  };
}

/** ms */
export interface Eta {
  left: number;
  /** the true end is within left ± spread in about 19 of 20 cases, as long as the rate stays what it was */
  spread: number;
}

/** Long enough for several waves of chains that began together, short enough to forget an endpoint that is gone. */
const WINDOW = 180_000;
const BLOCKS = 10;
/** a window shorter than this says too little */
const LEAST = 10_000;
const STEP = 1_000;

export interface Estimate {
  /** how many items had left at `at`, in ms */
  add(at: number, done: number): void;
  /** until `left` more have left: Infinity where nothing leaves, null where it is too early to say */
  eta(left: number): Eta | null;
}

/**
 * The rate is the mean over the blocks of the window, its spread twice the standard error of that mean (batch means:
 * Conway 1963, Some tactical problems in digital simulation).
 */
export function createEstimate(): Estimate {
  let looks: { at: number; done: number }[] = [];

  /** items that had left by `at`, between two looks by their line */
  function doneAt(at: number): number {
    const after = looks.findIndex(look => look.at >= at);
    const [one, two] = [looks[after - 1], looks[after]];
    if (two === undefined) return looks.at(-1)?.done ?? 0;
    if (one === undefined) return two.done;
    return one.done + ((two.done - one.done) * (at - one.at)) / (two.at - one.at);
  }

  return {
    add(at, done) {
      const last = looks.at(-1);
      // what was before the first item left is a chain's length and no rate
      if (done === 0) looks = [];
      else if (last !== undefined && at - last.at < STEP) return;
      looks.push({ at, done });
      while ((looks[1]?.at ?? at) <= at - WINDOW) looks.shift();
    },
    eta(left) {
      const [first, last] = [looks[0], looks.at(-1)];
      if (first === undefined || last === undefined || last.at - first.at < LEAST) return null;
      const length = (last.at - first.at) / BLOCKS;
      const counts = Array.from(
        { length: BLOCKS },
        (_, block) => doneAt(first.at + (block + 1) * length) - doneAt(first.at + block * length),
      );
      const mean = (last.done - first.done) / BLOCKS;
      if (mean === 0) return { left: Number.POSITIVE_INFINITY, spread: Number.POSITIVE_INFINITY };
      const variance = counts.reduce((sum, count) => sum + (count - mean) ** 2, 0) / (BLOCKS - 1);
      const expected = (left / mean) * length;
      return { left: expected, spread: expected * 2 * (Math.sqrt(variance / BLOCKS) / mean) };
    },
  };
}
