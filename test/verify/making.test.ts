/** What a verdict refuses because its record contradicts itself, and what it takes for a result. Each row passed before. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { answerSchemas } from '../../engine/audit/legacy/answer-schemas.ts';
import { provenanceOf } from '../../engine/audit/legacy/legacy-result.ts';
import { findInLegacy } from '../../engine/audit/legacy/strict.ts';
import { findInItem } from '../../engine/audit/legacy/strict-items.ts';
import { judgeLines } from '../../engine/audit/verdict.ts';
import { ACCEPTED, type Item, type Rung, rungOf } from '../../engine/core/item/item.ts';
import { type JsonObject, setAt } from '../../engine/core/json/pointer.ts';
import { openVouchers } from '../../engine/flow/provenance.ts';
import { folder } from '../fw.ts';
import { fw } from '../here.ts';
import { chunked, readAll } from './reading.ts';
import { agents, itemOf, resultOf, withSaw } from './results.ts';

const schemas = answerSchemas({}, '.');
const accepted = new Set<Rung>(ACCEPTED);
const item = itemOf(3);
const output = item.steps?.[0]?.output as JsonObject;
const said = (change: JsonObject): string => JSON.stringify({ ...output, ...change });
const entry = (at: string, from: unknown, to: unknown, rule = 'percent') => ({ rule, at, from, to });
const rate = output.interest_rate;

const UNTRUE: [string, JsonObject, string][] = [
  ['another decision in its text', { raw: said({ approval_decision: 'other' }) }, 'output/approval_decision'],
  ['a text that is no JSON', { raw: 'nonsense' }, 'raw'],
  ['a text that is none', { raw: 7 }, 'raw'],
  ['a text with a second value for a key', { raw: `{"loan_type":"x",${said({}).slice(1)}` }, 'raw'],
  [
    'a change that its text did not need',
    { raw: said({}), rung: 'coerced', repairs: [entry('/interest_rate', 1, 7)] },
    'output/interest_rate',
  ],
  [
    'a change at a place that is not there',
    { rung: 'coerced', repairs: [entry('/nowhere', 1, 7)] },
    'output/nowhere',
  ],
  [
    'a change inside what is not there',
    { rung: 'coerced', repairs: [entry('/no/where', 1, 7)] },
    'output/no/where',
  ],
  [
    'a change that took away what is there',
    { rung: 'coerced', repairs: [{ rule: 'flat-to-nested', at: '/interest_rate', from: 1 }] },
    'output/interest_rate',
  ],
  [
    'a change to another value',
    { rung: 'coerced', repairs: [entry('/interest_rate', '99%', 99)] },
    'output/interest_rate',
  ],
  ['an entry that is none', { rung: 'coerced', repairs: [{ rule: 'percent' }] }, 'repairs/0'],
  ['entries that are no list', { repairs: { rule: 'percent' } }, 'repairs'],
  [
    'a better rung than its changes',
    { repairs: [entry('/interest_rate', null, rate, 'null-default')] },
    'rung',
  ],
  [
    'a better rung than a change of no rule',
    { repairs: [entry('/interest_rate', 'x', rate, 'made-up')] },
    'rung',
  ],
];

describe('a record that contradicts itself', () => {
  test.each(UNTRUE)('%s is refused, of a step and of the decision', (_name, change, below) => {
    for (const at of ['steps/0', 'decision']) {
      const step = { ...item.decision, ...change } as never;
      const own = { ...item.steps?.[0], ...change } as never;
      const found = findInItem(
        at === 'decision'
          ? { ...item, decision: step }
          : { ...item, steps: [own, ...(item.steps ?? []).slice(1)] },
        accepted,
        schemas,
      );
      // the decision has another answer, so that its text differs somewhere else
      const place = at === 'decision' ? expect.stringMatching(/^\/decision\//) : `/${at}/${below}`;
      expect(found.map(one => one.at)).toContainEqual(place);
    }
  });

  test('becomes no legacy result, and nothing vouches for it', async () => {
    const at = folder();
    const lines = UNTRUE.map(([, change], i) => ({
      ...item,
      id: `${i}`,
      steps: [{ ...item.steps?.[0], ...change }, ...(item.steps ?? []).slice(1)],
    }));
    writeFileSync(join(at, 'items.ndjson'), lines.map(line => `${JSON.stringify(line)}\n`).join(''));
    const made = await fw(
      'fw legacy-convert --provenance how.ndjson items.ndjson | wc -l; cat how.ndjson | wc -l',
      { cwd: at },
    );
    expect(made.stdout.replace(/\s+/g, ' ').trim()).toBe('0 0');
  });

  test.each([
    ['its text with blanks', { raw: JSON.stringify(output, null, 1) }],
    [
      'a change that its text needed',
      { rung: 'coerced', raw: said({ interest_rate: 'x' }), repairs: [entry('/interest_rate', 'x', rate)] },
    ],
    [
      'changes whose text nobody kept',
      { rung: 'coerced', repairs: [entry('/interest_rate', 'x', 1), entry('/interest_rate', 1, rate)] },
    ],
    ['the mark of one that was read back', { rung: 'unknown', repairs: [{ rule: 'read-back', at: '' }] }],
  ])('but not one with %s', (_name, change) => {
    const steps = [{ ...item.steps?.[0], ...change }, ...(item.steps ?? []).slice(1)] as never;
    expect(findInItem(withSaw({ ...item, steps }), accepted, schemas)).toEqual([]);
  });
});

test.each([0, null])('a decision whose confidence is %j is asked again, and is no result', confidence => {
  const decision = {
    ...item.decision,
    output: { ...(item.decision?.output as JsonObject), confidence_probability: confidence },
  };
  const found = findInItem({ ...item, decision } as Item, accepted, schemas);
  expect(found.map(({ at }) => at)).toEqual(['/decision/output/confidence_probability']);
});

test('turns that show another applicant are refused by name, and are not read back', async () => {
  const at = folder();
  for (const turn of [0, 1, 3]) {
    const other = (resultOf(7).conversation_history as JsonObject[])[turn];
    const mixed = setAt(
      resultOf(3),
      ['conversation_history', `${turn}`, 'input'],
      other?.input,
    ) as JsonObject;
    const place = `/conversation_history/${turn}/input`;
    expect(findInLegacy(mixed, schemas)).toMatchObject([
      { code: 'not-strict', at: place, expected: 'the text of initial_prompt' },
    ]);
    writeFileSync(join(at, 'mixed.ndjson'), JSON.stringify(mixed));
    const read = await fw('fw ingest --format legacy mixed.ndjson', { cwd: at });
    expect(JSON.parse(read.stdout).failure).toMatchObject({
      code: 'not-strict',
      message: expect.stringContaining(place),
    });
  }
  const wrapped = setAt(
    resultOf(3),
    ['conversation_history', '0', 'input'],
    `Task:\n${resultOf(3).initial_prompt}\nAnswer.`,
  );
  expect(findInLegacy(wrapped as JsonObject, schemas)).toEqual([]);
});

test.each([
  [
    'a legacy result with an id',
    { ...resultOf(1), id: 'x', conversation_history: [], business_decision: { approval_decision: null } },
    'legacy results',
    'failed',
    0,
  ],
  ['a good legacy result', resultOf(1), 'legacy results', 'unknown', 1],
  [
    'an item whose steps are misspelt',
    { id: 'a', stepss: [], decision: null },
    'other records',
    'unknown',
    0,
  ],
  ['a record with a mark', { n: 1, _fw: { rung: 'coerced', repairs: [] } }, 'other records', 'unknown', 0],
])('%s is counted as what it is', (_name, line, kind, rung, counted) => {
  for (const [accept, passes] of [
    [ACCEPTED, rung !== 'failed'],
    [['clean', 'repaired', 'coerced'], false],
  ] as const) {
    const by = { stage: 'verify', accept: new Set(accept as Rung[]), schemas, expect: 1, maxLine: 1 << 20 };
    const { judge, close } = judgeLines(by);
    const after = judge({ ...line } as unknown as Item);
    const verdict = close();
    expect(rungOf(after)).toBe(passes ? rung : 'failed');
    expect(verdict.kinds.get(kind)).toEqual({ accepted: passes ? 1 : 0, refused: passes ? 0 : 1 });
    expect(verdict.accepted).toBe(passes ? counted : 0);
    expect(verdict.findings.length).toBe(passes && counted ? 0 : 1);
    expect(verdict.read).toBe(Object.values(verdict.rungs).reduce((sum, times) => sum + times));
  }
});

describe('of two lines of provenance for the same answers', () => {
  const result = resultOf(3);
  const of = (rung: Rung, repairs: JsonObject[] = []): JsonObject => {
    const line = { ...provenanceOf(item, result, agents), rung };
    return {
      ...line,
      agents: line.agents.map((agent, i) =>
        i === 0 ? { ...agent, rung, repairs } : { ...agent, saw: rung },
      ),
    };
  };
  test.each([
    ['clean', 'defaulted', 'defaulted'],
    ['clean', 'coerced', 'coerced'],
    ['repaired', 'unknown', 'unknown'],
    ['clean', 'failed', 'unknown'],
  ] as const)('%s and %s, the worse counts, whichever comes first', async (one, other, wins) => {
    for (const lines of [
      [of(one), of(other)],
      [of(other), of(one)],
    ])
      expect(await rungBy(lines)).toBe(wins);
  });

  test('one that is better than its own changes is not believed', async () => {
    const filled = [{ rule: 'null-default', at: '/interest_rate', from: null, to: 1 }];
    for (const rung of ['clean', 'repaired', 'coerced', 'unknown'] as const)
      expect(await rungBy([of(rung, filled)])).toBe('unknown');
    expect(await rungBy([of('defaulted', filled)])).toBe('defaulted');
    expect(await rungBy([of('clean')])).toBe('clean');
  });

  async function rungBy(lines: readonly JsonObject[]): Promise<Rung> {
    const path = join(folder(), 'how.ndjson');
    writeFileSync(path, lines.map(line => `${JSON.stringify(line)}\n`).join(''));
    const vouchers = await openVouchers([path], { stage: 'verify', maxLine: 1 << 20 });
    return rungOf(vouchers.vouch(resultOf(3)));
  }
});

test.each([
  ['{"results":[R],"status":"incomplete","status":"complete"}', '/status'],
  ['{"status":"incomplete","results":[R],"status":"complete"}', '/status'],
  ['{"metadata":{},"metadata":{},"results":[R],"status":"complete"}', '/metadata'],
  ['{"results":[R],"status":"complete","results":[]}', '/results'],
  ['{"results":[R],"metadata":{"count":3,"count":1},"status":"complete"}', '/metadata/count'],
  ['{"results":[R],"metadata":{"count":"1"},"status":"complete"}', '/metadata/count'],
  ['{"metadata":{"count":1.5},"results":[R],"status":"complete"}', '/metadata/count'],
  ['{"metadata":{"count":null},"results":[R],"status":"complete"}', '/metadata/count'],
])('the document %s is refused by name', async (text, at) => {
  const { items } = await readAll([chunked(text.replace('R', JSON.stringify(resultOf(1))), [1000])], {
    documents: true,
  });
  const failures = items.flatMap(({ failure }) => failure ?? []);
  expect(failures).toMatchObject([
    { code: 'not-strict', message: expect.stringContaining(`${at}: expected`) },
  ]);
});

test('select passes the line that says that its input is incomplete, whatever is asked for', async () => {
  const end = '{"id":null,"failure":{"stage":"chain","code":"input-incomplete","message":"ended with 69"}}';
  const failed = '{"id":"b","failure":{"stage":"chain","code":"call-failed","message":"no"}}';
  for (const [options, lines] of [
    ['--no-failed', 1],
    ['--failed', 2],
    ['--rung clean', 1],
    ['--id a', 1],
  ]) {
    const { stdout } = await fw(`printf '%s\\n' '${failed}' '${end}' | fw select ${options}`);
    expect(stdout.trim().split('\n')).toHaveLength(lines as number);
    expect(stdout).toContain('input-incomplete');
  }
});
