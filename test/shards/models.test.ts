/** Lines of one batch that name models of different workers: each goes to a worker that has its model, once. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, expect, test } from 'vitest';
import { createDesk, type Desk } from '../../products/workers/desk.ts';
import type { PointerQueue } from '../../products/workers/part-queue.ts';
import { Gone, Held, type Hello, NotYet, type PartName } from '../../products/workers/protocol.ts';
import { newPlanner, type Plan, readPlan } from '../../products/workers/shard-plan.ts';
import type { PlannedWork } from '../../products/workers/shard-work.ts';
import { runs } from '../all.ts';

const LEASE = 60_000;
const ASKED = { calls: 1, retries: 0, replayed: 0, promptTokens: 2, completionTokens: 3, cachedTokens: 0 };
const folders: string[] = [];
const desks: Desk[] = [];
afterEach(async () => {
  for (const desk of desks.splice(0)) await desk.close();
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});

const line = (id: string): Buffer => Buffer.from(`${JSON.stringify({ id, prompt: 'p' })}\n`);

/** Of each line its model; shards of at most so many lines. */
function planOf(models: readonly string[], most: number): Plan {
  const folder = mkdtempSync(join(tmpdir(), 'fw-test-models-'));
  folders.push(folder);
  const planner = newPlanner(join(folder, 'spool'), { lines: most, bytes: 1 << 20 });
  for (const [at, model] of models.entries()) planner.add(line(`i${at}`), [], model);
  return planner.finish(() => join(folder, 'work'));
}

function bench(models: string[]) {
  let now = 1_000_000;
  const said: string[] = [];
  let jobs: { queue: string; id: string; pointer: PartName }[] = [];
  const ready: (() => void)[] = [];
  const queue: PointerQueue = {
    isUp: true,
    add: async (name, offers) => void jobs.push(...offers.map(one => ({ queue: name, ...one }))),
    waiting: async name => new Set(jobs.filter(job => job.queue === name).map(({ id }) => id)),
    onReady: act => void ready.push(act),
    close: async () => {},
  };
  const desk = createDesk({
    queue,
    id: 'test',
    lease: LEASE,
    now: () => now,
    say: text => void said.push(text),
  });
  desks.push(desk);
  return {
    desk,
    said,
    wait(ms: number): void {
      for (let left = ms; left > 0; left -= 1_000) {
        now += Math.min(left, 1_000);
        desk.look();
      }
    },
    open(plan: Plan): PlannedWork {
      const task = { label: 'w', row: [], files: null, models, owner: 'o', weight: 1 };
      return desk.open({ id: 'w', task, files: null }, plan);
    },
    hello: (worker: string, own: string[], held: Hello['held'] = []) =>
      desk.hello({
        ...{ worker, host: 'h', pid: 1, version: '0', models: own, endpoints: [], places: 100, rate: 10 },
        ...{ held, isStopping: false },
      }),
    /** The next pointer of the queues that a worker was told of, and its lines; null where there is none, or it may not. */
    pull(worker: string, own: string[]): { name: PartName; ids: string[] } | null {
      const { queues } = this.hello(worker, own);
      const at = jobs.findIndex(job => queues.includes(job.queue));
      const [job] = at < 0 ? [] : jobs.splice(at, 1);
      if (job === undefined) return null;
      try {
        const { lines } = desk.take(job.pointer, worker);
        const ids = lines.toString().trimEnd().split('\n');
        return { name: job.pointer, ids: ids.map(text => (JSON.parse(text) as { id: string }).id) };
      } catch (error) {
        if (error instanceof Gone || error instanceof Held || error instanceof NotYet) return null;
        throw error;
      }
    },
    put(name: PartName, worker: string, ids: readonly string[], answered: number[]): void {
      const lines = answered.map(at => `${JSON.stringify({ id: ids[at], by: worker })}\n`).join('');
      const result = { worker, answered, asked: ASKED, model: 'm', seconds: 1 };
      desk.put(name, result, Buffer.from(lines));
    },
    /** Redis has lost all of it, and is there again. */
    async lose(): Promise<void> {
      jobs = [];
      for (const act of ready) act();
      await new Promise(setImmediate);
    },
  };
}

