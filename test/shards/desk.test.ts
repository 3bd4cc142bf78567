/** The desk of a coordinator, with a queue in memory and a clock that a test moves. */
import { mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, expect, test } from 'vitest';
import { createDesk, type Desk } from '../../products/workers/desk.ts';
import type { PointerQueue } from '../../products/workers/part-queue.ts';
import {
  Gone,
  Held,
  type Hello,
  NotKept,
  NotYet,
  type PartName,
  type Pointer,
  type Result,
  WrongResult,
} from '../../products/workers/protocol.ts';
import { newPlanner, type Plan, readPlan } from '../../products/workers/shard-plan.ts';
import type { PlannedWork } from '../../products/workers/shard-work.ts';

const LEASE = 60_000;
const ASKED = { calls: 1, retries: 0, replayed: 0, promptTokens: 2, completionTokens: 3, cachedTokens: 0 };
const folders: string[] = [];
const desks: Desk[] = [];
afterEach(async () => {
  for (const desk of desks.splice(0)) await desk.close();
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'fw-test-desk-'));
  folders.push(folder);
  return folder;
}

const lineOf = (at: number, more: object = {}): Buffer =>
  Buffer.from(`${JSON.stringify({ id: `i${at}`, prompt: 'p', ...more })}\n`);

function planOf(folder: string, lines: number, most = 200): Plan {
  const planner = newPlanner(join(folder, 'spool'), { lines: most, bytes: 1 << 20 });
  for (let at = 0; at < lines; at++) planner.add(lineOf(at));
  return planner.finish(() => join(folder, 'work'));
}

/** As the next process reads it. */
const again = ({ folder }: Plan): Plan => readPlan(folder) as Plan;

interface FakeQueue extends PointerQueue {
  jobs: { queue: string; id: string; pointer: Pointer }[];
  isUp: boolean;
  ready(): void;
}

function fakeQueue(): FakeQueue {
  const acts: (() => void)[] = [];
  const queue: FakeQueue = {
    jobs: [],
    isUp: true,
    async add(name, offers) {
      if (!queue.isUp) throw new Error('away');
      for (const { id, pointer } of offers) queue.jobs.push({ queue: name, id, pointer });
    },
    waiting: async name => new Set(queue.jobs.filter(job => job.queue === name).map(({ id }) => id)),
    onReady: act => acts.push(act),
    ready() {
      for (const act of acts) act();
    },
    close: async () => {},
  };
  return queue;
}

interface Bench {
  desk: Desk;
  queue: FakeQueue;
  said: string[];
  wait(ms: number): void;
  open(plan: Plan, more?: { id?: string; owner?: string; weight?: number; models?: string[] }): PlannedWork;
  hello(worker: string, more?: Partial<Hello>): ReturnType<Desk['hello']>;
  /** The lines of a part, as a worker has them. */
  take(name: PartName, worker: string): string[];
  put(name: PartName, worker: string, more?: Partial<Result>, ids?: string[]): number;
  /** The next pointer of the queue. */
  pull(): Pointer;
}

