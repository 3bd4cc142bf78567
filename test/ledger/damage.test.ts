/** A ledger that was cut or changed on disk: what it still answers is right, or it is refused; never a wrong answer. */

import { appendFileSync, mkdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createKeys } from '../../engine/asking/ledger/key-index.ts';
import { answerIn, openLines } from '../../engine/asking/ledger/read-ledger.ts';
import { readRecord } from '../../engine/asking/ledger/record.ts';
import { filesOf, scan } from '../../engine/asking/ledger/scan-files.ts';
import { EXIT, Fatal } from '../../engine/core/item/failure.ts';
import { every } from '../all.ts';
import { folder } from '../fw.ts';
import { holds, keyFor, opened, recordOf, written } from './records.ts';

const SAYS = ['one', 'two', 'three', 'é \ud83d\ude00'];

async function smallLedger(
  says: readonly string[] = SAYS,
): Promise<{ path: string; bytes: Buffer; at: string }> {
  const at = folder();
  const name = join(at, 'l.ndjson');
  await written(name, says);
  return { at, path: name, bytes: readFileSync(name) };
}

/** What a ledger of `bytes` answers to each of SAYS: the text, null where it would be asked again; or the exit code. */
function answersIn(path: string, bytes: Buffer): (string | null)[] | number {
  writeFileSync(path, bytes);
  const keys = createKeys();
  const lines = openLines([path]);
  try {
    readRecord([path], keys, { warn: () => {} });
    return SAYS.map(says => {
      const place = keys.placeOf(keyFor(says));
      if (place === null) return null;
      const { key, text } = answerIn(lines.read(place))!;
      return key === keyFor(says) ? text : null;
    });
  } catch (error) {
    if (error instanceof Fatal) return error.exit;
    throw error;
  } finally {
    lines.close();
  }
}

const right = SAYS.map(says => recordOf({ says }).answer as string);

/** Where each line of `bytes` ends, behind its newline. */
function ends(bytes: Buffer): number[] {
  const found: number[] = [];
  for (let at = bytes.indexOf(10); at >= 0; at = bytes.indexOf(10, at + 1)) found.push(at + 1);
  return found;
}

test('every length that a crash can leave: whole answers are there, the torn one is asked again', async () => {
  const { path, bytes } = await smallLedger();
  const lineEnds = ends(bytes);
  for (const length of every(
    7,
    Array.from({ length: bytes.length + 1 }, (_, at) => at),
  )) {
    const whole = bytes.subarray(0, lineEnds.findLast(end => end <= length) ?? 0).toString();
    const expected = right.map((text, n) =>
      whole.includes(`{"key":"${keyFor(SAYS[n]!)}","outcome"`) ? text : null,
    );
    expect(answersIn(path, bytes.subarray(0, length)), `cut at ${length}`).toEqual(expected);
  }
  expect(lineEnds.length).toBe(2 + 2 + 2 * SAYS.length);
});

test('every flipped bit of a ledger is found, or harmless', async () => {
  const { path, bytes } = await smallLedger(SAYS.slice(0, 3));
  const expected = [...right.slice(0, 3), null];
  const seen = { refused: 0, askedAgain: 0, same: 0 };
  const bits = every(
    17,
    Array.from({ length: 8 * bytes.length }, (_, bit) => bit),
  );
  for (const bit of bits) {
    bytes[bit >> 3]! ^= 1 << (bit & 7);
    const found = answersIn(path, bytes);
    bytes[bit >> 3]! ^= 1 << (bit & 7);
    if (found === EXIT.data) {
      seen.refused += 1;
      continue;
    }
    const wrong = Array.isArray(found) && found.some((text, n) => text !== null && text !== expected[n]);
    if (wrong || !Array.isArray(found)) expect(found, `bit ${bit}`).toEqual(expected);
    else seen[found.every((text, n) => text === expected[n]) ? 'same' : 'askedAgain'] += 1;
  }
  // only the last line and the newline before it can pass for a torn tail
  const [end, last] = ends(bytes).slice(-2) as [number, number];
  const isTorn = (bit: number): boolean => bit >> 3 >= end - 1;
  expect(last).toBe(bytes.length);
  expect(seen).toEqual({
    refused: bits.filter(bit => !isTorn(bit)).length,
    askedAgain: 0,
    same: bits.filter(isTorn).length,
  });
});

