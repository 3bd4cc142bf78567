/** What is read ahead of a stage that asks: in which order it goes on, and that all of it does. */
import fc from 'fast-check';
import _ from 'highland';
import { expect, onTestFinished, test, vi } from 'vitest';
import { originOf, remember, textOf } from '../../engine/core/files/origin.ts';
import { newAccount } from '../../engine/core/item/account.ts';
import type { Placing, Pool } from '../../engine/core/item/call.ts';
import type { Item } from '../../engine/core/item/item.ts';
import { Beginnings } from '../../engine/flow/beginnings.ts';
import { openRow } from '../../engine/flow/join.ts';
import { lookAhead } from '../../engine/flow/look-ahead.ts';
import { stage } from '../../engine/flow/stage.ts';
import { Walk } from '../../engine/flow/walk.ts';
import { runs } from '../all.ts';

/** Texts of a tree: each line is a path in it, `widths[0]` branches at the root, and a part of 300 bytes for each step. */
const paths = fc.array(fc.array(fc.integer({ min: 0, max: 3 }), { maxLength: 4 }), { maxLength: 60 });
const textOfPath = (path: readonly number[]): string => path.map(at => `${at}`.repeat(300)).join('');

function beginningsOf(texts: readonly string[]): Beginnings {
  const beginnings = new Beginnings();
  for (const text of texts) beginnings.add([text]);
  return beginnings;
}

test('lines that begin alike are neighbours, and what shares nothing stays in its order', () => {
  fc.assert(
    fc.property(paths, all => {
      const { order, shared } = beginningsOf(all.map(textOfPath)).arranged();
      expect([...order].sort((a, b) => a - b)).toEqual(all.map((_path, at) => at));
      // of the lines with the same beginning none is apart from the others
      for (let length = 1; length <= 4; length++) {
        const names = [...order].map(line => (all[line] as number[]).slice(0, length));
        const seen = new Set<string>();
        let before = '';
        for (const name of names) {
          if (name.length < length) continue;
          const key = name.join();
          if (key !== before) expect(seen.has(key)).toBe(false);
          seen.add(key);
          before = key;
        }
      }
      for (let at = 1; at < order.length; at++) {
        const [a, b] = [all[order[at - 1] as number], all[order[at] as number]] as [number[], number[]];
        let same = 0;
        while (same < Math.min(a.length, b.length) && a[same] === b[same]) same += 1;
        // up to a block of 256 bytes
        expect(shared[at]).toBeGreaterThan(300 * same - 256 - 1);
        expect(shared[at]).toBeLessThanOrEqual(300 * same);
      }
    }),
  );
  const alone = Array.from({ length: 100 }, (_line, at) => `${at} stands alone `.repeat(40));
  expect([...beginningsOf(alone).arranged().order]).toEqual(alone.map((_text, at) => at));
});

test('branches come in the order in which they appeared', () => {
  const text = (name: string) => name.repeat(400);
  const texts = ['b', 'a', 'b', 'c', 'a', 'b'].map(text);
  expect([...beginningsOf(texts).arranged().order]).toEqual([0, 2, 5, 1, 4, 3]);
});

function walkOf(texts: readonly string[], endpoints: number): Walk {
  const beginnings = beginningsOf(texts);
  return new Walk(beginnings, beginnings.arranged(), endpoints);
}

test('each line is taken once, whoever takes and whoever dies', () => {
  const takes = fc.array(fc.tuple(fc.integer({ min: 0, max: 3 }), fc.integer({ min: 0, max: 40 })), {
    maxLength: 200,
  });
  fc.assert(
    fc.property(paths, fc.integer({ min: 1, max: 4 }), takes, (all, endpoints, turns) => {
      const walk = walkOf(all.map(textOfPath), endpoints);
      const dead = new Set<number>();
      const others = { isUp: (endpoint: number) => !dead.has(endpoint), inHand: () => 0 };
      const taken: number[] = [];
      for (const [endpoint, luck] of turns) {
        if (luck === 0 && dead.size < endpoints - 1) dead.add(endpoint);
        if (endpoint >= endpoints || dead.has(endpoint)) continue;
        const has = walk.hasFor(endpoint, others);
        const got = walk.take(endpoint, others);
        expect(got !== null).toBe(has);
        if (got) taken.push(got.line);
      }
      for (let got = walk.takeAny(); got !== null; got = walk.takeAny()) taken.push(got.line);
      expect(taken.sort((a, b) => a - b)).toEqual(all.map((_path, at) => at));
      expect(walk.left).toBe(0);
    }),
  );
});

