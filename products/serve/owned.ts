/** What owners have: found by its id, and listed in the order of ids, however much there is and however it changes. */

export interface Owned<T> {
  get(id: string): T | undefined;
  /** In the place of what has its id, if there is such. */
  set(record: T): void;
  delete(id: string): void;
  values(): Iterable<T>;
  /** of an owner, or of all (null); the smallest first, which is the oldest */
  ids(owner: string | null): readonly string[];
}

export function createOwned<T extends { id: string; owner: string }>(): Owned<T> {
  const known = new Map<string, T>();
  const lists = new Map<string | null, string[]>([[null, []]]);

  function listOf(owner: string | null): string[] {
    const list = lists.get(owner);
    if (list !== undefined) return list;
    const made: string[] = [];
    lists.set(owner, made);
    return made;
  }

  return {
    get: id => known.get(id),
    set(record) {
      const { id, owner } = record;
      if (!known.has(id))
        for (const list of [listOf(null), listOf(owner)]) list.splice(placeIn(list, id), 0, id);
      known.set(id, record);
    },
    delete(id) {
      const record = known.get(id);
      if (record === undefined) return;
      known.delete(id);
      for (const list of [listOf(null), listOf(record.owner)]) list.splice(placeIn(list, id), 1);
    },
    values: () => known.values(),
    ids: owner => lists.get(owner) ?? [],
  };
}

/** How many of the ids, which are sorted, come before this one. */
export function placeIn(ids: readonly string[], id: string): number {
  const last = ids.at(-1);
  if (last === undefined || last < id) return ids.length; // a new one
  let low = 0;
  let high = ids.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((ids[middle] as string) < id) low = middle + 1;
    else high = middle;
  }
  return low;
}
