/** The parts of the page: files read a part at a time, lines as people see them, rates, streams of slow clients. */
import { EventEmitter } from 'node:events';
import { writeFileSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { join } from 'node:path';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { html } from '../../products/kit/html.ts';
import { createRates } from '../../products/serve/batches/batch-metrics.ts';
import type { BatchRecord } from '../../products/serve/batches/batch-state.ts';
import { resultOf } from '../../products/serve/page/answer-view.ts';
import { createEvents } from '../../products/serve/page/events.ts';
import { linesAt } from '../../products/serve/page/file-part.ts';
import { createSessions } from '../../products/serve/page/sessions.ts';
import { shardsView, workersView } from '../../products/serve/page/workers-view.ts';
import { runs } from '../all.ts';
import { folder } from '../fw.ts';

const at = folder();

test('pages forward have each whole line once, pages backward are the same ones', async () => {
  const path = join(at, 'lines');
  const length = fc.oneof(fc.nat(40), fc.nat(40), fc.integer({ min: 60_000, max: 140_000 }));
  await fc.assert(
    fc.asyncProperty(
      fc.array(length, { maxLength: 30 }),
      fc.integer({ min: 1, max: 7 }),
      fc.boolean(),
      async (lengths, count, isTorn) => {
        const lines = lengths.map((size, n) => `${n}`.padEnd(size, 'é'));
        writeFileSync(path, lines.map(line => `${line}\n`).join('') + (isTorn ? 'torn' : ''));
        const seen: (string | null)[] = [];
        const starts: number[] = [];
        for (let from: number | null = 0; from !== null; ) {
          const slice = await linesAt(path, from, count);
          if (slice === null) throw new Error(`no line at ${from}`);
          if (slice.lines.length > 0) expect(slice.before).toBe(starts.at(-1) ?? null);
          starts.push(from);
          seen.push(...slice.lines.map(({ text }) => text));
          from = slice.next;
          if (slice.lines.length === 0) break;
        }
        expect(seen).toEqual(lines);
        const isWanted = ({ text }: { text: string | null }) => Number.parseInt(text ?? '', 10) % 3 === 1;
        const wanted: (string | null)[] = [];
        for (let from: number | null = 0; from !== null; ) {
          const slice = await linesAt(path, from, count, isWanted);
          wanted.push(...(slice?.lines ?? []).map(({ text }) => text));
          from = slice?.next ?? null;
        }
        expect(wanted).toEqual(lines.filter(text => isWanted({ text })));
      },
    ),
    { numRuns: runs(40, 300) },
  );
});

test('a line that is too long for a page is passed over, with its length; a place within a line is none', async () => {
  const path = join(at, 'long');
  const long = 'x'.repeat(3 * 1024 * 1024);
  writeFileSync(path, `a\n${long}\nb\n`);
  const slice = await linesAt(path, 0, 20);
  expect(slice?.lines.map(({ at: place, length, text }) => [place, length, text])).toEqual([
    [0, 1, 'a'],
    [2, long.length, null],
    [long.length + 3, 1, 'b'],
  ]);
  expect(await linesAt(path, 1, 20)).toBeNull();
  expect(await linesAt(path, 3 * 1024 * 1024 + 99, 20)).toBeNull();
  expect((await linesAt(path, long.length + 3, 1))?.before).toBe(2);
});

const seenIn = (line: unknown) => {
  const text = typeof line === 'string' ? line : JSON.stringify(line);
  return resultOf({ at: 0, length: text.length, text });
};
const answered = (body: object) => ({
  custom_id: 'a',
  response: { status_code: 200, request_id: 'r', body },
  error: null,
});

test('each kind of answer is text', () => {
  const chat = {
    choices: [{ message: { content: 'Yes.' }, finish_reason: 'stop' }],
    model: 'm',
    usage: { prompt_tokens: 1200, completion_tokens: 2 },
  };
  expect(seenIn(answered(chat))).toEqual({
    ...{ custom_id: 'a', status: 'HTTP 200', isGood: true, answers: ['Yes.'], changes: [] },
    facts: ['m', '1,200 tokens in', '2 out', 'ended by stop'],
  });
  expect(seenIn(answered({ choices: [{ text: 'one' }, { text: 'two' }] })).answers).toEqual(['one', 'two']);
  expect(seenIn(answered({ choices: [{ message: { content: null, refusal: 'No.' } }] })).answers).toEqual([
    'No.',
  ]);
  expect(seenIn(answered({ choices: [{ message: { tool_calls: [{ id: 1 }] } }] })).answers[0]).toContain(
    '"id": 1',
  );
  expect(seenIn(answered({ data: [{ embedding: [1, 2, 3] }] })).answers).toEqual(['3 numbers: 1, 2, 3, …']);
  const message = { type: 'message', content: [{ type: 'text', text: 'Yes.' }], stop_reason: 'end_turn' };
  const usage = { input_tokens: 3, output_tokens: 2 };
  expect(seenIn(answered({ ...message, model: 'm', usage }))).toMatchObject({
    ...{ answers: ['Yes.'], facts: ['m', '3 tokens in', '2 out', 'ended by end_turn'] },
  });
  const output = [{ type: 'message', content: [{ type: 'output_text', text: 'No.' }] }];
  expect(seenIn(answered({ object: 'response', status: 'completed', output })).answers).toEqual(['No.']);
  expect(seenIn(answered({ other: true })).answers[0]).toContain('"other": true');
  expect(
    seenIn({ custom_id: 'b', response: null, error: { code: 'timeout', message: 'late' } }),
  ).toMatchObject({
    ...{ custom_id: 'b', status: 'timeout', isGood: false, answers: ['late'] },
  });
  expect(seenIn(answered({ choices: [{ text: 'x'.repeat(30_000) }] })).answers[0]).toMatch(
    /and 10,000 more characters/,
  );
});

test('whatever a line is, it is shown', () => {
  for (const line of [
    'null',
    '[]',
    '{',
    '',
    '{"response":[]}',
    '{"response":{"body":7}}',
    '{"custom_id":{},"error":[]}',
    '{"response":{"body":{"choices":[null,7],"data":{}}}}',
    '{"response":{"body":{"error":{"message":7}}}}',
    '{"_fw":{"repairs":[null,{"rule":7}]},"steps":"x"}',
    `{"response":{"body":${'['.repeat(50_000)}${']'.repeat(50_000)}}}`,
  ])
    expect(seenIn(line).answers.length).toBeGreaterThan(0);
});

test('changes are said as fw explain says them', () => {
  const repairs = [{ rule: 'null-default', at: '/interest_rate', from: null, to: 25 }];
  const step = {
    agent: 'a',
    output: { interest_rate: 25 },
    raw: '{"interest_rate": null}',
    rung: 'defaulted',
    saw: 'clean',
    repairs,
    calls: [],
    attempts: 1,
  };
  const { changes } = seenIn({ id: 'i', prompt: 'p', steps: [step] });
  expect(changes).toEqual(['null-default /interest_rate: null → 25', expect.stringMatching(/^ {2}\S.*\.$/)]);
  expect(seenIn({ id: 'x', _fw: { rung: 'defaulted', repairs } }).changes).toEqual(changes);
});

test('a rate is of the last minute, and of what has not ended', () => {
  let now = 0;
  const rates = createRates(() => now);
  const record = (done: number, status = 'in_progress') =>
    ({ id: 'b', status, counts: { total: 1e6, completed: done, failed: 0 } }) as BatchRecord;
  rates.note([record(0)]);
  expect(rates.of('b')).toBeNull();
  for (let second = 1; second <= 300; second++) {
    now = second * 1000;
    rates.note([record(second < 200 ? second * 10 : 2_000 + (second - 200) * 50)]);
    if (second === 100) expect(rates.of('b')).toBeCloseTo(10, 5);
  }
  expect(rates.of('b')).toBeCloseTo(50, 5);
  rates.note([record(9, 'completed')]);
  expect(rates.of('b')).toBeNull();
});

test('what the disk or a bug does to one page ends that page, with a line in the log, and no other', () => {
  const said: string[] = [];
  const events = createEvents(message => void said.push(message));
  const viewer = (name: string, values: () => object): string[] => {
    const written: string[] = [];
    const response = Object.assign(new EventEmitter(), {
      ...{ writableLength: 0, writeHead() {}, write: (text: string) => written.push(text), end() {} },
    });
    events.add({ response: response as unknown as ServerResponse, name, may: () => true, values });
    return written;
  };
  const broken = viewer('broken', () => {
    throw Object.assign(new Error('ELOOP: too many links'), { code: 'ELOOP' });
  });
  let value = 0;
  const good = viewer('good', () => ({ value: value++ }));
  events.send();
  expect(broken.at(-1)).toMatch(/^event: gone\ndata: "Not live: the server could not look/);
  expect(good.at(-1)).toMatch(/data: \{"value":1\}/);
  expect(said).toEqual(['the page "broken" is live no more: ELOOP: too many links']);
});

test('a client that does not read gets no further frame; equal ones are not sent; each is made once for all', () => {
  const events = createEvents(() => {});
  let made = 0;
  let value = 'one\u202e';
  const viewer = (waiting: number) => {
    const written: string[] = [];
    const response = Object.assign(new EventEmitter(), {
      ...{
        writableLength: waiting,
        writeHead() {},
        write: (text: string) => written.push(text),
        end: () => written.push('end'),
      },
    });
    events.add({
      ...{ response: response as unknown as ServerResponse, name: 'all', may: () => value !== 'over' },
      values() {
        made += 1;
        return { value };
      },
    });
    return { written, response };
  };
  const quick = viewer(0);
  const slow = viewer(1_000_000);
  expect(quick.written).toEqual(['retry: 2000\n\n', 'id: 1\ndata: {"value":"one<U+202E>"}\n\n']);
  made = 0;
  for (let second = 0; second < 15; second++) events.send();
  expect([made, quick.written.slice(2), slow.written]).toEqual([
    15,
    [': still here\n\n'],
    ['retry: 2000\n\n'],
  ]);
  value = 'two';
  slow.response.writableLength = 0;
  events.send();
  expect([made, quick.written.at(-1), slow.written.at(-1)]).toEqual([
    16,
    quick.written.at(-1),
    quick.written.at(-1),
  ]);
  value = 'over';
  events.send();
  expect([events.viewers, slow.written.at(-1)]).toEqual([0, 'end']);
});

test('a session ends after twelve hours, and its token is nowhere but in the cookie', () => {
  let now = 0;
  const sessions = createSessions(() => now);
  const place = { port: 80, isSecure: true };
  const cookie = sessions.begin('key_1', place);
  expect(cookie).toMatch(/; Secure$/);
  const header = `other=1; ${cookie.split(';')[0]}`;
  expect([sessions.keyIn(header, 80), sessions.keyIn(header, 81), sessions.keyIn(undefined, 80)]).toEqual([
    'key_1',
    null,
    null,
  ]);
  now = 12 * 3_600_000;
  expect(sessions.keyIn(header, 80)).toBeNull();
});

test('what is put into a template is text', () => {
  expect(html`<a href="${'"><b>'}">${"'&<"}${[html`<i>${'<'}</i>`]}</a>`.text).toBe(
    '<a href="&quot;&gt;&lt;b&gt;">&#39;&amp;&lt;<i>&lt;</i></a>',
  );
});

test('workers: who is there comes first, a silent one is lost, and long lists are cut short', () => {
  const held = Array.from({ length: 9 }, (_, root) => ({ work: 'w', root, part: 0, done: 1, lines: 200 }));
  const worker = (at: number, seen: number) => ({
    ...{ worker: `n${String(at).padStart(2, '0')}`, host: `n${at}`, pid: at, version: '1', models: ['m'] },
    ...{ endpoints: [], places: 0, rate: 0, held, isStopping: false, seen, since: 0, took: 1234 },
  });
  const all = Array.from({ length: 60 }, (_, at) => worker(at, at < 3 ? 0 : 99_000));
  const more = { lease: 60_000, now: 100_000, nameOf: (id: string) => `batch ${id}` };
  const view = workersView({ workers: all }, more);
  expect(view.workers.slice(0, 2).map(({ key }) => key)).toEqual(['n03', 'n04']);
  expect([view.workers.length, view.moreWorkers]).toEqual([50, 'And 10 more.']);
  expect(view.workers[0]).toMatchObject({ state: 'no endpoint is up', took: '1,234', seen: '1 s ago' });
  expect(view.workers[0]?.held.map(({ name, part }) => `${name}, ${part}`)).toEqual([
    ...['batch w, shard 0: 1 of 200 lines', 'batch w, shard 1: 1 of 200 lines'],
    'batch w, shard 2: 1 of 200 lines',
  ]);
  expect(view.workers[0]?.more).toBe('and 6 more');
  const few = workersView({ workers: all.slice(0, 4) }, more).workers;
  expect(few.map(({ state }) => state)).toEqual(['no endpoint is up', 'lost', 'lost', 'lost']);
  const work = { id: 'w', label: 'w', owner: 'o', models: [], lines: 9, done: 0, shards: 9, shardsDone: 2 };
  const shards = shardsView(
    { ...work, running: 1, workers: 2, unserved: 0, lacking: null, isStuck: false },
    'w',
    all,
    false,
  );
  expect([shards.parts.length, shards.moreParts, shards.parts[0]?.host]).toEqual([20, 'And 520 more.', '']);
  expect(shards.shards).toBe('2 of 9 shards done; 2 workers have 1 line without an answer');
});