function bench(time = { now: 1_000_000 }): Bench {
  const queue = fakeQueue();
  const said: string[] = [];
  const desk = createDesk({
    queue,
    id: 'test',
    lease: LEASE,
    now: () => time.now,
    say: text => said.push(text),
  });
  desks.push(desk);
  const held = new Map<string, string[]>();
  const keyOf = ({ work, root, part }: PartName, worker: string): string =>
    `${worker} ${work} ${root} ${part}`;
  return {
    desk,
    queue,
    said,
    wait(ms) {
      // in steps, as time passes: one jump would be a suspended process
      for (let left = ms; left > 0; left -= 1_000) {
        time.now += Math.min(left, 1_000);
        desk.look();
      }
    },
    open(plan, { id = 'w', owner = 'o', weight = 1, models = [] } = {}) {
      const task = { label: id, row: [], files: null, models, owner, weight };
      return desk.open({ id, task, files: null }, plan);
    },
    hello: (worker, more) =>
      desk.hello({
        ...{ worker, host: 'h', pid: 1, version: '0', models: ['m'], endpoints: [], places: 100, rate: 10 },
        ...{ held: [], isStopping: false },
        ...more,
      }),
    take(name, worker) {
      const ids = desk
        .take(name, worker)
        .lines.toString()
        .trimEnd()
        .split('\n')
        .map(line => (JSON.parse(line) as { id: string }).id);
      held.set(keyOf(name, worker), ids);
      return ids;
    },
    put(name, worker, more = {}, ids = held.get(keyOf(name, worker)) ?? []) {
      const answered = more.answered ?? ids.map((_, at) => at);
      const result = { worker, answered, asked: ASKED, model: 'm', seconds: 1, ...more };
      const lines = answered.map(at => `${JSON.stringify({ id: ids[at], by: worker })}\n`).join('');
      return desk.put(name, result, Buffer.from(lines));
    },
    pull: () => queue.jobs.shift()?.pointer as Pointer,
  };
}

async function all(work: PlannedWork): Promise<{ id: string; by?: string; failure?: { code: string } }[]> {
  const lines: string[] = [];
  for (let block = await work.next(); block !== null; block = await work.next())
    lines.push(...block.toString().trimEnd().split('\n'));
  return lines.map(line => JSON.parse(line));
}
const ids = (count: number): string[] => Array.from({ length: count }, (_, at) => `i${at}`);

test('what is planned is offered, taken, and given out whole', async () => {
  const { open, hello, pull, take, put, desk } = bench();
  const work = open(planOf(newFolder(), 450));
  hello('a');
  for (let done = 0; done < 450; ) {
    const name = pull();
    const lines = take(name, 'a');
    expect(put(name, 'a')).toBe(0);
    done += lines.length;
  }
  expect((await all(work)).map(({ id }) => id)).toEqual(ids(450));
  expect(work.asked).toMatchObject({ calls: 3, promptTokens: 6 });
  expect(desk.stats()).toMatchObject({
    shards: { planned: 0, offered: 0, running: 0, done: 3 },
    queuedLines: 0,
  });
});

test('a part has one result: a second one, one of a closed part and one that is no answer to it are refused', () => {
  const { open, hello, pull, take, put } = bench();
  open(planOf(newFolder(), 10));
  hello('a');
  hello('b');
  const name = pull();
  take(name, 'a');
  expect(() => take(name, 'b')).toThrow(Held);
  expect(() => put(name, 'a', {}, ids(9))).not.toThrow(); // what it has done of it
  expect(() => put(name, 'a')).toThrow(Gone);
  const rest = pull();
  expect(rest).toEqual({ work: 'w', root: 0, part: 1 });
  take(rest, 'a');
  expect(() => put(rest, 'a', {}, ['another'])).toThrow(WrongResult);
  expect(() => put(rest, 'a', { answered: [0, 0] })).toThrow(WrongResult);
  expect(() => put(rest, 'a', { answered: [1] })).toThrow(WrongResult);
  expect(put(rest, 'a')).toBe(0);
  expect(() => take(rest, 'a')).toThrow(Gone);
});

test('what a silent worker had goes to others; its late result is taken if it is the first, and refused if not', async () => {
  const { open, hello, pull, take, put, wait, said } = bench();
  const work = open(planOf(newFolder(), 20, 10));
  hello('a');
  hello('b');
  const [first, second] = [pull(), pull()];
  take(first, 'a');
  take(second, 'a');
  wait(LEASE / 2);
  hello('b');
  wait(LEASE / 2);
  expect(said.join()).toContain('nothing was heard of a for 60 s');
  const again = pull();
  take(again, 'b');
  put(again, 'b');
  expect(() => put(again, 'a')).toThrow(Gone);
  const other = again.root === first.root ? second : first;
  expect(put(other, 'a')).toBe(0); // nobody else was faster
  expect((await all(work)).map(({ id }) => id).sort()).toEqual(ids(20).sort());
});

