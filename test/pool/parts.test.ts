/** One pool with several who ask: parts of it, fair shares between them, and live calls before all others. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import fc from 'fast-check';
import { expect, onTestFinished, test } from 'vitest';
import { systemClock } from '../../engine/asking/endpoints/pool-clock.ts';
import { createLanes } from '../../engine/asking/pool/lanes.ts';
import { createPart } from '../../engine/asking/pool/part.ts';
import { Ticket } from '../../engine/asking/pool/pool-state.ts';
import type { Answer, Call, Flow, ReplySink } from '../../engine/core/item/call.ts';
import { runs } from '../all.ts';
import { type Ask, echo, nonceIn, open, outcome, callOf as plainCall, QUICK, serve } from './serving.ts';

/** a call whose prompt is its item */
const callOf = ({ item = 'x', ...more }: Partial<Call>): Call =>
  plainCall({
    item,
    body: Buffer.from(JSON.stringify({ model: 'm', messages: [{ role: 'user', content: item }] })),
    ...more,
  });

const limited = (url: string, limit: number) => ({ url, limit, pinned: true });

/** Keeps what it is asked, until told to answer. */
function holding() {
  const held: Ask[] = [];
  return {
    held,
    onAsk: (ask: Ask) => void held.push(ask),
    /** the contents that were asked, in order */
    asked: () => held.map(({ body }) => nonceIn(body)),
    answerAll: () => {
      for (const ask of held.splice(0)) echo(ask);
    },
  };
}

/** Limits that no test here comes to. */
const LIVE = { place: 60_000, firstByte: 60_000, answer: 600_000, stream: 600_000, tries: 6 };

test('parts share the endpoints, and each has its own account and its own end', async () => {
  const server = await serve(echo);
  const pool = await open([limited(server.url, 4)]);
  const [one, other] = [pool.part({}), pool.part({})];
  const same = callOf({ item: 'same' });
  expect(await Promise.all([outcome(one, same), outcome(other, same)])).toHaveLength(2);
  expect(server.asked).toBe(2); // one key, and two who have a right to an answer of their own
  one.stop();
  expect(await outcome(one, callOf({ item: 'late' }))).toBe('interrupted');
  expect(await outcome(other, callOf({ item: 'more' }))).toContain('more');
  expect([one, other, pool].map(part => part.stats().calls)).toEqual([1, 2, 0]);
  expect([one, other].map(part => part.stats().failed)).toEqual([{}, {}]);
  await one.close();
  expect(await outcome(other, callOf({ item: 'after' }))).toContain('after');
});

test('a part says which model a request means that names none: an endpoint that has it is asked', async () => {
  const said: string[] = [];
  const servers = await Promise.all(
    ['A', 'B'].map(model =>
      serve(
        ({ send }) => {
          said.push(model);
          send(200, { id: 'x', choices: [{ index: 0, text: model, finish_reason: 'stop' }] });
        },
        { models: [model] },
      ),
    ),
  );
  const pool = await open(
    servers.map(({ url }) => limited(url, 4)),
    { lasting: true, needsDefault: false },
  );
  const unnamed = (item: string): Call => ({
    ...callOf({ item, body: Buffer.from(JSON.stringify({ prompt: item })), path: '/v1/completions' }),
    ...{ raw: true, model: '', agent: '/v1/completions' },
  });
  const part = pool.part({ model: 'B' });
  await Promise.all(['a', 'b', 'c', 'd', 'e', 'f'].map(item => part.call(unnamed(item))));
  expect(new Set(said)).toEqual(new Set(['B']));
});

test('abort of a part drops its own calls, and nobody else hears of it', async () => {
  const { held, onAsk, answerAll } = holding();
  const server = await serve(onAsk);
  const pool = await open([limited(server.url, 2)]);
  const [one, other] = [pool.part({}), pool.part({})];
  const asked = ['a', 'c'].map(item => outcome(one, callOf({ item })));
  const stays = outcome(other, callOf({ item: 'b' }));
  await server.reached(2);
  one.abort();
  expect(await Promise.all(asked)).toEqual(['interrupted', 'interrupted']);
  await server.reached(3);
  expect(held).toHaveLength(3);
  answerAll();
  expect(await stays).toContain('b');
});

/** A call that waits in a lane; nobody is told how it ends. */
const waitingFor = (call: Call, part: ReturnType<typeof createPart>): Ticket =>
  new Ticket(
    call,
    part,
    0,
    () => {},
    () => {},
  );

