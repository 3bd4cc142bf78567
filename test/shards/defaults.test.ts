/** Why the queue does not run with BullMQ's defaults: what each of them loses, beside what ours does in the same place. */
import { join } from 'node:path';
import { Queue, Worker } from 'bullmq';
import { beforeAll, expect, onTestFinished } from 'vitest';
import { createDesk } from '../../products/workers/desk.ts';
import { newPlanner } from '../../products/workers/shard-plan.ts';
import { folder } from '../fw.ts';
import { type Child, childFile, startChild } from './children.ts';
import { QUEUE } from './queue-name.ts';
import { offer, pointersOf, taken, takerOf, until } from './queueing.ts';
import { slowWithRedis, startRedis } from './redis.ts';

let file = '';
beforeAll(() => {
  file = childFile();
});

/** A queue as BullMQ makes it when nothing is said. */
function defaultQueue(url: string, name = QUEUE): Queue {
  const queue = new Queue(name, { connection: { url }, prefix: 'fw' });
  queue.on('error', () => {});
  onTestFinished(async () => void (await queue.close().catch(() => {})));
  return queue;
}

/** Does all it is given, at once. */
function defaultWorker(url: string, result: unknown = null): Worker {
  const worker = new Worker(QUEUE, async () => result, { connection: { url }, prefix: 'fw' });
  worker.on('error', () => {});
  onTestFinished(() => worker.close(true));
  return worker;
}

slowWithRedis('an id that was done: BullMQ keeps it and swallows the next job of that name', async () => {
  const { url, cli } = await startRedis();
  const queue = defaultQueue(url);
  const worker = defaultWorker(url);
  const done = async () => (await queue.getCompletedCount()) === 1;
  await queue.add('part', {}, { jobId: 'w-0-0' });
  await until(done);
  await queue.add('part', {}, { jobId: 'w-0-0' });
  expect(await queue.getJobCounts('wait', 'active', 'completed')).toEqual({
    wait: 0,
    active: 0,
    completed: 1,
  });
  await worker.close();
  cli('flushall');

  const pointers = await pointersOf(url);
  const taker = await takerOf(url);
  for (let time = 0; time < 2; time++) {
    await pointers.add(QUEUE, [offer(0)]);
    await (await taken(taker)).done();
  }
});

slowWithRedis('Redis is away: BullMQ lets a producer wait, ours is told at once', async () => {
  const { url, kill, start } = await startRedis();
  const queue = defaultQueue(url);
  const pointers = await pointersOf(url);
  await queue.waitUntilReady();
  await kill();
  await until(() => !pointers.isUp);
  let isSettled = false;
  const added = queue.add('part', {}).finally(() => {
    isSettled = true;
  });
  await expect(pointers.add(QUEUE, [offer(0)])).rejects.toThrow(/away/);
  expect(isSettled).toBe(false);
  await start();
  await added;
});

slowWithRedis('events that nobody reads: BullMQ keeps 10,000 with what jobs returned, ours 100', async () => {
  const { url, cli, kill, start } = await startRedis();
  const queue = defaultQueue(url);
  const worker = defaultWorker(url, 'a long result');
  const many = Array.from({ length: 200 }, (_, root) => offer(root));
  await queue.addBulk(many.map(({ id }) => ({ name: 'part', data: {}, opts: { jobId: id } })));
  await until(async () => (await queue.getCompletedCount()) === many.length);
  expect(Number(cli('xlen', `fw:${QUEUE}:events`))).toBeGreaterThan(3 * many.length);
  expect(cli('xrange', `fw:${QUEUE}:events`, '-', '+')).toContain('a long result');
  await Promise.all([queue.close(), worker.close()]);
  await kill();

  await start(); // empty, so that what was set for the queue is gone as well
  const pointers = await pointersOf(url);
  const taker = await takerOf(url);
  for (let time = 0; time < 2; time++) {
    await pointers.add(QUEUE, many);
    for (const _ of many) await (await taken(taker)).done();
    expect(Number(cli('xlen', `fw:${QUEUE}:events`))).toBeLessThan(201); // Redis drops them by the hundred
    await kill();
    await start();
    await until(() => pointers.isUp);
  }
});