test('no endpoint waits while another has whole branches to spare', () => {
  const groups = Array.from({ length: 40 }, (_group, at) => `${at} `.repeat(2_000));
  const walk = walkOf(
    groups.flatMap(group => [1, 2, 3, 4].map(question => `${group}${question}`)),
    2,
  );
  const others = { isUp: () => true, inHand: () => 0 };
  const by: Map<string, number>[] = [new Map(), new Map()];
  const takes = (endpoint: 0 | 1): boolean => {
    const got = walk.take(endpoint, others);
    if (got === null) return false;
    expect(got.placed).toBe(true);
    const group = String(Math.floor(got.line / 4));
    by[endpoint]?.set(group, ((by[endpoint] as Map<string, number>).get(group) ?? 0) + 1);
    return true;
  };
  // the second is five times as fast, and takes over whatever the first has not begun
  for (let more = true; more; ) {
    more = takes(0);
    for (let times = 0; times < 5; times++) more = takes(1) || more;
  }
  expect(walk.left).toBe(0);
  const split = [...(by[0] as Map<string, number>).keys()].filter(group => by[1]?.has(group));
  expect(split.length).toBeLessThanOrEqual(1);
  expect((by[1] as Map<string, number>).size).toBeGreaterThan(2.5 * (by[0] as Map<string, number>).size);
});

test('who has nothing in hand takes over whole branches, whoever has them, and however fast each is', () => {
  const cases = fc.record({
    groups: fc.array(
      fc.record({ lines: fc.integer({ min: 1, max: 12 }), bytes: fc.integer({ min: 300, max: 60_000 }) }),
      { minLength: 1, maxLength: 24 },
    ),
    speeds: fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 2, maxLength: 4 }),
    places: fc.integer({ min: 1, max: 6 }),
    random: fc.infiniteStream(fc.nat(1_000)),
  });
  fc.assert(
    fc.property(cases, ({ groups, speeds, places, random }) => {
      const ofLine = groups.flatMap(({ lines }, group) => Array<number>(lines).fill(group));
      const texts = ofLine.map(
        (group, line) => `${group} `.padEnd(groups[group]?.bytes ?? 0, `${group}.`) + line,
      );
      const walk = walkOf(texts, speeds.length);
      const hands = speeds.map(() => 0);
      const others = { isUp: () => true, inHand: (endpoint: number) => hands[endpoint] as number };
      const begun = new Set<number>();
      const taken: number[] = [];
      while (walk.left > 0) {
        const luck = random.next().value as number;
        const endpoint = luck % speeds.length;
        // answers come now and then, at some endpoints more often
        hands[endpoint] = Math.max(
          0,
          (hands[endpoint] as number) - (luck % (speeds[endpoint] as number)) - 1,
        );
        if ((hands[endpoint] as number) >= places) continue;
        const got = walk.take(endpoint, others);
        if (got !== null) {
          begun.add(ofLine[got.line] as number);
          taken.push(got.line);
          hands[endpoint] = (hands[endpoint] as number) + 1;
        } else if (hands[endpoint] === 0) {
          // whoever has more has at most the branch that is its next one
          expect(groups.length - begun.size).toBeLessThan(speeds.length);
        }
      }
      expect(taken.sort((one, other) => one - other)).toEqual(ofLine.map((_group, line) => line));
    }),
    { numRuns: runs(300, 3_000) },
  );
});