test('owners take turns, and so do the batches of an owner; each keeps its order', () => {
  const partOf = (owner: string, batch: string) =>
    createPart({ share: { owner, batch, weight: 1 } }, [], systemClock, () => {});
  fc.assert(
    fc.property(
      fc.array(fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 4 }), {
        minLength: 1,
        maxLength: 4,
      }),
      sizes => {
        const lanes = createLanes();
        const left = new Map<string, number>();
        sizes.forEach((batches, owner) => {
          batches.forEach((size, batch) => {
            const part = partOf(`o${owner}`, `b${batch}`);
            left.set(`o${owner}/b${batch}`, size);
            for (let n = 0; n < size; n++)
              lanes.push({
                ...waitingFor(callOf({ item: 'x' }), part),
                tries: n,
              });
          });
        });
        const total = lanes.size;
        const order: Ticket[] = [];
        lanes.offer(ticket => order.push(ticket) > 0);
        expect([order.length, lanes.size]).toEqual([total, 0]);
        const seen = new Map<string, number>();
        const turns = new Map<string, number>();
        for (const {
          part: {
            share: { owner, batch },
          },
          tries,
        } of order) {
          const name = `${owner}/${batch}`;
          expect(tries).toBe(seen.get(name) ?? 0);
          seen.set(name, tries + 1);
          turns.set(owner, (turns.get(owner) ?? 0) + 1);
          left.set(name, (left.get(name) as number) - 1);
          // who still has something never lags more than a turn behind
          const has = (prefix: string) =>
            [...left].some(([key, more]) => key.startsWith(`${prefix}/`) && more > 0);
          const counts = sizes
            .map((_, n) => `o${n}`)
            .filter(has)
            .map(each => turns.get(each) ?? 0);
          expect(
            (turns.get(owner) as number) - Math.min(...counts, turns.get(owner) as number),
          ).toBeLessThanOrEqual(1);
        }
      },
    ),
  );
});

test('of the batches of an owner each has turns by its weight, also when one comes later', () => {
  const weights = fc.array(fc.double({ min: 0.03, max: 100, noNaN: true }), { minLength: 2, maxLength: 5 });
  fc.assert(
    fc.property(weights, fc.integer({ min: 0, max: 50 }), (all, before) => {
      const lanes = createLanes();
      const push = (batch: number, count: number): void => {
        const share = { owner: 'o', batch: `${batch}`, weight: all[batch] as number };
        const part = createPart({ share }, [], systemClock, () => {});
        for (let n = 0; n < count; n++) lanes.push(waitingFor(callOf({ item: 'x' }), part));
      };
      const turns = all.map(() => 0);
      /** So many calls are placed. */
      const offer = (count: number): void => {
        let left = count;
        lanes.offer(({ part }) => {
          if (left === 0) return false;
          left--;
          const batch = Number(part.share.batch);
          turns[batch] = (turns[batch] as number) + 1;
          return true;
        });
      };
      const [last, ...others] = [all.length - 1, ...all.keys()];
      for (const batch of others) if (batch !== last) push(batch, 200);
      offer(before);
      const had = [...turns];
      push(last, 200);
      offer(150);
      for (const [a, one] of all.entries()) {
        for (const [b, other] of all.entries()) {
          const gained = (batch: number): number => (turns[batch] as number) - (had[batch] as number);
          // a turn of each: the one that it had ahead, and the one that is next
          const most = 1 / one + 1 / other + 1e-6;
          expect(Math.abs(gained(a) / one - gained(b) / other)).toBeLessThanOrEqual(most);
        }
      }
    }),
    { numRuns: runs(50, 500) },
  );
});

test('one that was turned away for long has not saved up turns', () => {
  const lanes = createLanes();
  for (const batch of ['a', 'b']) {
    const part = createPart({ share: { owner: 'o', batch, weight: 1 } }, [], systemClock, () => {});
    for (let n = 0; n < 100; n++) lanes.push(waitingFor(callOf({ item: 'x', model: batch }), part));
  }
  let left = 50;
  lanes.offer(({ call }) => call.model === 'a' && left-- > 0);
  const order: string[] = [];
  lanes.offer(({ call }) => order.length < 10 && order.push(call.model) > 0);
  expect(order.filter(model => model === 'b').length).toBeLessThanOrEqual(6);
});

test('a lane whose model has no place does not hold up another', () => {
  const part = createPart({}, [], systemClock, () => {});
  const lanes = createLanes();
  for (const model of ['full', 'full', 'free', 'free'])
    lanes.push(waitingFor(callOf({ item: model, model }), part));
  expect(lanes.offer(({ call }) => call.model === 'free')).toBe(2);
  expect(lanes.size).toBe(2);
});

test('live calls go first, into places that the others leave free', async () => {
  const { held, onAsk, asked, answerAll } = holding();
  const server = await serve(onAsk);
  const pool = await open([limited(server.url, 4)], { reserve: 1 });
  const batch = ['a', 'b', 'c', 'd', 'e'].map(item => outcome(pool, callOf({ item })));
  await server.reached(3);
  const live = ['x', 'y'].map(item => outcome(pool, callOf({ item, live: LIVE })));
  await server.reached(4);
  expect(asked().at(-1)).toBe('x');
  echo(held.shift() as Ask);
  await server.reached(5);
  expect(asked().at(-1)).toBe('y');
  const all = Promise.all([...batch, ...live]);
  while (server.asked < 7) {
    answerAll();
    await server.reached(server.asked + 1);
  }
  answerAll();
  expect((await all).length).toBe(7);
});