test('a worker that says hello keeps what it has, also over a restart of the coordinator', async () => {
  const folder = newFolder();
  const plan = planOf(folder, 30, 10);
  const before = bench();
  before.open(plan);
  before.hello('a');
  const [first, second] = [before.pull(), before.pull()];
  before.take(first, 'a');
  before.put(first, 'a');
  before.take(second, 'a');
  for (const _ of [1, 2, 3, 4, 5]) {
    before.wait(LEASE / 2);
    before.hello('a', { held: [{ ...second, done: 1, lines: 10 }] });
  }
  await before.desk.close();

  const { open, hello, take, put, pull, desk, queue, wait } = bench();
  const orders = hello('a', { held: [{ ...second, done: 1, lines: 10 }] }); // before the work is open
  expect(orders.drop).toEqual([]);
  const work = open(again(plan));
  expect(() => take(second, 'b')).toThrow(NotYet);
  expect(queue.jobs).toEqual([]);
  hello('a', { held: [{ ...second, done: 1, lines: 10 }] });
  wait(15_000);
  expect(desk.stats().shards).toMatchObject({ running: 1, done: 1 });
  expect(() => take(second, 'b')).toThrow(Held);
  expect(put(second, 'a', {}, ids(30).slice(10, 20))).toBe(0);
  let third = pull();
  while (third.root !== 2) third = pull();
  take(third, 'a');
  put(third, 'a');
  expect((await all(work)).map(({ id }) => id).sort()).toEqual(ids(30).sort());
});

test('a Redis that lost its data is filled again, and one that is away is waited for', async () => {
  const { open, hello, pull, take, put, queue, wait } = bench();
  const work = open(planOf(newFolder(), 40, 10));
  hello('a');
  queue.jobs = [];
  wait(LEASE);
  queue.ready();
  await expect.poll(() => queue.jobs.length).toBe(2);
  const kept = pull();
  queue.isUp = false;
  take(kept, 'a'); // nothing can be offered in its place
  put(kept, 'a');
  queue.isUp = true;
  for (let done = 10; done < 40; done += 10) {
    wait(1_000);
    const name = pull();
    take(name, 'a');
    put(name, 'a');
  }
  expect(await all(work)).toHaveLength(40);
});

test('a request that takes its workers with it is found by halving, and fails alone by name', async () => {
  const { open, pull, take, put, wait, said, queue, hello } = bench();
  const work = open(planOf(newFolder(), 64, 64));
  let deaths = 0;
  while (work.parts.done.lines < 64) {
    hello('watcher');
    const name = pull();
    if (name === undefined) {
      wait(1_000);
      continue;
    }
    if (work.parts.find(name) === undefined) continue;
    const worker = `v${deaths}`;
    hello(worker);
    if (take(name, worker).includes('i37')) {
      deaths += 1;
      wait(LEASE);
    } else put(name, worker);
  }
  const lines = await all(work);
  expect(lines.filter(({ failure }) => failure).map(({ id, failure }) => [id, failure?.code])).toEqual([
    ['i37', 'worker-lost'],
  ]);
  expect(deaths).toBe(3 + 6 + 2); // to suspect it, to halve 64 down to 1, and twice more alone
  expect(said.at(-1)).toContain('found 3 that did not come back with it');
  expect(queue.jobs.length).toBeLessThan(4);
});