/** What disks, copies and editors do to bytes; `at` and `length` are shares of all of them. */
const damages: Record<string, (bytes: Buffer, from: number, to: number, random: Uint8Array) => Buffer> = {
  zeros: (bytes, from, to) =>
    Buffer.concat([bytes.subarray(0, from), Buffer.alloc(to - from), bytes.subarray(to)]),
  noise: (bytes, from, _to, random) =>
    Buffer.concat([bytes.subarray(0, from), random, bytes.subarray(from + random.length)]),
  'left out': (bytes, from, to) => Buffer.concat([bytes.subarray(0, from), bytes.subarray(to)]),
  'put in': (bytes, from, _to, random) =>
    Buffer.concat([bytes.subarray(0, from), random, bytes.subarray(from)]),
  doubled: (bytes, from, to) => Buffer.concat([bytes.subarray(0, to), bytes.subarray(from)]),
  'line ends': bytes => Buffer.from(bytes.toString('latin1').replaceAll('\n', '\r\n'), 'latin1'),
  'a mark at the beginning': bytes => Buffer.concat([Buffer.from('\ufeff'), bytes]),
  turned: (bytes, from, to) =>
    Buffer.concat([
      bytes.subarray(0, from),
      Buffer.from(bytes.subarray(from, to)).reverse(),
      bytes.subarray(to),
    ]),
};

test('whatever happens to the bytes: right answers, those to ask again, or a refusal', async () => {
  const { path, bytes } = await smallLedger();
  const seen = new Set<string>();
  await holds(
    fc.array(
      fc.record({
        how: fc.constantFrom(...Object.keys(damages)),
        at: fc.double({ min: 0, max: 1, noNaN: true }),
        length: fc.oneof(fc.nat(3), fc.nat(400)),
        random: fc.uint8Array({ minLength: 1, maxLength: 12 }),
      }),
      { minLength: 1, maxLength: 3 },
    ),
    all => {
      let damaged = bytes;
      for (const { how, at, length, random } of all) {
        const from = Math.floor(at * damaged.length);
        const to = Math.min(damaged.length, from + length);
        damaged = damages[how]?.(damaged, from, to, random) as Buffer;
      }
      const found = answersIn(path, damaged);
      seen.add(Array.isArray(found) ? 'read' : String(found));
      if (Array.isArray(found))
        for (const [n, text] of found.entries()) expect([null, right[n]]).toContain(text);
      else expect(found).toBe(EXIT.data);
    },
  );
  expect(seen).toEqual(new Set(['read', String(EXIT.data)]));
});

test('an answer that changes after the ledger was opened is refused when it is asked for', async () => {
  const at = folder();
  mkdirSync(join(at, 'day'));
  const file = join(at, 'day', 'a.ndjson');
  await written(file, SAYS);
  const bytes = readFileSync(file);
  const ledger = opened(at);
  const place = bytes.indexOf(keyFor('two')) - 8;
  for (const change of [place + 60, bytes.indexOf(10, place) - 3]) {
    const changed = Buffer.from(bytes);
    changed[change]! ^= 1;
    writeFileSync(file, changed);
    expect(() => ledger.find(keyFor('two'))).toThrow(/a\.ndjson: the line at byte \d+ has changed/);
    expect(ledger.find(keyFor('one'))?.text).toBe(right[0]);
  }
  truncateSync(file, place + 20);
  expect(() => ledger.find(keyFor('two'))).toThrow(/has changed/);
  await ledger.close();
});

