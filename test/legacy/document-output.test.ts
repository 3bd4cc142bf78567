/** Documents as they are written: sorted, counted, within memory, and never taken for whole when they are not. */
import { readdirSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { documentFrame } from '../../engine/core/files/document-output.ts';
import type { Drain } from '../../engine/core/files/ndjson-out.ts';
import { Fatal } from '../../engine/core/item/failure.ts';
import type { Item } from '../../engine/core/item/item.ts';
import { folder } from '../fw.ts';
import { holds } from '../ingest/property.ts';

/** `slow`: the reader asks to wait after every write. */
function memory(slow = false): Drain & { text(): string; most: number } {
  const chunks: Buffer[] = [];
  let isWaiting = false;
  return {
    keeps: true,
    most: 0,
    put(bytes) {
      if (isWaiting) throw new Error('expected to be waited for');
      isWaiting = slow;
      this.most = Math.max(this.most, bytes.length);
      chunks.push(bytes);
      return !slow;
    },
    ready(act) {
      isWaiting = false;
      setImmediate(act);
    },
    async end() {},
    text: () => Buffer.concat(chunks).toString(),
  };
}

const aside = folder();
async function written(
  lines: readonly object[],
  {
    model,
    asked,
    complete = true,
    slow,
  }: { model?: string; asked?: string; complete?: boolean; slow?: boolean } = {},
) {
  const drain = memory(slow);
  const output = documentFrame(model).open(drain, aside, () => {});
  for (const line of lines) output.write(line as Item);
  await output.end(complete, asked);
  return drain;
}

const row = fc.oneof(
  fc.integer({ min: 1, max: 30 }),
  fc.integer({ min: 1, max: 30 }).map(String),
  fc.constantFrom('12 hex', '', null, undefined, 2 ** 53 - 1),
);
const results = fc.array(
  fc.record({
    prompt_id: row,
    ordering: fc.constantFrom('a,b', 'b,a'),
    text: fc.string({ unit: 'binary', maxLength: 300 }),
  }),
  { maxLength: 40 },
);

describe('a document', () => {
  test('has every result once, by row; those of one row, or of none, in the order in which they came', () =>
    holds(fc.tuple(results, fc.boolean()), async ([lines, slow]) => {
      const drain = await written(lines, { model: 'm', slow });
      const { metadata, results, status } = JSON.parse(drain.text());
      const rank = ({ prompt_id }: { prompt_id?: unknown }): number =>
        /^\d+$/.test(String(prompt_id)) ? Number(prompt_id) : Number.POSITIVE_INFINITY;
      const ranked = lines.map((line, index) => ({ line, index, rank: rank(line) }));
      ranked.sort((a, b) => (a.rank === b.rank ? a.index - b.index : a.rank - b.rank));
      expect(results).toEqual(JSON.parse(JSON.stringify(ranked.map(({ line }) => line))));
      const orderings = [...new Set(lines.map(({ ordering }) => ordering))];
      const ordering = orderings.length > 1 ? 'mixed' : (orderings[0] ?? 'unknown');
      expect([metadata, status]).toEqual([{ model: 'm', ordering, count: lines.length }, 'complete']);
      expect(readdirSync(aside)).toEqual([]);
    }));

  test('says that it is not complete after a failed item, or where the run was not', async () => {
    const one = { prompt_id: 1, ordering: 'a', text: '' };
    const failed = { id: 'x', failure: { stage: 'chain', code: 'no-valid-answer', message: '' } };
    for (const [lines, complete] of [
      [[one, failed], true],
      [[one], false],
    ] as const) {
      const { metadata, results, status } = JSON.parse((await written(lines, { complete })).text());
      expect([metadata.count, results, status]).toEqual([1, [one], 'incomplete']);
    }
  });

  test('names the model that was said, else the one that was asked, else says that it is not known', async () => {
    const models = [{ model: 'said', asked: 'asked' }, { asked: 'asked' }, {}];
    const told = await Promise.all(models.map(async given => JSON.parse((await written([], given)).text())));
    expect(told.map(({ metadata }) => metadata.model)).toEqual(['said', 'asked', 'unknown']);
  });

  test('is written a result at a time, and nothing of it before the end', async () => {
    const drain = memory();
    const output = documentFrame('m').open(drain, aside, () => {});
    const text = 'x'.repeat(13_000);
    for (let at = 3000; at > 0; at--) output.write({ prompt_id: at, ordering: 'a', text } as unknown as Item);
    expect(drain.text()).toBe('');
    await output.end();
    expect(drain.most).toBeLessThan(14_000);
    const { results } = JSON.parse(drain.text());
    expect(results.map((result: { prompt_id: number }) => result.prompt_id)).toEqual(
      Array.from({ length: 3000 }, (_, at) => at + 1),
    );
  });

  test('is written beside any number of others', async () => {
    const drains = Array.from({ length: 60 }, () => memory());
    const outputs = drains.map(drain => documentFrame('m').open(drain, aside, () => {}));
    for (const prompt_id of [2, 1])
      for (const [index, output] of outputs.entries())
        output.write({ prompt_id, ordering: `o${index}`, text: 'x'.repeat(300_000) } as unknown as Item);
    for (const output of outputs) await output.end();
    for (const [index, drain] of drains.entries()) {
      const { metadata, results } = JSON.parse(drain.text());
      expect(metadata).toEqual({ model: 'm', ordering: `o${index}`, count: 2 });
      expect(results.map((result: { prompt_id: number }) => result.prompt_id)).toEqual([1, 2]);
    }
  });

  test('where nothing can be put aside, the run ends with 74 and the way out', () => {
    expect(() => documentFrame('m').open(memory(), '/nowhere', () => {})).toThrow(Fatal);
    expect(() => documentFrame('m').open(memory(), '/nowhere', () => {})).toThrow(/TMPDIR/);
  });
});
