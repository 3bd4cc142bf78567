/** What a person sees of a run while it goes on. */
import { expect, test } from 'vitest';
import { liveHead, liveRow, liveWords } from '../../products/measure/bench/live-table.ts';
import { liveOf, Samples } from '../../products/measure/bench/samples.ts';

const answer = (sent: number) =>
  ({
    ok: true,
    due: sent,
    sent,
    end: sent + 100,
    ttft: 20,
    firstEvent: 20,
    firstAnswer: 20,
    e2el: 100,
    tpot: 8,
    contents: [sent + 20, sent + 100],
    coalesced: 0,
    usage: { prompt: 10, completion: 11, cached: null },
  }) as const;

test('rates are those of the last seconds, and rows have one width', () => {
  let at = 1_000;
  const samples = new Samples({ start: at, isDetailed: false });
  const look = liveOf({
    samples,
    start: at,
    now: () => at,
    underWay: () => 3,
    server: () => ({ running: 3, waiting: 0, kv: 0.25, gpu: null }),
  });
  expect(look()).toMatchObject({ seconds: 0, completed: 0, requestRate: 0, ttft50: Number.NaN });
  // ten answers a second for ten seconds, then none
  for (let second = 0; second < 10; second++) {
    for (let i = 0; i < 10; i++) samples.add(answer(at + 100 * i));
    at += 1_000;
    look();
  }
  const busy = look();
  expect(busy).toMatchObject({ completed: 100, ttft50: 20, tpot50: 8 });
  expect(busy.requestRate).toBeCloseTo(10, 9);
  expect(busy.tokenRate).toBeCloseTo(110, 9);
  for (let i = 0; i < 7; i++) {
    at += 1_000;
    look();
  }
  const idle = look();
  expect([idle.requestRate, idle.completed]).toEqual([0, 100]);

  const rows = [
    liveHead(200),
    liveRow('40 at a time', busy, 200),
    liveRow('a load with a very long name', idle, 200),
  ];
  expect(new Set(rows.map(({ length }) => length)).size).toBe(1);
  expect(rows[1]).toContain('25 %');
  for (const columns of [10, 40, 80]) expect(liveRow('x', busy, columns).length).toBeLessThan(columns);
  expect(liveWords(busy)).toBe(
    '10 s · 100 answers, 3 under way · 10.00 req/s, 110 tok/s out · TTFT p50 20 ms, p99 20 ms, TPOT p50 8.0 ms · the servers run 3, 0 wait, KV 25 %',
  );
});
