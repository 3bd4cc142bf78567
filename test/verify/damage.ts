/**
 * Damage to one value of a result or an item, made by rule: every keyword of every schema at every place where it holds,
 * and the rules that no schema can say. Nothing here knows of the code that is to find it.
 */

import { packagedSchema } from '../../engine/core/config/package.ts';
import {
  isObject,
  type JsonObject,
  join,
  parsePointer,
  setAt,
  valueAt,
} from '../../engine/core/json/pointer.ts';

export interface Damage {
  /** keyword or rule, then how it was broken */
  kind: string;
  /** where it is; a finding must name one of these */
  at: string[];
  readonly damaged: JsonObject;
}

const schemas = {
  assessment: packagedSchema('assessment'),
  decision: packagedSchema('decision'),
};
type Schema = JsonObject;
const other: { [type: string]: [string, unknown][] } = {
  string: [
    ['a number', 7],
    ['an object', {}],
  ],
  number: [
    ['text', '7'],
    ['a boolean', true],
  ],
  integer: [
    ['text', '7'],
    ['a list', [7]],
  ],
  object: [
    ['a list', []],
    ['text', '{}'],
  ],
  array: [
    ['an object', { 0: 1 }],
    ['a number', 1],
  ],
};
const TEXTS = [
  'System Error',
  'Parsing Failure: x',
  'Manual Review Required.',
  '...',
  '<your reason>',
  'approve | deny',
];

/** What may be put in the place of a value by one schema, as [kind, value]; undefined takes it away. */
function brokenValues(schema: Schema, value: unknown): [string, unknown][] {
  const broken: [string, unknown][] = [['null', null]];
  for (const [what, put] of other[schema.type as string] ?? []) broken.push([`type: ${what}`, put]);
  if (schema.type === 'integer') broken.push(['type: a fraction', 41.5]);
  if (schema.enum)
    broken.push(
      ['enum: another', 'maybe'],
      [
        'enum: another case',
        String(value).toUpperCase() === value ? String(value).toLowerCase() : String(value).toUpperCase(),
      ],
    );
  if (typeof schema.minimum === 'number')
    broken.push(
      ['minimum', schema.minimum - 1],
      ['minimum: just below', schema.minimum - (schema.type === 'integer' ? 1 : 0.001)],
    );
  if (typeof schema.maximum === 'number')
    broken.push(
      ['maximum', 900],
      ['maximum: just above', schema.maximum + (schema.type === 'integer' ? 1 : 0.001)],
    );
  if (schema.minLength) broken.push(['minLength', '']);
  if (typeof schema.maxLength === 'number') broken.push(['maxLength', 'x'.repeat(schema.maxLength + 1)]);
  if (schema.type === 'string' && !schema.enum)
    for (const text of TEXTS) broken.push([`words: ${text}`, text]);
  return broken;
}

/** Every damage to the answer at `at` of `line`, in its value and in those below. */
function* inAnswer(line: JsonObject, at: string, schema: Schema): Generator<Damage> {
  const value = valueAt(line, at);
  const put = (kind: string, place: string, to: unknown, named = place): Damage => ({
    kind,
    at: [named],
    get damaged() {
      return damagedAt(line, place, to);
    },
  });
  for (const [kind, to] of brokenValues(schema, value)) yield put(kind, at, to);
  if (!isObject(value)) return;
  for (const key of (schema.required as string[]) ?? []) yield put('required', join(at, key), undefined);
  if (schema.additionalProperties === false) yield put('additionalProperties', join(at, 'extra'), 1);
  if (isObject(schema['x-fw-sum'])) {
    const [first] = schema['x-fw-sum'].of as string[];
    for (const weight of [0.42, 0]) yield put(`sum: ${weight}`, join(at, first as string), weight, at);
  }
  for (const [key, below] of Object.entries((schema.properties as { [key: string]: Schema }) ?? {}))
    yield* inAnswer(line, join(at, key), below);
}

function damagedAt(line: JsonObject, at: string, to: unknown): JsonObject {
  if (to === undefined) return without(line, at);
  return setAt(structuredClone(line), parsePointer(at), to) as JsonObject;
}

function without(line: JsonObject, at: string): JsonObject {
  const copy = structuredClone(line);
  const tokens = parsePointer(at);
  const last = tokens.pop() as string;
  let parent: unknown = copy;
  for (const token of tokens) parent = (parent as JsonObject)[token];
  delete (parent as JsonObject)[last];
  return copy;
}

const TIMES = [
  'yesterday',
  '',
  '2026-02-30T09:30:00Z',
  '2026-13-01T09:30:00Z',
  '2026-03-01',
  '2026-03-01T25:00:00',
];