test('whatever workers had beside it, only the request that takes them with it fails', async () => {
  const seed = Number(process.env.SEED ?? Date.now() % 1_000_000);
  await fc.assert(
    fc.asyncProperty(
      fc.record({ lines: fc.integer({ min: 2, max: 40 }), most: fc.integer({ min: 1, max: 8 }) }),
      fc.uniqueArray(fc.nat(39), { maxLength: 3 }),
      fc.record({ workers: fc.integer({ min: 1, max: 3 }), room: fc.integer({ min: 1, max: 6 }) }),
      fc.array(fc.nat(1_000), { minLength: 10, maxLength: 40 }),
      async ({ lines, most }, poison, { workers, room }, choices) => {
        const bad = new Set(poison.filter(at => at < lines).map(at => `i${at}`));
        const { desk, open, hello, pull, put, wait, queue } = bench();
        const work = open(planOf(newFolder(), lines, most));
        let turn = 0;
        const choice = (of: number): number => (choices[turn++ % choices.length] as number) % of;
        let begun = 0;
        const there = Array.from({ length: workers }, () => ({ name: `v${begun++}`, held: [] as Had[] }));
        for (let step = 0; work.parts.done.lines < lines; step++) {
          expect(step).toBeLessThan(20_000);
          const worker = there[choice(workers)] as (typeof there)[number];
          const { name, held } = worker;
          hello(name, { held: held.map(({ part }) => ({ ...part, done: 0, lines: 1 })) });
          const isWaiting = held.some(({ isAlone }) => isAlone);
          for (let more = room - held.length; more > 0 && !isWaiting; more--) {
            const part = queue.jobs.length > 0 ? pull() : null;
            if (part === null || work.parts.find(part) === undefined) break;
            const { isAlone, lines } = desk.take(part, name);
            const ids = [...lines.toString().matchAll(/"id":"(i\d+)"/g)].map(([, id]) => id as string);
            held.push({ part, isAlone, ids });
            if (isAlone) break;
          }
          const others = held.filter(({ isAlone }) => !isAlone);
          const asked = others.length > 0 ? others : held.slice(0, 1);
          if (asked.some(({ ids }) => ids.some(id => bad.has(id)))) {
            worker.name = `v${begun++}`;
            worker.held = [];
          } else if (asked.length > 0) {
            const one = asked[choice(asked.length)] as Had;
            put(one.part, name, {}, one.ids);
            held.splice(held.indexOf(one), 1);
          }
          for (const { name, held } of there)
            hello(name, { held: held.map(({ part }) => ({ ...part, done: 0, lines: 1 })) });
          wait(LEASE / 10);
        }
        const failed = (await all(work)).filter(({ failure }) => failure);
        expect(failed.map(({ id }) => id).sort()).toEqual([...bad].sort());
      },
    ),
    { seed, numRuns: process.env.ALL ? 200 : 20 },
  );
});

interface Had {
  part: PartName;
  isAlone: boolean;
  ids: string[];
}

test('what is handed back goes to others with what is left of it alone', async () => {
  const { open, hello, pull, take, put } = bench();
  const work = open(planOf(newFolder(), 10));
  hello('a');
  const name = pull();
  take(name, 'a');
  expect(put(name, 'a', { answered: [0, 3, 9] })).toBe(7);
  const rest = pull();
  expect(take(rest, 'b')).toEqual(['i1', 'i2', 'i4', 'i5', 'i6', 'i7', 'i8']);
  expect(put(rest, 'b', { answered: [] })).toBe(7); // nothing done: it is offered as it was
  const again = pull();
  expect(again).toEqual(rest);
  take(again, 'b');
  put(again, 'b');
  expect((await all(work)).map(({ id, by }) => `${id} ${by}`)).toEqual(
    ids(10).map((id, at) => `${id} ${[0, 3, 9].includes(at) ? 'a' : 'b'}`),
  );
});

test('towards the end parts become smaller, and all workers end together', async () => {
  const { open, hello, pull, take, put } = bench();
  const work = open(planOf(newFolder(), 2_000));
  const sizes: number[] = [];
  for (const worker of ['a', 'b', 'c', 'd']) hello(worker);
  while (work.parts.done.lines < 2_000) {
    const name = pull();
    sizes.push(take(name, 'a').length);
    put(name, 'a');
  }
  expect(sizes[0]).toBe(200);
  expect(sizes.at(-1)).toBeLessThan(32);
  expect(sizes.length).toBeLessThan(30);
  expect((await all(work)).map(({ id }) => id).sort()).toEqual(ids(2_000).sort());
});