async function all(work: PlannedWork): Promise<{ id: string; by?: string; failure?: { code: string } }[]> {
  const lines: string[] = [];
  for (let block = await work.next(); block !== null; block = await work.next())
    lines.push(...block.toString().trimEnd().split('\n'));
  return lines.map(text => JSON.parse(text));
}

const everything = (ids: readonly string[]): number[] => ids.map((_, at) => at);

test('each worker gets the lines of its models; those of a mistyped one fail soon, and start nothing', async () => {
  const models = ['a', 'b', 'a', 'typo', 'b', 'a'];
  const at = bench(['a', 'b', 'typo']);
  const plan = planOf(models, 2);
  expect(plan.shards.map(shard => [shard.lines, shard.models])).toEqual([
    ...[2, 1].map(lines => [lines, ['a']]),
    [2, ['b']],
    [1, ['typo']],
  ]);
  const work = at.open(plan);
  expect(at.desk.stats().shards).toMatchObject({ unserved: 0 }); // nobody is there: who has it may come
  expect(at.desk.isServed(['a', 'typo'])).toBe(false);
  for (const [worker, own] of [
    ['wa', ['a']],
    ['wb', ['b']],
  ] as const) {
    for (let got = at.pull(worker, [...own]); got !== null; got = at.pull(worker, [...own])) {
      for (const id of got.ids) expect(own).toContain(models[Number(id.slice(1))]);
      at.put(got.name, worker, got.ids, everything(got.ids));
    }
  }
  expect(at.desk.stats()).toMatchObject({ queuedLines: 0, unservedLines: 1, queuedSeconds: 0 });
  expect(at.desk.stats().shards).toMatchObject({ unserved: 1, planned: 0, offered: 0, done: 3 });
  expect(at.desk.stats().works[0]).toMatchObject({ isStuck: true, lacking: ['typo'] });
  for (let left = 130; left > 0; left -= 10) {
    at.hello('wa', ['a']);
    at.hello('wb', ['b']);
    at.wait(10_000);
  }
  const out = await all(work);
  expect(out.map(({ id }) => id).sort()).toEqual(['i0', 'i1', 'i2', 'i3', 'i4', 'i5']);
  expect(out.filter(({ failure }) => failure).map(({ id, failure }) => [id, failure?.code])).toEqual([
    ['i3', 'no-such-model'],
  ]);
  expect(at.said.filter(text => text.includes('typo'))).toHaveLength(1);
});

test('lines of a model whose workers were there before wait for ten minutes, and count as work', () => {
  const at = bench(['a', 'b']);
  const work = at.open(planOf(['a', 'b'], 10));
  at.hello('wb', ['b']);
  at.wait(LEASE + 1_000); // it has gone
  for (let left = 300; left > 0; left -= 10) {
    at.hello('wa', ['a']);
    at.wait(10_000);
  }
  expect(at.desk.stats()).toMatchObject({ queuedLines: 2, unservedLines: 0 });
  expect(work.parts.done.lines).toBe(0);
  for (let left = 330; left > 0; left -= 10) {
    at.hello('wa', ['a']);
    at.wait(10_000);
  }
  expect(work.parts.done.lines).toBe(1);
});

test('a plan of an earlier version, whose shards say no models, goes on: for workers that have all of them', async () => {
  const { folder } = planOf(['a', 'b', 'a'], 10);
  const path = join(folder, 'manifest.json');
  const manifest = JSON.parse(readFileSync(path, 'utf8')) as { shards: unknown[][] };
  writeFileSync(path, JSON.stringify({ ...manifest, shards: manifest.shards.map(row => row.slice(0, 4)) }));
  const at = bench(['a', 'b']);
  const work = at.open(readPlan(folder) as Plan);
  at.wait(LEASE);
  expect(at.pull('wa', ['a'])).toBeNull();
  for (let got = at.pull('w', ['a', 'b']); got !== null; got = at.pull('w', ['a', 'b']))
    at.put(got.name, 'w', got.ids, everything(got.ids));
  expect((await all(work)).map(({ id }) => id).sort()).toEqual(['i0', 'i1', 'i2']);
});

