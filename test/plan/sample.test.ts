/** Items that come again under new ids: no two alike, and no more alike than those of the input. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { sampleOf, spread } from '../../products/plan/sample.ts';
import { stretchedText } from '../../products/plan/stretch.ts';
import { runs } from '../all.ts';

const prompts = fc.uniqueArray(fc.string({ unit: fc.constantFrom('a', 'b'), minLength: 40, maxLength: 40 }), {
  minLength: 1,
  maxLength: 12,
});
const input = (texts: readonly string[], times = 1) =>
  texts.flatMap((prompt, row) => Array.from({ length: times }, (_, at) => ({ id: `${row}/${at}`, prompt })));

function common(a: string, b: string): number {
  let at = 0;
  while (at < Math.min(a.length, b.length) && a[at] === b[at]) at++;
  return at;
}

test('an input that comes again has new ids, and prompts of the old lengths that differ where prompts differ', () => {
  fc.assert(
    fc.property(prompts, fc.integer({ min: 2, max: 12 }), (texts, times) => {
      const items = input(texts);
      const sample = sampleOf(items, items.length * times);
      const all = Array.from({ length: sample.size }, (_, index) => sample.at(index));
      expect(new Set(all.map(({ id }) => id)).size).toBe(all.length);
      expect(all.slice(0, items.length)).toEqual(items);
      for (const [index, { prompt }] of all.entries()) {
        const own = texts[index % texts.length] as string;
        expect((prompt as string).length).toBe(own.length);
        for (const [other, one] of all.entries()) {
          if (other === index) continue;
          expect(common(prompt as string, one.prompt as string)).toBeLessThanOrEqual(sample.shared);
        }
      }
    }),
    { numRuns: runs(15, 50) },
  );
});

test('items of one prompt, such as its orderings, share it in each copy', () => {
  const items = input(['the same words', 'other words'], 3);
  const sample = sampleOf(items, 4 * items.length);
  const copies = Array.from({ length: sample.size }, (_, index) => sample.at(index).prompt);
  expect(new Set(copies).size).toBe(2 * 4);
  expect(sample.shared).toBeGreaterThanOrEqual('the same words'.length);
});

test('a part of a sample is spread over all of it, neighbours together', () => {
  const whole = sampleOf(input(Array.from({ length: 1_600 }, (_, row) => `prompt ${row}`)), 1_600);
  const part = spread(whole, 160);
  const rows = Array.from({ length: part.size }, (_, at) => Number(String(part.at(at).id).split('/')[0]));
  expect(new Set(rows).size).toBe(160);
  expect(rows[0]).toBe(0);
  expect(rows.at(-1)).toBeGreaterThan(1_440);
  expect(rows.filter((row, at) => at > 0 && row === (rows[at - 1] as number) + 1)).toHaveLength(144);
  expect(spread(whole, 2_000)).toBe(whole);
});

test('answers are stretched where they are prose', () => {
  const answer = {
    name: 'Risk Manager',
    rate: 7.5,
    reasons: { why: 'A plain reason that says what was seen in it.' },
  };
  const text = JSON.stringify(answer);
  for (const factor of [0.8, 1.5, 3]) {
    const longer = stretchedText(text, factor);
    expect(Math.abs(longer.length - factor * text.length)).toBeLessThan(2);
    expect(JSON.parse(longer)).toMatchObject({ name: 'Risk Manager', rate: 7.5 });
  }
  expect(stretchedText('[1,2,3]', 5)).toBe('[1,2,3]');
  expect(stretchedText('some words', 2)).toHaveLength(20);
});
