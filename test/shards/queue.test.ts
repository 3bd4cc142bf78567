/** Pointers through a real Redis: what both sides promise, and what outages of Redis do to them. */
import { Queue } from 'bullmq';
import { expect } from 'vitest';
import { runs } from '../all.ts';
import { QUEUE } from './queue-name.ts';
import { offer, pointersOf, taken, takerOf, until } from './queueing.ts';
import { slowWithRedis, startRedis, withRedis } from './redis.ts';

withRedis('a pointer goes from one side to the other, once', async () => {
  const { url, cli } = await startRedis();
  const pointers = await pointersOf(url);
  const taker = await takerOf(url);
  const first = taken(taker);
  await pointers.add(QUEUE, [offer(0), offer(1), offer(2)]);
  expect((await first).pointer).toEqual(offer(0).pointer);
  expect(await pointers.waiting(QUEUE)).toEqual(new Set(['w-1-0', 'w-2-0']));
  const second = await taken(taker);
  expect(second).toMatchObject({ id: 'w-1-0', pointer: offer(1).pointer });
  await (await first).done();
  await second.done();
  await (await taken(taker)).done();
  expect(await pointers.waiting(QUEUE)).toEqual(new Set());
  await pointers.add(QUEUE, [offer(0)]); // an id that was done is free again
  expect((await taken(taker)).id).toBe('w-0-0');
  expect(cli('client', 'list')).toMatch(/name=host\/1 /);
  expect([...pointers.said, ...taker.said]).toEqual([]);
});

withRedis('an asker that is no longer there takes nothing', async () => {
  const { url } = await startRedis();
  const pointers = await pointersOf(url);
  const taker = await takerOf(url);
  const stop = new AbortController();
  const none = taker.take([QUEUE], stop.signal);
  const other = taken(taker);
  await pointers.waiting(QUEUE);
  stop.abort();
  expect(await none).toBe(null);
  await pointers.add(QUEUE, [offer(0)]);
  expect((await other).id).toBe('w-0-0');
  expect(await taker.take([QUEUE], stop.signal)).toBe(null);
});

withRedis('Redis is killed and started empty: both sides go on, and the other side can tell', async () => {
  const { url, kill, start } = await startRedis();
  const pointers = await pointersOf(url);
  const taker = await takerOf(url);
  let ready = 0;
  pointers.onReady(() => {
    ready += 1;
  });
  await pointers.add(QUEUE, [offer(0)]);
  const held = await taken(taker);
  const next = taken(taker);
  await kill();
  await until(() => !pointers.isUp && !taker.isUp);
  await expect(pointers.add(QUEUE, [offer(1)])).rejects.toThrow(/away/);
  await expect(pointers.waiting(QUEUE)).rejects.toThrow(/away/);
  await held.done();
  await start();
  await until(() => ready === 2);
  expect(await pointers.waiting(QUEUE)).toEqual(new Set());
  await pointers.add(QUEUE, [offer(1)]);
  expect((await next).id).toBe('w-1-0');
});

withRedis('many askers of several queues: each pointer goes to one of them', async () => {
  const EACH = 60;
  const { url, cli } = await startRedis();
  const pointers = await pointersOf(url);
  const takers = [await takerOf(url, { name: 'a/1' }), await takerOf(url, { name: 'b/2' })];
  const queues = ['test-a', 'test-b', 'test-c'];
  const stop = new AbortController();
  const found: string[] = [];
  const loops = takers.flatMap(taker =>
    [queues, queues.slice(1), ['test-a'], queues].map(async own => {
      for (;;) {
        const taken = await taker.take(own, stop.signal);
        if (taken === null) return;
        found.push(`${taken.id} ${taken.pointer.root}`);
        await taken.done();
      }
    }),
  );
  for (let at = 0; at < EACH; at++)
    await Promise.all(queues.map((queue, n) => pointers.add(queue, [offer(at * queues.length + n)])));
  await until(() => found.length >= EACH * queues.length);
  stop.abort();
  await Promise.all(loops);
  expect(new Set(found).size).toBe(EACH * queues.length);
  for (const taker of takers) await taker.close();
  await pointers.close();
  expect(cli('--raw', 'keys', '*')).toBe(''); // nothing is left of a coordinator that has ended
});