test('more models than have shards of their own: their lines are still planned, each once', () => {
  const models = Array.from({ length: 250 }, (_, at) => `m${at}`);
  const { shards } = planOf([...models, ...models], 1_000);
  expect(shards.reduce((sum, { lines }) => sum + lines, 0)).toBe(500);
  expect(shards.slice(0, -1).map(shard => shard.models?.length)).toEqual(Array(100).fill(1));
  expect(shards.at(-1)?.models).toHaveLength(150);
});

test('whatever happens to workers, Redis and the coordinator, each line leaves once, by a worker with its model', async () => {
  const has = [['a'], ['b'], ['a', 'b'], ['c']];
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.constantFrom('a', 'b', 'c', 'typo'), { minLength: 1, maxLength: 60 }),
      fc.integer({ min: 1, max: 20 }),
      fc.array(fc.tuple(fc.nat(5), fc.nat(3), fc.nat(1_000)), { maxLength: 40 }),
      async (models, most, steps) => {
        const { folder } = planOf(models, most);
        const plan = (): Plan => readPlan(folder) as Plan;
        let at = bench([...new Set(models)]);
        let work = at.open(plan());
        at.wait(LEASE);
        const held: { name: PartName; worker: string; ids: string[] }[] = [];
        const put = (one: (typeof held)[number] | undefined, answered: number[]): void => {
          try {
            if (one) at.put(one.name, one.worker, one.ids, answered);
          } catch (error) {
            if (!(error instanceof Gone || error instanceof NotYet)) throw error;
          }
        };
        const pull = (which: number): boolean => {
          const got = at.pull(`w${which}`, has[which] as string[]);
          if (got !== null) held.push({ ...got, worker: `w${which}` });
          return got !== null;
        };
        let losses = 0;
        const greet = (): void => {
          for (const [which, own] of has.entries()) {
            const worker = `w${which}`;
            const theirs = held.filter(one => one.worker === worker);
            at.hello(
              worker,
              own,
              theirs.map(({ name, ids }) => ({ ...name, done: 0, lines: ids.length })),
            );
          }
        };
        for (const [step, which, number] of steps) {
          if (step <= 1) pull(which);
          else if (step <= 2) {
            const [one] = held.splice(number % Math.max(1, held.length), 1);
            put(
              one,
              everything(one?.ids ?? []).filter(n => n % 3 !== number % 3 || n % 2 === 0),
            );
          } else if (step === 3) {
            // lines whose workers stay away, or are lost with them three times, fail: other tests show that
            greet();
            if (number * 100 >= LEASE) losses += 1;
            at.wait(losses > 2 ? number * 50 : number * 100);
          } else if (step === 4) await at.lose();
          else {
            await at.desk.close();
            at = bench([...new Set(models)]); // killed and started again
            work = at.open(plan());
          }
        }
        for (let round = 0; work.parts.done.lines < models.length && !work.isEnded; round++) {
          expect(round).toBeLessThan(300);
          greet(); // the last step may have been a wait of almost LEASE
          at.wait(10_000);
          await at.lose();
          for (const which of has.keys()) while (pull(which));
          for (const one of held.splice(0)) put(one, everything(one.ids));
        }
        const out = await all(work);
        expect(out.map(({ id }) => id).sort()).toEqual(models.map((_, n) => `i${n}`).sort());
        for (const { id, by, failure } of out) {
          const model = models[Number(id.slice(1))] as string;
          if (model === 'typo') expect([id, failure?.code]).toEqual([id, 'no-such-model']);
          else expect(has[Number(by?.slice(1))], id).toContain(model);
        }
      },
    ),
    { numRuns: runs(25, 300) },
  );
});
