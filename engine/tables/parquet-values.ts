/**
 * The values of Parquet as JSON has them, none of them changed: what is no number of JavaScript is a text with all its digits
 * (`"8.50"`, `"2026-01-02T03:04:05.123456Z"`), bytes are base64, a map is an object where its keys are texts.
 *
 * hyparquet makes a double of a decimal and a Date of a time, and takes the keys of maps for names of properties. So the schema
 * is told to it without what would make it do so (`raw`), and values are made here by the schema as it was.
 */
import type { FileMetaData, SchemaElement } from 'hyparquet';

/** What a node of the schema makes of a value; nothing is `null`. */
type Shape = (value: unknown) => unknown;

export interface Columns {
  names: readonly string[];
  /** where values are, as a group of rows names them */
  leaves: readonly string[];
  /** by name */
  shapes: ReadonlyMap<string, Shape>;
  /** columns of which some value was shown otherwise than it is, and how */
  notes: ReadonlyMap<string, string>;
}

interface Node {
  element: SchemaElement;
  children: Node[];
}

/** The keys of these objects would not be theirs. */
const NO_NAME = '__proto__';
const DEEPEST = 64;

/** The columns of a file; `metadata` is changed so that values are read raw. Throws an Error where it cannot be read. */
export function columnsOf(metadata: FileMetaData): Columns {
  const notes = new Map<string, string>();
  const { schema } = metadata;
  let next = 0;
  const leaves: string[] = [];
  const nodeAt = (depth: number, path: readonly string[]): Node => {
    const element = schema[next++];
    if (element === undefined || depth > DEEPEST) throw new Error('a schema that has no end');
    if (element.name === NO_NAME) throw new Error(`a column with the name ${NO_NAME}`);
    const own = depth === 0 ? path : [...path, element.name];
    const count = element.num_children ?? 0;
    if (count === 0 && depth > 0) leaves.push(own.join('.'));
    if (count > schema.length) throw new Error('a schema that has no end');
    const children = Array.from({ length: count }, () => nodeAt(depth + 1, own));
    return { element, children };
  };
  const { children } = nodeAt(0, []);
  const names = children.map(({ element }) => element.name);
  const twice = names.find((name, at) => names.indexOf(name) !== at);
  if (twice !== undefined) throw new Error(`the column '${twice.slice(0, 60)}' twice`);
  const shapes = new Map<string, Shape>();
  for (const child of children) {
    const { name } = child.element;
    const note = (words: string): void => void notes.set(name, words);
    shapes.set(name, shapeOf(child, note));
  }
  return { names, leaves, shapes, notes };
}

function shapeOf(node: Node, note: (words: string) => void): Shape {
  const { element, children } = node;
  const [child] = children;
  const kind = element.logical_type?.type ?? element.converted_type;
  let shape: Shape;
  if (child === undefined) shape = leafShape(element, note);
  else if (kind === 'LIST' && children.length === 1 && child.element.repetition_type === 'REPEATED') {
    element.converted_type = 'LIST'; // all that hyparquet knows a list by
    const [only] = child.children;
    const items = shapeOf(
      child.children.length === 1 ? only! : { ...child, element: single(child.element) },
      note,
    );
    shape = value => listed(value, items);
  } else if ((kind === 'MAP' || kind === 'MAP_KEY_VALUE') && child.children.length === 2) {
    delete element.converted_type;
    delete element.logical_type;
    const [key, value] = child.children as [Node, Node];
    shape = mapShape(child.element.name, [key, shapeOf(key, note)], [value, shapeOf(value, note)]);
  } else {
    const parts = children.map(one => [one.element.name, shapeOf(one, note)] as const);
    shape = value => {
      const fields = value as Record<string, unknown>;
      return Object.fromEntries(parts.map(([name, part]) => [name, present(fields[name], part)]));
    };
  }
  return element.repetition_type === 'REPEATED' ? value => listed(value, shape) : shape;
}

const single = (element: SchemaElement): SchemaElement => ({ ...element, repetition_type: 'OPTIONAL' });

const present = (value: unknown, shape: Shape): unknown =>
  value === null || value === undefined ? null : shape(value);

const listed = (value: unknown, shape: Shape): unknown[] =>
  Array.from(value as Iterable<unknown>, one => present(one, shape));

/** Pairs, in their order; an object where each key is a text, and comes once. */
function mapShape(entries: string, [key, ofKey]: [Node, Shape], [value, ofValue]: [Node, Shape]): Shape {
  return raw => {
    const found = ((raw as Record<string, unknown>)[entries] ?? []) as Record<string, unknown>[];
    const pairs = Array.from(found, pair => [
      present(pair[key.element.name], ofKey),
      present(pair[value.element.name], ofValue),
    ]);
    const keys = new Set(pairs.map(([name]) => name));
    const isObject = keys.size === pairs.length && [...keys].every(name => typeof name === 'string');
    return isObject ? Object.fromEntries(pairs) : pairs;
  };
}

