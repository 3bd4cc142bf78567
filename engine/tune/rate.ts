/**
 * The highest rate at which bounds are kept. Rates are rungs of one ladder, 2 % apart, the same for all settings: so two
 * settings are asked the same requests at the same times, and one is better only where it keeps a rung that the other does
 * not.
 */
const STEP = 1.02;
/** Rungs from a rate to half of it. */
const HALF = 35;
/** How often the lower end is halved before nothing is found. */
const HALVINGS = 5;

export const rungOf = {
  /** requests a second; three digits tell 2 % apart */
  rate: (rung: number): number => Number((STEP ** rung).toPrecision(4)),
  below: (rate: number): number => Math.floor(Math.log(rate) / Math.log(STEP) + 1e-9),
};

/**
 * The points that are to be measured, one after the other: each `yield` is a rung, and gets whether it was kept; returned
 * is the highest that was, or null. With `above` nothing up to that rung is of interest, and it is the next one above it
 * that is asked first: a setting which does not keep that one is not better.
 */
export function* search(most: number, above: number | null): Generator<number, number | null, boolean> {
  let high = most;
  let low = most - HALF;
  if (above !== null) {
    if (above >= most) return null;
    low = above + 1;
    if (!(yield low)) return null;
  } else {
    for (let halvings = 0; !(yield low); halvings++) {
      if (halvings === HALVINGS) return null;
      high = low - 1;
      low -= HALF;
    }
  }
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (yield middle) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** The same where each answer is there at once. */
export function lastKept(most: number, keeps: (rung: number) => boolean): number | null {
  const searching = search(most, null);
  let step = searching.next();
  while (!step.done) step = searching.next(keeps(step.value));
  return step.value;
}