test('owners get equal parts, whoever came first and however much he brought', () => {
  const { open, hello, pull, take } = bench();
  hello('a', { places: 10_000 });
  open(planOf(newFolder(), 4_000, 100), { id: 'large', owner: 'x' });
  open(planOf(newFolder(), 4_000, 100), { id: 'large too', owner: 'x' });
  open(planOf(newFolder(), 400, 100), { id: 'small', owner: 'y' });
  const taken: string[] = [];
  for (let at = 0; at < 10; at++) {
    const name = pull();
    take(name, 'a');
    taken.push(name.work);
  }
  expect(taken.filter(work => work === 'small')).toHaveLength(4);
  expect(taken.filter(work => work === 'large')).toHaveLength(3);
});

test('of the works of an owner one with twice the weight gets twice as much', () => {
  const { open, hello, pull, take } = bench();
  hello('a', { places: 10_000 });
  open(planOf(newFolder(), 4_000, 100), { id: 'slow', weight: 1 });
  open(planOf(newFolder(), 4_000, 100), { id: 'urgent', weight: 24 });
  open(planOf(newFolder(), 4_000, 100), { id: 'slow too', weight: 1 });
  const taken: string[] = [];
  for (let at = 0; at < 26; at++) {
    const name = pull();
    take(name, 'a');
    taken.push(name.work);
  }
  expect(taken.filter(work => work === 'urgent').length).toBeGreaterThanOrEqual(23);
  expect(new Set(taken).size).toBe(3);
});

test('a work that is ended is asked no more: workers hand back what they have, and the rest is interrupted', async () => {
  const { open, hello, pull, take, put } = bench();
  const work = open(planOf(newFolder(), 20, 10));
  hello('a');
  const name = pull();
  take(name, 'a');
  work.end();
  expect(hello('a', { held: [{ ...name, done: 2, lines: 10 }] }).drop).toEqual([name]);
  expect(() => take({ ...name, root: 1 }, 'a')).toThrow(Gone);
  const lines = all(work);
  put(name, 'a', { answered: [0, 1] });
  const codes = (await lines).map(({ failure }) => failure?.code ?? 'ok');
  expect(codes).toEqual(['ok', 'ok', ...Array(18).fill('interrupted')]);
});

test('a slow worker hands back what it has not begun once nobody else has anything to do', () => {
  const { open, hello, pull, take, put, wait } = bench();
  open(planOf(newFolder(), 200, 100));
  hello('slow', { rate: 1 });
  hello('fast', { rate: 20 });
  const [one, other] = [pull(), pull()];
  take(one, 'slow');
  const held = [{ ...one, done: 3, lines: 100 }];
  take(other, 'fast');
  put(other, 'fast');
  expect(hello('slow', { rate: 1, held }).drop).toEqual([]); // it may still be in time
  wait(20_000);
  hello('fast', { rate: 20 });
  expect(hello('slow', { rate: 1, held }).drop).toEqual([one]);
});

test('a worker that takes nothing though there is something for it waits at another Redis, and that is said once', () => {
  const { open, hello, wait, said } = bench();
  open(planOf(newFolder(), 10));
  const endpoints = [{ url: 'http://gpu:1/v1', isUp: true, inFlight: 0, limit: 8 }];
  for (const _ of [1, 2, 3, 4]) {
    hello('a', { endpoints });
    hello('without an endpoint', { endpoints: [{ ...endpoints[0], isUp: false }] as typeof endpoints });
    wait(20_000);
  }
  expect(said).toEqual([expect.stringContaining('a takes nothing, though there is work for it')]);
});

