/** Limits that servers cut by throttling for a moment: they come back with the calls that wait. In virtual time. */
import { expect, test } from 'vitest';
import { createLearner, noteSent } from '../../engine/asking/pool/learner.ts';
import { cameBack, climbs, noteThrottled } from '../../engine/asking/pool/throttling.ts';
import type { Call } from '../../engine/core/item/call.ts';
import { answersLong, longCall } from './long.ts';
import { type Virtual, virtual } from './virtual.ts';

const SECOND = 1_000;
const LIVE = {
  ...{ place: 30 * SECOND, firstByte: 120 * SECOND, answer: 570 * SECOND, stream: 3_600 * SECOND, tries: 3 },
};
/** a second or so each */
const WRITES = 50;

const live = (n: number): Call => ({ ...longCall(n, { writes: WRITES, max: WRITES }), live: LIVE });
let asked = 0;

/** Asks so many live calls at once; how they ended, and the seconds until the last one had. */
async function burst({ clock, pool }: Virtual, count: number) {
  const from = clock.now();
  const all = Array.from({ length: count }, () =>
    pool.call(live(asked++)).then(
      () => 'answered',
      error => String(error.code),
    ),
  );
  const ends = await clock.until(Promise.all(all));
  return { ends: [...new Set(ends)], took: (clock.now() - from) / SECOND };
}

const limits = ({ pool }: Virtual) => pool.stats().endpoints.map(({ limit }) => limit);

test.each([
  ['take three at a time', 3],
  ['take none', 0],
])('servers %s for five seconds, and are well again', async (_, admits) => {
  const run = await virtual({ count: 2, answer: answersLong }, { lasting: true });
  await burst(run, 100);
  const well = await burst(run, 100);
  for (const server of run.servers) server.admits = admits;
  run.clock.after(5 * SECOND, () => {
    for (const server of run.servers) server.admits = null;
  });
  // what is asked meanwhile is answered by then or soon after
  expect((await burst(run, 20)).ends).toEqual(['answered']);
  const kept = run.pool.kept().map(({ limit }) => limit);
  if (admits > 0) expect(Math.min(...limits(run))).toBeLessThanOrEqual(12);
  // what throttling taught is no place to begin from
  expect(kept.every(limit => limit === null || limit > 12)).toBe(true);
  const first = await burst(run, 100);
  expect(first.ends).toEqual(['answered']);
  expect(first.took).toBeLessThan(10);
  await burst(run, 100);
  await burst(run, 100);
  expect((await burst(run, 100)).took).toBeLessThan(2 * well.took);
});

test('a server that throttles for good is asked for too much ever more rarely, and loses no call', async () => {
  const run = await virtual({ count: 1, answer: answersLong }, { lasting: true });
  run.servers[0]!.admits = 20;
  for (let n = 0; n < 60; n++) expect((await burst(run, 60)).ends).toEqual(['answered']);
  const { answered, failed } = run.pool.stats().endpoints[0]!;
  expect(answered).toBe(3_600);
  expect((failed['HTTP 503'] ?? 0) / answered).toBeLessThan(0.25);
});

test('a limit climbs by a factor of two a round, waits longer each time that it was wrong, and is then learned as before', () => {
  const learner = createLearner(64, false, 0);
  let now = 0;
  const answer = () => {
    const { round, limit } = learner;
    return climbs(learner, { round, latency: 1, tokens: 1, among: limit, here: limit }, now);
  };
  const throttle = (here: number) => {
    while (learner.phase !== 'cut') {
      noteSent(learner, now);
      noteThrottled(learner, learner.round, here, now);
    }
  };
  throttle(4);
  expect([learner.limit, learner.climb?.to, learner.climb?.known]).toEqual([4, 64, null]);
  for (let n = 0; n < 100; n++) answer();
  expect(learner.limit).toBe(4); // a second has to pass
  now = 1_000;
  const seen: number[] = [];
  for (let n = 0; n < 12; n++) {
    answer();
    seen.push(learner.limit);
  }
  expect(seen.slice(0, 9)).toEqual([8, 8, 8, 8, 8, 8, 8, 8, 16]);
  throttle(7);
  expect([learner.limit, learner.climb?.to, learner.climb?.wait]).toEqual([7, 64, 2_000]);
  for (let times = 0; times < 5; times++) {
    now += 20_000;
    for (let n = 0; n < 7; n++) answer();
    expect(learner.limit).toBe(14);
    throttle(7);
  }
  expect(learner.climb?.wait).toBe(10_000);
  now += 10_000;
  for (let n = 0; n < 200 && learner.climb !== null; n++) answer();
  expect([learner.limit, learner.phase, learner.climb]).toEqual([64, 'grow', null]);
  cameBack(learner, now);
  expect(learner.limit).toBe(64);
});