slowWithRedis('what a worker holds stays its own for as long as it takes', async () => {
  const LOCK = 200;
  const { url } = await startRedis();
  await (await pointersOf(url)).add(QUEUE, [offer(0)]);
  const held = await taken(await takerOf(url, { lock: LOCK }));
  const other = await takerOf(url, { lock: LOCK });
  expect(await other.take([QUEUE], AbortSignal.timeout(6 * LOCK))).toBe(null);
  await held.done();
});

slowWithRedis('what is no pointer is dropped, and said', async () => {
  const { url, cli } = await startRedis();
  const foreign = new Queue(QUEUE, { connection: { url }, prefix: 'fw' });
  for (const data of [
    'text',
    null,
    {},
    { ...offer(0).pointer, root: -1 },
    { ...offer(0).pointer, work: '../w' },
  ])
    await foreign.add('part', data);
  await foreign.add('part', offer(7).pointer);
  await foreign.close();
  const taker = await takerOf(url);
  expect((await taken(taker)).pointer).toEqual(offer(7).pointer);
  expect(cli('llen', `fw:${QUEUE}:active`)).toBe('1');
  expect(taker.said).toEqual([
    expect.stringMatching(/test-any held something that is no pointer: it was dropped$/),
  ]);
});

withRedis('both sides can be closed while Redis stands still', async () => {
  const { url, stop } = await startRedis();
  const pointers = await pointersOf(url);
  const taker = await takerOf(url);
  await pointers.add(QUEUE, [offer(0)]);
  await taken(taker);
  const none = taker.take([QUEUE], new AbortController().signal);
  stop();
  const refused = expect(pointers.add(QUEUE, [offer(1)])).rejects.toThrow(/away/);
  await Promise.all([pointers.close(), taker.close()]);
  expect(await none).toBe(null);
  await refused;
  expect(await taker.take([QUEUE], new AbortController().signal)).toBe(null);
  await expect(pointers.add(QUEUE, [offer(1)])).rejects.toThrow(/away/);
});

slowWithRedis('a Redis that comes and goes: each part is given out in the end', async () => {
  const PARTS = runs(30, 400);
  const { url, kill, start, stop, go } = await startRedis({ kept: true });
  const pointers = await pointersOf(url);
  const takers = [await takerOf(url, { lock: 300 }), await takerOf(url, { lock: 300 })];
  const done = new Set<number>();
  const end = new AbortController();
  const loops = takers.map(async taker => {
    for (;;) {
      const taken = await taker.take([QUEUE], end.signal);
      if (taken === null) return;
      done.add(taken.pointer.root);
      await taken.done();
    }
  });
  const isOver = () => done.size === PARTS;
  const coming = (async () => {
    for (let time = 0; !isOver(); time++) {
      if (time % 2 === 0) stop();
      else await kill();
      await new Promise(resolve => setTimeout(resolve, 20 * (time % 5)));
      if (time % 2 === 0) go();
      else await start();
      const before = done.size;
      await until(() => isOver() || (pointers.isUp && done.size > before));
    }
  })();
  // as the desk: what is not done and does not wait is offered anew, under another id
  for (let turn = 0; !isOver(); turn++) {
    try {
      const waiting = await pointers.waiting(QUEUE);
      const missing = Array.from({ length: PARTS }, (_, root) => root).filter(root => !done.has(root));
      const some = missing.slice(0, 5).map(root => ({ ...offer(root), id: `w-${root}-${turn}` }));
      if (waiting.size === 0) await pointers.add(QUEUE, some);
    } catch {
      await until(() => pointers.isUp);
    }
  }
  await coming;
  end.abort();
  await Promise.all(loops);
  expect(done.size).toBe(PARTS);
});

withRedis('what Redis refuses is said, once', async () => {
  const { url, cli } = await startRedis();
  const pointers = await pointersOf(url);
  cli('config', 'set', 'maxmemory', '1mb');
  for (let tries = 0; tries < 2; tries++)
    await expect(pointers.add(QUEUE, [offer(0)])).rejects.toThrow(/OOM/);
  expect(pointers.said).toEqual([expect.stringMatching(/^Redis at \S+: OOM command not allowed/)]);
  cli('config', 'set', 'maxmemory', '0');
  cli('set', `fw:${QUEUE}:wait`, 'of another kind');
  await expect(pointers.waiting(QUEUE)).rejects.toThrow(/WRONGTYPE/);
  expect(pointers.said[1]).toMatch(/^Redis at \S+: WRONGTYPE/);
});