test('how many share an endpoint is counted, and this machine is another one at each host', () => {
  const { hello } = bench();
  const endpoint = (url: string) => ({ url, isUp: true, inFlight: 0, limit: 8 });
  hello('a', { host: 'h1', endpoints: [endpoint('http://gpu:1/v1'), endpoint('http://127.0.0.1:8/v1')] });
  hello('b', { host: 'h2', endpoints: [endpoint('http://gpu:1/v1')] });
  const { sharing } = hello('c', {
    host: 'h2',
    endpoints: [endpoint('http://gpu:1/v1'), endpoint('http://127.0.0.1:8/v1')],
  });
  expect(sharing).toEqual({ 'http://gpu:1/v1': 3, 'http://127.0.0.1:8/v1': 1 });
});

test('a coordinator that was suspended takes nothing from its workers for that', () => {
  const time = { now: 1_000_000 };
  const { open, hello, pull, take, put, desk, said } = bench(time);
  open(planOf(newFolder(), 10));
  hello('a');
  const name = pull();
  take(name, 'a');
  time.now += 10 * LEASE;
  desk.look();
  expect(said).toEqual([]);
  expect(put(name, 'a')).toBe(0);
});

test('a clock that is set back makes no lease longer', () => {
  const time = { now: 10_000_000 };
  const { open, hello, pull, take, wait, desk, said } = bench(time);
  open(planOf(newFolder(), 10));
  hello('a');
  take(pull(), 'a');
  time.now -= 3_600_000;
  desk.look();
  wait(LEASE - 2_000);
  expect(said).toEqual([]);
  wait(4_000);
  expect(said).toEqual(['nothing was heard of a for 60 s; what it has goes to others: 10 lines in 1 part']);
  expect(desk.stats().alive).toBe(0);
});

test('a disk that refuses ends nothing: it is said once, and workers come again', () => {
  const { open, hello, pull, take, put, wait, said } = bench();
  const folder = newFolder();
  const work = open(planOf(folder, 10));
  const done = join(folder, 'work', 'done');
  rmSync(done, { recursive: true });
  hello('a');
  const name = pull();
  take(name, 'a');
  for (let tries = 0; tries < 3; tries++) expect(() => put(name, 'a')).toThrow(NotKept);
  expect(said).toEqual([expect.stringMatching(/^cannot write to disk, .*ENOENT/)]);
  // three losses would cut it, which is nothing that a timer may end the process for
  for (let tries = 0; tries < 4; tries++) {
    wait(LEASE + 2_000);
    take(name, 'b');
  }
  mkdirSync(done);
  expect(put(name, 'b')).toBe(0);
  expect(work.parts.done).toEqual({ lines: 10, shards: 1 });
});

test('who hands in what is no answer loses the part, as if it had died', async () => {
  const { open, hello, pull, take, put } = bench();
  const work = open(planOf(newFolder(), 1));
  hello('a');
  const name = pull();
  for (let tries = 0; tries < 3; tries++) {
    take(name, 'a');
    expect(() => put(name, 'a', {}, ['other'])).toThrow(WrongResult);
  }
  expect(await all(work)).toMatchObject([{ id: 'i0', failure: { code: 'worker-lost' } }]);
});

test.each<[string, object, boolean]>([
  ['request', { steps: [{ response: { status_code: 200, body: {} } }] }, true],
  ['request', { failure: { stage: 'request', code: 'call-refused', message: 'no' } }, true],
  ['request', {}, false],
  ['request', { steps: [] }, false],
  ['request', { steps: [{ response: { status_code: '200' } }] }, false],
  ['chain', { steps: [{ agent: 'risk' }] }, true],
  ['chain', { steps: 'none' }, false],
  ['chain', {}, false],
])('what %s makes of a line has an answer or a failure: %j', (stage, made, isOne) => {
  const { desk } = bench();
  const task = { label: 'w', row: [{ stage, options: {} }], files: null, models: [], owner: 'o', weight: 1 };
  desk.open({ id: 'w', task, files: null }, planOf(newFolder(), 1));
  const result = { worker: 'a', answered: [0], asked: ASKED, model: 'm', seconds: 1 };
  const putting = () => desk.put({ work: 'w', root: 0, part: 0 }, result, lineOf(0, made));
  if (isOne) expect(putting()).toBe(0);
  else expect(putting).toThrow('line 1: expected an answer or a failure, found neither');
});

