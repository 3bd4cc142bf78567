/** Redis goes away and comes back: nobody hangs, nobody ends, and both sides go on by themselves. */
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect } from 'vitest';
import { ALL } from '../all.ts';
import { holeTo } from './hole.ts';
import { QUEUE } from './queue-name.ts';
import { nothingOnConsole, offer, pointersOf, taken, takerOf, until } from './queueing.ts';
import { type RealRedis, startRedis, withRedis } from './redis.ts';

nothingOnConsole();

interface Outage {
  name: string;
  kept: boolean;
  /** what keeps it away, and ends that */
  begin(redis: RealRedis, swallow: () => void): void | Promise<void>;
  end(redis: RealRedis, open: () => void): void | Promise<void>;
}

const OUTAGES: Outage[] = [
  { name: 'killed, and empty', kept: false, begin: ({ kill }) => kill(), end: ({ start }) => start() },
  { name: 'stopped', kept: true, begin: ({ stop }) => stop(), end: ({ go }) => go() },
  { name: 'killed, with its data', kept: true, begin: ({ kill }) => kill(), end: ({ start }) => start() },
  // connections that lost something are given up after 5 s: in `make test-all` alone
  { name: 'out of reach', kept: true, begin: (_, swallow) => swallow(), end: (_, open) => open() },
];

describe.each(ALL ? [300, 3_000, 15_000] : [300])('for %i ms', ms => {
  withRedis.each(ALL ? OUTAGES : OUTAGES.slice(0, 2))('$name', async ({ kept, begin, end }) => {
    const redis = await startRedis({ kept });
    const hole = await holeTo(redis.port);
    const pointers = await pointersOf(hole.url);
    const taker = await takerOf(hole.url, { lock: 60_000 });
    await pointers.add(QUEUE, [offer(0)]);
    const held = await taken(taker);
    const next = taken(taker);
    await begin(redis, hole.swallow);
    await sleep(ms);
    expect(await taker.take([QUEUE], AbortSignal.timeout(10))).toBe(null);
    const refused = pointers.add(QUEUE, [offer(1)]).catch(error => error.message);
    const done = held.done();
    await end(redis, hole.open);
    await done;
    expect(await refused).toSatisfy(message => message === undefined || /away|Socket timeout/.test(message));
    // in the place of the desk, which looks each minute and whenever Redis is back
    await until(async () => {
      const waiting = await pointers.waiting(QUEUE).catch(() => null);
      if (waiting?.size === 0) await pointers.add(QUEUE, [offer(2)]).catch(() => {});
      return waiting !== null;
    });
    const found = await next;
    expect(['w-1-0', 'w-2-0']).toContain(found.id);
    await found.done();
    await until(() => redis.cli('llen', `fw:${QUEUE}:active`) === '0');
    const news = [...pointers.said, ...taker.said];
    expect(news.filter(text => !/ is away: |is back after/.test(text))).toEqual([]);
    if (ms >= 15_000) expect(news).toHaveLength(4);
  });
});
