/** Lists as OpenAI pages them: newest first, `after` is the id of the last one of the page before. */
import { badRequest } from './errors.ts';
import { placeIn } from './owned.ts';

export interface ListQuery {
  limit?: unknown;
  after?: unknown;
  order?: unknown;
}

export interface ListRules {
  /** of ids of what is listed */
  id: RegExp;
  most: number;
  usual: number;
}

export interface Page<T> {
  object: 'list';
  data: T[];
  first_id: string | null;
  last_id: string | null;
  has_more: boolean;
}

/**
 * `ids` are sorted, the smallest first; one that `find` does not know is left out. A page costs what it has, however many
 * there are. 400 for a limit, an order or a cursor that is none.
 */
export function pageOf<T extends { id: string }>(
  ids: readonly string[],
  find: (id: string) => T | null,
  { limit, after, order = 'desc' }: ListQuery,
  { id, most, usual }: ListRules,
): Page<T> {
  const count = limit === undefined ? usual : /^\d{1,6}$/.test(String(limit)) ? Number(limit) : 0;
  if (count < 1 || count > most)
    throw badRequest(
      `Invalid value for 'limit': expected a whole number from 1 to ${most}.`,
      'limit',
      'invalid_value',
    );
  if (order !== 'asc' && order !== 'desc')
    throw badRequest("Invalid value for 'order': expected 'asc' or 'desc'.", 'order', 'invalid_value');
  if (after !== undefined && (typeof after !== 'string' || !id.test(after)))
    throw badRequest(
      "Invalid value for 'after': expected the id of an object of this list.",
      'after',
      'invalid_value',
    );
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
    object: 'list',
    data,
    first_id: data[0]?.id ?? null,
    last_id: data.at(-1)?.id ?? null,
    has_more: hasMore,
  };
}
