/**
 * The values of Parquet as JSON has them, none of them changed: what is no number of JavaScript is a text with all its digits
 * (`"8.50"`, `"2026-01-02T03:04:05.123456Z"`), bytes are base64.
 */
import type { Raw } from './encoded.ts';
import type { Digits, Element } from './footer.ts';
import type { Shape } from './leaf.ts';

/** Told what is shown otherwise than it is. */
type Note = (words: string) => void;

const TEXTS = new Set(['UTF8', 'JSON', 'ENUM']);

/** Whether a value is a text, if its bytes are UTF-8. */
export const isText = ({ kind, meaning }: Element): boolean =>
  kind === 'BYTE_ARRAY' && meaning !== null && TEXTS.has(meaning.name);

export function shapeOf(element: Element, note: Note): Shape {
  const { kind, meaning } = element;
  if (isText(element)) return values => textOf(values.raw() as Uint8Array, note);
  const isBytes = kind === 'BYTE_ARRAY' || kind === 'FIXED_LEN_BYTE_ARRAY';
  if (kind === 'INT96') return values => momentOf96(values.raw() as Uint8Array);
  const isWhole = kind === 'INT32' || kind === 'INT64';
  switch (isWhole || isBytes ? meaning?.name : undefined) {
    case 'DECIMAL':
      return values => decimalText(values.raw(), meaning!.scale);
    case 'DATE':
      if (isWhole) return values => dateText(values.raw() as number);
      break;
    case 'TIMESTAMP':
      if (isWhole)
        return values => momentText(values.raw() as number, meaning!.digits, meaning!.isUtc ? 'Z' : '');
      break;
    case 'TIME':
      if (isWhole) return values => clockText(BigInt(values.raw() as number), meaning!.digits);
      break;
    case 'INTEGER':
      if (isWhole && !meaning!.isSigned) return values => plain(unsigned(values.raw(), kind), note);
      break;
    case 'UUID':
      if (element.length === 16) return values => uuidText(values.raw() as Uint8Array);
      break;
    case 'FLOAT16':
      if (element.length === 2) return values => plain(half(values.raw() as Uint8Array), note);
      break;
    default:
  }
  return values => plain(values.raw(), note);
}

const bufferOf = (bytes: Uint8Array): Buffer => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** What says that it is a text, and is none, stays the bytes that it is. */
function textOf(bytes: Uint8Array, note: Note): unknown {
  if (bytes.length <= 24) {
    const text = asciiOf(bytes);
    if (text !== null) return text;
  }
  try {
    return utf8.decode(bytes);
  } catch {
    return plain(bytes, note);
  }
}

/** Short texts are many, and a call into the system takes as long as forty characters. */
function asciiOf(bytes: Uint8Array): string | null {
  let text = '';
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at]!;
    if (byte > 127) return null;
    text += String.fromCharCode(byte);
  }
  return text;
}

function plain(value: Raw, note: Note): unknown {
  if (typeof value === 'bigint') return String(value);
  if (typeof value === 'number') {
    if (Number.isFinite(value)) return value;
    note(`${value}, for which JSON has no number: it is a text`);
    return String(value);
  }
  if (value instanceof Uint8Array) {
    note('bytes that are no text: they are base64');
    return bufferOf(value).toString('base64');
  }
  return value;
}

function unsigned(value: Raw, kind: 'INT32' | 'INT64'): number | bigint {
  if (kind === 'INT32') return (value as number) >>> 0;
  if (typeof value === 'number' && value >= 0) return value;
  return BigInt.asUintN(64, BigInt(value as number));
}

function half(bytes: Uint8Array): number {
  const bits = bytes[0]! | (bytes[1]! << 8);
  const exponent = (bits >> 10) & 31;
  const rest = bits & 1023;
  const size =
    exponent === 31
      ? rest === 0
        ? Number.POSITIVE_INFINITY
        : Number.NaN
      : exponent === 0
        ? rest * 2 ** -24
        : (1024 + rest) * 2 ** (exponent - 25);
  return bits > 32767 ? -size : size;
}

function uuidText(bytes: Uint8Array): string {
  const hex = bufferOf(bytes).toString('hex');
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-');
}

/** `unscaled` is a whole number, or its bytes, big-endian in two's complement. */
function decimalText(unscaled: Raw, scale: number): string {
  const whole = unscaled instanceof Uint8Array ? signedOf(unscaled) : BigInt(unscaled as number);
  if (scale <= 0) return String(whole * 10n ** BigInt(-scale));
  const digits = String(whole < 0n ? -whole : whole).padStart(scale + 1, '0');
  return `${whole < 0n ? '-' : ''}${digits.slice(0, -scale)}.${digits.slice(-scale)}`;
}

/** bytes; those of 256 bits have 32 */
const MOST_DECIMAL = 1_024;

function signedOf(bytes: Uint8Array): bigint {
  if (bytes.length === 0) return 0n;
  if (bytes.length > MOST_DECIMAL) throw new Error(`a decimal of ${bytes.length} bytes`);
  return BigInt.asIntN(8 * bytes.length, BigInt(`0x${bufferOf(bytes).toString('hex')}`));
}

const DAY = 86_400;

/** `2026-01-02`; undefined beyond what a Date knows. Years before 1 or behind 9999 as ISO 8601 has them, with a sign. */
function dayText(days: number): string | undefined {
  const date = new Date(days * DAY * 1000);
  return Number.isNaN(date.getTime()) ? undefined : date.toISOString().split('T', 1)[0];
}

const dateText = (days: number): string => dayText(days) ?? `${days} days since 1970-01-01`;

function momentText(since: number | bigint, digits: Digits, zone: string): string {
  const whole = BigInt(since);
  const perDay = BigInt(DAY) * 10n ** BigInt(digits);
  const within = ((whole % perDay) + perDay) % perDay;
  const day = dayText(Number((whole - within) / perDay));
  if (day === undefined) return `${whole} of 10^-${digits} s since 1970-01-01`;
  return `${day}T${clockText(within, digits)}${zone}`;
}

const FIRST_JULIAN = 2_440_588; // 1970-01-01

/** Nanoseconds within a day, and the day. */
function momentOf96(bytes: Uint8Array): string {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const days = BigInt(view.getInt32(8, true) - FIRST_JULIAN);
  return momentText(days * BigInt(DAY) * 1_000_000_000n + view.getBigInt64(0, true), 9, '');
}

/** `03:04:05`, with a fraction where there is one. */
function clockText(since: bigint, digits: Digits): string {
  const unit = 10n ** BigInt(digits);
  const seconds = since / unit;
  const two = (value: bigint): string => String(value).padStart(2, '0');
  const fraction = since % unit === 0n ? '' : `.${String(since % unit).padStart(digits, '0')}`;
  return `${two(seconds / 3600n)}:${two((seconds / 60n) % 60n)}:${two(seconds % 60n)}${fraction}`;
}
