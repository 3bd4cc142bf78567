/** How requests are sent, in time that jumps: how many at once, when, how many, and what a slow server does to whom. */
import { expect, test } from 'vitest';
import { dueTimes } from '../../products/kit/arrivals.ts';
import { figuresOf, peakOf } from '../../products/measure/bench/bench-figures.ts';
import { percentile, sorted } from '../../products/measure/bench/bench-statistics.ts';
import { lagOf, limitsOf } from '../../products/measure/bench/client-health.ts';
import { type Driven, type Driving, drive } from '../../products/measure/bench/drive-load.ts';
import { Samples } from '../../products/measure/bench/samples.ts';
import { fallsBehind } from '../../products/measure/bench/sweep.ts';
import { queueServer, virtualTime } from './virtual.ts';

type Server = ReturnType<typeof queueServer>;

async function driven(
  time: ReturnType<typeof virtualTime>,
  servers: readonly Server[],
  more: Pick<Driving, 'load' | 'extent'> & Partial<Driving>,
): Promise<Driven> {
  const done = drive({
    lines: servers.map(({ line }) => line),
    requestAt: number => ({ path: `/${number}`, body: Buffer.alloc(0) }),
    samples: start => new Samples({ start, isDetailed: false }),
    now: time.now,
    after: time.after,
    patience: 600_000,
    signal: new AbortController().signal,
    ...more,
  });
  time.run();
  return done;
}

test('a closed loop keeps its number of requests under way, on the server that has the fewest', async () => {
  const time = virtualTime();
  const servers = [10, 10, 40].map(service => queueServer(time, { service }));
  const { samples, sent } = await driven(time, servers, {
    load: { kind: 'closed', concurrency: 6 },
    extent: { requests: 50, ms: null },
  });
  expect([sent, samples.completed, samples.failed]).toEqual([50, 50, 0]);
  expect(peakOf(samples.spans)).toBe(6);
  expect(servers.map(({ most }) => most)).toEqual([2, 2, 2]);
  expect(servers.flatMap(({ paths }) => paths).sort()).toEqual(
    Array.from({ length: 50 }, (_, i) => `/${i}`).sort(),
  );
});

test('a run that is limited by time waits for what is under way, and sends nothing more', async () => {
  const time = virtualTime();
  const server = queueServer(time, { service: 30 });
  const { samples, duration } = await driven(time, [server], {
    load: { kind: 'closed', concurrency: 2 },
    extent: { requests: null, ms: 100 },
  });
  // sent at 0, 0, 30, 60, 90; the last ends at 150
  expect(samples.completed).toBe(5);
  expect(duration).toBe(150);
});

test('an open loop sends when requests are due, however late the answers are', async () => {
  const time = virtualTime();
  const server = queueServer(time, { service: 1_000 });
  const load = { kind: 'open', rate: 50, burstiness: 1, seed: 5 } as const;
  const { samples } = await driven(time, [server], { load, extent: { requests: 40, ms: null } });
  const due = dueTimes({ rate: 50, burstiness: 1, count: 40, seed: 5 });
  expect([...samples.of('sent')]).toEqual([...due]);
  expect([...samples.of('due')]).toEqual([...due]);
  expect(peakOf(samples.spans)).toBe(40);
});

test('a stall of 2 s shows in an open loop as the queue says, and a closed loop hides it', async () => {
  const [service, rate, count] = [10, 50, 1_000];
  const stall = { from: 5_000, to: 7_000 };
  const time = virtualTime();
  const load = { kind: 'open', rate, burstiness: Number.POSITIVE_INFINITY, seed: 1 } as const;
  const open = await driven(time, [queueServer(time, { service, stall })], {
    load,
    extent: { requests: count, ms: null },
  });
  // due every 20 ms, served in 10: who comes at `at` in the stall waits for its end, and for those before it
  const expected = [...dueTimes({ rate, burstiness: Number.POSITIVE_INFINITY, count, seed: 1 })];
  let free = 0;
  const truth = expected.map(at => {
    let begins = Math.max(free, at);
    if (begins + service > stall.from && begins < stall.to) begins = stall.to;
    free = begins + service;
    return free - at;
  });
  const p99 = percentile(sorted(truth), 99);
  const found = figuresOf(open, null);
  expect(p99).toBeGreaterThan(1_500);
  expect(found.e2elDue.at[99]).toBeCloseTo(p99, 6);
  expect(found.metrics.e2el.at[99]).toBeCloseTo(p99, 6);

  const other = virtualTime();
  const closed = await driven(other, [queueServer(other, { service, stall })], {
    load: { kind: 'closed', concurrency: 1 },
    extent: { requests: count, ms: null },
  });
  expect(figuresOf(closed, null).metrics.e2el.at[99]).toBeCloseTo(service, 6);
});

