/** A bias planted in a study of one's own: it is where its outcome is, `fw report` finds it, or the request is refused. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import { stringify } from 'yaml';
import type { Report } from '../../products/report/report.ts';
import type { Outcome } from '../../products/simulator/bias.ts';
import { biasFrom } from '../../products/simulator/bias.ts';
import { replyTo } from '../../products/simulator/chat.ts';
import { NO_FAULTS } from '../../products/simulator/faults.ts';
import { drawsOf, sha256 } from '../../products/simulator/random.ts';
import { schemaCache } from '../../products/simulator/schemas.ts';
import { type Simulator, startSimulator } from '../../products/simulator/simulator.ts';
import { every } from '../all.ts';
import { folder } from '../fw.ts';
import { fw } from '../here.ts';
import { bodyOf, contentOf, post } from './loan.ts';

const running: Simulator[] = [];
async function start(bias: string, outcome: Outcome = {}): Promise<Simulator> {
  const simulator = await startSimulator({ biases: [bias], outcome, name: 'a' });
  running.push(simulator);
  return simulator;
}
afterEach(async () => {
  await Promise.all(running.splice(0).map(simulator => simulator.close()));
});

type Properties = { [name: string]: object };
const objectOf = (properties: Properties) => ({
  type: 'object',
  properties,
  required: Object.keys(properties),
  additionalProperties: false,
});
const reason = { type: 'string', minLength: 1, maxLength: 200 };

/** A study of one agent and a template in prose, in which no column is named. */
function study(schema: object, names: readonly string[], each: number): string {
  const at = folder();
  const rows = Array.from(
    { length: each * names.length },
    (_, row) => `${row},${names[row % names.length]},${20 + (row % 40)}`,
  );
  writeFileSync(join(at, 'people.csv'), ['id,name,age', ...rows, ''].join('\n'));
  writeFileSync(
    join(at, 'ask.liquid'),
    '{{ name }}, who is {{ age }}, would like to come to the conference ({{ id }}).',
  );
  mkdirSync(join(at, 'agents'));
  const agent = {
    key: 'desk',
    short: 'desk',
    display: 'Desk',
    role: 'agent',
    persona: 'You decide who comes.',
  };
  writeFileSync(
    join(at, 'agents/desk.yaml'),
    stringify({ ...agent, schema, sampling: { temperature: 0, max_tokens: 300 } }),
  );
  return at;
}

const NAMES = ['Elif Yılmaz', 'Anna Berg', 'Tom Meier'];

const STUDIES: [what: string, properties: Properties, outcome: Outcome, key: string, approve: string][] = [
  [
    'an enum',
    { verdict: { enum: ['invite', 'reject'] }, reason },
    { approve: 'invite' },
    'verdict',
    'invite',
  ],
  ['a boolean', { reason, comes: { type: 'boolean' } }, { key: 'comes', approve: 'true' }, 'comes', 'true'],
  [
    'the key of the packaged study',
    { approval_decision: { enum: ['approve', 'deny'] }, reason },
    {},
    'approval_decision',
    'approve',
  ],
];

test.each(every(3, STUDIES))('the report finds it in %s', async (_, properties, outcome, key, approve) => {
  const at = study(objectOf(properties), NAMES, 90);
  const { url, counts } = await start('name=Elif Yılmaz:-0.35', outcome);
  const asked = await fw(
    `fw ingest people.csv --template ask.liquid | fw chain --agents agents --decision false --endpoint ${url} > items.ndjson`,
    { cwd: at },
  );
  expect(asked.code, asked.stderr).toBe(0);
  const { stdout } = await fw(
    `fw report items.ndjson --agents agents --outcome ${key} --approve ${approve} --group name --reference 'Anna Berg' --json`,
    { cwd: at },
  );
  const { rows } = (JSON.parse(stdout) as Report).groups[0]!;
  const of = (name: string) => rows.find(({ value }) => value === name)!;
  expect(of('Elif Yılmaz').difference?.high).toBeLessThan(-0.1);
  expect(of('Elif Yılmaz').holm).toBeLessThan(0.01);
  expect(of('Tom Meier').holm).toBeGreaterThan(0.05);
  expect(counts().biases).toEqual({ 'name=Elif Yılmaz:-0.35': 90 });
});

