/** The log: what a line is made of, that nothing which others say can forge or flood it, and what each event says. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { About } from '../../engine/core/item/say.ts';
import { LineSink, type Out } from '../../products/serve/log/line-sink.ts';
import { type Format, lineIn, openLog } from '../../products/serve/log/log.ts';
import { ROOT } from '../fw.ts';

const AT = Date.UTC(2026, 10, 26, 22, 25, 18, 123);
const TIME = '2026-11-26T22:25:18.123Z';

/** What a log writes. */
function logged(format: Format, toJournal = false) {
  const lines: string[] = [];
  const sink = { write: (line: string) => void lines.push(line) };
  const say = openLog({ level: 'info', lineOf: lineIn(format, 'fw serve', toJournal), sink, now: () => AT });
  return { lines, say };
}

const DOWN: About = {
  ...{ event: 'endpoint-down', level: 'warn', endpoint: 'http://gpu1:8005/v1', endpoints_up: 1 },
  ...{ owner: 'a b', key: null, note: undefined },
};

test('a line says when, how grave, what, and its fields once', () => {
  const { lines, say } = logged('text');
  say('http://gpu1:8005/v1 is down', DOWN);
  say('below the level', { event: 'x', level: 'debug' });
  expect(lines).toEqual([`${TIME} warn fw serve: http://gpu1:8005/v1 is down endpoints_up=1 owner="a b"\n`]);
  const json = logged('json');
  json.say('http://gpu1:8005/v1 is down', DOWN);
  json.say('plain');
  expect(json.lines.map(line => JSON.parse(line))).toEqual([
    {
      ...{ time: TIME, level: 'warn', event: 'endpoint-down', message: 'http://gpu1:8005/v1 is down' },
      ...{ endpoint: 'http://gpu1:8005/v1', endpoints_up: 1, owner: 'a b' },
    },
    { time: TIME, level: 'info', event: 'note', message: 'plain' },
  ]);
  const journal = logged('text', true);
  journal.say('one\ntwo', { event: 'bug', level: 'error' });
  expect(journal.lines).toEqual([`<3>${TIME} error fw serve: one\n<3>  two\n`]);
});

test('whatever names and messages hold, one line is one line, bounded, without a key of ours', () => {
  const hostile = fc.oneof(
    fc.string({ unit: 'binary', maxLength: 200 }),
    fc.constantFrom(
      `\n${TIME} info fw serve: forged`,
      '\r\x1b[2J',
      '"}\n{"time":"x"',
      '\u2028\u202e',
      'x'.repeat(9_000),
    ),
    fc.constant(`fw_${'A'.repeat(43)}`),
  );
  fc.assert(
    fc.property(hostile, hostile, hostile, (message, owner, endpoint) => {
      const about = { event: 'request', owner, endpoint, ms: 1 };
      const text = logged('text');
      text.say(message, about);
      const [first = '', ...more] = (text.lines[0] as string).slice(0, -1).split('\n');
      expect(first.startsWith(`${TIME} info fw serve: `)).toBe(true);
      expect(more.every(line => line.startsWith('  '))).toBe(true);
      const json = logged('json');
      json.say(message, about);
      const [line = ''] = json.lines;
      expect(line.indexOf('\n')).toBe(line.length - 1);
      expect(JSON.parse(line)).toMatchObject({ time: TIME, event: 'request', ms: 1 });
      for (const written of [...text.lines, line]) {
        expect(written.length).toBeLessThan(30_000);
        expect(written).not.toMatch(/(?![\n\t])\p{Cc}|\p{Zl}|\u202e|fw_A{43}/u);
      }
    }),
  );
});

/** A pipe whose reader takes `room` bytes at a time. */
function pipe() {
  const taken: string[] = [];
  const out: Out & { writable: boolean; writableLength: number } = {
    writable: true,
    writableLength: 0,
    write(text, done) {
      taken.push(text);
      out.writableLength += text.length;
      done?.();
    },
  };
  return { taken, out };
}

test('lines are written whole, several together, and at once where they are urgent', () => {
  const { taken, out } = pipe();
  const sink = new LineSink(out, () => '');
  const line = `${'x'.repeat(999)}\n`;
  for (let n = 0; n < 9; n++) sink.write(line, false);
  expect(taken).toEqual([line.repeat(4), line.repeat(4)]);
  sink.write('urgent\n', true);
  expect(taken.at(-1)).toBe(`${line}urgent\n`);
});

test('a reader that stands still costs a bounded memory, and then hears how many lines it has missed', async () => {
  const { taken, out } = pipe();
  const sink = new LineSink(out, count => `dropped ${count}\n`);
  const line = `${'x'.repeat(1023)}\n`;
  for (let n = 0; n < 5_000; n++) sink.write(line, true);
  expect(out.writableLength).toBeLessThanOrEqual(1024 * 1024 + line.length);
  const written = taken.length;
  expect(sink.dropped).toBe(5_000 - written);
  out.writableLength = 0;
  sink.write('there again\n', true);
  expect(taken.slice(written)).toEqual([`dropped ${5_000 - written}\n`, 'there again\n']);
  out.writable = false;
  sink.write('nobody is there\n', true);
  await sink.close();
  expect(taken).toHaveLength(written + 2);
});

test('each event that a server may name is in its docs', () => {
  const docs = readFileSync(join(ROOT, 'docs', 'serve.md'), 'utf8');
  const [said = ''] = /^- \*\*Events\*\*:[\s\S]*?\n(?=- )/m.exec(docs) ?? [];
  let kind = '';
  const known = new Set(
    [...said.matchAll(/`(-?)([a-z-]+)`/g)].map(([, isMore, name = '']) => {
      if (!isMore) kind = name.split('-', 1)[0] ?? '';
      return isMore ? `${kind}-${name}` : name;
    }),
  );
  const sources = ['products/serve', 'products/workers', 'engine/asking'].flatMap(folder =>
    readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
      .filter(name => name.endsWith('.ts'))
      .map(name => readFileSync(join(ROOT, folder, name), 'utf8')),
  );
  const named = sources.flatMap(text =>
    [...text.matchAll(/event: '([a-z-]+)'/g)].map(([, event = '']) => event),
  );
  expect(named.length).toBeGreaterThan(40);
  expect([...new Set(named)].filter(event => !known.has(event))).toEqual([]);
});