/** Every damage to a legacy result. */
export function* damageTo(result: JsonObject): Generator<Damage> {
  const turns = result.conversation_history as JsonObject[];
  const last = turns.length - 1;
  for (const index of turns.keys()) {
    yield* inAnswer(result, `/conversation_history/${index}/output`, schemas.assessment);
    yield* inAnswer(result, `/all_agent_outputs/${index}`, schemas.assessment);
  }
  yield* inAnswer(result, '/final_output', schemas.assessment);
  yield* inAnswer(result, '/business_decision', schemas.decision);
  const put = (kind: string, at: string, to: unknown, ...more: string[]): Damage => ({
    kind,
    at: [at, ...more],
    get damaged() {
      return damagedAt(result, at, to);
    },
  });
  yield put('confidence of zero', '/business_decision/confidence_probability', 0);
  for (const key of Object.keys(result)) {
    yield put('result: missing', `/${key}`, undefined);
    yield put('result: null', `/${key}`, null);
    yield put('result: type', `/${key}`, typeof result[key] === 'object' ? 'text' : { a: 1 });
  }
  for (const key of ['agent', 'input', 'output']) {
    yield put('turn: missing', `/conversation_history/1/${key}`, undefined);
    yield put('turn: type', `/conversation_history/1/${key}`, 5);
  }
  yield put('turn: blank input', '/conversation_history/1/input', '  ');
  yield put('turn: none', '/conversation_history/2', 'a turn');
  yield put('mode', '/mode', 'parallel');
  for (const text of TIMES) yield put(`timestamp: ${text}`, '/timestamp', text);
  for (const row of [0, -1, 1.5, '7', 1e20]) yield put(`prompt_id: ${row}`, '/prompt_id', row);
  yield put('blank prompt', '/initial_prompt', ' \n');
  yield put('null elsewhere', '/note', { deep: [1, { x: null }] }, '/note/deep/1/x');
  const names = (result.ordering as string).split(',');
  yield put('ordering: reversed', '/ordering', names.toReversed().join());
  yield put('ordering: one less', '/ordering', names.slice(1).join());
  yield put('ordering: another form', '/ordering', names.join(', '));
  yield put('turn: another agent', '/conversation_history/0/agent', names[1], '/ordering');
  yield put('turn: unknown agent', '/conversation_history/0/agent', 'auditor', '/ordering');
  yield put('turns: swapped', '/conversation_history', [turns[1], turns[0], ...turns.slice(2)], '/ordering');
  yield put('turns: one less', '/conversation_history', turns.slice(1), '/all_agent_outputs', '/ordering');
  const outputs = result.all_agent_outputs as JsonObject[];
  yield put('outputs: one less', '/all_agent_outputs', outputs.slice(1));
  yield put(
    'outputs: swapped',
    '/all_agent_outputs',
    [outputs[1], outputs[0], ...outputs.slice(2)],
    ...keysOf('/all_agent_outputs/0', outputs[0]),
  );
  yield put(
    'final_output: an earlier one',
    '/final_output',
    outputs[0],
    ...keysOf('/final_output', outputs[0]),
  );
  // a value that fits, but is not what stands in the other places
  const rate = '/interest_rate';
  yield put('echo: of a turn', `/all_agent_outputs/1${rate}`, 2.5);
  yield put('echo: of the last', `/final_output${rate}`, 2.5);
  yield put(
    'echo: the turn itself',
    `/conversation_history/1/output${rate}`,
    2.5,
    `/all_agent_outputs/1${rate}`,
  );
  yield put(
    'echo: the last turn',
    `/conversation_history/${last}/output${rate}`,
    2.5,
    `/all_agent_outputs/${last}${rate}`,
  );
  yield put('rung: defaulted', '/_fw', { rung: 'defaulted', repairs: [] }, '/_fw/rung');
  yield put('rung: none', '/_fw', { rung: 'best', repairs: [] }, '/_fw/rung');
}

/** Every damage to an item. */
export function* damageToItem(item: JsonObject): Generator<Damage> {
  const steps = item.steps as JsonObject[];
  for (const index of steps.keys()) yield* inAnswer(item, `/steps/${index}/output`, schemas.assessment);
  yield* inAnswer(item, '/decision/output', schemas.decision);
  const put = (kind: string, at: string, to: unknown, ...more: string[]): Damage => ({
    kind,
    at: [at, ...more],
    get damaged() {
      return damagedAt(item, at, to);
    },
  });
  yield put('id: missing', '/id', 7);
  yield put('id: blank', '/id', ' ');
  for (const place of ['/steps/1', '/decision']) {
    yield put(
      'another answer',
      `${place}/output`,
      { foo: 1 },
      `${place}/output/foo`,
      `${place}/output/agent_name`,
    );
    yield put('step: none', place, 'a step', '/steps');
    yield put('answer: missing', `${place}/output`, undefined);
    yield put('agent: unknown', `${place}/agent`, 'auditor', '/steps');
    yield put(
      'agent: of the other role',
      `${place}/agent`,
      place === '/decision' ? 'regulatory' : 'business_decision',
      '/steps',
    );
    yield put('rung: defaulted', `${place}/rung`, 'defaulted');
    yield put('rung: failed', `${place}/rung`, 'failed');
    yield put('rung: none', `${place}/rung`, 'best');
    yield put('rung: missing', `${place}/rung`, undefined);
    yield put('saw: defaulted', `${place}/saw`, 'defaulted');
    yield put(
      'rung: better than its repairs',
      `${place}/repairs`,
      [{ rule: 'null-default', at: '/interest_rate', from: null, to: 25 }],
      `${place}/rung`,
    );
  }
  yield put('steps: one less', '/steps', steps.slice(1));
  yield put('steps: swapped', '/steps', [steps[1], steps[0], ...steps.slice(2)]);
  yield put('steps: none', '/steps', []);
}

const keysOf = (at: string, value: unknown): string[] => [
  at,
  ...Object.keys(value as object).map(key => join(at, key)),
];
