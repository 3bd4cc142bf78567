/** The closing lines: where the time went, which part held the run up, what each endpoint did. */

import { expect, test } from 'vitest';
import type { EndpointStats, PoolStats } from '../../engine/asking/pool/pool-stats.ts';
import { describeAccount, newAccount, newTimes } from '../../engine/core/item/account.ts';
import { type Closing, closingLines, snapshotOf } from '../../engine/running/watch/closing.ts';
import { diagnose, type Limit } from '../../engine/running/watch/diagnosis.ts';

const endpoint = (name: string, more: Partial<EndpointStats> = {}): EndpointStats => ({
  url: `http://${name}:8005/v1`,
  state: 'up',
  cause: '',
  models: [],
  pausedFor: 0,
  inFlight: 0,
  limit: 100,
  pinned: false,
  oldest: null,
  load: null,
  said: null,
  gpu: null,
  gpuOverall: null,
  levels: [],
  answered: 1000,
  checked: 0,
  unchecked: 0,
  otherModel: 0,
  failed: {},
  retries: 0,
  usage: { prompt: 0, completion: 50_000, cached: 0 },
  medianLatency: 1_000,
  busy: 990_000,
  places: 1_000_000,
  ...more,
});

const STATS: PoolStats = {
  endpoints: [endpoint('gpu1')],
  calls: 1000,
  replayed: null,
  answered: 1000,
  failed: {},
  retries: 0,
  inFlight: 0,
  waiting: 0,
  usage: { prompt: 0, completion: 0, cached: 0 },
  times: { waiting: 30_000, asking: 940_000, retrying: 10_000, writing: 1_000, mending: 19_000 },
  since: 10_000,
  saturatedMs: 9_800,
  noEndpointMs: 0,
  suspendedMs: 0,
  ledger: 0,
};
const closing = (stats: Partial<PoolStats> = {}, more: Partial<Closing> = {}, times = {}): Closing => ({
  stats: { ...STATS, ...stats },
  times: { ...newTimes(), items: 1_000_000, ...times },
  now: 0,
  loop: 0.05,
  itemsInFlight: 200,
  room: { starved: 0, tail: 0, capped: 0, all: null },
  ...more,
});

test('a line of time and a line an endpoint', () => {
  expect(closingLines(closing())).toEqual([
    'time: 94 % of item time asking, 3 % waiting for a place, 1 % retries, 2 % mending, 0 % writing · ' +
      'bottleneck: the servers: calls waited for a place 98 % of the time (99 of 100 places busy on average)',
    'http://gpu1:8005/v1: 1,000 answers · 5,000 tokens/s out · 99 % busy',
  ]);
});

test('what a run that broke off never handed on has its time too: no part is more than the whole', () => {
  const left = { items: 100_000, inside: 90, entered: 90 * 5_000 };
  const [time] = closingLines(closing({}, { now: 15_000 }, left));
  expect(time).toMatch(/^time: 94 % of item time asking, 3 % waiting/);
});

test('nothing where nothing was asked', () => {
  expect(closingLines(closing({ calls: 0, replayed: 500 }))).toEqual([]);
});

test.each<[Limit, string, Closing]>([
  ['own-process', 'this process: its one thread was busy 97 % of the time', closing({}, { loop: 0.97 })],
  [
    'no-endpoint',
    'no endpoint was available 60 % of the time',
    closing({ saturatedMs: 3_000, noEndpointMs: 6_000 }),
  ],
  [
    'disk',
    'the disk: writing the ledger took 55 % of the time',
    closing({ saturatedMs: 4_000, ledger: 5_500 }),
  ],
  [
    'stopped',
    'this process did not run 90 % of the time',
    closing({ saturatedMs: 1_000, suspendedMs: 9_000 }),
  ],
  // a write that stands makes the process stand
  [
    'disk',
    'the disk: writing the ledger took 90 %',
    closing({ saturatedMs: 0, suspendedMs: 9_000, ledger: 9_000 }),
  ],
  [
    'reader',
    'the reader of the output: it was not ready 70 %',
    closing({ saturatedMs: 1_000 }, {}, { blocked: 7_000 }),
  ],
  [
    'in-flight',
    '--in-flight 100: the servers had room (99 of 100 places',
    closing(
      { saturatedMs: 0 },
      { itemsInFlight: 100, room: { starved: 500, tail: 900, capped: 8_000, all: 900 } },
    ),
  ],
  [
    'input',
    'the input: 80 % of the time it had no item ready, 20 of 200 were in flight on average; the servers had room (15 of 100 places busy on average)',
    closing(
      { saturatedMs: 0, endpoints: [endpoint('gpu1', { busy: 150_000 })] },
      { room: { starved: 8_000, tail: 100, capped: 0, all: 2_000 } },
      { items: 200_000 },
    ),
  ],
])('%s: %s', (limit, words, one) => {
  const found = diagnose(snapshotOf(one));
  expect(found.text).toContain(words);
  expect(found.limit).toBe(limit);
});

