/** What holds a run up is named, once, and that it goes on. Time is made up; one pool is real, with a clock that we move. */
import { describe, expect, test } from 'vitest';
import type { EndpointStats } from '../../engine/asking/pool/pool-stats.ts';
import { createStallWatch, type RunState } from '../../engine/running/watch/stall.ts';
import { manualClock } from '../pool/clock.ts';
import { type Ask, open, outcome, serve } from '../pool/serving.ts';

const UP: EndpointStats = {
  url: 'http://gpu1:8005/v1',
  state: 'up',
  cause: '',
  models: [],
  pausedFor: 0,
  inFlight: 3,
  limit: 256,
  pinned: false,
  oldest: 1_000,
  load: null,
  said: null,
  gpu: null,
  gpuOverall: null,
  levels: [],
  answered: 5,
  checked: 0,
  unchecked: 0,
  otherModel: 0,
  failed: {},
  retries: 0,
  usage: { prompt: 0, completion: 0, cached: 0 },
  medianLatency: 1_000,
  busy: 0,
  places: 0,
};
const BEGUN: RunState = {
  now: 0,
  finished: 5,
  blockedSince: null,
  items: 8,
  waiting: 4,
  ledger: 0,
  cpu: 0,
  lag: 0,
  endpoints: [UP],
};

/** Looks once a second, at what `at` says of the second; what was said, with the second in which it was. */
function watch(seconds: number, at: (second: number) => Partial<RunState>): string[] {
  const look = createStallWatch(BEGUN);
  const said: string[] = [];
  for (let second = 1; second <= seconds; second++) {
    const words = look({ ...BEGUN, now: second * 1000, ...at(second) });
    if (words !== null) said.push(`${second}: ${words}`);
  }
  return said;
}

describe('said once, after ten seconds without anything finished', () => {
  test('a server, with what it says of itself', () => {
    const load = { running: 2, waiting: 1, kv: 0.995, preemptions: 0, prompts: 0, cached: 0, written: 0 };
    const slow = { ...UP, url: 'http://gpu2:8005/v1', oldest: 40_000, load };
    const said = watch(30, second => ({ endpoints: [UP, slow], finished: second < 25 ? 5 : 6 }));
    expect(said).toEqual([
      '10: nothing has finished for 10 s: waiting for http://gpu2:8005/v1: 3 calls there, the oldest for 40 s; it says 2 running, 1 waiting, KV 100 %, and 1 more with calls',
      '25: running again, after 25 s without progress',
    ]);
  });

  test('the reader of the output, though servers have calls too', () => {
    expect(watch(20, second => ({ blockedSince: 2_000, finished: Math.min(second, 3), items: 512 }))).toEqual(
      [
        '13: nothing has finished for 10 s: the reader of the output: it was not ready 100 % of the time (512 items held back)',
      ],
    );
  });

  test('the disk, known only when the write is over', () => {
    const said = watch(40, second =>
      second < 32 ? {} : { ledger: 31_000, lag: 31_000, now: second * 1000 },
    );
    expect(said).toEqual([
      '10: nothing has finished for 10 s: waiting for http://gpu1:8005/v1: 3 calls there, the oldest for 1 s',
    ]);
    const look = createStallWatch(BEGUN);
    // the loop stood in the write: there was no look before
    expect(look({ ...BEGUN, now: 33_000, ledger: 31_000, lag: 32_000 })).toContain(
      'nothing has finished for 33 s: the disk: writing the ledger took 94 % of the time',
    );
  });

  test('this process, and this process stopped', () => {
    const busy = createStallWatch(BEGUN);
    expect(busy({ ...BEGUN, now: 20_000, lag: 19_000, cpu: 18_000 })).toBe(
      'nothing has finished for 20 s: this process: its one thread was busy 95 % of the time; share the input between several processes',
    );
    const stopped = createStallWatch(BEGUN);
    expect(stopped({ ...BEGUN, now: 20_000, lag: 19_000, cpu: 10 })).toContain(
      'this process did not run 95 % of the time',
    );
  });

  test('the disk and this process, where something ended just before it stood and as soon as it went on', () => {
    const moved = { ...BEGUN, now: 20_000, finished: 9, lag: 19_000 };
    expect(createStallWatch(BEGUN)({ ...moved, cpu: 10 })).toBe(
      'nothing has finished for 19 s: this process did not run 100 % of the time: it was stopped, or the machine slept or is overloaded',
    );
    expect(createStallWatch(BEGUN)({ ...moved, ledger: 18_500 })).toBe(
      'nothing has finished for 19 s: the disk: writing the ledger took 97 % of the time',
    );
    const look = createStallWatch(BEGUN);
    expect(look({ ...moved, now: 10_000, lag: 9_000 })).toBeNull();
    // there was nothing that could have ended
    const idle = { ...BEGUN, waiting: 0, endpoints: [{ ...UP, inFlight: 0, oldest: null }] };
    expect(createStallWatch(idle)({ ...moved, ...idle, now: 20_000, finished: 9, lag: 19_000 })).toBeNull();
  });

  test('no endpoint: down, or asked for a pause', () => {
    const down = { ...UP, state: 'down', cause: 'connect ECONNREFUSED', inFlight: 0, oldest: null } as const;
    expect(watch(20, () => ({ endpoints: [down, down] }))).toEqual([
      '10: nothing has finished for 10 s: no endpoint was available 100 % of the time: http://gpu1:8005/v1 is down (connect ECONNREFUSED), and 1 more; 4 calls in the queue',
    ]);
    const paused = { ...down, state: 'paused', cause: 'HTTP 429', pausedFor: 90_000 } as const;
    expect(watch(20, () => ({ endpoints: [paused] }))[0]).toContain(
      'http://gpu1:8005/v1 is paused for another 2 min (HTTP 429); 4 calls',
    );
  });
});

