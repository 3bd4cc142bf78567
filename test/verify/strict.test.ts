import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { loadAgents } from '../../engine/asking/agents/load-agents.ts';
import { answerSchemas } from '../../engine/audit/legacy/answer-schemas.ts';
import { legacyResult } from '../../engine/audit/legacy/legacy-result.ts';
import { findInLegacy } from '../../engine/audit/legacy/strict.ts';
import { findInItem } from '../../engine/audit/legacy/strict-items.ts';
import { ACCEPTED, type Item, idOf, type Rung, rungOf } from '../../engine/core/item/item.ts';
import { type JsonObject, join as pointer, setAt } from '../../engine/core/json/pointer.ts';
import { runs } from '../all.ts';
import { folder, ROOT } from '../fw.ts';

const agents = loadAgents(join(ROOT, 'pipelines/fairwatch/agents'));
const item: Item = JSON.parse(readFileSync(join(ROOT, 'fixtures/decided.ndjson'), 'utf8'));
const result = (): JsonObject =>
  JSON.parse(JSON.stringify(legacyResult(item, agents, '2026-03-01T09:30:00Z')));
const schemas = answerSchemas({}, '.');
const accepted = new Set<Rung>(ACCEPTED);

const pointerTo = (tokens: readonly string[]): string => tokens.reduce(pointer, '');

/** Every place in a value, as tokens of a pointer. */
function placesIn(value: unknown, at: string[] = []): string[][] {
  if (typeof value !== 'object' || value === null) return [at];
  return [
    ...(at.length > 0 ? [at] : []),
    ...Object.entries(value).flatMap(([key, below]) => placesIn(below, [...at, key])),
  ];
}

describe("answers of a user's own agents", () => {
  const at = folder();
  writeFileSync(
    join(at, 'sort.yaml'),
    `{ key: sort, short: sort, display: Sort, role: agent, sampling: { temperature: 0, max_tokens: 50 },
       schema: { type: object, required: [kind], properties: { kind: { type: string }, note: { type: [string, 'null'] } } } }`,
  );
  const answered = (output: object): Item =>
    ({
      ...{ id: 'x', prompt: 'p' },
      steps: [{ agent: 'sort', output, rung: 'clean', saw: 'clean', repairs: [], calls: [], attempts: 1 }],
    }) as unknown as Item;
  const texts = ['System Error', 'Parsing Failure', 'text', 'reason', 'a|b', '...', '<b>', 'String', ' '];

  test('may be any text that fits the schema', () => {
    for (const kind of texts) {
      expect(
        findInItem(answered({ kind, note: null }), accepted, answerSchemas({ agents: at }, '.')),
        kind,
      ).toEqual([]);
      const below = { kind: 'a', note: 'b', output: { final_output: [kind] } };
      expect(findInItem(answered(below), accepted, answerSchemas({ agents: at }, '.')), kind).toEqual([]);
    }
    const missing = findInItem(answered({ kind: null }), accepted, answerSchemas({ agents: at }, '.'));
    expect(missing.map(({ rule }) => rule)).toEqual(['null']);
  });

  test('are in its own words where folder.yaml says so', () => {
    writeFileSync(join(at, 'folder.yaml'), 'own_words: true\n');
    for (const kind of texts) {
      const [found] = findInItem(answered({ kind }), accepted, answerSchemas({ agents: at }, '.'));
      expect([found?.at, found?.code], kind).toEqual([
        ...['/steps/0/output/kind', expect.stringMatching(/^(?:sentinel|placeholder)-text$/)],
      ]);
    }
  });
});