test('a run that is stopped tells what was answered, and what was not', async () => {
  const time = virtualTime();
  const server = queueServer(time, { service: 100 });
  const stopping = new AbortController();
  time.after(250, () => stopping.abort());
  const { samples } = await driven(time, [server], {
    load: { kind: 'closed', concurrency: 3 },
    extent: { requests: 1_000, ms: null },
    signal: stopping.signal,
  });
  expect([samples.completed, samples.incomplete, samples.failed]).toEqual([2, 3, 0]);
});

test('a server that refuses everything is not asked for a minute', async () => {
  const time = virtualTime();
  const server = queueServer(time, { service: 1, fails: true });
  const { samples } = await driven(time, [server], {
    load: { kind: 'closed', concurrency: 10 },
    extent: { requests: null, ms: 60_000 },
  });
  expect(samples.completed).toBe(0);
  expect(samples.failed).toBeLessThan(300);
  expect(samples.failures()).toEqual([
    expect.objectContaining({ code: 'call-failed', cause: 'connection refused', count: samples.failed }),
  ]);
});

test('a server that dies in the middle is not asked for the rest of the time', async () => {
  const time = virtualTime();
  const server = queueServer(time, { service: 10, diesAt: 1_000 });
  const { samples, duration } = await driven(time, [server], {
    load: { kind: 'closed', concurrency: 4 },
    extent: { requests: null, ms: 60_000 },
  });
  expect(samples.completed).toBeGreaterThan(90);
  expect(samples.failed).toBeLessThan(210);
  expect(duration).toBeLessThan(1_100);
});

test('goodput counts requests that keep every bound', async () => {
  const time = virtualTime();
  const server = queueServer(time, { service: 100 });
  const load = { kind: 'open', rate: Number.POSITIVE_INFINITY, burstiness: 1, seed: 1 } as const;
  const all = await driven(time, [server], { load, extent: { requests: 10, ms: null } });
  // they end after 100, 200, … 1,000 ms
  expect(figuresOf(all, { e2el: 350 }).goodput).toBeCloseTo(3, 9);
  expect(figuresOf(all, { e2el: 350, ttft: 200 }).goodput).toBeCloseTo(2, 9);
  expect(figuresOf(all, { tpot: 1 }).goodput).toBeCloseTo(10, 9);
  expect(figuresOf(all, null).goodput).toBeNull();
});

test('a server falls behind where requests wait longer and longer, and not where a queue comes and goes', async () => {
  const at = async (rate: number): Promise<boolean> => {
    const time = virtualTime();
    const server = queueServer(time, { service: 20 });
    return fallsBehind(
      await driven(time, [server], {
        load: { kind: 'open', rate, burstiness: 1, seed: 9 },
        extent: { requests: 500, ms: null },
      }).then(driven => ({ driven })),
    );
  };
  expect(await at(30)).toBe(false);
  expect(await at(80)).toBe(true);
});

