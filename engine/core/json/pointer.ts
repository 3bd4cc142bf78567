/**
 * JSON Pointers (RFC 6901) over plain JSON values. Reading sees own properties only, and writing gives a new value
 * that shares what did not change: keys named `__proto__` or `constructor` are keys like any other.
 */

export type JsonObject = { [key: string]: unknown };

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function parsePointer(pointer: string): string[] {
  if (pointer === '') return [];
  return pointer
    .slice(1)
    .split('/')
    .map(token => token.replaceAll('~1', '/').replaceAll('~0', '~'));
}

/** One step further down: `join('/a', 'b/c')` is `/a/b~1c`. */
export function join(pointer: string, key: string | number): string {
  return `${pointer}/${String(key).replaceAll('~', '~0').replaceAll('/', '~1')}`;
}

function child(value: unknown, token: string): unknown {
  if (Array.isArray(value)) return /^(?:0|[1-9]\d{0,9})$/.test(token) ? value[Number(token)] : undefined;
  return isObject(value) && Object.hasOwn(value, token) ? value[token] : undefined;
}

/** The value at a pointer; undefined where nothing is there. */
export function getAt(value: unknown, tokens: readonly string[]): unknown {
  let at = value;
  for (const token of tokens) at = child(at, token);
  return at;
}

/** The value at a pointer such as `/reasoning/risk`; undefined where nothing is there. */
export function valueAt(value: unknown, pointer: string): unknown {
  return getAt(value, parsePointer(pointer));
}

/**
 * A copy of `value` with `to` at the pointer, or without that key where `to` is undefined. Every parent must be there:
 * where one is not, the value comes back as it was.
 */
export function setAt(value: unknown, tokens: readonly string[], to: unknown): unknown {
  const [token, ...rest] = tokens;
  if (token === undefined) return to;
  if (typeof value !== 'object' || value === null) return value;
  const below = child(value, token);
  if (rest.length > 0 && below === undefined) return value;
  const put = setAt(below, rest, to);
  if (Array.isArray(value)) return value.with(Number(token), put);
  // Spreading and fromEntries define properties; an assignment to `__proto__` would set the prototype instead.
  if (put === undefined) return Object.fromEntries(Object.entries(value).filter(([key]) => key !== token));
  const copy = { ...value };
  Object.defineProperty(copy, token, { value: put, enumerable: true, configurable: true, writable: true });
  return copy;
}

/** Whether a null is anywhere in a value that JSON.parse made; below 512 levels nobody looks, and it may be. */
export function holdsNull(value: unknown, levels = 512): boolean {
  if (value === null || levels === 0) return true;
  if (typeof value !== 'object') return false;
  // Object.values, since a load by key from objects of many shapes costs more than all the rest
  for (const below of Object.values(value)) {
    if (below === null || (typeof below === 'object' && holdsNull(below, levels - 1))) return true;
  }
  return false;
}
