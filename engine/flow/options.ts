/**
 * Options are declared once, as JSON Schema properties; flags, pipeline files, help and types derive from them.
 */

import { isRemote, withoutKeys } from '../core/files/input-files.ts';
import { usageError } from '../core/item/failure.ts';
import { nearest } from '../core/item/wording.ts';

/** Under which heading of the help an option is shown; without one it is the verb's own. */
export type Group = 'Asking' | 'Endpoints' | 'Ledger' | 'Watching' | 'Workers' | 'Common';

interface Described {
  description: string;
  /** one letter, for `-i` in place of the name */
  short?: string;
  group?: Group;
}

/** What an option that names files or folders does with them; engine/running/stage-options.ts has all that follows from it. */
export type FileUse = 'read' | 'read-many' | 'read-folder' | 'write' | 'write-folder';

interface Naming {
  file?: FileUse;
  /** the path is found from the folder of the pipeline file, where there is one, and not from the current folder */
  from?: 'base';
}

export type OptionSchema =
  | ({ type: 'string'; enum?: readonly string[]; default?: string } & Naming & Described)
  | ({ type: 'integer' | 'number'; minimum?: number; maximum?: number; default?: number } & Described)
  | ({ type: 'boolean'; default?: boolean } & Described)
  | ({ type: 'array'; items: { type: 'string' }; default?: readonly string[] } & Naming & Described);

export type OptionSchemas = Readonly<Record<string, OptionSchema>>;

/** The same options, each under the heading `group`. */
export function grouped<const S extends OptionSchemas>(group: Group, options: S): S {
  const entries = Object.entries(options).map(([name, schema]) => [name, { ...schema, group }]);
  return Object.fromEntries(entries) as S;
}

type ValueOf<S> = S extends { enum: readonly (infer E)[] }
  ? E
  : S extends { type: 'string' }
    ? string
    : S extends { type: 'integer' | 'number' }
      ? number
      : S extends { type: 'boolean' }
        ? boolean
        : S extends { type: 'array' }
          ? string[]
          : never;

/** What a stage receives: an option with a default is always there; an absent boolean is undefined, so falsy. */
export type OptionsOf<S extends OptionSchemas> = {
  [K in keyof S]: S[K] extends { default: unknown } ? ValueOf<S[K]> : ValueOf<S[K]> | undefined;
};

export type Values = Record<string, unknown>;

/**
 * Checks values (from flags, as text, or from a pipeline file, as YAML typed them) and fills defaults in.
 * `complain` is told what was expected and found, and must throw: only the caller knows where the value is.
 */
export function resolveOptions(
  schemas: OptionSchemas,
  given: Values,
  complain: (name: string, message: string) => never,
): Values {
  for (const name of Object.keys(given)) {
    if (!Object.hasOwn(schemas, name)) complain(name, unknownOption(name, Object.keys(schemas)));
  }
  const values: Values = {};
  for (const [name, schema] of Object.entries(schemas)) {
    const value = given[name];
    if (value === undefined || value === null) values[name] = schema.default;
    else values[name] = checkedValue(schema, value, message => complain(name, message));
  }
  return values;
}

function unknownOption(name: string, known: string[]): string {
  const near = nearest(name, known);
  return `no option '${name}'${near ? `; did you mean '${near}'?` : `; the options are ${known.join(', ')}`}`;
}

function checkedValue(schema: OptionSchema, value: unknown, complain: (message: string) => never): unknown {
  const found = () => JSON.stringify(value)?.slice(0, 80);
  switch (schema.type) {
    case 'boolean':
      if (value === true || value === 'true') return true;
      if (value === false || value === 'false') return false;
      return complain(`expected true or false, found ${found()}`);
    case 'array': {
      const list = Array.isArray(value) ? value : [value];
      return list.every(isScalar) ? list.map(String) : complain(`expected a list of texts, found ${found()}`);
    }
    case 'string': {
      if (!isScalar(value)) return complain(`expected one text, found ${found()}`);
      const text = String(value);
      if (schema.enum && !schema.enum.includes(text)) {
        return complain(`expected one of ${schema.enum.join(', ')}, found ${found()}`);
      }
      if (isOnDisk(schema) && isRemote(text))
        return complain(`expected a path on disk, found an address: ${withoutKeys(text)}`);
      return text;
    }
    default: {
      const kind = schema.type === 'integer' ? 'a whole number' : 'a number';
      const number =
        typeof value === 'number' ? value : typeof value === 'string' && value.trim() ? Number(value) : NaN;
      if (!Number.isFinite(number) || (schema.type === 'integer' && !Number.isSafeInteger(number))) {
        return complain(`expected ${kind}, found ${found()}`);
      }
      const { minimum = -Infinity, maximum = Infinity } = schema;
      if (number < minimum || number > maximum) {
        const bounds = maximum === Infinity ? `of at least ${minimum}` : `from ${minimum} to ${maximum}`;
        return complain(`expected ${kind} ${bounds}, found ${found()}`);
      }
      return number;
    }
  }
}

/** What a run is set up by, and folders: no lines that are read one after the other. */
function isOnDisk({ file, from }: Naming): boolean {
  return from === 'base' || file === 'read-folder' || file === 'write-folder';
}

function isScalar(value: unknown): boolean {
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean';
}

/** The names in an option that may be given several times, or once with commas. */
export function namesIn(texts: readonly string[] = []): string[] {
  return texts.flatMap(text => text.split(',')).map(name => name.trim());
}

const UNITS: Record<string, number> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 };

/** A timer that is set for longer fires at once: its milliseconds are a signed 32-bit number. */
const MAX_TIMER_MS = 24 * 24 * 3_600_000;

/** `250ms`, `30s`, `10m` or `2h` in milliseconds. Throws a usage error, named after `flag`, beyond 24 days too. */
export function durationOf(text: string, flag: string): number {
  const match = /^(\d{1,9}(?:\.\d{1,3})?)(ms|s|m|h)$/.exec(text.trim());
  const duration = match ? Number(match[1]) * (UNITS[match[2] as string] as number) : Number.NaN;
  if (duration <= MAX_TIMER_MS) return duration;
  const most = match ? `of at most ${MAX_TIMER_MS / 3_600_000}h` : 'such as 250ms, 90s, 10m or 2h';
  throw usageError(`${flag}: expected a duration ${most}, found '${text}'`);
}