describe('without a report', () => {
  const user = (name: string) => `${name} would like to come.`;
  interface Planted {
    bias?: string;
    outcome?: Outcome;
  }
  /** Answers to `count` requests about somebody, without the wire. */
  function answers({ bias, outcome = {} }: Planted, name: string, count: number, more: object): unknown[] {
    const biases = bias === undefined ? [] : [biasFrom(bias)];
    const settings = {
      model: 'simulated-3b',
      maxModelLength: 4_096,
      faults: NO_FAULTS,
      draws,
      schemaOf: known,
      biases,
      outcome,
    };
    return Array.from({ length: count }, (_, turn) => {
      const body = bodyOf({ schema: null, system: '', user: user(name), turn, more: { ...more } });
      const { text } = replyTo(body, sha256(body), settings);
      return /^[[{0-9-]|^(?:true|false)$/.test(text) ? JSON.parse(text) : text;
    });
  }
  const [draws, known] = [drawsOf(7), schemaCache()];
  const schemaOf = (schema: object) => ({
    response_format: { type: 'json_schema', json_schema: { name: 'a', schema } },
  });
  const share = (all: readonly unknown[], value: unknown) =>
    all.filter(one => one === value).length / all.length;
  const mean = (all: readonly unknown[]) => (all as number[]).reduce((sum, one) => sum + one, 0) / all.length;

  test.each([
    ['structured_outputs', { structured_outputs: { choice: ['yes', 'no', 'later', 'never'] } }],
    ['guided_choice', { guided_choice: ['yes', 'no', 'later', 'never'] }],
  ])('in a choice by %s, where nobody else is touched', (_, more) => {
    const planted = { bias: 'name=Elif:+0.4', outcome: { approve: 'yes' } };
    expect(Math.abs(share(answers(planted, 'Elif', 600, more), 'yes') - 0.65)).toBeLessThan(0.07);
    expect(answers(planted, 'Anna', 50, more)).toEqual(answers({}, 'Anna', 50, more));
  });

  test.each([
    ['an integer of 0 to 10', { type: 'integer', minimum: 0, maximum: 10 }, -0.25, 2.8, 0.35],
    ['a number of 0 to 1', { type: 'number', minimum: 0, maximum: 1 }, -0.25, 0.28, 0.035],
    ['a multiple of 5', { type: 'integer', minimum: 0, maximum: 100, multipleOf: 5 }, -0.25, 28, 3.5],
  ])('in %s', (_, number, shift, wanted, within) => {
    const planted = { bias: `name=Elif:${shift}`, outcome: { key: 'score' } };
    const more = schemaOf(objectOf({ reason, score: number }));
    const scores = (all: unknown[]) => all.map(one => (one as { score: number }).score);
    const own = scores(answers(planted, 'Elif', 600, more));
    // what is drawn alike in all of the range loses a quarter of it, and none falls below its end
    expect(Math.abs(mean(own) - wanted)).toBeLessThan(within);
    const others = mean(scores(answers(planted, 'Anna', 600, more)));
    expect(Math.abs(others - (5 * wanted) / 2.8)).toBeLessThan(within);
  });

  test.each([
    ['a value that may be null', { enum: ['yes', 'no', null] }, 1 / 3],
    ['one of several constants', { oneOf: [{ const: 'yes' }, { const: 'no' }] }, 1 / 2],
    ['an enum behind a reference', { $ref: '#/$defs/verdict' }, 1 / 2],
  ])('in %s, deep in an answer', (_, verdict, chance) => {
    const planted = { bias: 'name=Elif:-0.25', outcome: { key: 'verdict', approve: 'yes' } };
    const inner = objectOf({ final: objectOf({ verdict }), rows: { type: 'array', items: reason } });
    const more = schemaOf({ ...inner, $defs: { verdict: { enum: ['yes', 'no'] } } });
    const own = answers(planted, 'Elif', 600, more).map(
      one => (one as { final: { verdict: unknown } }).final.verdict,
    );
    expect(Math.abs(share(own, 'yes') - (chance - 0.25))).toBeLessThan(0.06);
  });

  const enumOf = (...values: unknown[]) => objectOf({ verdict: { enum: values } });
  test.each([
    [
      'no approval',
      {},
      schemaOf(enumOf('invite', 'reject')),
      /may be "approve" .* found verdict \(invite, reject\)/,
    ],
    [
      'two of them',
      { approve: 'yes' },
      schemaOf(objectOf({ a: { enum: ['yes', 'no'] }, b: { enum: ['yes', 'no'] } })),
      /found a \(yes, no\), b \(yes, no\)/,
    ],
    [
      'a key that is another one',
      { key: 'decison', approve: 'yes' },
      schemaOf(enumOf('yes', 'no')),
      /"decison".*found verdict/,
    ],
    [
      'a value that the key has not',
      { key: 'verdict', approve: 'ja' },
      schemaOf(enumOf('yes', 'no')),
      /"verdict" to be one that may be "ja"/,
    ],
    [
      'a text for an outcome',
      { key: 'reason' },
      schemaOf(objectOf({ reason })),
      /found no values that are listed/,
    ],
    [
      'a number without ends',
      { key: 'score' },
      schemaOf(objectOf({ score: { type: 'number', minimum: 0 } })),
      /found no values/,
    ],
    ['one value alone', { approve: 'yes' }, schemaOf(enumOf('yes')), /another value beside "yes"/],
    ['a choice without it', {}, { structured_outputs: { choice: ['a', 'b'] } }, /found an answer \(a, b\)/],
    ['no schema', {}, {}, /a schema or a choice/],
    ['any object', {}, { response_format: { type: 'json_object' } }, /a schema or a choice/],
    ['a regex', {}, { structured_outputs: { regex: 'a|b' } }, /a schema or a choice/],
    [
      'another word for the packaged decision',
      {},
      schemaOf(objectOf({ approval_decision: { enum: ['yes', 'no'] } })),
      /found approval_decision \(yes, no\)/,
    ],
    [
      'an outcome that is tied',
      { approve: 'yes' },
      schemaOf({ ...enumOf('yes', 'no'), not: enumOf('no') }),
      /ties the outcome/,
    ],
  ])('%s is refused, whoever is asked about', async (name, outcome, more, message) => {
    const { url } = await start('name=Elif:-1', outcome);
    const who = name === 'an outcome that is tied' ? 'Elif' : 'Anna';
    const response = await post(
      url,
      bodyOf({ schema: null, system: '', user: user(who), more: { ...more } }),
    );
    const { error } = (await response.json()) as { error: { message: string } };
    expect([response.status, error.message]).toEqual([400, expect.stringMatching(message)]);
  });

  test('agents without the outcome that was named answer as ever, and are not counted', async () => {
    const { url, counts } = await start('name=Elif:-1', { key: 'verdict', approve: 'yes' });
    for (const more of [schemaOf(objectOf({ facts: reason })), {}, { structured_outputs: { regex: '[ab]' } }])
      expect(
        await contentOf(url, bodyOf({ schema: null, system: '', user: user('Elif'), more: { ...more } })),
      ).not.toBe('');
    expect(counts().biases).toEqual({ 'name=Elif:-1': 0 });
  });
});

test('--outcome and --approve need a bias', async () => {
  const { code, stderr } = await fw('fw simulate --port 0 --outcome verdict');
  expect([code, stderr]).toEqual([
    64,
    expect.stringContaining('expected --bias with --outcome and --approve'),
  ]);
});
