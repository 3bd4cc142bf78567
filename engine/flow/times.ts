/** Where the time of items goes in a run that asks, in ms: sums that cost an item a few additions. */
export interface Times {
  /** over all items, from the entry into an asking stage until the next one took it */
  items: number;
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
  return { items: 0, unread: 0, ordered: 0, passed: 0, blocked: 0, blockedSince: null };
}
