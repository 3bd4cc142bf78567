/**
 * The schemas that requests name, each compiled once: a generator of instances and a validator that judges them. The
 * validator makes the promise true: what the generator does not know (`not`, `pattern`, `if`, overlapping `oneOf`) is
 * drawn again until it fits, and refused with the reason where it never does.
 *
 * What a stranger's schema makes this process do has a limit in time: patterns backtrack, references multiply, and neither
 * can be seen before. One request must not keep all others waiting.
 */
import { createContext, Script } from 'node:vm';
import type { Ajv2020 } from 'ajv/dist/2020.js';
import { library } from '../../engine/core/config/package.ts';
import { isObject } from '../../engine/core/json/pointer.ts';
import { SchemaError } from './node.ts';
import type { Random } from './random.ts';
import { type Compiled, compileShape } from './schema-shape.ts';

/** A schema in characters, the schemas that are kept, and all of their characters together. */
const MAX_SCHEMA_LENGTH = 4 * 1024 * 1024;
const MOST_SCHEMAS = 200;
const MOST_TEXT = 32 * 1024 * 1024;
const TRIES = 12;
/** So many references are as many ways at most, and one repetition backtracks no further than its text. */
const FEW_REFERENCES = 8;
const FEW_REPETITIONS = 1;

export interface KnownSchema extends Pick<Compiled, 'names' | 'spreads'> {
  valid: (value: unknown) => boolean;
  /** @throws SchemaError where no try fits the schema */
  answer: (random: Random, wishes: ReadonlyMap<string, unknown>) => unknown;
}

/** A cache by the text of the schema, because every request brings its own copy. @throws SchemaError */
export function schemaCache(): (schema: unknown) => KnownSchema {
  const known = new Map<string, KnownSchema>();
  let held = 0;
  return schema => {
    const text = schemaText(schema);
    let found = known.get(text);
    if (!found) {
      if (text.length > MAX_SCHEMA_LENGTH) {
        throw new SchemaError(
          `Expected a schema of at most ${MAX_SCHEMA_LENGTH} characters, found ${text.length}.`,
        );
      }
      found = learn(schema, isRisky(text) ? within : unlimited);
      held += text.length;
      for (const oldest of known.keys()) {
        if (known.size < MOST_SCHEMAS && held <= MOST_TEXT) break;
        known.delete(oldest);
        held -= oldest.length;
      }
      known.set(text, found);
    }
    return found;
  };
}

/** Whether an answer may take longer than the size of the schema tells: a limit costs a tenth of a millisecond. */
function isRisky(text: string): boolean {
  const references = text.match(/"\$(?:ref|dynamicRef)"/g)?.length ?? 0;
  if (references > FEW_REFERENCES || /"(?:patternProperties|uniqueItems)"/.test(text)) return true;
  const patterns = text.match(/"pattern":"(?:[^"\\]|\\.)*"/g) ?? [];
  return patterns.some(pattern => (pattern.match(/[*+{]/g)?.length ?? 0) > FEW_REPETITIONS);
}

/** The same draws for each run: `within` may begin the work again, and the answer hangs on nothing but the request. */
function repeatable(random: Random): () => Random {
  const drawn: number[] = [];
  return () => {
    let at = 0;
    return () => {
      drawn[at] ??= random();
      return drawn[at++] as number;
    };
  };
}

function schemaText(schema: unknown): string {
  try {
    return JSON.stringify(schema);
  } catch {
    // the only thing that JSON.parse reads and JSON.stringify does not write: more levels than the stack has
    throw new SchemaError('The schema nests too deep.');
  }
}

/** `run` limits the time of an answer. */
function learn(schema: unknown, run: typeof within): KnownSchema {
  judge ??= judgeOfSchemas(); // not within the limit, which could leave it half made
  const known = judge;
  const { shape, validate } = within(() => ({
    shape: compileShape(schema),
    validate: validatorOf(schema, known),
  }));
  const answer = (random: Random, wishes: ReadonlyMap<string, unknown>): unknown => {
    for (let tries = 1; ; tries++) {
      // a wish may be what does not fit: the later tries do without
      const value = shape.make(random, tries <= TRIES / 2 ? wishes : new Map());
      if (validate(value)) return value;
      const { instancePath = '', message = '' } = validate.errors?.[0] ?? {};
      if (tries === TRIES) {
        throw new SchemaError(
          `The simulator found no value that fits the schema in ${TRIES} tries; the last one failed at "${instancePath}": ${message}.`,
        );
      }
    }
  };
  return {
    names: shape.names,
    spreads: shape.spreads,
    valid: value => run(() => validate(value) as boolean),
    answer(random, wishes) {
      const fromTheStart = repeatable(random);
      return run(() => answer(fromTheStart(), wishes));
    },
  };
}

/** Judges the schemas themselves: to compile their draft takes tens of milliseconds. */
let judge: Ajv2020 | undefined;

function judgeOfSchemas(): Ajv2020 {
  const ajv = newAjv();
  void ajv.validateSchema({}); // compiles it
  return ajv;
}

function newAjv(): Ajv2020 {
  const { Ajv2020, formats } = library('ajv');
  const ajv = new Ajv2020({ strict: false, logger: false, ownProperties: true });
  formats.default(ajv);
  return ajv;
}

function validatorOf(schema: unknown, known: Ajv2020) {
  // one Ajv a schema: two schemas of different requests may carry the same $id
  const ajv = newAjv();
  ajv.validateSchema = (...given) => known.validateSchema(...given);
  try {
    if (!isObject(schema)) return ajv.compile(schema as boolean);
    const { $schema: _, ...rest } = schema;
    return ajv.compile(rest);
  } catch (error) {
    const { message } = error as Error;
    throw new SchemaError(`The schema cannot be used: ${message.slice(0, 500)}.`);
  }
}

/** ms; what is asked in earnest takes less than one */
const LIMIT_MS = 1_000;
/** Times that a limit is set anew for work that did not get to run: on a machine with other work to do. */
const STARTS = 8;

const box: { run: () => unknown } = { run: () => undefined };
const context = createContext(box);
const script = new Script('run()');

/** What `run` returns. @throws SchemaError where that takes too long, or more stack or pattern than there may be */
function within<T>(run: () => T): T {
  box.run = run;
  try {
    for (let tries = 1; ; tries++) {
      const { user, system } = process.cpuUsage();
      try {
        return script.runInContext(context, { timeout: LIMIT_MS }) as T;
      } catch (error) {
        // the limit is of the clock, the work is of the processor: only what ran for most of the time has had it
        const spent = process.cpuUsage({ user, system });
        const ran = (spent.user + spent.system) / 1_000 > LIMIT_MS / 2;
        if (ran || tries === STARTS || !isTimeout(error)) throw toldOf(error);
      }
    }
  } finally {
    box.run = () => undefined;
  }
}

/** The same for what cannot take long. */
function unlimited<T>(run: () => T): T {
  try {
    return run();
  } catch (error) {
    throw toldOf(error);
  }
}

/** As an error of the schema, where it is one. */
function toldOf(error: unknown): unknown {
  if (error instanceof SchemaError) return error;
  const { message } = error as Error;
  if (isTimeout(error)) return new SchemaError(`The schema takes more than ${LIMIT_MS} ms to answer.`);
  if (error instanceof RangeError || error instanceof SyntaxError)
    return new SchemaError(`The schema cannot be used: ${message.slice(-200)}.`);
  return error;
}

function isTimeout(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === 'ERR_SCRIPT_EXECUTION_TIMEOUT';
}