describe('a legacy result', () => {
  test('as it is written is strict', () => {
    expect(findInLegacy(result(), schemas)).toEqual([]);
  });

  test('with a null anywhere is refused, and the place is named', () => {
    for (const place of placesIn(result())) {
      const found = findInLegacy(setAt(result(), place, null) as JsonObject, schemas);
      expect(
        found.map(finding => [finding.at, finding.got]),
        place.join('/'),
      ).toContainEqual([pointerTo(place), 'null']);
    }
  });

  test.each(['System Error', 'Parsing Failure', 'Manual Review Required'])(
    'with "%s" in any reason is refused',
    text => {
      const reasons = placesIn(result()).filter(
        place => place.includes('reasoning') && place.at(-1) !== 'reasoning',
      );
      expect(reasons.length).toBeGreaterThan(30);
      for (const place of reasons) {
        const found = findInLegacy(setAt(result(), place, `It says: ${text}.`) as JsonObject, schemas);
        expect(found.map(({ code, at }) => [code, at])).toEqual([['sentinel-text', pointerTo(place)]]);
      }
    },
  );

  test.each([
    ['system error', 'sentinel-text'],
    ['SYSTEM ERROR: timed out', 'sentinel-text'],
    ['It says: System  Error.', 'sentinel-text'],
    ['System\u00a0Error', 'sentinel-text'],
    ['[system_error] no answer', 'sentinel-text'],
    ['parsing failure', 'sentinel-text'],
    ['manual review required.', 'sentinel-text'],
    ['\u200b', 'placeholder-text'],
    ['\u3164', 'placeholder-text'],
    [' \u2800\ufeff\u00ad ', 'placeholder-text'],
    ['   ', 'placeholder-text'],
    ['\u200b'.repeat(200), 'placeholder-text'],
    ['The system error rate of this lender is low.', null],
    ['A manual review required by law was done.', null],
    ['System errors are not at issue here.', null],
    ['Manual review required documents, which are all there.', null],
    ['\u200bIncome is high.', null],
    ['収入が高い', null],
    ['\u1112\u1161\u11ab', null],
  ])('with %j as a reason: %s', (text, code) => {
    for (const key of ['risk_assessment', 'weight_justification']) {
      const found = findInLegacy(
        setAt(result(), ['business_decision', 'reasoning', key], text) as JsonObject,
        schemas,
      );
      expect(found.map(each => each.code)).toEqual(code === null ? [] : [code]);
    }
  });

  test.each([
    ['0000-01-01T00:00:00Z', 1],
    ['0000-02-29T00:00:00', 1],
    ['0001-01-01T00:00:00', 0],
    ['2024-02-29T00:00:00', 0],
    ['2023-02-29T00:00:00', 1],
  ])('of %s: %i findings', (timestamp, count) => {
    expect(findInLegacy({ ...result(), timestamp }, schemas)).toHaveLength(count);
  });

  test('with error texts or placeholders in what was asked is none the worse', () => {
    const text = 'System Error: ... <reason>';
    const turns = result().conversation_history as { input: string }[];
    const before = result().initial_prompt as string;
    const asked = {
      ...result(),
      initial_prompt: text,
      conversation_history: turns.map(turn => ({ ...turn, input: text + turn.input.slice(before.length) })),
    };
    expect(findInLegacy(asked, schemas)).toEqual([]);
  });

  test.each([
    '...',
    '…',
    'string',
    ' Text ',
    '<reason>',
    '<your reason here>',
    'approve | deny',
    '"low" | "medium"',
  ])('with the placeholder %j is refused', text => {
    const found = findInLegacy(
      setAt(result(), ['business_decision', 'approval_type'], text) as JsonObject,
      schemas,
    );
    expect(found.map(finding => finding.code)).toEqual(['placeholder-text']);
  });

  test.each([
    'A string of payments.',
    'Text messages confirm it...',
    'x < y and y > z',
    '<b>Sound</b> file',
    'either | or, as it were',
    'Not provided',
  ])('with the reason %j is one', text => {
    const place = ['business_decision', 'reasoning', 'risk_assessment'];
    expect(findInLegacy(setAt(result(), place, text) as JsonObject, schemas)).toEqual([]);
  });

  test('no object makes the rules throw', () => {
    const keys = fc.constantFrom(...Object.keys(result()), 'agent', 'output', '__proto__', 'toString');
    const odd = fc.letrec(tie => ({
      value: fc.oneof(
        { maxDepth: 4, withCrossShrink: true },
        fc.jsonValue(),
        fc.array(tie('value'), { maxLength: 3 }),
        fc.dictionary(keys, tie('value'), { maxKeys: 9 }),
      ),
    })).value;
    const property = fc.property(fc.dictionary(keys, odd, { maxKeys: 9 }), record => {
      idOf(record);
      rungOf(record);
      expect(findInLegacy(record, schemas).length).toBeGreaterThan(0);
      expect(
        findInItem(
          { id: 'a', ...record, steps: [record.output, record] } as unknown as Item,
          accepted,
          schemas,
        ).length,
      ).toBeGreaterThan(0);
    });
    fc.assert(property, { seed: 20261120, numRuns: runs(100, 2000) });
  });
});