describe('what is refused says where, and what to do', () => {
  const refusal = (path: string): Fatal => {
    try {
      readRecord([path], createKeys(), { warn: () => {} });
    } catch (error) {
      return error as Fatal;
    }
    throw new Error('expected a refusal');
  };

  test('damage with whole lines behind it', async () => {
    const { path, bytes } = await smallLedger();
    const [first, second] = ends(bytes) as [number, number];
    bytes[second - 30]! ^= 4;
    writeFileSync(path, bytes);
    const { exit, message } = refusal(path);
    expect(exit).toBe(EXIT.data);
    expect(message).toContain(`${path}: expected whole lines, found damage at byte ${first} `);
    expect(message).toContain('fw ledger repair');
  });

  test('a torn line that was written on', async () => {
    const { path, bytes } = await smallLedger();
    const at = ends(bytes).at(-3) as number;
    // what a program leaves that goes on in a file whose last write was cut short
    writeFileSync(path, bytes.subarray(0, at + 40));
    appendFileSync(path, bytes.subarray(at));
    expect(refusal(path).message).toContain(`found damage at byte ${at} `);
  });

  test('a file of something else', () => {
    const path = join(folder(), 'items.ndjson');
    for (const text of ['{"id":"a","prompt":"?"}\n{"id":"b","prompt":"?"}\n', 'id,prompt\na,?\n', '\n']) {
      writeFileSync(path, text);
      const { exit, message } = refusal(path);
      expect(exit).toBe(EXIT.data);
      expect(message).toContain(`${path}: expected a file of a ledger`);
    }
  });

  test('a whole file whose first line is another', async () => {
    const { path, bytes } = await smallLedger();
    writeFileSync(path, bytes.subarray(ends(bytes)[0]));
    expect(answersIn(path, readFileSync(path))).toBe(EXIT.data);
  });

  test('a folder that is named as a file of the ledger', () => {
    const at = folder();
    mkdirSync(join(at, 'x.ndjson'));
    expect(refusal(join(at, 'x.ndjson')).exit).toBe(EXIT.io);
  });
});

test('a damaged file is walked through to its end where that is asked for', async () => {
  const { path, bytes } = await smallLedger();
  const lineEnds = ends(bytes);
  const [from, to] = [lineEnds[4], lineEnds[6]] as [number, number];
  bytes[from + 9]! ^= 1;
  bytes[to - 4]! ^= 1;
  writeFileSync(path, bytes);
  const found = [...scan(path)].map(({ kind, at }) => ({ kind, at }));
  const starts = [0, ...lineEnds.slice(0, -1)];
  const kinds = starts.filter(at => at !== from && at !== lineEnds[5]).map(at => ({ kind: 'line', at }));
  kinds.splice(5, 0, { kind: 'damage', at: from });
  expect(found).toEqual(kinds);
});

test('lines longer than a block are read', async () => {
  const { path, bytes } = await smallLedger(['short', 'long '.repeat(2_000_000), 'short again']);
  const found = [...scan(path)];
  expect(found.map(({ kind }) => kind)).toEqual(ends(bytes).map(() => 'line'));
  expect(Math.max(...found.map(({ at }, n) => (found[n + 1]?.at ?? bytes.length) - at))).toBeGreaterThan(
    20_000_000,
  );
});

test('the first answer in the oldest file is the one that counts', async () => {
  const at = folder();
  const sameKey = (answer: string) => recordOf({ says: 'one', answer });
  const files = ['2026-01-02/a.ndjson', '2026-01-01/b.ndjson', '2026-01-01/a.ndjson'];
  for (const [n, name] of files.entries()) {
    const ledger = opened(join(at, name));
    ledger.append(sameKey(`${n}, first`));
    ledger.append(sameKey(`${n}, second`));
    await ledger.close();
  }
  expect(filesOf(at)).toEqual(files.reverse().map(name => join(at, name)));
  const ledger = opened(at);
  expect(ledger.find(keyFor('one'))?.text).toBe('2, first');
  expect(ledger.answers).toBe(1);
  await ledger.close();
});
