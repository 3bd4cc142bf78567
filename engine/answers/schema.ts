/**
 * JSON Schema as a function: `check(value)` gives the problems of a value, none where it fits. The dialect is the one
 * that `$schema` names. Schemas of users are untrusted: their size, depth, patterns and steps are bounded, and a bound
 * that is met makes a value fail, never pass. An answer in text has a check of its own.
 */
import type { Ajv, AnySchema, CodeKeywordDefinition, ErrorObject, Options } from 'ajv';
import { library, ownValidator } from '../core/config/package.ts';
import { dataError, Fatal } from '../core/item/failure.ts';
import type { JsonObject } from '../core/json/pointer.ts';
import { problem, shorten, show, summarise } from '../core/json/show.ts';
import { countErrors, createBudget } from './budget.ts';
import { linearPattern } from './linear-pattern.ts';
import { type Check, checkWith, findingsOf, type SchemaFinding, whyNotJudged } from './schema-check.ts';
import { countSteps, partsOf } from './schema-words.ts';
import { isOffTheSum, type SumRule, sumRule } from './sum.ts';
import { EMPTY, isBlank, loopIn, REPEATS, repetitionIn } from './text-faults.ts';

const MAX_SCHEMA = 1 << 20;
const MAX_DEPTH = 64;
/** Subschemas in all, for the time that compiling takes; and side by side, where ajv nests one in the other. */
const MAX_PARTS = 5_000;
const MAX_WIDTH = 1_000;
/** ajv copies what a reference names into its place, up to this many keys: thousands of copies add up. */
const MAX_COPIED = 8;
/** Characters of a text in the format `url`. */
const MAX_URL = 4_096;
const CACHED = 256;
/** Names that every object inherits: a schema with one of them must look at own properties, which costs a third. */
const INHERITED = new RegExp(`"(?:${Object.getOwnPropertyNames(Object.prototype).join('|')})"`);

interface Dialect {
  /** as in schemas/validators.ts */
  name: string;
  compiler: 'Ajv' | 'Ajv2019' | 'Ajv2020';
}

const NEWEST: Dialect = { name: 'dialect-2020-12', compiler: 'Ajv2020' };
const DIALECTS: { [uri: string]: Dialect } = {
  'json-schema.org/draft/2020-12/schema': NEWEST,
  'json-schema.org/draft/2019-09/schema': { name: 'dialect-2019-09', compiler: 'Ajv2019' },
  'json-schema.org/draft-07/schema': { name: 'dialect-07', compiler: 'Ajv' },
};

const compiled = new Map<string, Check>();

/**
 * Compiles a schema once for each text of it. `where` names the schema in messages, such as its file, or the place in it
 * that a JSON Pointer leads to.
 * Throws Fatal (65) where the schema is none, is too large or deep, or refers to something outside of itself.
 */
export function compileSchema(schema: unknown, where: string | ((pointer: string) => string)): Check {
  const refuse = (found: string, at = ''): never => {
    throw dataError(`${typeof where === 'string' ? where : where(at)}: ${found}`);
  };
  if (
    typeof schema !== 'boolean' &&
    (typeof schema !== 'object' || schema === null || Array.isArray(schema))
  ) {
    return refuse('expected a JSON Schema (an object, true or false).');
  }
  if (isDeeper(schema, MAX_DEPTH)) return refuse(`expected a schema of at most ${MAX_DEPTH} levels.`);
  const text = JSON.stringify(schema);
  if (text.length > MAX_SCHEMA) {
    return refuse(`expected a schema of at most ${MAX_SCHEMA} characters, got ${text.length}.`);
  }
  const known = compiled.get(text);
  if (known) return known;
  const { total, widest } = partsOf(schema);
  if (total > MAX_PARTS) return refuse(`expected a schema of at most ${MAX_PARTS} subschemas, got ${total}.`);
  if (widest > MAX_WIDTH) {
    return refuse(
      `expected at most ${MAX_WIDTH} subschemas under one keyword, such as properties, got ${widest}.`,
    );
  }
  const check = build(schema as JsonObject | boolean, { text, refuse });
  if (compiled.size >= CACHED) compiled.clear();
  compiled.set(text, check);
  return check;
}

interface Building {
  text: string;
  /** `at`: JSON Pointer of what is wrong */
  refuse(found: string, at?: string): never;
}

function build(schema: JsonObject | boolean, { text, refuse }: Building): Check {
  const dialect =
    dialectOf(schema) ??
    refuse(
      `expected $schema to be one of ${Object.keys(DIALECTS).join(', ')}, got ${show((schema as JsonObject).$schema)}.`,
    );
  const budget = createBudget();
  const counted = countSteps(schema) as AnySchema;
  const compile = (more: Options): ReturnType<Ajv['compile']> => {
    const { [dialect.compiler]: Compiler } = library('ajv');
    const ajv = new Compiler({ ...OPTIONS, ownProperties: INHERITED.test(text), ...more });
    addFormats(ajv);
    useDecimals(ajv);
    ajv.addKeyword({ ...SUM_KEYWORD });
    budget.watch(ajv);
    return ajv.compile(counted);
  };

  let quick: ReturnType<Ajv['compile']> | undefined;
  try {
    checkSchema(schema, dialect, refuse);
    quick = compile({});
  } catch (error) {
    if (error instanceof Fatal) throw error;
    return refuse(explain(error));
  }
  if ('$async' in quick) return refuse('expected a schema without $async.');

  let thorough: ReturnType<Ajv['compile']> | undefined;
  return checkWith({
    schema,
    first() {
      quick ??= compile({});
      return quick;
    },
    all() {
      thorough ??= compile({ allErrors: true });
      return thorough;
    },
    release() {
      quick = thorough = undefined;
    },
    isUnique: text.includes('"uniqueItems":true'),
    budget,
  });
}

