/**
 * A compiled schema as a check: the many values that fit are asked about once, quickly; what does not fit is told in
 * full, within bounds, as problems: where, what the schema expected, what was there.
 */
import type { ErrorObject, ValidateFunction } from 'ajv';
import { ownValidator, packagedSchema } from '../core/config/package.ts';
import { type JsonObject, join } from '../core/json/pointer.ts';
import { type Problem, problem, shorten, show } from '../core/json/show.ts';
import type { Budget } from './budget.ts';
import { PatternError } from './pattern-tree.ts';
import { type SumRule, total } from './sum.ts';

/** A problem with what coercion needs: the value judged, the schema that judged it, and where that value is. */
export interface SchemaFinding extends Problem {
  instance: string;
  data: unknown;
  parent: JsonObject;
  params: JsonObject;
}

/** A finding about a value that a bound kept from being judged. */
export function unbounded(data: unknown, expected: string): SchemaFinding[] {
  return [{ ...problem('', 'x-fw-bound', expected, 'more'), instance: '', data, parent: {}, params: {} }];
}

export function findingsOf(errors: readonly ErrorObject[]): SchemaFinding[] {
  return errors.map(error => {
    const { keyword, instancePath: instance, data } = error;
    const params = error.params as JsonObject;
    const parent = (error.parentSchema ?? {}) as JsonObject;
    const key = params.missingProperty ?? params.additionalProperty ?? params.unevaluatedProperty;
    const at = typeof key === 'string' ? join(instance, key) : instance;
    const [expected, got] = words(error, params);
    return { ...problem(at, keyword, expected, got), instance, data, parent, params };
  });
}

/** What was expected; and what was there, where that is not the value. */
type Words = (params: JsonObject, schema: unknown, data: unknown) => string | [expected: string, got: string];

const missing: Words = () => ['a value', 'nothing'];
const unwanted: Words = () => ['no such property', 'one'];
const bound: Words = ({ comparison, limit }) => `a number ${comparison} ${limit}`;
const formsOf = (schema: unknown): string => `one of ${(schema as unknown[]).length} forms`;

const WORDS: { [keyword: string]: Words } = {
  type: ({ type }) => [type].flat().join(' or '),
  enum: (_params, schema) => `one of ${shortList(schema as unknown[])}`,
  const: (_params, schema) => show(schema),
  required: missing,
  dependentRequired: missing,
  dependencies: missing,
  additionalProperties: unwanted,
  unevaluatedProperties: unwanted,
  'false schema': () => 'no value',
  minimum: bound,
  maximum: bound,
  exclusiveMinimum: bound,
  exclusiveMaximum: bound,
  multipleOf: params => `a multiple of ${params.multipleOf}`,
  minLength: ({ limit }) => `at least ${limit} characters`,
  maxLength: ({ limit }) => `at most ${limit} characters`,
  minItems: ({ limit }) => `at least ${limit} items`,
  maxItems: ({ limit }) => `at most ${limit} items`,
  pattern: ({ pattern }) => `text that matches ${shorten(String(pattern))}`,
  format: ({ format }) => `text in the format ${format}`,
  'x-fw-sum': (_params, schema, data) => {
    const rule = schema as SumRule;
    return [`${shortList(rule.of)} to sum to ${rule.is}`, String(total(rule, data as JsonObject))];
  },
  uniqueItems: () => ['items that differ', 'two that are equal'],
  anyOf: (_params, schema) => formsOf(schema),
  oneOf: (_params, schema) => `exactly ${formsOf(schema)}`,
  not: (_params, schema) => `none of what ${shorten(JSON.stringify(schema))} allows`,
};

function words({ keyword, data, schema, message }: ErrorObject, params: JsonObject): [string, string] {
  const said = WORDS[keyword]?.(params, schema, data);
  if (Array.isArray(said)) return said;
  return [said ?? `it to ${message?.replace('must ', '') ?? `meet ${keyword}`}`, show(data)];
}

function shortList(values: readonly unknown[]): string {
  const named = values.slice(0, 8).map(show).join(', ');
  return values.length > 8 ? `${named}, …` : named;
}

/** A larger value gets its first problem only: with all of them, a wrong array of a million would be a million. */
const MAX_NODES = 10_000;
/** uniqueItems compares every pair. */
const MAX_UNIQUE = 4_096;
/** Problems that are told of a value which is not judged in full. */
const MAX_TOLD = 1_000;
/** Errors of one value that a compiled schema may hold on to. */
const MAX_KEPT = 10_000;

