/**
 * Every behaviour of servers.ts beside a healthy endpoint, on real sockets, with the pool's own waits on an injected clock:
 * no call is lost, none has a wrong answer, few are asked twice, and the end is not held up for longer than a stall takes.
 */
import { expect, onTestFinished, test } from 'vitest';
import { TIMING } from '../../engine/asking/endpoints/pool-clock.ts';
import type { Call } from '../../engine/core/item/call.ts';
import { every, runs } from '../all.ts';
import { type ManualClock, manualClock } from '../pool/clock.ts';
import { callOf, echo, nonceIn, open, outcome, serve } from '../pool/serving.ts';
import { BEHAVIOURS } from './servers.ts';
import { type Ask, type HostileServer, serveHostile } from './serving.ts';

const CALLS = runs(200, 300, 'CALLS');
const PLACES = 16;
/** of an honest answer, in ms */
const LATENCY = 200;
const ALONE = (CALLS / PLACES) * LATENCY;

async function hostileTo(clock: ManualClock, behave: (ask: Ask) => void): Promise<HostileServer> {
  const hostile = await serveHostile({
    model: 'm',
    behave,
    rightTo: body =>
      JSON.stringify({
        id: 'chatcmpl-1',
        object: 'chat.completion',
        choices: [
          { index: 0, message: { role: 'assistant', content: nonceIn(body) }, finish_reason: 'stop' },
        ],
        usage: { prompt_tokens: 20, completion_tokens: 4, total_tokens: 24 },
      }),
    after: clock.after,
  });
  onTestFinished(() => hostile.close());
  return hostile;
}

/** One that may write 64 tokens. */
function shortCall(): Call {
  const call = callOf();
  return { ...call, body: Buffer.from(JSON.stringify({ ...JSON.parse(`${call.body}`), max_tokens: 64 })) };
}

test.each(
  every(
    5,
    BEHAVIOURS.map(one => [one.name, one] as const),
  ),
)('beside a healthy endpoint: %s', async (_, { behave, isRight }) => {
  const clock = manualClock();
  const healthy = await serve(ask => void clock.after(LATENCY, () => echo(ask)));
  const hostile = await hostileTo(clock, behave);
  const endpoints = [hostile, healthy].map(({ url }) => ({ url, limit: PLACES, pinned: true }));
  const pool = await open(endpoints, { clock, timing: TIMING });
  const begun = clock.now();
  const calls = Array.from({ length: CALLS }, () => shortCall());
  const outcomes = await clock.turning(Promise.all(calls.map(call => outcome(pool, call))));
  expect(outcomes).toEqual(calls.map(({ item }) => item));
  const [bad, good] = pool.stats().endpoints;
  // how long one is waited for that answers some follows from the time of these, of which it sets no bound; but it has
  // its places full of calls only once
  if (bad?.answered === 0) expect(clock.now() - begun).toBeLessThan(1.5 * ALONE + 30_000);
  else expect(bad?.failed.timeout ?? 0).toBeLessThanOrEqual(PLACES);
  expect(healthy.asked + hostile.asked).toBeLessThanOrEqual(1.2 * CALLS);
  if (!isRight) expect([bad?.answered, good?.answered]).toEqual([0, CALLS]);
  // whoever was asked twice is on the account
  const lost = Object.values(bad?.failed ?? {}).reduce((sum, times) => sum + times, 0);
  expect(pool.stats().retries).toBe(lost);
  expect(healthy.asked + hostile.asked).toBe(CALLS + lost);
});

const MINUTES = 5 * 60_000;
const HEAD = 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n';

/** What it says meanwhile, and whether its head is among that. */
const THINKING: [string, (ask: Ask) => void, boolean][] = [
  ['says nothing', () => {}, false],
  [
    'says that it is at work',
    ask =>
      ask.every(10_000, times => void (times < 30 && ask.socket.write('HTTP/1.1 102 Processing\r\n\r\n'))),
    false,
  ],
  ['has sent its head', ask => void ask.socket.write(HEAD), true],
  [
    'sends blanks',
    ask => {
      ask.socket.write(HEAD);
      ask.every(5_000, times => void (times < 60 && ask.socket.write('1\r\n\n\r\n')));
    },
    true,
  ],
];

test.each(THINKING)(
  'a server that thinks for five minutes, and %s: nothing is asked twice',
  async (_, meanwhile, isHeadSent) => {
    const clock = manualClock();
    const answerTo = (ask: Ask): void => {
      const body = `${ask.right.length.toString(16)}\r\n${ask.right}\r\n0\r\n\r\n`;
      ask.after(MINUTES, () => void ask.socket.write(isHeadSent ? body : HEAD + body));
    };
    const slow = await hostileTo(clock, ask => {
      answerTo(ask);
      meanwhile(ask);
    });
    const pool = await open([{ url: slow.url, limit: 4 }], { clock, timing: TIMING });
    const calls = Array.from({ length: 12 }, () => callOf());
    const outcomes = await clock.turning(Promise.all(calls.map(call => outcome(pool, call))));
    expect(outcomes).toEqual(calls.map(({ item }) => item));
    expect(slow.asked).toBe(calls.length);
  },
);

test('a slow endpoint beside a fast one keeps its calls: it takes nine times as long, one after the other', async () => {
  const clock = manualClock();
  let last = 0;
  const slow = await serve(ask => {
    last = Math.max(last, clock.now()) + 9 * LATENCY;
    clock.after(last - clock.now(), () => echo(ask));
  });
  const fast = await serve(ask => void clock.after(LATENCY, () => echo(ask)));
  const endpoints = [slow, fast].map(({ url }) => ({ url, limit: PLACES, pinned: true }));
  const pool = await open(endpoints, { clock, timing: TIMING });
  const calls = Array.from({ length: runs(600, 2_000, 'CALLS') }, () => callOf());
  const outcomes = await clock.turning(Promise.all(calls.map(call => outcome(pool, call))));
  expect(outcomes).toEqual(calls.map(({ item }) => item));
  expect(slow.asked + fast.asked).toBe(calls.length);
});