test('no stall: nothing to do, something finished in time, answers that take their time', () => {
  const idle = { ...UP, inFlight: 0, oldest: null };
  expect(watch(100, () => ({ waiting: 0, endpoints: [idle] }))).toEqual([]);
  expect(watch(100, second => ({ finished: Math.floor(second / 9) }))).toEqual([]);
  expect(watch(100, () => ({ endpoints: [{ ...UP, medianLatency: 40_000 }] }))).toEqual([]);
});

test('a server that has answered nothing is judged by what the others need', () => {
  const silent = { ...UP, url: 'http://gpu2:8005/v1', medianLatency: null, answered: 0 };
  const words =
    '10: nothing has finished for 10 s: waiting for http://gpu2:8005/v1: 3 calls there, the oldest for 1 s; it has answered none yet';
  expect(watch(20, () => ({ endpoints: [silent] }))).toEqual([words]);
  const idle = { ...UP, inFlight: 0, oldest: null };
  expect(watch(20, () => ({ endpoints: [{ ...idle, medianLatency: 200 }, silent] }))).toEqual([words]);
  expect(watch(20, () => ({ endpoints: [{ ...idle, medianLatency: 8_000 }, silent] }))).toEqual([]);
});

test('what a server said is shown, not obeyed', () => {
  const down = { ...UP, state: 'down', cause: '\u001b[2Jgone', inFlight: 0, oldest: null } as const;
  expect(watch(11, () => ({ endpoints: [down] }))[0]).toContain('<U+001B>[2Jgone');
});

test('a server that takes calls and never answers, seen through a pool', async () => {
  const clock = manualClock();
  const held: Ask[] = [];
  const fake = await serve(ask => (ask.n === 1 ? ask.answer('first') : void held.push(ask)), {
    metrics: () => 'vllm:num_requests_running 1\nvllm:num_requests_waiting 7\nvllm:kv_cache_usage_perc 0.5\n',
  });
  const pool = await open([{ url: fake.url, limit: 2 }], { clock });
  const sight = (): RunState => {
    const { answered, waiting, endpoints } = pool.stats();
    return { ...BEGUN, now: clock.now(), finished: answered, waiting, endpoints };
  };
  expect(await outcome(pool)).toBe('first');
  const look = createStallWatch(sight());
  const calls = [outcome(pool), outcome(pool), outcome(pool)];
  await fake.reached(3);
  clock.pass(9_900);
  expect(look(sight())).toBeNull();
  clock.pass(1_100);
  expect(look(sight())).toMatch(
    /^nothing has finished for 11 s: waiting for http:\S+\/v1: 2 calls there, the oldest for 11 s/,
  );
  clock.pass(5_000);
  expect(look(sight())).toBeNull();
  held[0]?.answer('late');
  expect(await Promise.race(calls)).toBe('late');
  expect(look(sight())).toBe('running again, after 16 s without progress');
});
