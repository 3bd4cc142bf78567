/** One hostile line fails that line and nothing else: every stage, every wrong type, and the same again after it. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { folder, ROOT } from '../fw.ts';
import { fw } from '../here.ts';
import { type Servers, servers } from '../pipe/servers.ts';

const good = JSON.parse(readFileSync(join(ROOT, 'fixtures/decided.ndjson'), 'utf8'));
const [step] = good.steps;
const item = (more: object): object => ({ id: 'hostile', row: 1, prompt: 'Credit score: 700', ...more });
const failed = (failure: unknown, more: object = {}): object => item({ failure, ...more });
const trap = { toString: 1, valueOf: 1 };
const healable = { stage: 'chain', agent: 'risk_manager', code: 'no-valid-answer', message: 'none' };
const legacy = { conversation_history: [], business_decision: {} };

const WRONG: Record<string, unknown[]> = {
  id: [{}, trap, [], true],
  prompt: [{}, trap, 5, null],
  ordering: [{}, 5, trap, [null], [trap], [['risk_manager']]],
  steps: [
    ...[{}, 5, true, 'risk_manager', [null], [5], ['x'], [[]], [{}]],
    ...[trap, 5, null].map(agent => [{ ...step, agent }]),
    ...[null, 5, 'approve', [1, 2]].map(output => [{ ...step, output }]),
    ...[5, trap].map(rung => [{ ...step, rung }]),
    [{ ...step, saw: trap }],
    [{ ...step, repairs: 5 }],
    [{ ...step, output: undefined, raw: 5 }],
    [{ agent: 'risk_manager', raw: 5 }],
    [{ ...step, output: undefined, raw: '{', round: trap, problem: 5 }],
  ],
  decision: [5, null, {}, { output: null }, { ...good.decision, output: 'approve' }],
  failure: [
    ...['text', 5, null, [], {}, { code: {} }, { code: 'not-json', text: 5 }],
    { stage: 'x', code: 'not-json', message: 'm', text: 5 },
    { stage: 'x', code: 'no-valid-answer', message: trap },
    { stage: trap, code: 'interrupted', message: 'm' },
    { stage: 'x', code: trap, message: 'm' },
    { stage: 'x', code: 'no-valid-answer', message: 'm', agent: trap },
  ],
  _fw: [7, null, {}, { rung: trap, repairs: [] }, { rung: 'coerced', repairs: 5 }],
};

const LINES: object[] = [
  ...Object.entries(WRONG).flatMap(([key, values]) => values.map(value => item({ [key]: value }))),
  ...Object.entries(WRONG).flatMap(([key, values]) =>
    key === 'failure' ? [] : values.map(value => failed(healable, { [key]: value })),
  ),
  { note: 'a record', _fw: 7 },
  { note: 'a record', _fw: { rung: 'coerced', repairs: trap } },
  { ...legacy, prompt_id: trap, ordering: 'a' },
  { ...legacy, prompt_id: 1, ordering: trap },
  { ...legacy, prompt_id: 1, ordering: 'a', conversation_history: [null, { agent: trap }], _fw: 7 },
  {
    id: null,
    failure: { stage: 'x', code: 'not-json', message: 'm', text: '{"a":"\\$","_fw":{"repairs":5}}' },
  },
];

let calm: Servers;
beforeAll(async () => {
  calm = await servers(1);
});

/** Stages that hand every line on; what legacy-convert leaves out is read from its --failures. */
const COMMANDS = [
  'fw fix-escapes in.ndjson > out.ndjson',
  'fw validate in.ndjson > out.ndjson',
  'fw null-fix in.ndjson > out.ndjson',
  'fw ingest in.ndjson > out.ndjson',
  'fw select in.ndjson > out.ndjson',
  'fw select --failed in.ndjson > out.ndjson; fw select --no-failed in.ndjson >> out.ndjson',
  'fw verify --pass --report report.json in.ndjson > out.ndjson',
  'fw merge in.ndjson none.ndjson --failures failed.ndjson > out.ndjson; cat failed.ndjson >> out.ndjson',
  'fw legacy-convert --failures failed.ndjson in.ndjson > out.ndjson; code=$?; cat failed.ndjson >> out.ndjson; (exit $code)',
  'fw synthesize-decision --retry-failed $EP in.ndjson > out.ndjson',
  'fw chain --retry-failed $EP in.ndjson > out.ndjson',
  'fw chain --retry-failed --share --ledger ledger --topology peer $EP in.ndjson > out.ndjson',
  'fw agent-step --agent risk_manager --retry-failed $EP in.ndjson > out.ndjson',
  'fw validate in.ndjson | fw fix-escapes | fw null-fix | fw verify --pass | fw validate > out.ndjson',
];