const OPTIONS: Options = {
  strict: false,
  verbose: true,
  inlineRefs: MAX_COPIED,
  validateSchema: false,
  logger: false,
  // ajv asks for the `code` of regExp to print standalone code, which we never do; its optimising is a pass that V8
  // makes again, and that doubles the time to compile
  code: {
    regExp: Object.assign(linearPattern, { code: 'linearPattern' }),
    optimize: false,
    lines: true,
    process: countErrors,
  },
};

const SUM_KEYWORD = {
  keyword: 'x-fw-sum',
  type: 'object' as const,
  validate: (rule: unknown, data: JsonObject) => !isOffTheSum(rule as SumRule, data),
  metaSchema: sumRule,
  errors: false,
};

function dialectOf(schema: JsonObject | boolean): Dialect | undefined {
  const uri = typeof schema === 'boolean' ? undefined : schema.$schema;
  if (uri === undefined) return NEWEST;
  const key = String(uri)
    .replace(/^https?:\/\//, '')
    .replace(/#$/, '');
  return Object.hasOwn(DIALECTS, key) ? DIALECTS[key] : undefined;
}

/** The pattern of `url` takes time that grows with the square of the text; those of the other formats do not. */
function addFormats(ajv: Ajv): void {
  library('ajv').formats.default(ajv);
  const url = ajv.formats.url as RegExp;
  ajv.addFormat('url', text => text.length <= MAX_URL && url.test(text));
}

function checkSchema(schema: JsonObject | boolean, { name }: Dialect, refuse: Building['refuse']): void {
  const validate = ownValidator(name, 'first');
  if (validate(schema)) return;
  const findings = findingsOf(validate.errors as ErrorObject[]);
  refuse(`expected a valid schema: ${summarise(findings)}.`, findings[0]?.instance);
}

function explain(error: unknown): string {
  return error instanceof library('ajv').Ajv.MissingRefError
    ? `expected references inside the schema, got ${shorten(error.missingRef)}.`
    : whyNotJudged(error);
}

function isDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return levels === 0 || Object.values(value).some(below => isDeeper(below, levels - 1));
}

const KEYWORD: CodeKeywordDefinition = {
  keyword: 'multipleOf',
  type: 'number',
  schemaType: 'number',
  error: {
    message: ({ schemaCode }) => library('ajv').str`must be multiple of ${schemaCode}`,
    params: ({ schemaCode }) => library('ajv')._`{multipleOf: ${schemaCode}}`,
  },
  code(cxt) {
    const { gen, data, schemaCode } = cxt;
    const multiple = gen.scopeValue('func', { ref: isMultipleOf });
    cxt.fail(library('ajv')._`!${multiple}(${data}, ${schemaCode})`);
  },
};

/** Has `ajv` judge `multipleOf` by decimals; before it compiles. */
function useDecimals(ajv: Ajv): void {
  ajv.removeKeyword(KEYWORD.keyword as string);
  ajv.addKeyword({ ...KEYWORD });
}

/** Whether the shortest decimals of two doubles are a multiple and its step. */
export function isMultipleOf(value: number, step: number): boolean {
  if (!Number.isFinite(value) || !(step > 0)) return false;
  if (Number.isSafeInteger(value) && Number.isSafeInteger(step)) return value % step === 0;
  const [digits, power] = decimalOf(value);
  const [stepDigits, stepPower] = decimalOf(step);
  // digits × 10^power: with the smaller power for both, the digits are whole numbers to divide
  const least = Math.min(power, stepPower);
  return (digits * tenTo(power - least)) % (stepDigits * tenTo(stepPower - least)) === 0n;
}

/** A double as whole digits and a power of ten, of the shortest decimal that is read as it. */
function decimalOf(number: number): [digits: bigint, power: number] {
  const [mantissa = '', exponent = '0'] = number.toExponential().split('e');
  const [whole = '', fraction = ''] = mantissa.split('.');
  return [BigInt(whole + fraction), Number(exponent) - fraction.length];
}

function tenTo(power: number): bigint {
  return 10n ** BigInt(power);
}

/** What a text must be, where not any text will do: one of these, or all of it what a regular expression matches. */
export interface TextForm {
  choice?: readonly string[];
  regex?: string;
}

/** The check of an answer in text. Exit 65, with `where` in front, where the regular expression is none that can be run. */
export function textCheck(form: TextForm, where: string): Check {
  const { choice, regex } = form;
  const isFree = choice === undefined && regex === undefined;
  const inner = compileSchema(
    {
      type: 'string',
      ...(choice && { enum: choice }),
      ...(regex !== undefined && { pattern: `^(?:${regex})$` }),
    },
    where,
  );
  const findings = (value: unknown, isChanged?: boolean): readonly SchemaFinding[] => {
    const found = inner.findings(value, isChanged);
    return found.length > 0 || !isFree ? found : findingsOfText(value as string);
  };
  return Object.assign((value: unknown) => findings(value), {
    findings,
    fittedLast: () => false,
    schema: inner.schema,
    text: { isFree },
  });
}

function findingsOfText(text: string): readonly SchemaFinding[] {
  const found = (keyword: string, expected: string, got: string): SchemaFinding[] => [
    { ...problem('', keyword, expected, got), instance: '', data: text, parent: {}, params: {} },
  ];
  if (isBlank(text)) return found(EMPTY, 'a text', 'nothing that can be seen');
  const loop = repetitionIn(text);
  return loop === null ? [] : found(REPEATS, 'a text that ends', loopIn(loop));
}