/** Hands on what comes, as a gateway does. */
function sinkOf() {
  const got = { heads: 0, text: '', flow: null as Flow | null };
  const sink: ReplySink = {
    head(_, flow) {
      got.heads++;
      got.flow = flow;
    },
    data(chunk) {
      got.text += chunk;
    },
    enough: false,
    firstAt: null,
    end: (): Answer => ({
      text: got.text,
      finish: 'stop',
      usage: { prompt: 1, completion: 2 },
      replayed: false,
    }),
  };
  return { got, sink };
}

const EVENT = 'data: {"choices":[{"delta":{"content":"yes"}}]}\n\n';

test('a reply is handed on as it comes; before its first byte the call is asked again', async () => {
  const server = await serve(ask => {
    if (ask.n === 1) return ask.send(500, {});
    if (ask.n === 2) return ask.cut('HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n');
    ask.response.writeHead(200, { 'content-type': 'text/event-stream' });
    ask.response.write(EVENT);
    ask.response.end('data: [DONE]\n\n');
  });
  const pool = await open([limited(server.url, 4)]);
  const { got, sink } = sinkOf();
  const answer = await pool.call(callOf({ item: 'a', live: LIVE, sink }));
  expect([got.heads, got.text, server.asked]).toEqual([1, `${EVENT}data: [DONE]\n\n`, 3]);
  expect(answer.usage).toEqual({ prompt: 1, completion: 2 });
});

test('a stream that breaks off is not asked again, and one that is refused is the refusal', async () => {
  const server = await serve(ask =>
    ask.n === 1
      ? ask.reset(`HTTP/1.1 200 OK\r\ncontent-length: 9999\r\n\r\n${EVENT}`)
      : ask.send(400, { error: { message: 'no such thing' } }),
  );
  const pool = await open([limited(server.url, 4)]);
  const { got, sink } = sinkOf();
  const call = callOf({ item: 'a', live: LIVE, raw: true, path: '/v1/chat/completions', sink });
  await expect(pool.call(call)).rejects.toMatchObject({ code: 'call-failed' });
  expect([got.text, server.asked]).toEqual([EVENT, 1]);
  const refused = {
    ...call,
    ...callOf({ item: 'b' }),
    live: LIVE,
    raw: true as const,
    path: '/v1/chat/completions',
    sink,
  };
  await expect(pool.call(refused)).rejects.toMatchObject({ response: { status_code: 400 } });
  expect(got.heads).toBe(1);
});

test('cancelled at a server the call is dropped there, and cancelled in the queue it is never sent', async () => {
  const { onAsk, answerAll } = holding();
  const server = await serve(onAsk);
  const pool = await open([limited(server.url, 1)]);
  const [first, second, third] = ['a', 'b', 'c'].map(item => pool.ask(callOf({ item, live: LIVE })));
  const ends = [first, second].map(asked => asked?.answer.catch(({ code }) => code));
  await server.reached(1);
  second?.cancel();
  first?.cancel();
  expect(await Promise.all(ends)).toEqual(['interrupted', 'interrupted']);
  await server.reached(2);
  answerAll();
  expect((await third?.answer)?.text).toContain('c');
  expect(server.asked).toBe(2);
});

test('a stream is held back while its reader is', async () => {
  const server = createServer((request, response) => {
    if (request.method === 'GET')
      return response
        .writeHead(200, { 'content-type': 'application/json' })
        .end(JSON.stringify({ object: 'list', data: [{ id: 'm' }] }));
    request.resume();
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.end(EVENT.repeat(400_000));
  });
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => new Promise(resolve => server.close(() => resolve())));
  const pool = await open([limited(`http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`, 4)]);
  const { got, sink } = sinkOf();
  let atPause = 0;
  const held: ReplySink = {
    ...sink,
    data(chunk) {
      sink.data(chunk);
      if (atPause > 0) return;
      atPause = got.text.length;
      got.flow?.pause();
      setImmediate(() =>
        setImmediate(() => {
          expect(got.text.length - atPause).toBeLessThan(1024 * 1024);
          got.flow?.resume();
        }),
      );
    },
  };
  await pool.call(callOf({ item: 'a', live: LIVE, sink: held }));
  expect(got.text.length).toBe(EVENT.length * 400_000);
});

test('a stream that its reader holds back is not given up as one of a silent server', async () => {
  const server = await serve(({ response }) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write(EVENT);
  });
  const pool = await open([limited(server.url, 4)], { timing: { ...QUICK, begunGap: 50 } });
  const { sink } = sinkOf();
  const reader = { ...sink, isHeld: true };
  let isOver = false;
  const held = pool.call(callOf({ item: 'a', live: LIVE, sink: reader })).catch(({ message }) => {
    isOver = true;
    return message;
  });
  // others come later, are not held, and are given up one after the other
  for (const item of ['b', 'c', 'd'])
    await expect(pool.call(callOf({ item, live: LIVE, sink: sinkOf().sink }))).rejects.toThrow(
      'nothing more came',
    );
  expect(isOver).toBe(false);
  reader.isHeld = false;
  expect(await held).toContain('nothing more came');
});