test('a beginning that many lines share is at all endpoints, one that few share at one', () => {
  const placedOf = (texts: readonly string[]): number => {
    const walk = walkOf(texts, 4);
    let placed = 0;
    for (let got = walk.takeAny(); got !== null; got = walk.takeAny()) if (got.placed) placed += 1;
    return placed;
  };
  const system = 'You judge applications. '.repeat(20);
  expect(placedOf(Array.from({ length: 500 }, (_line, at) => `${system}${at}`))).toBe(0);
  const halves = ['A', 'B'].flatMap(name =>
    Array.from({ length: 250 }, (_line, at) => `${name}${system}${at}`),
  );
  expect(placedOf(halves)).toBe(0);
  const documents = Array.from({ length: 50 }, (_document, at) => `${at} ${'text '.repeat(1_000)}`);
  expect(placedOf(documents.flatMap(text => [text, `${text}?`]))).toBe(100);
});

interface Ran {
  out: Item[];
  read: number;
  settled: Map<string, number>;
}

async function run(
  items: readonly Item[],
  {
    lines,
    endpoints,
    takes = Number.POSITIVE_INFINITY,
  }: { lines: number; endpoints: number; takes?: number },
): Promise<Ran> {
  const stop = new AbortController();
  const account = { ...newAccount('test'), read: items.length };
  const settled = new Map<string, number>();
  let turn = 0;
  const placing: Placing = {
    servedBy: () => endpoints,
    serves: () => true,
    isUp: () => true,
    inHand: () => 0,
    hungriest: may => {
      for (let at = 0; at < endpoints; at++)
        if (may((turn + at) % endpoints)) return (turn++ + at) % endpoints;
      return null;
    },
    settle: (name, at) => void settled.set(name, at),
  };
  const begins = (item: Item) => ({
    model: String(item.input?.model ?? ''),
    name: item.id as string,
    texts: () => [item.prompt ?? ''],
  });
  const flow = lookAhead(_([...items]), { begins, lines, placing, signal: stop.signal, account });
  const out: Item[] = [];
  await new Promise<void>((resolve, reject) => {
    flow
      .consume<never>((error, item, _push, next) => {
        if (error) return reject(error);
        if (_.isNil(item)) return resolve();
        out.push(item);
        if (out.length === takes) {
          stop.abort();
          return resolve();
        }
        next();
      })
      .resume();
  });
  return { out, read: account.read, settled };
}

test('all that comes goes on, once; to the account a line has come when it goes on', async () => {
  const cases = fc.record({
    all: paths,
    lines: fc.constantFrom(2, 7, Number.POSITIVE_INFINITY),
    endpoints: fc.integer({ min: 1, max: 3 }),
    models: fc.integer({ min: 1, max: 2 }),
    takes: fc.integer({ min: 1, max: 80 }),
  });
  await fc.assert(
    fc.asyncProperty(cases, async ({ all, lines, endpoints, models, takes }) => {
      const items = all.map((path, at) => ({
        id: `${at}`,
        prompt: textOfPath(path),
        input: { model: `${at % models}` },
      }));
      const whole = await run(items, { lines, endpoints });
      const ids = (list: readonly Item[]) => list.map(({ id }) => Number(id)).sort((a, b) => a - b);
      expect(ids(whole.out)).toEqual(items.map((_item, at) => at));
      expect(whole.read).toBe(items.length);
      const stopped = await run(items, { lines, endpoints, takes });
      expect(new Set(ids(stopped.out)).size).toBe(stopped.out.length);
      if (lines === Number.POSITIVE_INFINITY) expect(stopped.read).toBe(stopped.out.length);
    }),
    { numRuns: 60 },
  );
});

test('what waits on disk comes back as it was, with the bytes that it was read from', async () => {
  const items = Array.from({ length: 48 }, (_item, at) => {
    const text = `{"id":"${at}", "prompt":"${`${at % 2} `.repeat(500_000)}", "n":${at}.0}\n`;
    const item = JSON.parse(text) as Item;
    const block = Buffer.from(text);
    if (at % 3 > 0) remember(item, { block, from: 0, to: block.length, number: at + 1 });
    return { item, text: at % 3 > 0 ? text.trimEnd() : undefined };
  });
  const { out } = await run(
    items.map(({ item }) => item),
    { lines: Number.POSITIVE_INFINITY, endpoints: 1 },
  );
  expect(out.map(({ id }) => id)).toEqual(
    [...items.keys()].sort((a, b) => (a % 2) - (b % 2) || a - b).map(String),
  );
  for (const item of out) {
    const before = items[Number(item.id)];
    expect(item.prompt === before?.item.prompt && item.id === before?.item.id).toBe(true);
    const origin = originOf(item);
    expect(origin && textOf(origin) === before?.text).toBe(before?.text === undefined ? undefined : true);
  }
});

