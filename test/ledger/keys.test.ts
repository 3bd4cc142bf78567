/** The table of keys does what a Map would, in a fraction of its memory. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { createKeys, type Place } from '../../engine/asking/ledger/key-index.ts';
import { holds, keyFor } from './records.ts';

/** few enough that they meet */
const KEYS = Array.from({ length: 200 }, (_, n) => keyFor(String(n)));
const someKey = fc.constantFrom(...KEYS);
const place = fc.record({
  file: fc.nat(5_000),
  offset: fc.maxSafeNat(),
  length: fc.integer({ min: 1, max: 2 ** 31 }),
});
const act = fc.oneof(
  fc.record({ kind: fc.constant('add' as const), key: someKey, place }),
  fc.record({ kind: fc.constant('note' as const), key: someKey, note: fc.integer({ min: 1, max: 255 }) }),
);

test('as a Map that keeps what came first', () =>
  holds(fc.array(act, { maxLength: 300 }), acts => {
    const keys = createKeys();
    const places = new Map<string, Place>();
    const notes = new Map<string, number>();
    const added: boolean[] = [];
    for (const step of acts) {
      const { key } = step;
      if (step.kind === 'note') {
        keys.note(key, step.note);
        if (places.has(key)) notes.set(key, step.note);
      } else {
        added.push(keys.add(key, step.place) === !places.has(key));
        if (!places.has(key)) places.set(key, step.place);
      }
    }
    expect(added).not.toContain(false);
    expect(keys.size).toBe(places.size);
    expect(KEYS.map(key => keys.placeOf(key))).toEqual(KEYS.map(key => places.get(key) ?? null));
    expect(KEYS.map(key => keys.noteOf(key))).toEqual(KEYS.map(key => notes.get(key) ?? 0));
  }));

test('a hundred thousand keys, through every growth', () => {
  const keys = createKeys();
  const all = Array.from({ length: 100_000 }, (_, n) => keyFor(String(n)));
  const placeAt = (n: number): Place => ({ file: n & 7, offset: n * 2 ** 21, length: n + 1 });
  for (const [n, key] of all.entries()) {
    keys.add(key, placeAt(n));
    keys.note(key, 1 + (n % 5));
  }
  expect(keys.size).toBe(all.length);
  const wrong = all.filter((key, n) => {
    const found = keys.placeOf(key);
    const { file, offset, length } = placeAt(n);
    return (
      found?.file !== file ||
      found.offset !== offset ||
      found.length !== length ||
      keys.noteOf(key) !== 1 + (n % 5)
    );
  });
  expect(wrong).toEqual([]);
  expect(keys.placeOf(keyFor('none'))).toBe(null);
});

test('keys that agree in their first 64 bits share a place, whose line tells whose it is', () => {
  const keys = createKeys();
  const first = `${'0'.repeat(16)}${'a'.repeat(16)}`;
  const second = `${'0'.repeat(16)}${'b'.repeat(16)}`;
  expect(keys.placeOf(first)).toBe(null);
  expect(keys.add(first, { file: 0, offset: 0, length: 1 })).toBe(true);
  expect(keys.add(second, { file: 1, offset: 1, length: 1 })).toBe(false);
  expect(keys.placeOf(second)).toEqual({ file: 0, offset: 0, length: 1 });
});
