/** Whether two JSON values are the same, whatever the order of their keys. */
import { MAX_DEPTH } from './lossless.ts';
import { isObject, join } from './pointer.ts';

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