test('the client is the limit where it was busy or late, and only then', () => {
  const calm = {
    ms: 9_000,
    loopUtilisation: 0.2,
    cores: 0.3,
    waited: null,
    lagMean: 0.3,
    lagP99: 4,
    latenessP50: 0.5,
    latenessP99: 2,
  };
  const seen = { medianTtft: 30, p99Ttft: 50 };
  expect(limitsOf(calm, seen)).toEqual([]);
  // late by less than a timer's own imprecision, however short the TTFT is
  expect(limitsOf({ ...calm, latenessP99: 4.9 }, { ...seen, medianTtft: 1 })).toEqual([]);
  expect(limitsOf({ ...calm, loopUtilisation: 0.51 }, seen)).toEqual([
    expect.stringContaining('51 % of the time'),
  ]);
  expect(limitsOf({ ...calm, cores: 0.9 }, seen)).toEqual([
    expect.stringContaining('0.90 of a processor core'),
  ]);
  expect(limitsOf({ ...calm, ms: 900, loopUtilisation: 0.9, cores: 1 }, seen)).toEqual([]);
  expect(limitsOf({ ...calm, latenessP99: 11 }, { ...seen, medianTtft: 9_999 })).toEqual([
    expect.stringContaining('11.0 ms late'),
  ]);
  expect(limitsOf({ ...calm, latenessP99: 6 }, seen)).toEqual([
    expect.stringContaining('5 % of the median TTFT'),
  ]);
  expect(limitsOf({ ...calm, lagMean: 2.1 }, seen)).toEqual([
    expect.stringContaining('2.1 ms late on average'),
  ]);
  expect(limitsOf({ ...calm, lagMean: 2.1 }, { ...seen, medianTtft: 200 })).toEqual([]);
  expect(limitsOf({ ...calm, lagMean: 2.1, waited: 0.4 }, seen)).toEqual([
    expect.stringContaining('waited for a processor 40 % of the time'),
  ]);
  expect(limitsOf({ ...calm, lagP99: 11 }, seen)).toEqual([expect.stringContaining('one byte in a hundred')]);
  expect(limitsOf({ ...calm, lagP99: 11 }, { ...seen, p99Ttft: 400 })).toEqual([]);
  // an answer that is not streamed has no TTFT
  expect(limitsOf({ ...calm, lagMean: 2.1 }, { medianTtft: Number.NaN, p99Ttft: Number.NaN })).toHaveLength(
    1,
  );
});

test('a gap of the loop counts by its length, since so many bytes come in it', () => {
  // 900 turns of 1 ms, and 100 of 101 ms: half of each second is spent in a pause, of which a byte waits for the rest
  const gapAt = (p: number): number => (p < 90 ? 1 : 101);
  const all = 900 + 100 * 101;
  const { lagMean, lagP99 } = lagOf(gapAt);
  expect(lagMean).toBeCloseTo((100 * 100 ** 2) / 2 / all, 6);
  // 100 pauses of which the last x ms hold a byte later than 100 - x: 100 x / all = 0.01
  expect(lagP99).toBeCloseTo(100 - (0.01 * all) / 100, 3);
  expect(lagOf(() => 1)).toEqual({ lagMean: 0, lagP99: expect.closeTo(0, 6) });
  expect(lagOf(() => 0)).toEqual({ lagMean: 0, lagP99: 0 });
});

test('a closed loop begins over one latency, and its steady part has the rate of Little’s law', async () => {
  const time = virtualTime();
  const servers = Array.from({ length: 10 }, () => queueServer(time, { service: 100 }));
  const done = await driven(time, servers, {
    load: { kind: 'closed', concurrency: 10 },
    extent: { requests: 100, ms: null },
    spread: 100,
  });
  expect([...done.samples.of('sent')].slice(0, 12)).toEqual([
    0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110,
  ]);
  expect(peakOf(done.samples.spans)).toBe(10);
  expect(done.steady).toEqual({ from: 100, to: 990 });
  const { steady, requestThroughput } = figuresOf(done, null);
  // 10 under way, 0.1 s each; the whole run has the beginning and the end in it
  expect(steady?.requestThroughput).toBeCloseTo(100, 9);
  expect(requestThroughput).toBeCloseTo(100 / 1.09, 9);
});

test('a ramp grows evenly in time, and ends with its last request', () => {
  const [from, rate, seconds] = [1, 20, 60];
  const count = ((from + rate) / 2) * seconds;
  const due = dueTimes({ rate, from, burstiness: Number.POSITIVE_INFINITY, count, seed: 1 });
  expect(due.at(-1)).toBeCloseTo(1000 * seconds, 6);
  for (const t of [1, 10, 30, 45, 60]) {
    const expected = from * t + ((rate - from) * t * t) / 2 / seconds;
    expect(Math.abs(due.filter(at => at <= 1000 * t).length - expected)).toBeLessThanOrEqual(1);
  }
  // downwards too; and a ramp to the same rate is none
  const down = dueTimes({ rate: 1, from: 20, burstiness: 1, count, seed: 1 });
  expect([...down].every((at, i) => i === 0 || at >= (down[i - 1] as number))).toBe(true);
  expect(down.at(-1)).toBeCloseTo(1000 * seconds, 6);
  const flat = { rate: 5, burstiness: 1, count: 100, seed: 3 };
  expect([...dueTimes({ ...flat, from: 5 })]).toEqual([...dueTimes(flat)]);
});
