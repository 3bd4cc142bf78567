import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { JsonObject } from '../../engine/core/json/pointer.ts';
import { runs } from '../all.ts';
import { chunked, readAll } from './reading.ts';

const documents = { documents: true };
const lengths = fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 5 });
/** Objects that are results or look like none, with every kind of bracket and quote in their texts. */
const element = fc.dictionary(
  fc.oneof(
    fc.string({ unit: fc.constantFrom('a', '"', '\\', '{', ']', ',', '\n', 'é', '😀') }),
    fc.constant('results'),
  ),
  fc.jsonValue({ maxDepth: 3 }),
  { maxKeys: 4, noNullPrototype: true },
);
const indent = fc.constantFrom(0, 1, 2, '\t');
const seed = 20261120;

describe('a whole document', () => {
  test('gives its results, however it is printed and however its bytes arrive', async () => {
    const property = fc.asyncProperty(
      fc.array(element, { minLength: 1, maxLength: 6 }),
      indent,
      lengths,
      fc.boolean(),
      async (results, space, chunks, statusFirst) => {
        const whole = statusFirst ? { status: 'complete', results } : { results, status: 'complete' };
        const text = JSON.stringify(whole, null, space);
        const { items, texts } = await readAll([chunked(text, chunks)], documents);
        expect(items).toEqual(JSON.parse(JSON.stringify(results)));
        for (const [index, line] of texts.entries()) {
          expect(line).not.toContain('\n');
          expect(JSON.parse(line as string)).toEqual(items[index]);
        }
      },
    );
    await fc.assert(property, { seed, numRuns: runs(100, 300) });
  });

  test('cut anywhere, is never taken for whole', async () => {
    const text = JSON.stringify(
      { note: 'a', results: [{ a: '"]}' }, { b: [1, { c: '\\' }] }], status: 'complete' },
      null,
      1,
    );
    for (let length = 1; length < text.length; length++) {
      const { items } = await readAll([chunked(text.slice(0, length), [7])], documents);
      expect(
        items.some(item => item.failure !== undefined),
        `cut at ${length}: ${JSON.stringify(items)}`,
      ).toBe(true);
    }
  });

  test.each([
    ['status incomplete', '{"results":[{"a":1}],"status":"incomplete"}', ['input-incomplete']],
    ['another status', '{"results":[{"a":1}],"status":7}', ['not-strict']],
    ['no status', '{"results":[{"a":1}]}', ['not-strict']],
    ['no results in the list', '{"results":[ ],"status":"complete"}', ['not-strict']],
    ['a second list', '{"results":[{"a":1}],"status":"complete","results":[{"b":1}]}', ['not-strict']],
    ['a comma too many', '{"results":[{"a":1},],"status":"complete"}', ['not-json']],
    ['a comma first', '{"results":[,{"a":1}],"status":"complete"}', ['not-json']],
    ['no closing bracket', '{"results":[{"a":1}}', ['not-json', 'not-strict']],
    ['a broken tail', '{"results":[{"a":1}],status:"complete"}', ['not-json']],
    ['a result that is no JSON', '{"results":[{"a":"\\O"}, {"a":1}],"status":"complete"}', ['not-json']],
    ['a result that is no object', '{"results":[1,{"a":1}],"status":"complete"}', ['not-an-object']],
    ['something after it', '{"results":[{"a":1}],"status":"complete"} x', ['not-json']],
  ])('%s is a failed item', async (_name, text, codes) => {
    for (const chunks of [[1], [1000]]) {
      const { items } = await readAll([chunked(text, chunks)], documents);
      expect(items.filter(item => item.failure).map(item => item.failure?.code)).toEqual(codes);
      expect(items.filter(item => !item.failure)).toEqual(
        codes.includes('not-strict') && text.includes('[ ]') ? [] : [{ a: 1 }],
      );
    }
  });

  test('several end to end, then lines', async () => {
    const one = '{"results":[{"a":1}],"status":"complete"}\n';
    const { items } = await readAll(
      [chunked(`${one}${one}{"id":"x","prompt":"?"}\n{"b":2}`, [3])],
      documents,
    );
    expect(items).toEqual([{ a: 1 }, { a: 1 }, { id: 'x', prompt: '?' }, { b: 2 }]);
  });

  test('a result beyond --max-line is held by its hash, and the next ones are read', async () => {
    const text = JSON.stringify({ results: [{ a: 'x'.repeat(500) }, { a: 1 }], status: 'complete' });
    for (const chunks of [[1], [13], [5000]]) {
      const { items } = await readAll([chunked(text, chunks)], { ...documents, maxLine: 100 });
      expect(items[0]?.failure).toMatchObject({ code: 'line-too-long', bytes: 508, line: 1 });
      expect(items.slice(1)).toEqual([{ a: 1 }]);
    }
  });

  test('metadata stand before the results or after them, and are held to the number of results', async () => {
    const some = '"results": [{"a":1},{"a":2}]';
    const read = async (text: string) => (await readAll([chunked(text, [5])], documents)).items;
    const good = [{ a: 1 }, { a: 2 }];
    expect(await read(`{"metadata": {"count": 2}, ${some}, "status": "complete"}`)).toEqual(good);
    expect(await read(`{${some}, "metadata": {"count": 2}, "status": "complete"}`)).toEqual(good);
    for (const metadata of ['[]', '"m"', 'null', '{"model":{"results":[1]}}'])
      expect(await read(`{"metadata": ${metadata}, ${some}, "status": "complete"}`)).toEqual(good);
    const [, , lost] = await read(`{"metadata": {"count": 3}, ${some}, "status": "complete"}`);
    expect(lost?.failure).toMatchObject({ code: 'not-strict' });
    expect(lost?.failure?.message).toContain('/metadata/count: expected 2, the number of results, got 3');
  });
});

test('NDJSON is read the same with and without documents in mind, a mark and torn lines included', async () => {
  const line = fc.oneof(
    element.map(value => JSON.stringify({ id: 'x', ...value } satisfies JsonObject)),
    fc.constantFrom(
      '',
      '\r',
      'null',
      '[1]',
      '{"a":',
      '{"status":"complete"}',
      '{"id":"x","results":[{"a":1}]}',
      ' {"a":1}',
    ),
    fc.string({ maxLength: 8 }),
  );
  const property = fc.asyncProperty(
    fc.array(line, { maxLength: 6 }),
    lengths,
    fc.constantFrom('', '\n'),
    fc.constantFrom('', '\uFEFF'),
    async (list, chunks, end, mark) => {
      // an object printed over several lines is a document's way, and these are lines
      fc.pre(!list.some(text => /^\s*\{"?results/.test(text)));
      const text = mark + list.join('\n') + end;
      const plain = await readAll([chunked(text, chunks)]);
      const minded = await readAll([chunked(text, chunks)], documents);
      expect(minded.items.map(item => item.failure?.code ?? item)).toEqual(
        plain.items.map(item => item.failure?.code ?? item),
      );
      expect(minded.texts.map(text => text?.trim())).toEqual(plain.texts.map(text => text?.trim()));
    },
  );
  await fc.assert(property, { seed, numRuns: runs(100, 400) });
});