/** A server that says so, beside `sums` of tokens a token written: prompts that are computed, and all of them. */
const said = (
  running: number,
  waiting: number,
  more: {
    kv?: number;
    preemptions?: number;
    full?: number;
    prompts?: number;
    cached?: number;
    written?: number;
  } = {},
): EndpointStats['said'] => ({
  ...{ running, waiting, kv: 0.2, preemptions: 0, full: 0, prompts: 0, cached: 0, written: 0 },
  ...more,
});
const of = (prompts: number, cached = 0) => ({ prompts, cached, written: 1 });

// figures of runs that were watched; test/progress/bottleneck.test.ts makes the changes
test.each<[Limit, string, Partial<EndpointStats>]>([
  [
    'slots',
    'runs 32 at a time, as many as it ever did, and 19 more wait',
    { said: said(32, 19, { full: 0.9, ...of(1) }) },
  ],
  // the batch was never full: what waits there waits for its prefill
  ['servers', 'the servers: calls waited for a place', { said: said(214, 14, of(1)) }],
  ['prompts', 'computes 3 tokens of prompts for each that it writes', { said: said(214, 14, of(2.6)) }],
  [
    'prompts',
    '76 tokens of prompts for each that it writes (0 % of them',
    { said: said(28, 7, { full: 0.9, ...of(76) }) },
  ],
  [
    'prompts',
    '30 tokens of prompts for each that it writes (25 % of them',
    { said: said(42, 43, of(40, 10)) },
  ],
  // full, and a larger batch would have no room, or nothing to gain
  ['servers', 'the servers: calls waited', { said: said(32, 19, { full: 0.9, kv: 0.6, ...of(1) }) }],
  ['servers', 'the servers: calls waited', { said: said(512, 60, { full: 0.9, ...of(1) }) }],
  ['kv', 'has its KV cache 97 % full with 30 sequences', { said: said(30, 5, { kv: 0.97, ...of(1) }) }],
  ['kv', 'with 50 preemptions', { said: said(30, 5, { preemptions: 50, ...of(1) }) }],
  ['prompts', '20 tokens of prompts', { said: said(60, 5, { kv: 0.97, ...of(20) }) }],
  // a limit that somebody set: it holds the run up where the server could compute more
  ['pinned', 'the limit of 16 calls', { pinned: true, limit: 16, said: said(16, 0, of(1)) }],
  ['pinned', 'the limit of 16 calls', { pinned: true, limit: 16 }],
  ['servers', 'the servers: calls waited', { pinned: true, limit: 400, said: said(399, 1, of(1)) }],
  [
    'prompts',
    '9 tokens of prompts',
    { pinned: true, limit: 96, usage: { prompt: 450_000, completion: 50_000, cached: 0 } },
  ],
])('%s: %s, of %j', (limit, words, one) => {
  const found = diagnose(snapshotOf(closing({ endpoints: [endpoint('gpu1', one)] })));
  expect(found.text).toContain(words);
  expect(found.limit).toBe(limit);
});

