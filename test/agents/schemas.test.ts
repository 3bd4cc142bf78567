/**
 * The schemas: each compiles in ajv's strict mode, the answers are what guided decoding accepts, and the legacy schema
 * holds what strict verification demands.
 */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { expect, test } from 'vitest';
import { compileSchema } from '../../engine/answers/schema.ts';
import { ownCheck } from '../../engine/answers/schema-check.ts';
import { packagedSchema, packageRoot } from '../../engine/core/config/package.ts';
import { readYaml } from '../../engine/core/config/yaml.ts';
import type { JsonObject } from '../../engine/core/json/pointer.ts';
import { every } from '../all.ts';

const names = readdirSync(join(packageRoot(), 'schemas')).map(file => file.replace('.schema.json', ''));
const strict = (): Ajv2020 =>
  new Ajv2020({ strict: true, strictRequired: false, allowUnionTypes: true })
    .addVocabulary(['x-fw-sum'])
    .addSchema(packagedSchema('step'), 'step.schema.json');

const assessment = {
  agent_name: 'Risk Manager',
  loan_type: 'personal_loan',
  approval_decision: 'approve',
  approval_type: 'STANDARD_TERMS',
  interest_rate: 8.5,
  confidence_probability: 82,
  confidence_level: 'high',
  reasoning: {
    approval_decision_reason: 'The ratio is low.',
    approval_type_reason: 'Nothing departs from the policy.',
    interest_rate_reason: 'The base rate holds.',
    confidence_reason: 'The file is complete.',
  },
};
const decision = {
  ...assessment,
  agent_influence: {
    risk_manager_weight: 0.4,
    regulatory_weight: 0.2,
    data_science_weight: 0.2,
    consumer_advocate_weight: 0.2,
    primary_influence: 'risk_manager',
  },
  reasoning: {
    synthesis_rationale: 'They agree.',
    weight_justification: 'Risk leads.',
    risk_assessment: 'Low.',
  },
};
const turn = { agent: 'risk_manager', input: 'the prompt', output: assessment };
const legacy = {
  mode: 'sequential',
  initial_prompt: 'the prompt',
  conversation_history: [turn, turn, turn, turn],
  all_agent_outputs: [assessment, assessment, assessment, assessment],
  final_output: assessment,
  business_decision: decision,
  prompt_id: 1,
  ordering: 'risk_manager,data_science,regulatory,consumer_advocate',
  timestamp: '2026-01-01T00:00:00.000Z',
};

/** A copy of `value` with the one at `path` replaced, or taken out where `put` is undefined. */
function change<T extends object>(value: T, path: string, put: unknown): T {
  const copy = structuredClone(value);
  const segments = path.split('/').slice(1);
  const last = segments.pop()!;
  const parent = segments.reduce((at, segment) => at[segment] as JsonObject, copy as JsonObject);
  if (put === undefined) delete parent[last];
  else parent[last] = put;
  return copy;
}

/** Paths of every object key and array index below `value`. */
function pathsOf(value: unknown, path = ''): string[] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, below]) => [
    `${path}/${key}`,
    ...pathsOf(below, `${path}/${key}`),
  ]);
}

test.each([
  'item',
  'step',
  'agent',
  'assessment',
  'decision',
  'legacy',
  'pipeline',
  'orderings',
  'defaults',
  'folder',
])('%s compiles in strict mode', name => {
  expect(names).toContain(name);
  const ajv = strict();
  if (name === 'step') expect(ajv.getSchema('step.schema.json')).toBeTypeOf('function');
  else expect(ajv.compile(packagedSchema(name))).toBeTypeOf('function');
});

test.each([
  ['assessment', assessment],
  ['decision', decision],
] as const)('%s: an answer fits; a missing, a null and an unknown key do not', (name, answer) => {
  const fits = strict().compile(packagedSchema(name));
  expect(fits(answer)).toBe(true);
  for (const path of pathsOf(answer)) {
    expect(fits(change(answer, path, undefined)), path).toBe(false);
    expect(fits(change(answer, path, null)), path).toBe(false);
  }
  expect(fits({ ...answer, note: 'x' })).toBe(false);
  expect(fits(change(answer, '/approval_decision', 'Approve'))).toBe(false);
  expect(fits(change(answer, '/interest_rate', 30.5))).toBe(false);
});

test.each(['assessment', 'decision'])('%s keeps to keywords that guided decoding knows', name => {
  const known = new Set(
    '$schema title description type additionalProperties required properties enum minimum maximum minLength maxLength x-fw-sum'.split(
      ' ',
    ),
  );
  const check = (schema: JsonObject): void => {
    expect(Object.keys(schema).filter(keyword => !known.has(keyword))).toEqual([]);
    if (schema.type === 'object') {
      expect(schema.additionalProperties).toBe(false);
      expect([...(schema.required as string[])].sort()).toEqual(
        Object.keys(schema.properties as object).sort(),
      );
    }
    for (const property of Object.values((schema.properties ?? {}) as JsonObject))
      check(property as JsonObject);
  };
  check(packagedSchema(name));
});

test('the sum of the decision names weights that exist', () => {
  const influence = (packagedSchema('decision').properties as JsonObject).agent_influence as JsonObject;
  const { of, is } = influence['x-fw-sum'] as { of: string[]; is: number };
  expect(is).toBe(1);
  expect(of).toEqual(Object.keys(influence.properties as object).filter(key => key.endsWith('_weight')));
});

