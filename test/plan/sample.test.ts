/** Items that come again under new ids: no two alike, and no more alike than those of the input. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Item } from '../../engine/core/item/item.ts';
import { textsOf } from '../../products/plan/alike.ts';
import type { Sample } from '../../products/plan/sample.ts';
import { sampleOf } from '../../products/plan/sample.ts';
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

const idsOf = (sample: Sample) => Array.from({ length: sample.size }, (_, at) => String(sample.at(at).id));

test('stretches are spread over all of a sample, and nothing is left out between two neighbours', () => {
  const whole = sampleOf(input(Array.from({ length: 1_600 }, (_, row) => `prompt ${row}`)), 1_600);
  const rows = idsOf(whole.stretches(160)).map(id => Number(id.split('/')[0]));
  expect(new Set(rows).size).toBe(160);
  expect(rows[0]).toBe(0);
  expect(rows.at(-1)).toBeGreaterThan(1_100);
  expect(rows.filter((row, at) => at > 0 && row === (rows[at - 1] as number) + 1)).toHaveLength(156);
  expect(idsOf(whole.stretches(2_000))).toEqual(idsOf(whole));
});

/** Documents of `length` characters with `each` questions about each; all of a document's, or question by question. */
function documents(count: number, each: number, byQuestion: boolean): Item[] {
  const all = Array.from({ length: count * each }, (_, at) =>
    byQuestion ? [at % count, at / count] : [at / each, at % each],
  );
  return all.map(pair => {
    const [document, question] = pair.map(Math.floor) as [number, number];
    const text = `A preamble for all. ${String(document).padStart(4, '0')} ${'long document '.repeat(20)}`;
    return { id: `${document}/${question}`, prompt: `${text} Question ${question}?` };
  });
}

test.each([false, true])('a part has whole groups, drawn from all over (by question: %s)', byQuestion => {
  const whole = sampleOf(documents(200, 8, byQuestion), 1_600);
  const drawn = idsOf(whole.part(160)).map(id => Number(id.split('/')[0]));
  const counts = new Map<number, number>();
  for (const document of drawn) counts.set(document, (counts.get(document) ?? 0) + 1);
  expect([...counts.values()]).toEqual(Array(20).fill(8));
  expect(Math.min(...drawn)).toBeLessThan(20);
  expect(Math.max(...drawn)).toBeGreaterThan(179);
});

test('the copy of a group is another group: its items begin alike, and as no item of the input', () => {
  const items = documents(20, 8, true);
  const whole = sampleOf(items, 3 * items.length);
  const all = Array.from({ length: whole.size }, (_, at) => whole.at(at));
  for (const item of all.slice(items.length)) {
    const [name = '', copy] = String(item.id).split('~');
    const shared = all.map(other => ({
      id: String(other.id),
      length: common(item.prompt as string, other.prompt as string),
    }));
    const alike = shared.filter(({ length }) => length > 250).map(({ id }) => id);
    expect(alike.sort()).toEqual(
      Array.from({ length: 8 }, (_, question) => `${name.split('/')[0]}/${question}~${copy}`).sort(),
    );
  }
});

test('messages and requests are copied as prompts are', () => {
  const texts = documents(4, 3, false).map(({ prompt }) => prompt as string);
  const shapes: ((text: string) => Partial<Item>)[] = [
    prompt => ({ prompt }),
    text => ({
      messages: [
        { role: 'system', content: 'One for all.' },
        { role: 'user', content: text },
      ],
    }),
    text => ({ messages: [{ role: 'user', content: [{ type: 'text', text }] }] }),
    text => ({
      request: {
        method: 'POST',
        url: '/v1/chat/completions',
        body: { messages: [{ role: 'user', content: text }] },
      },
    }),
    text => ({ request: { method: 'POST', url: '/v1/completions', body: { prompt: text } } }),
    text => ({ request: { method: 'POST', url: '/v1/embeddings', body: { input: [text, text] } } }),
  ];
  for (const shape of shapes) {
    const whole = sampleOf(
      texts.map((text, at) => ({ id: String(at), ...shape(text) })),
      48,
    );
    const shown = Array.from({ length: 48 }, (_, at) => textsOf(whole.at(at)).join('\n'));
    expect(new Set(shown).size).toBe(48);
    // the documents of each copy are four others
    expect(new Set(shown.map(text => text.slice(0, text.indexOf('long') + 200))).size).toBe(16);
    expect(new Set(shown.map(text => text.length)).size).toBeLessThanOrEqual(2);
  }
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
