/** What validate, verify or ingest refuses of an answer is asked again, and nothing that is refused is left in silently. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import type { Item, Step } from '../../engine/core/item/item.ts';
import type { JsonObject } from '../../engine/core/json/pointer.ts';
import { folder, ROOT } from '../fw.ts';
import { fw } from '../here.ts';
import { type Servers, servers } from '../pipe/servers.ts';

const at = folder();
const run = (line: string) => fw(line, { cwd: at });
const read = <T>(name: string): T[] =>
  readFileSync(join(at, name), 'utf8')
    .trimEnd()
    .split('\n')
    .map(line => JSON.parse(line));
const write = (name: string, lines: readonly unknown[]): void =>
  writeFileSync(join(at, name), lines.map(line => `${JSON.stringify(line)}\n`).join(''));
let calm: Servers;

interface Broken extends Item {
  steps: [Answer, Answer, Answer, Answer];
  decision: Answer;
}
type Answer = Step & { output: JsonObject };
const DAMAGES: ((item: Broken) => void)[] = [
  ({ steps }) => Object.assign(steps[1].output, { approval_decision: 'maybe' }),
  ({ steps }) => Object.assign(steps[0].output, { interest_rate: null }),
  ({ decision }) => Object.assign(decision.output, { interest_rate: 99 }),
  ({ steps }) => Object.assign(steps[3].output, { confidence_probability: 'much' }),
  ({ decision }) => delete decision.output.reasoning,
  ({ steps }) => Object.assign(steps[2], { output: {} }),
];

beforeAll(async () => {
  calm = await servers(1);
  const made = await run(
    `fw ingest ${ROOT}/fixtures/applications-60.csv --limit 8 > asked; fw chain --ledger led ${calm.flags} asked > items; fw legacy-convert items > out.jsonl`,
  );
  expect(made.code, made.stderr).toBe(0);
  const items = read<Broken>('items');
  for (const [nth, damage] of DAMAGES.entries()) damage(items[nth] as Broken);
  write('bad', items);
});

describe.each(['fw validate bad', 'fw verify --pass bad'])('%s', refuse => {
  test('refuses six answers by name, and each is asked again with those after it', async () => {
    await run(`${refuse} | fw select --failed > refused`);
    const places = ['/steps/1', '/steps/0', '/decision', '/steps/3', '/decision', '/steps/2'];
    expect(read<Item>('refused').map(({ failure }) => failure?.at)).toEqual(places);
    const { stderr } = await run(`fw chain --retry-failed ${calm.flags} refused > again`);
    // of five answers: four, five, one, two, one and three
    expect(stderr).toContain('0 failed · 16 calls');
    expect(await run('fw verify --expect 6 again')).toMatchObject({ code: 0 });
  });

  test('with the ledger the model is not asked: what it had said comes back, to the byte', async () => {
    await run(
      `${refuse} | fw select --failed > refused; fw chain --retry-failed --ledger led refused > again`,
    );
    const before = new Map(read<Item>('items').map(item => [item.id, JSON.stringify(item)]));
    for (const item of read<Item>('again')) expect(JSON.stringify(item)).toBe(before.get(item.id));
    expect(read('again')).toHaveLength(6);
  });
});

test('an answer that is the model’s and is refused is asked in a new round', async () => {
  const items = read<Broken>('items').slice(0, 1);
  const [{ steps }] = items as [Broken];
  delete steps[1].sha256; // as version 0.1.0 wrote it
  Object.assign(steps[1].output.reasoning as JsonObject, { confidence_reason: '...' });
  write('placeholder', items);
  const { stderr } = await run(
    `fw verify --pass placeholder | fw select --failed | fw chain --retry-failed --ledger led ${calm.flags} > again`,
  );
  expect(stderr).toMatch(/ 0 failed · [1-9]\d* calls/);
  expect(read<Item>('again')[0]?.steps?.map(({ round }) => round)).toEqual([
    undefined,
    1,
    undefined,
    undefined,
  ]);
});

test('what is missing of an item is asked: its last steps, its decision', async () => {
  const [first, second] = read<Item>('items') as [Item, Item];
  write('missing', [
    { ...first, steps: first.steps?.slice(0, 2), decision: undefined },
    { ...second, decision: undefined },
  ]);
  const { stderr } = await run(
    `fw verify --pass missing | fw select --failed | fw chain --retry-failed ${calm.flags} > again`,
  );
  expect(stderr).toContain('0 failed · 4 calls');
});

describe('results with answers that are none', () => {
  type Result = JsonObject & {
    conversation_history: { input: string; output: JsonObject }[];
    all_agent_outputs: JsonObject[];
    business_decision: JsonObject;
  };
  const inTurn = (result: Result, turn: number, change: JsonObject): void => {
    for (const output of [result.conversation_history[turn]?.output, result.all_agent_outputs[turn]])
      Object.assign(output as JsonObject, change);
    result.final_output = result.all_agent_outputs.at(-1);
  };
  const bad: ((result: Result) => void)[] = [
    result => inTurn(result, 1, { approval_decision: 'maybe' }),
    result => inTurn(result, 0, { interest_rate: null }),
    result => Object.assign(result.business_decision, { interest_rate: null }),
    result => inTurn(result, 3, { confidence_probability: 'much' }),
    result => Object.assign(result.business_decision, { approval_decision: 'maybe' }),
    result => Object.assign(result.conversation_history[2] as JsonObject, { input: result.initial_prompt }),
    result => inTurn(result, 1, { interest_rate: 4.125 }),
  ];
  const NAME = 'out/sequential_risk_data_regulatory_consumer_legacy.jsonl';
  const recover = () =>
    run(
      `fw run ${ROOT}/pipelines/fairwatch/recover-results.yaml --set ingest.source=${ROOT}/fixtures/applications-60.csv ${calm.flags} --output ${NAME} ${NAME}`,
    );
  const damaged = (more: (results: Result[]) => void): void => {
    const results = read<Result>('out.jsonl');
    for (const [nth, damage] of bad.entries()) damage(results[nth] as Result);
    more(results);
    write(NAME, results);
  };

  test('recover-results.yaml asks them again, and leaves results that pass', async () => {
    await run('mkdir -p out');
    damaged(() => {});
    expect((await run(`fw verify ${NAME}`)).stderr).toContain('legacy results: 1 accepted, 7 refused');
    const { code, stderr } = await recover();
    expect(code, stderr).toBe(0);
    expect(await run(`fw verify --expect 8 ${NAME}`)).toMatchObject({ code: 0 });
  });

  test('what it cannot ask again it leaves as it was, says, and ends with 1', async () => {
    await run('mkdir -p out');
    damaged(results => Object.assign(results[7] as Result, { timestamp: 'yesterday' }));
    const last = read<Result>(NAME)[7];
    const { code, stderr } = await recover();
    expect(stderr).toContain('results that verify refuses, of which no better line came: 1');
    expect(code).toBe(1);
    expect(read<Result>(NAME).filter(({ timestamp }) => timestamp === 'yesterday')).toEqual([last]);
  });

  test('verify names the answer, and ingest takes the name along', async () => {
    const [result] = read<Result>('out.jsonl') as [Result];
    delete result.business_decision.reasoning;
    write('one.jsonl', [result]);
    const { stderr } = await run(
      `fw verify --pass one.jsonl | fw ingest --format legacy | fw select --failed | fw chain --retry-failed ${calm.flags} | fw legacy-convert > mended.jsonl`,
    );
    expect(stderr).toContain('1 call ·');
    expect(await run('fw verify --expect 1 mended.jsonl')).toMatchObject({ code: 0 });
  });
});