describe('an item', () => {
  test('as it was answered is accepted', () => {
    expect(findInItem(item, accepted, schemas)).toEqual([]);
  });

  test.each(['defaulted', 'failed'] as const)(
    'with a step on the rung %s is refused, and the step is named',
    rung => {
      const steps = item.steps ?? [];
      for (const [index, step] of steps.entries()) {
        const changed = { ...item, steps: steps.with(index, { ...step, rung }) };
        expect(findInItem(changed, accepted, schemas)).toMatchObject([
          { code: 'not-accepted', at: `/steps/${index}/rung`, got: `"${rung}" ("${step.agent}")` },
        ]);
      }
    },
  );
});

describe('results of other agents than the packaged ones', () => {
  const named = (agent: string): JsonObject => {
    const changed = result() as { conversation_history: JsonObject[]; all_agent_outputs: JsonObject[] };
    for (const [at, turn] of changed.conversation_history.entries()) {
      turn.agent = `${agent}${at}`;
      // not an answer that the packaged agents may give
      turn.output = { ...(turn.output as JsonObject), interest_rate: 900 };
      changed.all_agent_outputs[at] = turn.output as JsonObject;
    }
    return changed as unknown as JsonObject;
  };

  test.each(['triage', 'risk-manager', 'Risk', ''])('%s: the first finding names --agents', agent => {
    const [first] = findInLegacy(named(agent), schemas);
    expect(first).toMatchObject({
      code: 'unknown-agent',
      at: '/conversation_history/0/agent',
      expected: 'an agent of the packaged FairWatch (--agents FOLDER judges by others)',
      got: `"${agent}0"`,
    });
  });

  test('but not where the agents are known, whatever else is wrong', () => {
    const wrong = result() as { conversation_history: { output: JsonObject }[] };
    (wrong.conversation_history[0] as { output: JsonObject }).output = {};
    const found = findInLegacy(wrong as unknown as JsonObject, schemas);
    expect(found.length).toBeGreaterThan(0);
    expect(found.filter(({ code }) => code === 'unknown-agent')).toEqual([]);
  });
});

test('agents that are named say what their answers and their decision have', () => {
  const crew = folder();
  const agentFile = (key: string, role: string): void =>
    writeFileSync(
      join(crew, `${key}.yaml`),
      `key: ${key}\nshort: ${key}\ndisplay: ${key}\nrole: ${role}\npersona: x\nsampling: { temperature: 0, max_tokens: 9 }\n` +
        'schema: { type: object, required: [urgency], additionalProperties: false, properties: { urgency: { enum: [low, high] } } }\n',
    );
  agentFile('triage', 'agent');
  agentFile('decider', 'synthesis');
  const own = answerSchemas({ agents: crew }, '.');
  const step = (agent: string) => ({
    agent,
    output: { urgency: 'low' },
    raw: '{"urgency":"low"}',
    rung: 'clean',
  });
  const asked = {
    ...item,
    ordering: ['triage'],
    steps: [step('triage')],
    decision: step('decider'),
  } as unknown as Item;
  const made = (): JsonObject =>
    JSON.parse(JSON.stringify(legacyResult(asked, loadAgents(crew), '2026-03-01T09:30:00Z')));
  expect(findInLegacy(made(), own)).toEqual([]);
  expect(findInLegacy(made(), schemas)[0]).toMatchObject({ code: 'unknown-agent' });
  for (const at of [
    '/business_decision',
    '/conversation_history/0/output',
    '/all_agent_outputs/0',
    '/final_output',
  ])
    for (const [key, value] of [
      ['urgency', 'never'],
      ['urgency', null],
      ['more', 1],
    ] as const) {
      const place = [...at.split('/').slice(1), key];
      expect(findInLegacy(setAt(made(), place, value) as JsonObject, own), `${at}/${key}`).not.toEqual([]);
    }
  expect(findInLegacy(setAt(made(), ['business_decision'], {}) as JsonObject, own)).not.toEqual([]);
});
