/**
 * Where each answer of a ledger is, by its key: typed arrays of 25 bytes a slot, since a Map of a million keys costs
 * as much as all the rest of a run. Of a key the first 64 bits are kept; who reads the line compares all of it.
 */

import { hash } from 'node:crypto';
import { type CallLine, type Header, keyIn } from './ledger-format.ts';

export interface Place {
  file: number;
  offset: number;
  length: number;
}

export type Keys = ReturnType<typeof createKeys>;

const FIRST_SLOTS = 1024;
/** beyond this share of full slots, probing takes longer than it is worth */
const FULLEST = 0.7;

interface Slots {
  count: number;
  high: Uint32Array;
  low: Uint32Array;
  /** 0 where the slot is empty */
  length: Uint32Array;
  offset: Float64Array;
  file: Uint32Array;
  note: Uint8Array;
}

export function createKeys() {
  let slots = slotsOf(FIRST_SLOTS);
  let size = 0;

  return {
    get size(): number {
      return size;
    },
    /** False where the key was there already: the first line wins. */
    add(key: string, { file, offset, length }: Place): boolean {
      const high = highOf(key);
      const low = lowOf(key);
      const at = find(slots, high, low);
      if (slots.length[at] !== 0) return false;
      put(slots, at, high, low);
      slots.length[at] = length;
      slots.offset[at] = offset;
      slots.file[at] = file;
      size += 1;
      if (size > slots.count * FULLEST) slots = grown(slots);
      return true;
    },
    /** null where the key is unknown */
    placeOf(key: string): Place | null {
      const at = find(slots, highOf(key), lowOf(key));
      const length = slots.length[at] as number;
      if (length === 0) return null;
      return { file: slots.file[at] as number, offset: slots.offset[at] as number, length };
    },
    /** A small number (1 to 255) noted beside a known key; 0 where none was. */
    note(key: string, value: number): void {
      const at = find(slots, highOf(key), lowOf(key));
      if (slots.length[at] !== 0) slots.note[at] = value;
    },
    noteOf: (key: string): number => slots.note[find(slots, highOf(key), lowOf(key))] as number,
  };
}

// Keys are SHA-256: their first characters are as good as any hash of them.
const highOf = (key: string): number => Number.parseInt(key.slice(0, 8), 16) >>> 0;
const lowOf = (key: string): number => Number.parseInt(key.slice(8, 16), 16) >>> 0;

function slotsOf(count: number): Slots {
  return {
    count,
    high: new Uint32Array(count),
    low: new Uint32Array(count),
    length: new Uint32Array(count),
    offset: new Float64Array(count),
    file: new Uint32Array(count),
    note: new Uint8Array(count),
  };
}

/** The slot of a key, or the empty one where it belongs. */
function find({ count, high, low, length }: Slots, keyHigh: number, keyLow: number): number {
  let at = keyLow & (count - 1);
  while (length[at] !== 0 && (low[at] !== keyLow || high[at] !== keyHigh)) at = (at + 1) & (count - 1);
  return at;
}

function put(slots: Slots, at: number, high: number, low: number): void {
  slots.high[at] = high;
  slots.low[at] = low;
}

function grown(old: Slots): Slots {
  const slots = slotsOf(2 * old.count);
  for (let from = 0; from < old.count; from++) {
    if (old.length[from] === 0) continue;
    const high = old.high[from] as number;
    const low = old.low[from] as number;
    const at = find(slots, high, low);
    put(slots, at, high, low);
    slots.length[at] = old.length[from] as number;
    slots.offset[at] = old.offset[from] as number;
    slots.file[at] = old.file[from] as number;
    slots.note[at] = old.note[from] as number;
  }
  return slots;
}

/**
 * By what an answer is found again. A key is made of the request's body, and that names the model; but a raw request
 * may name none, and then several models may have answered one key. Such an answer is known by its key and by the model
 * that was asked, so that no model's answer is taken for another's.
 */
const BEFORE_MODEL = Buffer.from('","model":"');
const UNNAMED = Buffer.from(',"unnamed":true');
const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/** What the answer of `model` to a request that names none is found by: 32 hex characters, as a key. */
export function nameFor(key: string, model: string): string {
  return hash('sha256', `${key}\n${model}`, 'hex').slice(0, key.length);
}

/**
 * The model that was asked in a call line whose request names none; null where it names one. Older ledgers
 * have an empty model there: it is that of their run, in the header.
 */
export function unnamedIn(line: Buffer, header: Pick<Header, 'model'> | null): string | null {
  const found = line.indexOf(BEFORE_MODEL); // quotes are escaped in texts, so that none of them holds this
  if (found === -1) return null;
  const from = found + BEFORE_MODEL.length;
  let end = from;
  while (end < line.length && line[end] !== QUOTE) end += line[end] === BACKSLASH ? 2 : 1;
  if (end === from) return header?.model ?? '';
  const isUnnamed = UNNAMED.compare(line, end + 1, end + 1 + UNNAMED.length) === 0;
  return isUnnamed ? JSON.parse(line.toString('utf8', from - 1, end + 1)) : null;
}

/** What the answer of a call line is found by. */
export function nameIn(line: Buffer, header: Pick<Header, 'model'> | null): string {
  const key = keyIn(line);
  const model = unnamedIn(line, header);
  return model === null ? key : nameFor(key, model);
}

/** The same of a call line that was read. */
export function nameOfCall(
  { key, model, unnamed }: Pick<CallLine, 'key' | 'model' | 'unnamed'>,
  header: Pick<Header, 'model'> | null,
): string {
  if (model === '') return nameFor(key, header?.model ?? '');
  return unnamed ? nameFor(key, model) : key;
}

/** What the answer is found by that a verdict is of, if its request names no model: without one it is that of the run. */
export function nameOfVerdict(
  { key, model }: { key?: unknown; model?: unknown },
  header: Pick<Header, 'model'> | null,
): string {
  return nameFor(String(key), typeof model === 'string' ? model : (header?.model ?? ''));
}