const lines = [good, ...LINES, { ...good, id: 'last' }];

/** A folder with them in `in.ndjson`. */
function withLines(): string {
  const cwd = folder();
  // merge keeps one line of an id, so each has its own where it may have one
  const written = lines.map((line, at) =>
    JSON.stringify('id' in line && line.id === 'hostile' ? { ...line, id: `hostile ${at}` } : line),
  );
  writeFileSync(join(cwd, 'in.ndjson'), `${written.join('\n')}\n`);
  return cwd;
}

test.each(['csv', 'parquet', 'openai-batch'])('hostile lines as %s', async format => {
  const ran = await fw(`fw export --format ${format} in.ndjson > out`, { cwd: withLines() });
  expect(ran.stderr).not.toMatch(/a bug|\n\s+at /);
  expect(ran.code, ran.stderr).toBe(0);
  expect(ran.stderr).toContain(`export: in ${lines.length} = `);
});

test.each(['report', 'compare in.ndjson'])('hostile lines in fw %s', async verb => {
  const ran = await fw(`fw ${verb} in.ndjson --outcome approval_decision --approve approve > out.html`, {
    cwd: withLines(),
  });
  expect(ran.stderr).not.toMatch(/a bug|\n\s+at /);
  expect(ran.code, ran.stderr).toBeLessThanOrEqual(1);
});

describe('hostile lines among good ones', () => {
  test.each(COMMANDS)('%s', async command => {
    const cwd = withLines();
    writeFileSync(join(cwd, 'none.ndjson'), '{"id":"none","prompt":"?"}\n');
    const ran = await fw(command, { cwd, env: { EP: calm.flags } });
    expect(ran.stderr).not.toMatch(/a bug|\n\s+at /);
    expect(ran.code, ran.stderr).toBeLessThanOrEqual(1);
    const out = readFileSync(join(cwd, 'out.ndjson'), 'utf8').trimEnd().split('\n');
    expect(out.length, ran.stderr).toBe(lines.length + (command.startsWith('fw merge') ? 1 : 0));
    for (const line of out) JSON.parse(line);
  });
});

test('a failure names the place, the line keeps what it had', async () => {
  const ran = await fw('fw validate', { stdin: JSON.stringify(item({ steps: [{ ...step, agent: 5 }] })) });
  expect(JSON.parse(ran.stdout)).toEqual({
    ...item({ steps: [{ ...step, agent: 5 }] }),
    failure: { stage: 'validate', code: 'not-an-item', message: 'expected text at /steps/0/agent, found 5' },
  });
});

test.each([
  ['steps', [{ ...step, output: [1, 2] }, ...good.steps.slice(1)]],
  ['decision', { ...good.decision, output: null }],
  ['decision', { ...good.decision, output: 'approve' }],
])('legacy-convert makes no result of a %s that is none', async (key, value) => {
  const ran = await fw('fw legacy-convert', { stdin: JSON.stringify({ ...good, [key]: value }) });
  expect([ran.code, ran.stdout]).toEqual([1, '']);
});

test.each([{ ...step, output: null }, 5, 'x'])('chain takes no %j for an answer', async first => {
  const line = { id: 'a', prompt: '?', steps: [first] };
  const ran = await fw(`fw chain ${calm.flags}`, { stdin: JSON.stringify(line) });
  expect(JSON.parse(ran.stdout)).toMatchObject({ ...line, failure: { code: 'not-an-item' } });
});
