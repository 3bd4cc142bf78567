/**
 * JSON Pointers (RFC 6901) over plain JSON values. Reading sees own properties only, and writing gives a new value
 * that shares what did not change: keys named `__proto__` or `constructor` are keys like any other.
 */

/** Levels of nesting, in lines and answers alike. */
export const MAX_DEPTH = 512;

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
export function holdsNull(value: unknown, levels = MAX_DEPTH): boolean {
  if (value === null || levels === 0) return true;
  if (typeof value !== 'object') return false;
  // Object.values, since a load by key from objects of many shapes costs more than all the rest
  for (const below of Object.values(value)) {
    if (below === null || (typeof below === 'object' && holdsNull(below, levels - 1))) return true;
  }
  return false;
}

/** Values that nest deeper than MAX_DEPTH levels are the same as nothing. */
export function same(a: unknown, b: unknown, levels = MAX_DEPTH): boolean {
  if (a === b) return true;
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null || levels === 0)
    return false;
  if (Array.isArray(a) !== Array.isArray(b)) return false;
  const keys = Object.keys(a);
  const others = Object.keys(b);
  if (keys.length !== others.length) return false;
  // Object.values, since a load by key from objects of many shapes costs more than the rest of the walk
  const values: unknown[] = Object.values(a);
  const otherValues: unknown[] = Object.values(b);
  for (let i = 0; i < keys.length; i++) {
    const key = keys[i] as string;
    if (others[i] === key) {
      if (!same(values[i], otherValues[i], levels - 1)) return false;
    } else if (!Object.hasOwn(b, key) || !same(values[i], (b as never)[key], levels - 1)) return false;
  }
  return true;
}

/** The pointer of the first place where `b` differs from `a`; null where it does not. */
export function differenceIn(a: unknown, b: unknown, at = ''): string | null {
  if (same(a, b)) return null;
  const bothObjects = isObject(a) && isObject(b);
  if (!bothObjects && !(Array.isArray(a) && Array.isArray(b))) return at;
  for (const key of new Set([...Object.keys(a as object), ...Object.keys(b as object)])) {
    if (!Object.hasOwn(a as object, key) || !Object.hasOwn(b as object, key)) return join(at, key);
    const below = differenceIn((a as never)[key], (b as never)[key], join(at, key));
    if (below !== null) return below;
  }
  return at;
}
