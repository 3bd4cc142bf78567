/**
 * Servers and proxies that give a call the answer of another one, on real sockets: none of those answers is taken, and
 * few requests are needed beyond one a call. HTTP shows nothing of it; only the ids in the replies do.
 */
import { expect, onTestFinished, test } from 'vitest';
import { startSimulator } from '../../products/simulator/simulator.ts';
import { every, runs } from '../all.ts';
import { manualClock } from './clock.ts';
import { type Ask, callOf, echo, idOf, nonceIn, open, outcome, serve } from './serving.ts';

const CALLS = runs(1_000, 3_000, 'CALLS');
const PLACES = 16;
/** requests by calls */
const MOST = 1.2;
/** of an answer, in ms of the test's clock */
const LATENCY = 20;

const bodyOf = (id: string | undefined, content: string): string =>
  JSON.stringify({
    id,
    choices: [{ index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' }],
  });
const rightOf = (ask: Ask): string => bodyOf(idOf(ask.headers), nonceIn(ask.body));
const raw = (ask: Ask, body: string): void =>
  ask.raw(`HTTP/1.1 200 OK\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`);

/** A way to mix answers up. It is made anew for each test, for it remembers what went by; returns what it does to a request. */
type Mixer = () => (ask: Ask) => void;

/** On the connection of each fiftieth request `extra` comes first, and so each answer there is told to the next request. */
const shifted =
  (extra: (last: string) => string): Mixer =>
  () => {
    const lines = new WeakMap<object, { last: string; late: string[] }>();
    return ask => {
      const { socket } = ask.request;
      const line = lines.get(socket) ?? { last: rightOf(ask), late: [] };
      lines.set(socket, line);
      if (ask.n % 50 === 0) line.late.push(extra(line.last));
      line.last = rightOf(ask);
      line.late.push(line.last);
      raw(ask, line.late.shift() as string);
    };
  };

const MIXERS: Record<string, Mixer> = {
  'one in twenty is swapped with the next one': () => {
    let held: Ask | undefined;
    return ask => {
      if (held !== undefined) {
        const other = held;
        held = undefined;
        const [mine, its] = [rightOf(ask), rightOf(other)];
        raw(ask, its);
        raw(other, mine);
      } else if (ask.n % 20 === 0) held = ask;
      else raw(ask, rightOf(ask));
    };
  },
  'one in twenty gets the answer before it a second time': () => {
    let last = '';
    return ask => {
      const right = rightOf(ask);
      raw(ask, ask.n % 20 === 0 ? last : right);
      last = right;
    };
  },
  'a late copy of an answer shifts all that follow on its connection': shifted(last => last),
  'a late answer without an id shifts all that follow': shifted(() => bodyOf(undefined, 'nobody asked')),
  'a late answer to somebody else shifts all that follow': shifted(() =>
    bodyOf('chatcmpl-5f0c9a3e', 'to whom?'),
  ),
  'a late answer of another run of fw shifts all that follow': shifted(() =>
    bodyOf(`chatcmpl-fw-${'0'.repeat(16)}-12345678-9`, 'to whom?'),
  ),
};

async function ask(urls: readonly string[], clock: ReturnType<typeof manualClock>) {
  const endpoints = urls.map(url => ({ url, limit: PLACES, pinned: true }));
  const pool = await open(endpoints, { clock, timing: {} });
  const calls = Array.from({ length: CALLS }, () => callOf());
  const said = await clock.turning(Promise.all(calls.map(call => outcome(pool, call))));
  return { pool, said, right: calls.map(({ item }) => item) };
}

test.each(
  every(
    5,
    Object.entries(MIXERS).flatMap(([name, mixer]) => [1, 2].map(count => ({ name, mixer, count }))),
  ),
)('$name, at one of $count', async ({ mixer, count }) => {
  const clock = manualClock();
  const treat = mixer();
  const fakes = [await serve(one => void clock.after(LATENCY, () => treat(one)))];
  if (count === 2) fakes.push(await serve(one => void clock.after(LATENCY, () => echo(one))));
  const { pool, said, right } = await ask(
    fakes.map(({ url }) => url),
    clock,
  );
  expect(said.filter((text, at) => text !== right[at])).toEqual([]);
  const asked = fakes.reduce((sum, fake) => sum + fake.asked, 0);
  expect(asked).toBeLessThanOrEqual(MOST * CALLS);
  const { endpoints } = pool.stats();
  expect(endpoints[0]?.failed.crossed).toBeGreaterThan(0);
  // each kind of news is told once
  expect(pool.warnings.length).toBeLessThanOrEqual(2);
  expect(pool.warnings[0]).toMatch(
    /gave (a call the answer of another one|an answer without its request id)/,
  );
});

test('a server that mixes up everything: no answer is taken, and the run ends', async () => {
  const clock = manualClock();
  let last = bodyOf(`chatcmpl-fw-${'0'.repeat(16)}-12345678-9`, 'crossed');
  const fake = await serve(one => {
    raw(one, last);
    last = rightOf(one);
  });
  const { pool, said, right } = await ask([fake.url], clock);
  expect(said.filter((text, at) => /^item-|^crossed$/.test(text) && text !== right[at])).toEqual([]);
  expect(fake.asked).toBeLessThanOrEqual(CALLS);
  expect(pool.verdict()).toMatchObject({
    exit: 69,
    message: expect.stringContaining('answer of another call'),
  });
});

test('a call that gets the answer of another one each time fails by that name', async () => {
  const clock = manualClock();
  const unlucky = callOf();
  let last = '';
  const fake = await serve(one => {
    const right = rightOf(one);
    if (nonceIn(one.body) === unlucky.item) return raw(one, last);
    raw(one, right);
    last = right;
  });
  const pool = await open([fake.url], { clock, timing: {} });
  const others = async () => {
    for (let n = 0; n < 200; n++) await outcome(pool);
  };
  await clock.turning(outcome(pool));
  const [said] = await clock.turning(Promise.all([outcome(pool, unlucky), others()]));
  expect(said).toBe('call-crossed');
});

test.each([
  ['no id', () => undefined],
  ['ids of its own', (ask: Ask) => `chatcmpl-${ask.n}`],
])('a server with %s: told once, every answer taken, nothing asked twice', async (_, idFor) => {
  const clock = manualClock();
  const fake = await serve(one => raw(one, bodyOf(idFor(one), nonceIn(one.body))));
  const { pool, said, right } = await ask([fake.url], clock);
  expect(said).toEqual(right);
  expect(fake.asked).toBe(CALLS);
  expect(pool.warnings).toEqual([expect.stringContaining('does not return X-Request-Id')]);
  expect(pool.stats().endpoints[0]).toMatchObject({ unchecked: CALLS, failed: {} });
});

test('a proxy before servers of which half repeat ids: every answer taken, hardly one asked twice', async () => {
  const clock = manualClock();
  const fake = await serve(one =>
    raw(one, bodyOf(one.n % 2 === 0 ? idOf(one.headers) : `chatcmpl-${one.n}`, nonceIn(one.body))),
  );
  const { said, right } = await ask([fake.url], clock);
  expect(said).toEqual(right);
  expect(fake.asked).toBeLessThanOrEqual(CALLS + PLACES);
});

test('a header that repeats the id is as good, and one that names another call outweighs the body', async () => {
  const clock = manualClock();
  const fake = await serve(one => {
    const own = String(one.headers['x-request-id']);
    const other = own.replace(/^fw-.{16}/, `fw-${'0'.repeat(16)}`);
    const body = {
      id: one.n === 1 ? `chatcmpl-${own}` : 'chatcmpl-7',
      choices: [{ message: { content: nonceIn(one.body) }, finish_reason: 'stop' }],
    };
    one.send(200, body, { 'X-Request-ID': one.n === 1 ? other : own });
  });
  const pool = await open([fake.url], { clock, timing: {} });
  const call = callOf();
  expect(await clock.turning(outcome(pool, call))).toBe(call.item);
  expect(fake.asked).toBe(2);
  expect(pool.stats().endpoints[0]).toMatchObject({ unchecked: 0, failed: { crossed: 1 } });
});

test('ids differ from try to try, and are in no body', async () => {
  const seen: string[] = [];
  const fake = await serve(one => {
    seen.push(String(one.headers['x-request-id']));
    expect(one.body).not.toContain(String(one.headers['x-request-id']));
    if (one.n % 2 === 1) one.send(500, {});
    else echo(one);
  });
  const pool = await open([fake.url]);
  for (let n = 0; n < 20; n++) await outcome(pool);
  expect(new Set(seen).size).toBe(40);
  for (const id of seen) expect(id).toMatch(/^fw-[0-9a-f]{16}-[0-9a-f]{8}-[0-9a-z]{1,12}$/);
});

test('the simulator repeats ids as vLLM does, and its swaps are found', async () => {
  const clock = manualClock();
  const server = await startSimulator({ clock, latency: '20ms', faults: 'swap=0.05', model: 'm' });
  onTestFinished(() => server.close());
  const honest = await startSimulator({ clock, latency: '20ms', model: 'm' });
  onTestFinished(() => honest.close());
  const said = [];
  for (const { url } of [honest, server]) {
    const pool = await open([{ url, limit: PLACES, pinned: true }], { clock, timing: {} });
    const calls = Array.from({ length: 1_000 }, (_, at) =>
      callOf({
        body: Buffer.from(JSON.stringify({ model: 'm', messages: [{ role: 'user', content: `${at}` }] })),
      }),
    );
    said.push(await clock.turning(Promise.all(calls.map(call => outcome(pool, call)))));
    if (url === honest.url) expect(pool.warnings).toEqual([]);
  }
  expect(said[1]).toEqual(said[0]);
  expect(server.counts().faults.swap).toBeGreaterThan(20);
  expect(server.counts().requests).toBeLessThanOrEqual(MOST * 1_000);
});
