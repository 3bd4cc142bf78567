/** What a ledger says when it is opened by a run that asks with something else than the last one. */

import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { Served } from '../../engine/asking/ledger/ledger-format.ts';
import type { AsksWith } from '../../engine/core/item/call.ts';
import { folder } from '../fw.ts';
import { ASKS, appended, opened, recordOf } from './records.ts';

const judge = { persona: 'p1', schema: 's1', sampling: 'k1' };

/** What is said by a run that asks with `now`, on a ledger whose last run asked with ASKS, of model m and root r. */
async function told(now: Partial<AsksWith>, served?: Served): Promise<string[]> {
  const at = folder();
  const first = opened(at);
  await appended(first, recordOf());
  await first.close();
  const again = opened(at, { asksWith: { ...ASKS, ...now } }, served);
  await again.close();
  return again.warnings;
}

const CASES: [Partial<AsksWith>, string][] = [
  [{ agents: { judge: { ...judge, persona: 'p2' } } }, 'judge: persona changed'],
  [{ agents: { judge: { ...judge, schema: 's2' } } }, 'judge: schema changed'],
  [{ agents: { judge: { ...judge, sampling: 'k2', schema: 's2' } } }, 'judge: schema and sampling changed'],
  [{ agents: { judge: { ...judge, model: 'm2' } } }, 'judge: model changed'],
  [{ agents: { judge, clerk: judge } }, 'clerk is new'],
  [{ agents: {} }, 'judge is gone'],
  [{ options: { guided: 'off', seed: 0 } }, 'guided: on before, off now'],
  [{ options: { guided: 'on', seed: 3 } }, 'seed: 0 before, 3 now'],
  [{ options: { ...ASKS.options, other: 1 } }, 'other: none before, 1 now'],
];

test.each(CASES)('%j: %s', async (now, said) => {
  const [warning, ...more] = await told(now);
  expect(warning).toMatch(/^since the run of 20\d\d-\S+Z: /);
  expect(warning).toContain(`: ${said}; calls that this changes are asked again`);
  expect(more).toEqual([]);
});

test('nothing where nothing changed, or what another stage asks with is not on record', async () => {
  expect(await told({})).toEqual([]);
  expect(await told({ stage: 'agent-step', agents: {} })).toEqual([]);
});

test('another model, and the same name with other weights, with both names', async () => {
  expect((await told({}, { model: 'm2', root: 'r' })).join()).toContain('the model was m and is m2');
  expect((await told({}, { model: 'm', root: 'r2' })).join()).toContain(
    'the name m meant r and now means r2: the answers on record are those of r',
  );
  expect(await told({}, { model: 'm' })).toEqual([]);
});

test('the last run is the one that counts', async () => {
  const at = folder();
  for (const persona of ['p1', 'p2']) {
    const path = join(at, `${persona}.ndjson`);
    const ledger = opened(path, { asksWith: { ...ASKS, agents: { judge: { ...judge, persona } } } });
    await appended(ledger, recordOf({ says: persona }));
    await ledger.close();
  }
  const again = opened(at, { asksWith: { ...ASKS, agents: { judge: { ...judge, persona: 'p2' } } } });
  expect(again.warnings).toEqual([]);
  expect(again.answers).toBe(2);
  await again.close();
});

test('a further stage on the same ledger is told too, once', async () => {
  const at = folder();
  const more = { ...ASKS, stage: 'synthesize-decision' };
  const first = opened(at);
  first.stage(more);
  await appended(first, recordOf());
  await first.close();
  const again = opened(at);
  again.stage({ ...more, options: { ...ASKS.options, seed: 1 } });
  again.stage({ ...more, options: { ...ASKS.options, seed: 1 } });
  expect(again.warnings).toEqual([expect.stringContaining('seed: 0 before, 1 now')]);
  await again.close();
});
