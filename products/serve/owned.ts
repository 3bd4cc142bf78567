/**
 * What owners have: found by its id, and listed in the order of ids, however much there is and however it changes. A list is
 * paged as at OpenAI: newest first, `after` is the id of the last one of the page before.
 */
import { invalid } from './errors.ts';

export function createOwned<T extends { id: string; owner: string }>() {
  const known = new Map<string, T>();
  const lists = new Map<string | null, string[]>([[null, []]]);

  function listOf(owner: string | null): string[] {
    const list = lists.get(owner) ?? [];
    lists.set(owner, list);
    return list;
  }

  return {
    get: (id: string): T | undefined => known.get(id),
    /** In the place of what has its id, if there is such. */
    set(record: T): void {
      const { id, owner } = record;
      if (!known.has(id))
        for (const list of [listOf(null), listOf(owner)]) list.splice(placeIn(list, id), 0, id);
      known.set(id, record);
    },
    delete(id: string): void {
      const record = known.get(id);
      if (record === undefined) return;
      known.delete(id);
      for (const list of [listOf(null), listOf(record.owner)]) list.splice(placeIn(list, id), 1);
    },
    values: (): Iterable<T> => known.values(),
    /** of an owner, or of all (null); the smallest first, which is the oldest */
    ids: (owner: string | null): readonly string[] => lists.get(owner) ?? [],
  };
}

/** How many of the ids, which are sorted, come before this one. */
function placeIn(ids: readonly string[], id: string): number {
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

export interface ListQuery {
  limit?: unknown;
  after?: unknown;
  order?: unknown;
}

/**
 * `ids` are sorted, the smallest first; one that `find` does not know is left out. A page costs what it has, however many
 * there are. `id` is the form of the ids of what is listed. 400 for a limit, an order or a cursor that is none.
 */
export function pageOf<T extends { id: string }>(
  ids: readonly string[],
  find: (id: string) => T | null,
  { limit, after, order = 'desc' }: ListQuery,
  { id, most, usual }: { id: RegExp; most: number; usual: number },
) {
  const count = limit === undefined ? usual : /^\d{1,6}$/.test(String(limit)) ? Number(limit) : 0;
  if (count < 1 || count > most) throw invalid('limit', `expected a whole number from 1 to ${most}`);
  if (order !== 'asc' && order !== 'desc') throw invalid('order', "expected 'asc' or 'desc'");
  if (after !== undefined && (typeof after !== 'string' || !id.test(after)))
    throw invalid('after', 'expected the id of an object of this list');
  const isDown = order === 'desc';
  const data: T[] = [];
  let hasMore = false;
  const step = isDown ? -1 : 1;
  let at = isDown ? ids.length - 1 : 0;
  if (typeof after === 'string') {
    at = placeIn(ids, after);
    if (isDown) at -= 1;
    else if (ids[at] === after) at += 1;
  }
  for (; at >= 0 && at < ids.length; at += step) {
    const one = find(ids[at] as string);
    if (one === null) continue;
    if (data.length === count) {
      hasMore = true;
      break;
    }
    data.push(one);
  }
  return {
    object: 'list' as const,
    data,
    first_id: data[0]?.id ?? null,
    last_id: data.at(-1)?.id ?? null,
    has_more: hasMore,
  };
}