test('whatever happens, each line leaves once', async () => {
  const seed = Number(process.env.SEED ?? Date.now() % 1_000_000);
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 90 }),
      fc.integer({ min: 1, max: 40 }),
      fc.array(fc.tuple(fc.nat(7), fc.nat(3), fc.nat(1_000)), { maxLength: 60 }),
      async (lines, most, steps) => {
        const plan = planOf(newFolder(), lines, most);
        let at = bench();
        let work = at.open(plan);
        const held: { name: PartName; worker: string; ids: string[] }[] = [];
        const pull = (worker: string): void => {
          const name = at.queue.jobs.shift()?.pointer;
          if (name === undefined) return;
          try {
            held.push({ name, worker, ids: at.take(name, worker) });
          } catch (error) {
            if (!(error instanceof Gone || error instanceof Held || error instanceof NotYet)) throw error;
          }
        };
        const put = (which: number, answer: (at: number) => boolean): void => {
          const [one] = held.splice(which % Math.max(1, held.length), 1);
          if (one === undefined) return;
          const answered = one.ids.map((_, at) => at).filter(answer);
          try {
            at.put(one.name, one.worker, { answered }, one.ids);
          } catch (error) {
            if (!(error instanceof Gone)) throw error;
          }
        };
        for (const [step, worker, number] of steps) {
          if (step <= 1) pull(`v${worker}`);
          else if (step === 2) put(number, () => true);
          else if (step === 3) put(number, line => line % 2 === number % 2);
          else if (step === 4) at.hello(`v${worker}`);
          else if (step === 5) at.wait(number * 100);
          else if (step === 6)
            at.queue.jobs = []; // Redis has lost its data
          else {
            await at.desk.close();
            at = bench();
            work = at.open(again(plan)); // killed and started again
          }
        }
        for (let round = 0; work.parts.done.lines < lines; round++) {
          expect(round).toBeLessThan(2_000);
          at.wait(LEASE);
          at.queue.ready();
          await new Promise(setImmediate);
          at.hello('last');
          while (at.queue.jobs.length > 0) pull('last');
          while (held.length > 0) put(0, () => true);
        }
        const left = await all(work);
        expect(left.map(({ id }) => id).sort()).toEqual(ids(lines).sort());
        expect(readdirSync(join(plan.folder, 'done')).some(name => name.includes('unfinished'))).toBe(false);
      },
    ),
    { seed, numRuns: process.env.ALL ? 300 : 60 },
  );
});

test('work of a model that nobody has waits for a worker, and fails where only others come', async () => {
  const { open, hello, pull, take, put, wait, said } = bench();
  const typo = open(planOf(newFolder(), 30), { id: 'typo', models: ['nobody has it'] });
  const both = open(planOf(newFolder(), 10), { id: 'both', models: ['m', 'other'] });
  const good = open(planOf(newFolder(), 10), { id: 'good', models: ['m'] });
  wait(60 * 60_000); // nobody is there
  expect([typo.isEnded, both.isEnded]).toEqual([false, false]);
  for (let minute = 0; minute < 11; minute++) {
    hello('a');
    hello('starts', { models: [] });
    if (minute > 5) hello('c', { models: ['m', 'other'] });
    wait(50_000);
    hello('a');
    wait(10_000);
  }
  expect([typo.isEnded, both.isEnded, good.isEnded]).toEqual([true, false, false]);
  const failures = (await all(typo)).map(({ failure }) => failure?.code);
  expect(failures).toEqual(Array(30).fill('no-such-model'));
  expect(said.join('\n')).toContain(
    'typo: expected a worker that serves the model nobody has it, found none among',
  );
  for (let left = 2; left > 0; ) {
    const name = pull();
    if (name.work === 'typo') continue;
    take(name, 'c');
    expect(put(name, 'c')).toBe(0);
    left--;
  }
});