slowWithRedis('two killed workers: BullMQ calls the job failed, ours gives it to the next', async () => {
  const LOCK = 300;
  const { url, cli } = await startRedis();
  const queue = defaultQueue(url);
  await queue.add('part', {}, { jobId: 'w-0-0' });
  const killed = async (kind: 'ours' | 'defaults') => {
    const child = await startChild(file, kind, { url, lock: LOCK });
    await child.says('has w-0-0');
    await child.kill();
  };
  await killed('defaults');
  await killed('defaults');
  const third = await startChild(file, 'defaults', { url, lock: LOCK });
  await third.says('failed w-0-0: job stalled more than allowable limit');
  expect(third.said).not.toContain('has w-0-0');
  await third.kill();
  cli('flushall');

  const pointers = await pointersOf(url);
  await pointers.add(QUEUE, [offer(0)]);
  await killed('ours');
  await killed('ours');
  await killed('ours');
  const taker = await takerOf(url, { lock: LOCK });
  expect((await taken(taker)).pointer).toEqual(offer(0).pointer);
});

slowWithRedis(
  'a worker that stood still: BullMQ refuses its result, ours leaves that to the desk',
  async () => {
    const LOCK = 300;
    const { url, cli } = await startRedis();
    const stoodStill = async (kind: 'ours' | 'defaults'): Promise<[Child, Child]> => {
      const first = await startChild(file, kind, { url, lock: LOCK });
      await first.says('has w-0-0');
      first.process.kill('SIGSTOP');
      const second = await startChild(file, kind, { url, lock: LOCK });
      await second.says('has w-0-0'); // handed out twice, whoever does it
      first.process.kill('SIGCONT');
      first.goOn();
      return [first, second];
    };
    await defaultQueue(url).add('part', {}, { jobId: 'w-0-0' });
    const [first, second] = await stoodStill('defaults');
    await first.says(/^error Missing lock|^error Lock mismatch/);
    expect(first.said).not.toContain('completed w-0-0');
    await first.kill();
    await second.kill();
    cli('flushall');

    await (await pointersOf(url)).add(QUEUE, [offer(0)]);
    const [early, late] = await stoodStill('ours');
    await early.says('done w-0-0');
    late.goOn();
    await late.says('done w-0-0');
    await until(() => cli('keys', `fw:${QUEUE}:w-0-0*`) === '');
    expect(cli('llen', `fw:${QUEUE}:active`)).toBe('0');
  },
);

slowWithRedis(
  'Redis was killed and kept nothing: what only BullMQ knew is gone, the desk offers it again',
  async () => {
    const { url, kill, start } = await startRedis();
    const queue = defaultQueue(url, 'alone');
    await queue.addBulk(Array.from({ length: 50 }, () => ({ name: 'part', data: {} })));
    expect(await queue.getWaitingCount()).toBe(50);
    const pointers = await pointersOf(url);
    const desk = createDesk({ queue: pointers, id: 'test', lease: 200, say: () => {} });
    onTestFinished(() => desk.close());
    const at = folder();
    const planner = newPlanner(join(at, 'spool'), { lines: 1, bytes: 1_000 });
    planner.add(Buffer.from('{"id":"a"}\n'));
    const task = { label: 'w', row: [], files: null, models: [], owner: 'o', weight: 1 };
    desk.open(
      { id: 'w', task, files: null },
      planner.finish(() => join(at, 'work')),
    );
    await until(async () => (await pointers.waiting(QUEUE)).size > 0);
    await kill();
    await start();
    expect(await queue.getWaitingCount()).toBe(0);
    const { pointer } = await taken(await takerOf(url));
    expect(pointer).toEqual({ work: 'w', root: 0, part: 0 });
  },
);