export interface Check {
  /** what is wrong with the value; an empty list where nothing is. Never throws. */
  (value: unknown): readonly Problem[];
  /**
   * The same, with what coercion needs to know of the schema. `isChanged`: the value is not as it was parsed; so it has
   * another shape inside V8, for which the check of the many clean ones would be compiled again.
   */
  findings(value: unknown, isChanged?: boolean): readonly SchemaFinding[];
  /** Whether this very value was the last that fitted: stages in a row judge a line by the same schema one after the other. */
  fittedLast(value: object): boolean;
  schema: JsonObject | boolean;
  /** there where an answer is text and no JSON; `isFree`: any text will do */
  text?: { isFree: boolean };
  /** text behind an answer makes it none; absent where it is left out */
  textAfter?: 'refuse';
  /** its agent has tools: what it called is an answer where it says nothing that is one */
  calls?: true;
}

const NONE: readonly SchemaFinding[] = Object.freeze([]);

/** A schema of ours as it was compiled when fw was built; `name` as in schemas/validators.ts. */
export function ownCheck(name: string): Check {
  const known = own.get(name);
  if (known) return known;
  const first = () => ownValidator(name, 'first');
  const all = () => ownValidator(name, 'all');
  const check = checkWith({ schema: packagedSchema(name), first, all, isUnique: false });
  own.set(name, check);
  return check;
}

const own = new Map<string, Check>();

export interface Compiled {
  schema: JsonObject | boolean;
  first(): ValidateFunction;
  all(): ValidateFunction;
  /** Lets go of what was compiled. Each function of it holds the errors of its last value. */
  release?(): void;
  /** asks somewhere for items that differ */
  isUnique: boolean;
  /** what judging may cost; absent for schemas of ours */
  budget?: Budget;
}

/** The check that a compiled schema is. */
export function checkWith({ schema, first, all, release, isUnique, budget }: Compiled): Check {
  let fitted: unknown;
  const firstFindings = (): readonly SchemaFinding[] =>
    findingsOf((first().errors as ErrorObject[]).slice(0, MAX_TOLD));
  const findings = (value: unknown, isChanged = false): readonly SchemaFinding[] => {
    budget?.start(value);
    try {
      if (isUnique && longestArray(value) > MAX_UNIQUE) {
        return unbounded(value, `at most ${MAX_UNIQUE} items where a schema asks for unique ones`);
      }
      if (!isChanged && first()(value)) {
        fitted = value;
        return NONE;
      }
      if (hasMoreNodes(value, MAX_NODES)) return isChanged && first()(value) ? NONE : firstFindings();
      budget?.start(value);
      try {
        const thorough = all();
        return thorough(value) ? NONE : findingsOf(thorough.errors as ErrorObject[]);
      } catch (error) {
        if (isChanged || !(error instanceof PatternError)) throw error;
        return firstFindings();
      }
    } catch (error) {
      return unbounded(value, whyNotJudged(error).replace(/^expected /, ''));
    } finally {
      if (budget && budget.errors > MAX_KEPT) release?.();
    }
  };
  const fittedLast = (value: object): boolean => fitted === value;
  return Object.assign((value: unknown) => findings(value) as readonly Problem[], {
    findings,
    fittedLast,
    schema,
  });
}

/** Why a value, or a schema, is beyond what can be judged. */
export function whyNotJudged(error: unknown): string {
  if (error instanceof PatternError) return error.message;
  if (error instanceof RangeError) return 'a schema of fewer parts, or whose references come to an end';
  return error instanceof Error ? error.message : String(error);
}

function hasMoreNodes(value: unknown, most: number): boolean {
  let left = most;
  const open = [value];
  while (open.length > 0) {
    const one = open.pop();
    if (typeof one !== 'object' || one === null) continue;
    const below = Object.values(one);
    left -= below.length;
    if (left < 0) return true;
    for (const next of below) open.push(next);
  }
  return false;
}

function longestArray(value: unknown): number {
  let longest = 0;
  const open = [value];
  while (open.length > 0) {
    const one = open.pop();
    if (typeof one !== 'object' || one === null) continue;
    if (Array.isArray(one)) longest = Math.max(longest, one.length);
    for (const next of Object.values(one)) open.push(next);
  }
  return longest;
}
