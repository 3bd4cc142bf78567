/**
 * Forgetting what somebody asked a server: the texts of his calls go, and what they cost stays. Each line is written over
 * where it is, with as many bytes, so that a server which appends to the file, or knows places in it, is not disturbed.
 */
import { closeSync, constants, fsyncSync, openSync, readSync, statSync, writeSync } from 'node:fs';
import { isCall, roomFor, SEAL_LENGTH, writeSealed } from '../../engine/asking/ledger/ledger-format.ts';
import {
  type CallHead,
  callIn,
  ledgerFiles,
  linesOf,
  type Tell,
} from '../../engine/asking/ledger/read-ledger.ts';
import { ioError } from '../../engine/core/item/failure.ts';

export interface Forgotten {
  calls: number;
  files: number;
  /** of the lines that were written over */
  bytes: number;
}

/**
 * The calls whose `caller` is `owner`, up to the day before `before` (YYYY-MM-DD, UTC) or all. What was appended meanwhile
 * may be left. Exit 74 where a file cannot be written.
 */
export function forgetOwner(path: string, owner: string, before: string | null, tell: Tell): Forgotten {
  const forgotten: Forgotten = { calls: 0, files: 0, bytes: 0 };
  for (const file of ledgerFiles(path, tell)) {
    const { calls, bytes } = forgetIn(file, owner, before, tell);
    forgotten.calls += calls;
    forgotten.bytes += bytes;
    forgotten.files += calls > 0 ? 1 : 0;
  }
  return forgotten;
}

/** ms after which the end of a line is not written any more */
const QUIET = 60_000;

function forgetIn(path: string, owner: string, before: string | null, tell: Tell) {
  const sum = { calls: 0, bytes: 0 };
  let file: number | null = null;
  const over = (bytes: Buffer, at: number): void => {
    file ??= openSync(path, constants.O_RDWR | constants.O_NOFOLLOW);
    writeSync(file, bytes, 0, bytes.length, at);
    sum.calls += 1;
    sum.bytes += bytes.length;
  };
  /** What is no line says whose it is all the same. A torn one that is still being written will be whole. */
  const heard: Tell = trouble => {
    const { kind, at, length } = trouble;
    const isQuiet = kind === 'damage' || Date.now() - statSync(path).mtimeMs > QUIET;
    if (length === 0 || length > MOST || before !== null) return tell(trouble);
    if (!bytesAt(path, at, length).includes(`"caller":${JSON.stringify(owner)}`)) return tell(trouble);
    if (isQuiet) return over(Buffer.alloc(length, ' '), at);
    const message = `a line of ${owner} at byte ${at} has no end yet: give the command again in a minute`;
    tell({ ...trouble, kind: 'damage', message });
  };
  try {
    for (const { at, bytes } of linesOf(path, heard)) {
      const call = isCall(bytes) ? callIn(bytes) : null;
      if (call === null || call.caller !== owner || call.forgotten) continue;
      if (before !== null && call.time.slice(0, 10) >= before) continue;
      over(bareLine(call, bytes.length), at);
    }
    if (file !== null) fsyncSync(file);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === undefined) throw error;
    throw ioError(`${path}: expected to write over calls of ${owner}, found ${message}`);
  } finally {
    if (file !== null) closeSync(file);
  }
  return sum;
}

/** Bytes of damage that are looked at; more is told. */
const MOST = 1 << 26;

function bytesAt(path: string, at: number, length: number): Buffer {
  const file = openSync(path, 'r');
  try {
    const bytes = Buffer.alloc(length);
    return bytes.subarray(0, readSync(file, bytes, 0, length, at));
  } finally {
    closeSync(file);
  }
}

/** The line without its texts, sealed, in exactly `length` bytes: JSON may have spaces before a comma. */
function bareLine(call: CallHead, length: number): Buffer {
  const { answer, detail: _detail, whole: _whole, logprobs: _logprobs, ...named } = call;
  const { tool_calls: _calls, reasoning: _reasoning, reasoning_whole: _thought, ...kept } = named;
  const bare = { ...kept, ...(answer !== undefined && { answer: '' }) };
  const request = { path: call.agent, body: {} };
  const room = length - SEAL_LENGTH;
  // a request of a few bytes has no room for what says so
  const marks = [{ redacted: true, forgotten: true }, { redacted: true }, {}];
  const texts = marks.map(mark => JSON.stringify({ ...bare, ...mark, request }).slice(0, -1));
  const text = texts.find(one => Buffer.byteLength(one) <= room) as string;
  const line = text + ' '.repeat(room - Buffer.byteLength(text));
  const sealed = Buffer.alloc(roomFor(line));
  writeSealed(line, sealed, 0);
  return sealed.subarray(0, length);
}
