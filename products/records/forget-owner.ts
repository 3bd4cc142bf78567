/**
 * Forgetting what somebody asked a server: the texts of his calls go, and what they cost stays. Each line is written over
 * where it is, with as many bytes, so that a server which appends to the file, or knows places in it, is not disturbed.
 */
import { closeSync, constants, fsyncSync, openSync, writeSync } from 'node:fs';
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

function forgetIn(path: string, owner: string, before: string | null, tell: Tell) {
  const sum = { calls: 0, bytes: 0 };
  let file: number | null = null;
  try {
    for (const { at, bytes } of linesOf(path, tell)) {
      const call = isCall(bytes) ? callIn(bytes) : null;
      if (call === null || call.caller !== owner || call.forgotten) continue;
      if (before !== null && call.time.slice(0, 10) >= before) continue;
      const line = bareLine(call, bytes.length);
      file ??= openSync(path, constants.O_WRONLY | constants.O_NOFOLLOW);
      writeSync(file, line, 0, line.length, at);
      sum.calls += 1;
      sum.bytes += line.length;
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

/** The line without its texts, sealed, in exactly `length` bytes: JSON may have spaces before a comma. */
function bareLine(call: CallHead, length: number): Buffer {
  const { answer, detail: _detail, whole: _whole, logprobs: _logprobs, ...kept } = call;
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
