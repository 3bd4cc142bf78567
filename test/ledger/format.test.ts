/** The lines: whatever is written reads back as it was, byte for byte, and every flipped bit is found. */

import fc from 'fast-check';
import { expect, test } from 'vitest';
import { loadAgents, packagedAgents } from '../../engine/asking/agents/load-agents.ts';
import { bodies, escaped, keyOf } from '../../engine/asking/agents/request-body.ts';
import {
  type CallRecord,
  callLine,
  idOfText,
  isAnswer,
  isCall,
  isSealed,
  isStage,
  isVerdict,
  keyIn,
  readVerdict,
  roomFor,
  writeSealed,
} from '../../engine/asking/ledger/ledger-format.ts';
import { answerIn } from '../../engine/asking/ledger/read-ledger.ts';
import { bodyOf } from '../../engine/asking/ledger/request-texts.ts';
import { RUNGS } from '../../engine/core/item/item.ts';
import { anyText, holds, keyFor, recordOf } from './records.ts';

const TEXTS = new Map<string, string>();
/** The bytes of a record's line without its newline, and how to find its texts. */
function sealed(record: CallRecord): Buffer {
  const [head, tail] = [idOfText(record.head), idOfText(record.tail)];
  TEXTS.set(head, record.head).set(tail, record.tail);
  return sealedLine(callLine(record, head, tail));
}
function sealedLine(line: Parameters<typeof writeSealed>[0]): Buffer {
  const bytes = Buffer.alloc(roomFor(line));
  const end = writeSealed(line, bytes, 0);
  expect(bytes[end - 1]).toBe(10);
  return bytes.subarray(0, end - 1);
}
const bodyIn = (line: Buffer): string => bodyOf(line, id => TEXTS.get(id) ?? null) as string;

const anyRecord = fc
  .record({
    says: anyText,
    answer: anyText,
    item: anyText,
    agent: anyText,
    finish: fc.oneof(fc.constantFrom('stop', 'length'), anyText),
    endpoint: anyText,
    model: anyText,
    path: anyText,
    round: fc.nat(9),
    attempt: fc.integer({ min: 1, max: 20 }),
    ms: fc.double({ min: 0, max: 1e7, noNaN: true }),
    usage: fc.record({ prompt: fc.nat(), completion: fc.nat(), cached: fc.nat() }),
  })
  .map(fields => recordOf(fields));

test('an answer reads back as it was, in one line that is JSON, with its request byte for byte', () =>
  holds(anyRecord, record => {
    const line = sealed(record);
    expect(line.includes(10)).toBe(false);
    expect(isSealed(line) && isAnswer(line) && isCall(line)).toBe(true);
    expect(isVerdict(line) || isStage(line)).toBe(false);
    expect(keyIn(line)).toBe(record.key);
    const { key, answer: text, finish, usage } = record;
    expect(answerIn(line)).toEqual({ agent: record.agent, key, text, finish, usage });
    const { path, body, head, tail, time, ms, ...kept } = record;
    const read = JSON.parse(line.toString());
    expect(read).toMatchObject({ ...kept, time: new Date(time).toISOString(), ms: Math.round(ms) });
    expect(read.request.path).toBe(path);
    expect(bodyIn(line)).toBe(body.toString());
  }));

test('what went wrong is told as it was, and is no answer', () =>
  holds(anyText, detail => {
    const { answer: _a, finish: _f, usage: _u, ...failed } = recordOf({ outcome: 'transport', detail });
    const line = sealed(failed);
    expect(isSealed(line) && isCall(line)).toBe(true);
    expect(isAnswer(line)).toBe(false);
    expect(JSON.parse(line.toString())).toMatchObject({ outcome: 'transport', detail });
    expect(bodyIn(line)).toBe(failed.body.toString());
  }));

const agents = [...loadAgents(packagedAgents()).byKey.values()];
const anyRejected = fc.option(fc.record({ raw: anyText, complaint: anyText }), { nil: undefined });

test('the bodies of the packaged agents are rebuilt byte for byte, whatever they were shown', () =>
  holds(
    fc.record({
      agent: fc.constantFrom(...agents),
      text: anyText,
      rejected: anyRejected,
      guided: fc.constantFrom('on' as const, 'off' as const),
    }),
    ({ agent, text, rejected, guided }) => {
      const { head, tail, bodyOf: build } = bodies(agent, 'a model "so named"', guided);
      const context = escaped(text);
      const identity = { id: text, agent: agent.key, round: 0, attempt: 2 };
      const asked = { context, temperature: 0.3, seed: 5, ...(rejected && { rejected }) };
      const { body, key } = build(asked, identity);
      expect(bodyIn(sealed({ ...recordOf(), body, head, tail }))).toBe(body.toString());
      expect(keyOf(body.toString(), identity)).toBe(key);
    },
  ));

test('an answer of 16 MiB, and one of nothing', () => {
  for (const answer of ['', '\u0000"\\é\ud83d\ude00\ud800'.repeat(1 << 21)]) {
    const line = sealed(recordOf({ answer }));
    expect(isSealed(line)).toBe(true);
    expect(answerIn(line)?.text === answer).toBe(true);
  }
});

test('every flipped bit is found', () => {
  const line = sealed(recordOf({ says: 'é \u0000', answer: '{"yes":"ä"}' }));
  for (let bit = 0; bit < 8 * line.length; bit++) {
    line[bit >> 3]! ^= 1 << (bit & 7);
    expect(isSealed(line), `bit ${bit}`).toBe(false);
    line[bit >> 3]! ^= 1 << (bit & 7);
  }
  expect(isSealed(line)).toBe(true);
});

test('bytes that were cut off, left out or doubled are found', () =>
  holds(fc.tuple(anyRecord, fc.nat(), fc.nat()), ([record, one, other]) => {
    const line = sealed(record);
    const [from, to] = [one % line.length, other % line.length].sort((a, b) => a - b) as [number, number];
    expect(isSealed(line.subarray(0, to))).toBe(false);
    if (from === to) return;
    const out = Buffer.concat([line.subarray(0, from), line.subarray(to)]);
    const twice = Buffer.concat([line.subarray(0, to), line.subarray(from)]);
    expect(isSealed(out)).toBe(false);
    expect(isSealed(twice)).toBe(false);
  }));

test('any bytes at all are no line', () =>
  holds(fc.uint8Array({ maxLength: 60 }), bytes => {
    const line = Buffer.from(bytes);
    expect(isSealed(line)).toBe(false);
    expect(isAnswer(line)).toBe(false);
  }));

test('a verdict reads back as it was, with and without a code', () => {
  for (const verdict of RUNGS) {
    for (const code of ['', ',"code":"null-value"']) {
      const line = sealedLine(`{"verdict":"${verdict}","key":"${keyFor(verdict)}"${code}`);
      expect(readVerdict(line)).toEqual({ verdict, key: keyFor(verdict) });
    }
  }
});

test('lines of other kinds are told apart', () => {
  const verdict = sealedLine(`{"verdict":"clean","key":"${keyFor('a')}"`);
  const stage = sealedLine('{"stage":"chain"');
  expect([isVerdict(verdict), isStage(verdict), isCall(verdict), isAnswer(verdict)]).toEqual([
    true,
    false,
    false,
    false,
  ]);
  expect([isVerdict(stage), isStage(stage), isCall(stage), isAnswer(stage)]).toEqual([
    false,
    true,
    false,
    false,
  ]);
});
