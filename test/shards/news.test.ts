/** What is said of workers that come, go, or do not come. */
import { expect, test } from 'vitest';
import { createHandedIn, createNews, type DeskStats } from '../../products/workers/desk-stats.ts';

type Worker = DeskStats['workers'][number];

const worker = (pid: number, models = ['m']): Worker => ({
  ...{ worker: `gpu1-${pid}-x`, host: 'gpu1', pid, version: '1', models, places: 64, rate: 0, held: [] },
  ...{ isStopping: false, seen: 0, since: 0, took: 0 },
  endpoints: [{ url: 'http://127.0.0.1:8005/v1', isUp: true, inFlight: 0, limit: 32, place: '' }],
});

function stats(
  workers: Worker[],
  more: { models?: string[]; done?: number; isQueueUp?: boolean } = {},
): DeskStats {
  const { models = ['m'], done = 0, isQueueUp = true } = more;
  const work = {
    id: 'w',
    label: 'p',
    owner: '',
    lines: 10,
    shards: 1,
    shardsDone: 0,
    running: 0,
    workers: 0,
  };
  const isServed = workers.some(one => models.every(model => one.models.includes(model)));
  const lacking = done === work.lines || isServed ? null : models;
  const works = [{ ...work, models, done, lacking }];
  return { workers, here: workers, isQueueUp, works } as unknown as DeskStats;
}

const news = () => createNews('fw work …', true).look;

test('who comes and goes is named, and what they did in the end', () => {
  const { look } = createNews('fw work …');
  const { note, words } = createHandedIn();
  const [one, other] = [worker(7), worker(8)];
  expect(look(stats([one]), 0)).toEqual(['worker gpu1/7 is here: 1 endpoint, 64 places, m']);
  expect(look(stats([one, other]), 1_000)).toEqual(['worker gpu1/8 is here: 1 endpoint, 64 places, m']);
  note(stats([one, other]));
  expect(words()).toEqual([]);
  note(
    stats([
      { ...one, took: 200 },
      { ...other, took: 1_100 },
    ]),
  );
  expect(look(stats([other]), 60_000)).toEqual(['worker gpu1/7 has gone']);
  expect(look(stats([{ ...other, took: 1_100 }]), 70_000)).toEqual([]);
  note(stats([]));
  expect(words()).toEqual(['2 workers handed in 1,300 lines: gpu1/8 1,100, gpu1/7 200']);
});

test('nobody is there: after ten seconds, and again after ten minutes', () => {
  const say = news();
  const at = (now: number) => say(stats([]), now);
  expect(at(0)).toEqual([]);
  expect(at(9_999)).toEqual([]);
  expect(at(10_000)).toEqual(['no worker is here; start some: fw work …']);
  expect(at(300_000)).toEqual([]);
  expect(at(610_000)).toEqual(['no worker is here; start some: fw work …']);
});

test('nothing of that while Redis is away, or where all is done', () => {
  const say = news();
  for (const now of [0, 20_000]) expect(say(stats([], { isQueueUp: false }), now)).toEqual([]);
  for (const now of [30_000, 50_000]) expect(say(stats([], { done: 10 }), now)).toEqual([]);
});

test('workers of another model', () => {
  const say = news();
  const there = (now: number) => say(stats([worker(7, ['other'])], { models: ['m'] }), now);
  there(0);
  expect(there(10_000)).toEqual(['expected a worker that serves m, found none: 1 worker with other']);
});

test('of a thousand models not all are named', () => {
  const say = news();
  const models = Array.from({ length: 1_000 }, (_, at) => `m${at}`);
  const there = (now: number) => say(stats([worker(7, models)], { models: ['m'] }), now);
  there(0);
  expect(there(10_000)).toEqual([
    'expected a worker that serves m, found none: 1 worker with m0, m1, m2, m3, m4, m5, m6, m7, 992 more',
  ]);
});

test('of a thousand that come and go not all are named', () => {
  const say = news();
  const many = Array.from({ length: 1_000 }, (_, pid) => worker(pid));
  const lines = say(stats(many), 0);
  expect(lines).toHaveLength(41);
  expect(lines.at(-1)).toBe(
    'many workers come and go: for ten minutes no more are named; the metrics count them',
  );
  expect(say(stats(many.slice(10)), 1)).toEqual([]);
  expect(say(stats(many.slice(11)), 10 * 60_000)).toEqual(['worker gpu1/10 has gone']);
});

test('of two works each has workers of its own; only the one that has none is said', () => {
  const say = news();
  const two = { ...stats([worker(7, ['a']), worker(8, ['b'])]) };
  const [work] = two.works;
  const of = (...models: string[]) => ({
    ...two,
    works: models.map(model => ({
      ...work,
      models: [model],
      lacking: model === 'c' ? ['c'] : null,
    })) as never,
  });
  for (const now of [0, 20_000]) say(of('a', 'b'), now);
  expect(say(of('a', 'b'), 40_000)).toEqual([]);
  say(of('a', 'c'), 60_000);
  expect(say(of('a', 'c'), 70_000)).toEqual([
    'expected a worker that serves c, found none: 2 workers with a, b',
  ]);
});

test('without work a server wants no worker', () => {
  const { look } = createNews('fw work …');
  for (const now of [0, 20_000]) expect(look({ ...stats([]), works: [] }, now)).toEqual([]);
});
