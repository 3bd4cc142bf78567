/** Where the time of items goes in a run that asks, in ms: sums that cost an item a few additions. */
export interface Times {
  /** over all items that have left an asking stage, from their entry until the next one took them … */
  items: number;
  /** … and those that are in one: how many, and the sum of the times at which they came */
  inside: number;
  entered: number;
  /** of it, answered already: waiting for the reader of the output … */
  unread: number;
  /** … for the items before it (--ordered) … */
  ordered: number;
  /** … for a further stage that asks to take it */
  passed: number;
  /** how long the output has waited for its reader, and since when it waits now; null while it does not */
  blocked: number;
  blockedSince: number | null;
}

export function newTimes(): Times {
  return {
    items: 0,
    inside: 0,
    entered: 0,
    unread: 0,
    ordered: 0,
    passed: 0,
    blocked: 0,
    blockedSince: null,
  };
}

/** Of all items up to `now`, those too that a run which broke off never handed on: what their calls took is counted. */
export function itemTime({ items, inside, entered }: Times, now: number): number {
  return items + inside * now - entered;
}
