/** What the simulator answers, without the wire: valid for any schema, and a study where the prompt is an application. */
import { Ajv2020 } from 'ajv/dist/2020.js';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type ChatSettings, completionOf, replyTo } from '../../products/simulator/chat.ts';
import { embeddingsOf } from '../../products/simulator/embeddings.ts';
import { faultsFrom, NO_FAULTS } from '../../products/simulator/faults.ts';
import { readApplication } from '../../products/simulator/loans/application.ts';
import { SchemaError } from '../../products/simulator/node.ts';
import { drawsOf, sha256 } from '../../products/simulator/random.ts';
import { Refusal } from '../../products/simulator/refusal.ts';
import { schemaCache } from '../../products/simulator/schemas.ts';
import { every, runs } from '../all.ts';
import { agentSchema, application, bodyOf, type Question, synthesisSchema, WEIGHTS } from './loan.ts';

function settingsOf(seed: number): ChatSettings {
  return {
    model: 'simulated-3b',
    maxModelLength: 8_192,
    faults: NO_FAULTS,
    draws: drawsOf(seed),
    schemaOf,
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

/** Each definition refers to the next one twice. */
function doubling(leaf: object, count: number): object {
  const to = (name: number) => ({ $ref: `#/$defs/${name}` });
  const defs = turns(count).map(name => [name, { anyOf: [to(name + 1), to(name + 1)] }]);
  return { $defs: Object.fromEntries([...defs, [count, leaf]]), ...to(0) };
}

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
      { numRuns: runs(20, 200) },
    );
  });

  test('loan answers are valid over many seeds', () => {
    const judge = new Ajv2020({ strict: false });
    for (const wanted of [agentSchema, synthesisSchema]) {
      const valid = judge.compile(wanted);
      for (const seed of turns(runs(100, 300, 'SEEDS'))) {
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
    '^[0-9]{17}$',
    '^[A-Z]{2,3}-\\d{4}(?:\\.[a-f0-9]+)?$',
    '^(?<year>19|20)\\d\\d/(?:0[1-9]|1[0-2])$',
    '^[^\\s@]+@[\\w.-]+\\.(com|org)$',
    '^\\+?[1-9][0-9]{1,14}$',
    '[\\u00e9\\x41-C\\]-]{3}\\n\\W\\S.$',
    '^(a|b*c{2}|(?:d?e)+?){1,3}$',
    '\\S',
  ])('a text for the pattern %s', pattern => {
    const { answer } = schemaCache()({ type: 'string', pattern });
    const made = turns(40).map(seed => answer(drawsOf(seed)(sha256('x'), 1), new Map()) as string);
    for (const text of made) expect(text).toMatch(new RegExp(pattern, 'u'));
    expect(new Set(made).size).toBeGreaterThan(10);
  });

  test('a pattern is asked for only where words do not do', () => {
    const { answer } = schemaCache()({ type: 'string', pattern: '\\S', minLength: 30 });
    expect(answer(drawsOf(1)(sha256('x'), 1), new Map())).toMatch(/^[A-Za-z][a-z ,.A-Z]{29,}$/);
  });

  test('a map has entries of its own, as many as it must', () => {
    const schema = { type: 'object', additionalProperties: { type: 'integer' }, minProperties: 2 };
    const { answer } = schemaCache()(schema);
    const made = turns(40).map(seed => answer(drawsOf(seed)(sha256('x'), 1), new Map()) as object);
    const sizes = new Set(made.map(each => Object.keys(each).length));
    expect(Math.min(...sizes)).toBe(2);
    expect(sizes.size).toBeGreaterThan(1);
    const open = schemaCache()({ type: 'object', properties: { a: { const: 1 } }, minProperties: 3 });
    expect(Object.keys(open.answer(drawsOf(1)(sha256('x'), 1), new Map()) as object)).toHaveLength(3);
  });

  test.each([
    ['endless', { type: 'object', properties: { a: { $ref: '#' } }, required: ['a'] }],
    ['itself', { $ref: '#' }],
    ['empty', { enum: [] }],
    ['a reference to nothing', { $ref: '#/$defs/none' }],
    ['a reference elsewhere', { $ref: 'https://example.org/schema.json' }],
    ['a contradiction', { type: 'string', minLength: 5, maxLength: 2 }],
    ['a pattern that looks ahead', { type: 'string', pattern: '^(?=[0-9]{17}$)' }],
    ['a pattern that looks back', { type: 'string', pattern: '^([0-9])-\\1$' }],
    ['a pattern of a gigabyte', { type: 'string', pattern: '^(?:[0-9]{99999}){9999}$' }],
    ['a pattern of nothing, for ever', { type: 'string', pattern: '^(?:(?:(?:){99999}){99999}){99999}x$' }],
    ['a pattern that backtracks', { type: 'string', pattern: '^(\\w+\\s?)*!$', minLength: 50 }],
    ...every(3, [
      ['references that multiply', doubling({ type: 'string', not: { type: 'string' } }, 40)],
      ['a fixed text and such a pattern', { enum: [`${'a'.repeat(60)}!`], pattern: '^(a+)+$' }],
      [
        'a name and such a pattern',
        { required: [`${'a'.repeat(60)}!`], patternProperties: { '^(a+)+$': {} } },
      ],
    ] as [string, object][]),
    ['a pattern beyond the engine', { type: 'string', pattern: 'a'.repeat(1e6), minLength: 1 }],
    ['more names than parts', { required: turns(200_000).map(String) }],
    ['more choices than parts', { anyOf: turns(200_000).map(() => true), maxLength: -1 }],
    ['a map of a billion', { type: 'object', minProperties: 1e9 }],
    ['four million characters', { enum: ['x'.repeat(4 * 1024 * 1024)] }],
    ['too many values', { type: 'array', items: { type: 'integer' }, minItems: 1e6 }],
    ['a text of a gigabyte', { type: 'string', minLength: 1e9 }],
    ['an unknown type', { type: 'decimal' }],
  ])('%s is refused', (_, wanted) => {
    expect(() => schemaCache()(wanted).answer(drawsOf(1)(sha256('x'), 1), new Map())).toThrow(SchemaError);
  });
});