test('what comes slowly is not waited for', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] });
  onTestFinished(() => void vi.useRealTimers());
  const stop = new AbortController();
  let came = 0;
  const slow = _<Item>((push, next) => {
    setInterval(() => {
      push(null, { id: `${came++}`, prompt: 'A prompt.' });
      if (came === 1) next();
    }, 10);
  });
  const account = newAccount('test');
  const begins = (item: Item) => ({ model: '', name: item.id as string, texts: () => [item.prompt ?? ''] });
  const out: Item[] = [];
  lookAhead(slow, { begins, lines: 10_000, signal: stop.signal, account })
    .consume<never>((_error, item, _push, next) => {
      out.push(item as Item);
      next();
    })
    .resume();
  await vi.advanceTimersByTimeAsync(900);
  expect(out).toEqual([]);
  await vi.advanceTimersByTimeAsync(300);
  expect(out.length).toBeGreaterThan(50);
  stop.abort();
});

test('lines on record come between those that are asked, in their own order, and the last of them at the end', async () => {
  const items = Array.from({ length: 30_000 }, (_item, at) => ({
    id: `${at < 29_000 ? 'known' : 'new'} ${at}`,
  }));
  const begins = ({ id }: Item) => ({
    ...{ model: '', name: String(id), texts: () => [] },
    isKnown: String(id).startsWith('known'),
  });
  const signal = new AbortController().signal;
  const options = { begins, lines: Number.POSITIVE_INFINITY, signal, account: newAccount('test') };
  const out: string[] = [];
  await new Promise<void>(resolve => {
    lookAhead(_<Item>([...items]), options)
      .consume<never>((_error, item, _push, next) => {
        if (_.isNil(item)) return resolve();
        out.push(String((item as Item).id));
        next();
      })
      .resume();
  });
  const numbers = (kind: string) => out.filter(id => id.startsWith(kind)).map(id => Number(id.split(' ')[1]));
  expect(numbers('known')).toEqual(Array.from({ length: 29_000 }, (_line, at) => at));
  expect(numbers('new')).toEqual(Array.from({ length: 1_000 }, (_line, at) => 29_000 + at));
  // the servers have something to do first, and what is on record is not left to the end either
  expect(out.findIndex(id => id.startsWith('known'))).toBe(257);
  expect(out.slice(257, 257 + 33).filter(id => id.startsWith('new'))).toHaveLength(1);
});

test('of two stages that ask, the second does not wait for the end of the first', async () => {
  const events: string[] = [];
  const asking = (name: string) =>
    stage({
      name,
      summary: '',
      asks: 'always',
      options: {},
      each: (_options, tools) => {
        tools.tellBeginnings?.(item => ({
          model: '',
          name: item.id as string,
          texts: () => [item.prompt ?? ''],
        }));
        return async item => {
          events.push(name);
          await new Promise(setImmediate);
          return { ...item };
        };
      },
    });
  const never = new AbortController().signal;
  const account = newAccount('test');
  const tools = {
    ...{ base: '.', files: [], signal: never, asking: never, account, started: new Date(0), warn: () => {} },
    pool: async () => ({ itemsInFlight: 2, onRoom: () => {} }) as unknown as Pool,
  };
  const flow = await openRow(
    ['first', 'second'].map(name => ({ stage: asking(name), options: {}, tools })),
    true,
  );
  const items = Array.from({ length: 40 }, (_item, at) => ({ id: `${at}`, prompt: 'A prompt.' }));
  const out = await new Promise<Item[]>(resolve => flow(_<Item>(items)).toArray(resolve));
  expect(out).toHaveLength(40);
  expect(events.indexOf('second')).toBeLessThan(events.lastIndexOf('first'));
});
