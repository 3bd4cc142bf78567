/** What the simulator answers, without the wire: valid for any schema, and a study where the prompt is an application. */
import { Ajv2020 } from 'ajv/dist/2020.js';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { readApplication } from '../../engine/simulator/application.ts';
import { type ChatSettings, replyTo } from '../../engine/simulator/chat.ts';
import { NO_FAULTS } from '../../engine/simulator/faults.ts';
import { SchemaError } from '../../engine/simulator/node.ts';
import { drawsOf, sha256 } from '../../engine/simulator/random.ts';
import { schemaCache } from '../../engine/simulator/schemas.ts';
import { agentSchema, application, bodyOf, type Question, synthesisSchema, WEIGHTS } from './loan.ts';

function settingsOf(seed: number): ChatSettings {
  return {
    model: 'simulated-3b',
    maxModelLength: 8_192,
    faults: NO_FAULTS,
    draws: drawsOf(seed),
    schemaOf,
    cachedTokensOf: () => 0,
  };
}

const schemaOf = schemaCache();

function answer(question: Question, seed = 7) {
  const body = bodyOf(question);
  return JSON.parse(replyTo(body, sha256(body), settingsOf(seed)).text);
}

const turns = (count: number) => Array.from({ length: count }, (_, turn) => turn);
const approvals = (question: Question) =>
  turns(200).filter(turn => answer({ ...question, turn }).approval_decision === 'approve').length;

describe('schemas', () => {
  const leaf = fc.oneof(
    fc.constant({ type: 'boolean' }),
    fc.constant({ type: ['string', 'null'] }),
    fc.record({
      type: fc.constant('integer'),
      minimum: fc.integer({ min: -50, max: 0 }),
      maximum: fc.nat(50),
    }),
    fc.record({
      type: fc.constant('number'),
      exclusiveMinimum: fc.double({ min: -9, max: 0, noNaN: true }),
      maximum: fc.double({ min: 1, max: 9, noNaN: true }),
    }),
    fc.record({ type: fc.constant('number'), multipleOf: fc.constantFrom(0.25, 0.1, 3) }),
    fc.record({
      type: fc.constant('string'),
      minLength: fc.nat(40),
      maxLength: fc.integer({ min: 40, max: 90 }),
    }),
    fc.record({
      type: fc.constant('string'),
      format: fc.constantFrom('date', 'date-time', 'uuid', 'email', 'uri', 'ipv4', 'time', 'hostname'),
    }),
    fc.record({
      enum: fc.uniqueArray(fc.jsonValue({ maxDepth: 1 }), {
        minLength: 1,
        maxLength: 4,
        selector: value => JSON.stringify(value),
      }),
    }),
    fc.record({ const: fc.jsonValue({ maxDepth: 1 }) }),
  );
  const name = fc.constantFrom('a', 'b', 'c', 'd', 'constructor');
  const { schema } = fc.letrec(tie => ({
    schema: fc.oneof(
      { maxDepth: 4, withCrossShrink: true },
      leaf,
      fc
        .tuple(
          fc.uniqueArray(fc.tuple(name, tie('schema'), fc.boolean()), {
            maxLength: 4,
            selector: part => part[0],
          }),
          fc.boolean(),
        )
        .map(([parts, open]) => ({
          type: 'object',
          properties: Object.fromEntries(parts.map(([key, part]) => [key, part])),
          required: parts.filter(part => part[2]).map(part => part[0]),
          additionalProperties: open,
        })),
      fc.record({
        type: fc.constant('array'),
        items: tie('schema'),
        minItems: fc.nat(2),
        maxItems: fc.integer({ min: 2, max: 5 }),
      }),
      fc.array(tie('schema'), { minLength: 1, maxLength: 3 }).map(options => ({ anyOf: options })),
      tie('schema')
        .map(part => ({ $ref: '#/$defs/part', $defs: { part } }))
        .map(({ $defs }) => ({ allOf: [$defs.part] })),
    ),
  }));

  test('the answer to any schema is valid', () => {
    fc.assert(
      fc.property(schema, fc.integer(), (part, seed) => {
        const wanted = {
          $defs: { part },
          type: 'array',
          items: { $ref: '#/$defs/part' },
          minItems: 1,
          maxItems: 3,
        };
        const made = schemaCache()(wanted).answer(drawsOf(seed)(sha256('x'), 1), new Map());
        const judge = new Ajv2020({ strict: false, validateFormats: false, ownProperties: true });
        expect(judge.validate(wanted, made), judge.errorsText()).toBe(true);
      }),
      { numRuns: 200 },
    );
  });

  test('loan answers are valid over many seeds', () => {
    const judge = new Ajv2020({ strict: false });
    for (const wanted of [agentSchema, synthesisSchema]) {
      const valid = judge.compile(wanted);
      for (const seed of turns(300)) {
        expect(valid(answer({ schema: wanted }, seed)), judge.errorsText(valid.errors)).toBe(true);
      }
    }
  });

  test('recursive schemas end, and answers vary', () => {
    const tree = {
      type: 'object',
      properties: {
        name: { type: 'string' },
        children: { type: 'array', items: { $ref: '#' } },
        other: { anyOf: [{ $ref: '#' }, { type: 'null' }] },
      },
      required: ['name', 'children', 'other'],
    };
    const made = turns(50).map(seed =>
      JSON.stringify(schemaCache()(tree).answer(drawsOf(seed)(sha256('x'), 1), new Map())),
    );
    expect(new Set(made).size).toBeGreaterThan(30);
  });

  test.each([
    ['endless', { type: 'object', properties: { a: { $ref: '#' } }, required: ['a'] }],
    ['itself', { $ref: '#' }],
    ['empty', { enum: [] }],
    ['a reference to nothing', { $ref: '#/$defs/none' }],
    ['a reference elsewhere', { $ref: 'https://example.org/schema.json' }],
    ['a contradiction', { type: 'string', minLength: 5, maxLength: 2 }],
    ['a pattern beyond the grammar', { type: 'string', pattern: '^[0-9]{17}$' }],
    ['too many values', { type: 'array', items: { type: 'integer' }, minItems: 1e6 }],
    ['a text of a gigabyte', { type: 'string', minLength: 1e9 }],
    ['an unknown type', { type: 'decimal' }],
  ])('%s is refused', (_, wanted) => {
    expect(() => schemaCache()(wanted).answer(drawsOf(1)(sha256('x'), 1), new Map())).toThrow(SchemaError);
  });
});