test('what only shows while an answer is made is a refusal too', () => {
  const body = bodyOf({ schema: { $dynamicRef: '#nowhere' } });
  expect(() => replyTo(body, sha256(body), settingsOf(1))).toThrow(Refusal);
});

test('the same answers on every machine', () => {
  const settings = { ...settingsOf(7), faults: faultsFrom('all=0.1') };
  const said = turns(400).map(turn => {
    const question = [
      {},
      { schema: synthesisSchema },
      { schema: null },
      { system: 'Be brief.', schema: null },
    ];
    const body = bodyOf({ ...question[turn % 4], turn });
    return replyTo(body, sha256(body), settings);
  });
  const body = JSON.stringify({ input: 'some words of a text' });
  said.push(embeddingsOf(body, sha256(body), settings));
  // made on Node 20; another Node, or another processor, has to say the same
  expect(
    sha256(JSON.stringify(said.map(({ text, finish, faults }) => [text, finish, faults]))).toString('hex'),
  ).toBe('29ebd04a35dd2ee3e410bd50a5692ab14bcf9735150860a8a893e0ed635831b3');
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

  test('structured_outputs gives one of the choices, or a text of the expression', () => {
    const said = (structured_outputs: object, turn: number) => {
      const body = bodyOf({ schema: null, system: 'Be brief.', turn, more: { structured_outputs } });
      return replyTo(body, sha256(body), settingsOf(7)).text;
    };
    const chosen = new Set(turns(30).map(turn => said({ choice: ['yes', 'no', 'perhaps'] }, turn)));
    expect(chosen).toEqual(new Set(['yes', 'no', 'perhaps']));
    for (const turn of turns(10)) expect(said({ regex: 'v\\d+\\.\\d' }, turn)).toMatch(/^v\d+\.\d$/);
    expect(() => said({ regex: '(?=x)' }, 0)).toThrow(/it looks around/);
    expect(() => said({ grammar: 'root ::= "x"' }, 0)).toThrow(/json, json_object, choice and regex/);
  });

  test('a completion is sixteen tokens long unless it says more', () => {
    const said = (more: object) => {
      const body = JSON.stringify({ prompt: ['Once upon a time'], ...more });
      return completionOf(body, sha256(body), settingsOf(7));
    };
    const schema = { type: 'object', properties: { a: { type: 'string', minLength: 90 } }, required: ['a'] };
    const response_format = { type: 'json_schema', json_schema: { name: 'x', schema } };
    expect(said({ response_format })).toMatchObject({ finish: 'length', usage: { completion: 16 } });
    expect(JSON.parse(said({ response_format, max_tokens: 400 }).text).a).toMatch(/^[A-Za-z]/);
    expect(said({}).id).toMatch(/^cmpl-[0-9a-f]{32}$/);
    expect(() => said({ prompt: ['a', 'b'] })).toThrow(/completes one text/);
    expect(() => said({ prompt: [1, 2] })).toThrow(/completes one text/);
  });

  test('embeddings of texts that share words lie nearer', () => {
    const vectors = (more: object) => {
      const body = JSON.stringify(more);
      return JSON.parse(embeddingsOf(body, sha256(body), settingsOf(7)).text) as { embedding: number[] }[];
    };
    const input = ['a loan for a small house', 'a loan for a large house', 'rain over the northern sea', ''];
    const [one, two, three, none] = vectors({ input }).map(({ embedding }) => embedding);
    const product = (a?: number[], b?: number[]) =>
      a!.reduce((sum, value, index) => sum + value * b![index]!, 0);
    expect(product(one, one)).toBeCloseTo(1, 6);
    expect(product(none, none)).toBeCloseTo(1, 6);
    expect(product(one, two)).toBeGreaterThan(product(one, three) + 0.3);
    const [coded] = vectors({ input: input[0], encoding_format: 'base64' }) as unknown as {
      embedding: string;
    }[];
    const bytes = Buffer.from(coded!.embedding, 'base64');
    expect(Array.from({ length: bytes.length / 4 }, (_, index) => bytes.readFloatLE(4 * index))).toEqual(one);
    expect(() => vectors({ input: [] })).toThrow(/input: expected/);
    expect(() => vectors({ input: [[1, 2]] })).toThrow(/input: expected/);
    expect(() => vectors({ input: 'x', dimensions: 0 })).toThrow(/dimensions/);
    expect(() => vectors({ input: 'x'.repeat(40_000) })).toThrow(/maximum context length/);
  });

  test('any other conversation gets a few words', () => {
    const body = bodyOf({ schema: null, system: 'Be brief.', user: 'How is the weather?' });
    const { text, finish } = replyTo(body, sha256(body), settingsOf(7));
    expect(text).toMatch(/^[A-Za-z][A-Za-z ,.]{10,}$/);
    expect(finish).toBe('stop');
  });
});