test('legacy: no key may be missing or null, and no null may hide in a key that nobody named', () => {
  const fits = strict().compile(packagedSchema('legacy'));
  expect(fits(legacy), JSON.stringify(fits.errors)).toBe(true);
  for (const path of pathsOf(legacy)) {
    expect(fits(change(legacy, path, null)), path).toBe(false);
  }
  for (const path of Object.keys(legacy))
    expect(fits(change(legacy, `/${path}`, undefined)), path).toBe(false);
  expect(fits({ ...legacy, model: 'a', tags: ['b', { c: 1 }] })).toBe(true);
  expect(fits({ ...legacy, tags: ['b', { c: null }] })).toBe(false);
  expect(fits(change(legacy, '/final_output/note', null))).toBe(false);
});

test('legacy: confidence above zero, no sentinel in any reason, at least one turn', () => {
  const fits = strict().compile(packagedSchema('legacy'));
  for (const path of ['/business_decision/confidence_probability', '/prompt_id']) {
    expect(fits(change(legacy, path, 0)), path).toBe(false);
  }
  for (const path of pathsOf(legacy).filter(path => /\/reasoning\//.test(path))) {
    for (const text of ['System Error: no answer', 'x Parsing Failure', 'Manual Review Required', '', ' ']) {
      expect(fits(change(legacy, path, text)), `${path} ${text}`).toBe(false);
    }
  }
  expect(fits(change(legacy, '/business_decision/approval_type', 'MANUAL_REVIEW'))).toBe(true);
  expect(fits({ ...legacy, conversation_history: [] })).toBe(false);
  expect(fits({ ...legacy, conversation_history: [turn] })).toBe(true);
  expect(fits(change(legacy, '/final_output/confidence_probability', 0))).toBe(true);
});

test('legacy: what was compiled when fw was built judges as the schema does', () => {
  const built = ownCheck('legacy');
  const schema = compileSchema(packagedSchema('legacy'), 'legacy');
  const values: unknown[] = [
    null,
    true,
    'legacy',
    JSON.parse(`${'['.repeat(100_000)}${']'.repeat(100_000)}`),
  ];
  for (const path of ['', ...every(4, pathsOf(legacy))]) {
    for (const value of [undefined, null, '', ' x', -1, 1e9, 0.5, [], {}, { a: null }, ['approve']])
      values.push(path === '' ? value : change(legacy, path, value));
  }
  for (const value of [legacy, ...values]) {
    for (const isChanged of [false, true]) {
      const found = [built, schema].map(check =>
        check.findings(value, isChanged).map(({ parent: _parent, ...finding }) => finding),
      );
      expect(found[0]).toEqual(found[1]);
    }
  }
});

test('what fits as an assessment or a decision with a confidence fits inside a legacy result', () => {
  const [inAssessment, inDecision, inLegacy] = ['assessment', 'decision', 'legacy'].map(name =>
    packagedSchema(name),
  );
  const defs = inLegacy!.$defs as JsonObject;
  for (const [own, legacys] of [
    [inAssessment!, defs.assessment as JsonObject],
    [inDecision!, defs.decision as JsonObject],
  ]) {
    expect(own!.required).toEqual(expect.arrayContaining(legacys!.required as string[]));
    const properties = legacys!.properties as JsonObject;
    for (const key of [
      'approval_decision',
      'approval_type',
      'interest_rate',
      'confidence_level',
      'loan_type',
    ]) {
      expect(properties[key]).toEqual((own!.properties as JsonObject)[key]);
    }
  }
});

test('item: with an id and something to ask, answered or failed; without an id only as a failure', () => {
  const fits = strict().compile(packagedSchema('item'));
  const step = {
    agent: 'risk_manager',
    output: {},
    rung: 'clean',
    saw: 'clean',
    repairs: [{ rule: 'null-default', at: '/interest_rate', from: null, to: 25 }],
    calls: [],
    attempts: 1,
    usage: { prompt: 1, completion: 1 },
  };
  const failure = { stage: 'ingest', code: 'not-json', message: 'm', line: 3, text: '{' };
  expect(fits({ id: 'a', prompt: 'p', own: { key: 1 } })).toBe(true);
  expect(fits({ id: 'a', prompt: 'p', steps: [step], decision: step })).toBe(true);
  expect(fits({ id: null, failure })).toBe(true);
  expect(fits({ id: null, prompt: 'p' })).toBe(false);
  expect(fits({ id: 'a' })).toBe(false);
  expect(fits({ id: 'a', prompt: 'p', steps: [{ ...step, rung: 'fine' }] })).toBe(false);
});

test('every packaged pipeline fits the schema of pipelines', () => {
  const folder = join(packageRoot(), 'pipelines/fairwatch');
  const files = readdirSync(folder).filter(name => name.endsWith('.yaml'));
  expect(files).toEqual([
    'batch.yaml',
    'chain.yaml',
    'recover-results.yaml',
    'recover.yaml',
    'revalidate.yaml',
  ]);
  for (const file of files) {
    const pipeline = readYaml(join(folder, file), 'pipeline').value as { stages: object[] };
    expect(pipeline.stages.length).toBeGreaterThan(1);
  }
});