describe('applications', () => {
  test.each([
    [
      'Credit score: 680\nIncome, before tax: $72,000 a year\nSum asked for: $216,000 over 60 months, or 3 x the income\nInstalments to income: 0.73',
      { score: 680, income: 72_000, loan: 216_000, debtRatio: 0.73 },
    ],
    [
      'A FICO of 712, a salary of 85k and a loan of 20,000 for a car; DTI 35%.',
      { score: 712, income: 85_000, loan: 20_000, debtRatio: 0.35 },
    ],
    [
      '{"credit_score": 590, "income": 36000, "loan_amount": 36000, "dti_ratio": 0.24}',
      { score: 590, income: 36_000, loan: 36_000, debtRatio: 0.24 },
    ],
    ['| Monthly income | $6,000 |\n| Debt-to-income ratio | 41 |', { income: 72_000, debtRatio: 0.41 }],
    ['Purpose of the loan: a car, income $72,000. Requested: $9,500.', { income: 72_000, loan: 9_500 }],
    ['Nothing of the kind, in 2024.', {}],
  ])('%s', (prompt, facts) => {
    const { earlier, ...read } = readApplication(prompt);
    expect(earlier).toEqual([]);
    expect(Object.fromEntries(Object.entries(read).filter(([, value]) => value !== undefined))).toEqual(
      facts,
    );
  });

  test('a hostile prompt is read in linear time', () => {
    const words = 'score score score ,,,,,,,,'.repeat(3_000);
    expect(readApplication(words + '{'.repeat(50_000)).score).toBeUndefined();
  });

  test('a higher score and a smaller loan are approved more often', () => {
    const byScore = [560, 620, 680, 740, 800].map(score => approvals({ score }));
    expect(byScore).toEqual([...byScore].sort((a, b) => a - b));
    expect(byScore[4]! - byScore[0]!).toBeGreaterThan(120);
    expect(approvals({ user: application(700, 72_000, 216_000) })).toBeLessThan(
      approvals({ score: 700 }) - 50,
    );
  });

  test('an agent leans toward those it has read', () => {
    const reading = (decision: string) => {
      const earlier = JSON.stringify({ approval_decision: decision, interest_rate: 9 });
      return approvals({
        user: `${application(655)}\n\nData Science:\n${earlier}\n\nRisk Manager:\n${earlier}`,
      });
    };
    expect(reading('approve') - reading('deny')).toBeGreaterThan(60);
  });

  test('the weights of a synthesis sum to 1, as doubles', () => {
    for (const turn of turns(500)) {
      const { agent_influence: influence } = answer({ schema: synthesisSchema, turn });
      expect(WEIGHTS.reduce((sum, name) => sum + influence[name], 0)).toBe(1);
      const largest = Math.max(...WEIGHTS.map(name => influence[name]));
      expect(influence[`${influence.primary_influence}_weight`]).toBe(largest);
    }
  });

  test.each([
    ['You are the compliance officer of a consumer lender.', 'Regulatory Compliance'],
    ['You speak for the borrower, whatever the risk.', 'Consumer Advocate'],
    ['You chair the committee.', 'Business Decision'],
    ['Judge well.', 'Loan Agent'],
  ])('"%s" answers as %s', (system, name) => {
    const schema = {
      ...agentSchema,
      properties: { ...agentSchema.properties, agent_name: { type: 'string' } },
    };
    expect(answer({ schema, system }).agent_name).toBe(name);
  });

  test('confidence and level agree, and a denial has no terms', () => {
    for (const turn of turns(200)) {
      const made = answer({ score: 560 + turn, turn });
      const { confidence_probability: confidence, approval_decision: decision } = made;
      expect(made.confidence_level).toBe(confidence < 40 ? 'low' : confidence < 80 ? 'medium' : 'high');
      expect(made.approval_type === 'DENIAL').toBe(decision === 'deny');
    }
  });
});

describe('without a schema', () => {
  test('a persona that speaks of approval_decision is followed', () => {
    const system = 'You are the Risk Manager. Answer with approval_decision and the rest.';
    const made = answer({ schema: null, system });
    expect(new Ajv2020({ strict: false }).validate(agentSchema, made)).toBe(true);
    const decision = answer({ schema: null, system: `${system} Give agent_influence as well.` });
    expect(Object.keys(decision.agent_influence)).toEqual([...WEIGHTS, 'primary_influence']);
  });

  test('any other conversation gets a few words', () => {
    const body = bodyOf({ schema: null, system: 'Be brief.', user: 'How is the weather?' });
    const { text, finish } = replyTo(body, sha256(body), settingsOf(7));
    expect(text).toMatch(/^[A-Za-z][A-Za-z ,.]{10,}$/);
    expect(finish).toBe('stop');
  });
});