test('a process that has just begun is busy with that', () => {
  const short = { since: 400, saturatedMs: 0 };
  const room = { starved: 0, tail: 350, capped: 0, all: 23 };
  const found = diagnose(snapshotOf(closing(short, { loop: 1, room })));
  expect(found.limit).toBe('few-items');
  expect(diagnose(snapshotOf(closing({ since: 6_000 }, { loop: 1 }))).limit).toBe('own-process');
});

test('never more places are busy than there are', () => {
  const endpoints = [endpoint('gpu1', { busy: 812_000, places: 800_000 })];
  const lines = closingLines(closing({ endpoints })).join('\n');
  expect(lines).toContain('80 of 80 places busy');
  expect(lines).toContain('· 100 % busy');
});

test('time that is in none of the sums is said, and so is what --ordered costs', () => {
  const [line] = closingLines(
    closing({}, {}, { items: 2_000_000, ordered: 600_000, passed: 100_000, unread: 50_000 }),
  );
  expect(line).toContain(
    '47 % of item time asking, 7 % waiting for a place, 1 % retries, 1 % mending, 3 % writing, ' +
      '30 % waiting for earlier items (--ordered), 13 % between calls ·',
  );
});

test('time in which this process stood still is told apart', () => {
  const [line] = closingLines(closing({ suspendedMs: 2_500 }));
  expect(line).toContain('25 % while this process was suspended');
});

test('of many endpoints those that failed most, and a sum of the others', () => {
  const endpoints = Array.from({ length: 12 }, (_, at) =>
    endpoint(`gpu${at}`, {
      failed: at === 7 ? { 'HTTP 500': 2, timeout: 9 } : at === 3 ? { timeout: 1 } : {},
    }),
  );
  expect(closingLines(closing({ endpoints })).slice(1)).toEqual([
    'http://gpu7:8005/v1: 1,000 answers · 5,000 tokens/s out · 99 % busy · tries that failed: 9 timeout, 2 HTTP 500',
    'http://gpu3:8005/v1: 1,000 answers · 5,000 tokens/s out · 99 % busy · tries that failed: 1 timeout',
    '10 more endpoints: 10,000 answers · 50,000 tokens/s out · 99 % busy',
  ]);
});

test('answers under the name of another model are counted', () => {
  const endpoints = [endpoint('gpu1', { otherModel: 990 }), endpoint('gpu2')];
  expect(closingLines(closing({ endpoints })).slice(1)).toEqual([
    'http://gpu1:8005/v1: 1,000 answers (990 as another model) · 5,000 tokens/s out · 99 % busy',
    'http://gpu2:8005/v1: 1,000 answers · 5,000 tokens/s out · 99 % busy',
  ]);
});

test('the sum of a run that ended early says how many items never left', () => {
  for (const [read, clean, failed, aside] of [
    [1, 0, 0, 0],
    [9, 3, 2, 1],
    [7, 4, 2, 1],
  ] as const) {
    const account = newAccount('x');
    Object.assign(account, { read, aside });
    Object.assign(account.rungs, { clean, failed });
    const [sum = ''] = describeAccount(account, 0);
    const left = read - clean - failed - aside;
    if (left > 0) expect(sum).toContain(` + ${left} not finished`);
    else expect(sum).not.toContain('not finished');
  }
});

test('what servers lack is said at the end, and what the run did instead', () => {
  const mute = { lacks: { metrics: true, formless: 0 } };
  const lines = (endpoints: EndpointStats[]) => closingLines(closing({ endpoints })).at(-1);
  expect(lines([endpoint('a', mute)])).toBe(
    'without: no load at /metrics: limits and patience followed its answers alone',
  );
  expect(lines([endpoint('a', { ...mute, pinned: true }), endpoint('b')])).toBe(
    'without: no load at /metrics at http://a:8005/v1: patience followed its answers alone',
  );
  expect(lines([endpoint('a', { lacks: { metrics: false, formless: 1200 } })])).toBe(
    'without: no guided decoding: 1,200 tries without the form of the answer, which was checked all the same',
  );
  // one that answered nothing is no matter
  expect(lines([endpoint('a', { ...mute, answered: 0 }), endpoint('b')])).not.toContain('without');
});
