/**
 * Passing over JSON texts without parsing them: over bytes from bracket to bracket, in any number of blocks, and over a
 * text to the place of a value, so that the very characters that a model wrote can be shown.
 */
import type { JsonObject } from './pointer.ts';

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COLON = 0x3a;
const NEWLINE = 10;
export const COMMA = 0x2c;
export const OPEN_ARRAY = 0x5b;
export const CLOSE_ARRAY = 0x5d;
export const OPEN_OBJECT = 0x7b;
export const CLOSE_OBJECT = 0x7d;

/** Where the reader is; `at` may be a byte beyond the block, where a backslash is its last byte. */
export interface Skim {
  at: number;
  depth: number;
  inString: boolean;
}

/**
 * Goes on to the next comma or bracket outside of strings; undefined at the end of the block. `depth` is not changed:
 * see `enter`. A raw newline in a string, which JSON does not have, is returned too.
 */
export function structural(block: Buffer, skim: Skim): number | undefined {
  let { at, inString } = skim;
  const end = block.length;
  let stop: number | undefined;
  for (; at < end; at++) {
    const byte = block[at] as number;
    if (inString) {
      if (byte === BACKSLASH) at += 1;
      else if (byte === QUOTE) inString = false;
      else if (byte === NEWLINE) {
        stop = byte;
        break;
      }
    } else if (byte === QUOTE) inString = true;
    else if (byte === COMMA || isBracket(byte)) {
      stop = byte;
      break;
    }
  }
  skim.at = at;
  skim.inString = inString;
  return stop;
}

const isBracket = (byte: number): boolean =>
  byte === OPEN_OBJECT || byte === CLOSE_OBJECT || byte === OPEN_ARRAY || byte === CLOSE_ARRAY;

/** Passes the byte that was found, into or out of what it opens or closes. */
export function enter(skim: Skim, byte: number): void {
  skim.at += 1;
  if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) skim.depth += 1;
  else if (byte === CLOSE_OBJECT || byte === CLOSE_ARRAY) skim.depth -= 1;
}

export const isSpace = (byte: number | undefined): boolean =>
  byte === 0x20 || byte === NEWLINE || byte === 13 || byte === 9;

export function afterSpaceBytes(block: Buffer, from: number): number {
  let at = from;
  while (isSpace(block[at])) at += 1;
  return at;
}

/** Whether the value at `at` is an object or a list, which is the value of the key `name` (ASCII). */
export function isValueOf(name: string, block: Buffer, at: number): boolean {
  let back = at - 1;
  while (isSpace(block[back])) back -= 1;
  if (block[back] !== COLON) return false;
  back -= 1;
  while (isSpace(block[back])) back -= 1;
  const key = back - name.length - 1;
  return key > 0 && block[key - 1] !== BACKSLASH && block.toString('latin1', key, back + 1) === `"${name}"`;
}

export function parsed(text: string): JsonObject | null {
  try {
    return JSON.parse(text) as JsonObject;
  } catch {
    return null;
  }
}

/** UTF-16 units `from` to `to` of a text. */
export interface Span {
  from: number;
  to: number;
}

/** The value at a pointer, without the space around it; null where nothing is there. */
export function spanOf(text: string, tokens: readonly string[]): Span | null {
  let at = afterSpace(text, 0);
  for (const token of tokens) {
    const next =
      text[at] === '{' ? memberOf(text, at, token) : text[at] === '[' ? elementOf(text, at, token) : -1;
    if (next === -1) return null;
    at = next;
  }
  return { from: at, to: valueEnd(text, at) };
}

function memberOf(text: string, open: number, name: string): number {
  let at = afterSpace(text, open + 1);
  while (text[at] === '"') {
    const keyEnd = stringEnd(text, at);
    const value = afterSpace(text, afterSpace(text, keyEnd) + 1); // past the colon
    if (JSON.parse(text.slice(at, keyEnd)) === name) return value;
    at = afterSpace(text, valueEnd(text, value));
    if (text[at] === ',') at = afterSpace(text, at + 1);
  }
  return -1;
}

function elementOf(text: string, open: number, index: string): number {
  let at = afterSpace(text, open + 1);
  for (let left = Number(index); text[at] !== ']' && at < text.length; left--) {
    if (left === 0) return at;
    at = afterSpace(text, valueEnd(text, at));
    if (text[at] === ',') at = afterSpace(text, at + 1);
  }
  return -1;
}

export function afterSpace(text: string, from: number): number {
  let at = from;
  while (text.charCodeAt(at) <= 32) at += 1;
  return at;
}

export function stringEnd(text: string, open: number): number {
  let at = open + 1;
  while (at < text.length && text[at] !== '"') at += text[at] === '\\' ? 2 : 1;
  return at + 1;
}

export function valueEnd(text: string, from: number): number {
  let depth = 0;
  let at = from;
  while (at < text.length) {
    const unit = text[at];
    if (unit === '"') {
      at = stringEnd(text, at);
      if (depth === 0) return at;
      continue;
    }
    if (unit === '{' || unit === '[') depth += 1;
    else if (unit === '}' || unit === ']') {
      if (depth === 0) return at; // of the object around a number
      depth -= 1;
      if (depth === 0) return at + 1;
    } else if (depth === 0 && (unit === ',' || text.charCodeAt(at) <= 32)) return at;
    at += 1;
  }
  return at;
}
