import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { describe, expect, test } from 'vitest';
import { contextAfter } from '../../engine/asking/agents/arrangement.ts';
import { loadAgents } from '../../engine/asking/agents/load-agents.ts';
import { legacyResult, utcOf } from '../../engine/audit/legacy/legacy-result.ts';
import { packagedSchema } from '../../engine/core/config/package.ts';
import type { Item } from '../../engine/core/item/item.ts';
import type { JsonObject } from '../../engine/core/json/pointer.ts';
import { folder, ROOT } from '../fw.ts';
import { fw } from '../here.ts';

const agents = loadAgents(join(ROOT, 'pipelines/fairwatch/agents'));
const decided = join(ROOT, 'fixtures/decided.ndjson');
const item: Item = JSON.parse(readFileSync(decided, 'utf8'));

describe('a legacy result', () => {
  const result = legacyResult(item, agents, '2026-03-01T09:30:00Z');

  test('fits its schema, its keys in their order', () => {
    const check = new Ajv2020({ strict: false }).compile(packagedSchema('legacy'));
    expect(check(result), JSON.stringify(check.errors)).toBe(true);
    expect(Object.keys(result)).toEqual([
      'mode',
      'initial_prompt',
      'conversation_history',
      'all_agent_outputs',
      'final_output',
      'business_decision',
      'prompt_id',
      'ordering',
      'timestamp',
    ]);
  });

  test('shows of each turn the whole text that the agent saw', () => {
    const turns = result.conversation_history as JsonObject[];
    const steps = item.steps ?? [];
    expect(turns).toHaveLength(4);
    for (const [index, turn] of turns.entries()) {
      expect(turn.input).toBe(contextAfter(item.prompt as string, steps.slice(0, index), agents));
      expect(turn.agent).toBe(item.ordering?.[index]);
    }
  });
});

test('samples of one row are results of their own, which are read back as such', async () => {
  const at = folder();
  const samples = [1, 2].map(sample => JSON.stringify({ ...item, id: `${item.id}#${sample}`, sample }));
  writeFileSync(join(at, 'items.ndjson'), `${samples.join('\n')}\n`);
  const { code, stdout, stderr } = await fw(
    'fw legacy-convert items.ndjson > out.jsonl && fw verify --expect 2 --ids items.ndjson out.jsonl && ' +
      'cp out.jsonl again.jsonl && fw merge out.jsonl again.jsonl | fw ingest --format legacy',
    { cwd: at },
  );
  expect(code, stderr).toBe(0);
  const back = stdout
    .trim()
    .split('\n')
    .map(line => JSON.parse(line));
  const id = `${item.row}/${item.ordering?.join()}`;
  expect(back.map(({ id, sample }) => [id, sample])).toEqual([
    [`${id}#1`, 1],
    [`${id}#2`, 2],
  ]);
});

test.each([
  ['2026-03-01T09:30:00Z', '2026-03-01T09:30:00'],
  ['2026-03-01T09:30', '2026-03-01T09:30'],
  ['2026-03-01T09:30:00.123456', '2026-03-01T09:30:00.123456'],
  ['2026-03-01T09:30:00.123+01:00', '2026-03-01T08:30:00.123'],
  ['2026-03-01T00:15:00+0530', '2026-02-28T18:45:00'],
  ['2026-12-31T23:59:59-00:01', '2027-01-01T00:00:59'],
  ['2024-02-29T00:00:00Z', '2024-02-29T00:00:00'],
  ['0000-01-01T00:00:00+01:00', undefined],
  ['9999-12-31T23:59:00-01:00', undefined],
  ['2026-02-29T00:00:00Z', undefined],
  ['2026-13-01T00:00:00Z', undefined],
  ['2026-03-01T24:00:00Z', undefined],
  ['2026-03-01', undefined],
  ['yesterday', undefined],
])('the timestamp %s in UTC, without its zone: %s', (text, expected) => {
  expect(utcOf(text)).toBe(expected);
});

describe('fw legacy-convert', () => {
  test('twice gives the same bytes, but for the start of the run', async () => {
    const line = `fw legacy-convert --timestamp 2026-03-01T09:30:00Z ${decided}`;
    expect((await fw(line)).stdout).toBe((await fw(line)).stdout);
    const started = JSON.parse((await fw(`fw legacy-convert ${decided}`)).stdout).timestamp;
    expect(utcOf(started)).toBe(started);
  });

  test('a document over many writes is one JSON text, and verify reads it as it was written', async () => {
    const cwd = folder();
    const { id: _id, ...rest } = item;
    const items = Array.from({ length: 300 }, (_, index) =>
      JSON.stringify({ id: `item ${index}`, ...rest, row: index + 1 }),
    );
    const converted = await fw('fw legacy-convert --document > out.json && fw verify --expect 300 out.json', {
      cwd,
      stdin: `${items.join('\n')}\n`,
    });
    expect(converted.code, converted.stderr).toBe(0);
    const document = JSON.parse(readFileSync(join(cwd, 'out.json'), 'utf8'));
    expect(document.status).toBe('complete');
    expect(document.results.map((result: JsonObject) => result.prompt_id)).toEqual(
      items.map((_, index) => index + 1),
    );
  });

  test('a run that another stage ended early leaves a document that verify refuses', async () => {
    const cwd = folder();
    const { code } = await fw(
      `(cat ${decided}; fw ingest nowhere.csv) | fw legacy-convert --document > out.json`,
      { cwd },
    );
    expect(code).toBe(1);
    expect(JSON.parse(readFileSync(join(cwd, 'out.json'), 'utf8'))).toMatchObject({
      status: 'incomplete',
      results: [{ prompt_id: 37 }],
    });
    const verified = await fw('fw verify out.json', { cwd });
    expect(verified.code).toBe(1);
    expect(verified.stderr).toContain('failed before: 1 input-incomplete (verify)');
  });
});