const UNITS = { MILLIS: 3, MICROS: 6, NANOS: 9 } as const;

function leafShape(element: SchemaElement, note: (words: string) => void): Shape {
  const { type, logical_type: logical, converted_type: converted } = element;
  const isRaw = (): void => {
    delete element.logical_type;
    delete element.converted_type;
  };
  if (logical?.type === 'DECIMAL' || converted === 'DECIMAL') {
    const scale = element.scale ?? (logical?.type === 'DECIMAL' ? logical.scale : 0);
    isRaw();
    return value => decimalText(value, scale);
  }
  if (logical?.type === 'DATE' || converted === 'DATE') {
    isRaw();
    return value => dayText(BigInt(value as number)) ?? `${value} days since 1970-01-01`;
  }
  if (logical?.type === 'TIMESTAMP' || converted === 'TIMESTAMP_MILLIS' || converted === 'TIMESTAMP_MICROS') {
    const digits =
      UNITS[
        logical?.type === 'TIMESTAMP' ? logical.unit : converted === 'TIMESTAMP_MILLIS' ? 'MILLIS' : 'MICROS'
      ];
    const zone = logical?.type === 'TIMESTAMP' && !logical.isAdjustedToUTC ? '' : 'Z';
    isRaw();
    return value => momentText(BigInt(value as bigint), digits, zone);
  }
  if (logical?.type === 'TIME' || converted === 'TIME_MILLIS' || converted === 'TIME_MICROS') {
    const digits =
      UNITS[logical?.type === 'TIME' ? logical.unit : converted === 'TIME_MILLIS' ? 'MILLIS' : 'MICROS'];
    isRaw();
    return value => clockText(BigInt(value as bigint), digits);
  }
  // the parser of these is told to give the nanoseconds themselves
  if (type === 'INT96') return value => momentText(value as bigint, UNITS.NANOS, '');
  const kind = logical?.type ?? converted ?? '';
  const isText = ['STRING', 'UTF8', 'JSON', 'ENUM'].includes(kind);
  if (isText || ['BSON', 'INTERVAL', 'GEOMETRY', 'GEOGRAPHY', 'VARIANT'].includes(kind)) isRaw();
  return isText ? value => textOf(value as Uint8Array, note) : value => plain(value, note);
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** What says that it is a text, and is none, stays the bytes that it is. */
function textOf(bytes: Uint8Array, note: (words: string) => void): unknown {
  try {
    return utf8.decode(bytes);
  } catch {
    return plain(bytes, note);
  }
}

function plain(value: unknown, note: (words: string) => void): unknown {
  if (typeof value === 'bigint') return Number.isSafeInteger(Number(value)) ? Number(value) : String(value);
  if (typeof value === 'number') {
    if (Number.isFinite(value)) return value;
    note(`${value}, for which JSON has no number: it is a text`);
    return String(value);
  }
  if (value instanceof Uint8Array) {
    note('bytes that are no text: they are base64');
    return Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString('base64');
  }
  return value;
}

/** `unscaled` is a whole number, or its bytes, big-endian in two's complement. */
function decimalText(unscaled: unknown, scale: number): string {
  const whole = unscaled instanceof Uint8Array ? signedOf(unscaled) : BigInt(unscaled as number);
  if (scale <= 0) return String(whole * 10n ** BigInt(-scale));
  const digits = String(whole < 0n ? -whole : whole).padStart(scale + 1, '0');
  return `${whole < 0n ? '-' : ''}${digits.slice(0, -scale)}.${digits.slice(-scale)}`;
}

function signedOf(bytes: Uint8Array): bigint {
  if (bytes.length === 0) return 0n;
  const hex = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('hex');
  return BigInt.asIntN(8 * bytes.length, BigInt(`0x${hex}`));
}

const DAY = 86_400n;

/** `2026-01-02`; undefined beyond what a Date knows. Years before 1 or behind 9999 as ISO 8601 has them, with a sign. */
function dayText(days: bigint): string | undefined {
  const date = new Date(Number(days * DAY * 1000n));
  return Number.isNaN(date.getTime()) ? undefined : date.toISOString().split('T', 1)[0];
}

function momentText(since: bigint, digits: number, zone: string): string {
  const perDay = DAY * 10n ** BigInt(digits);
  const within = ((since % perDay) + perDay) % perDay;
  const day = dayText((since - within) / perDay);
  if (day === undefined) return `${since} of 10^-${digits} s since 1970-01-01`;
  return `${day}T${clockText(within, digits)}${zone}`;
}

/** `03:04:05`, with a fraction where there is one. */
function clockText(since: bigint, digits: number): string {
  const unit = 10n ** BigInt(digits);
  const seconds = since / unit;
  const two = (value: bigint): string => String(value).padStart(2, '0');
  const fraction = since % unit === 0n ? '' : `.${String(since % unit).padStart(digits, '0')}`;
  return `${two(seconds / 3600n)}:${two((seconds / 60n) % 60n)}:${two(seconds % 60n)}${fraction}`;
}
