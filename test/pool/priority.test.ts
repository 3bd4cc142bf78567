/** The priority that lines of batches carry beside live streams: on the wire alone, and only where the server takes it. */
import { expect, test } from 'vitest';
import { BATCH_PRIORITY, withPriority } from '../../engine/asking/pool/priority.ts';
import type { ReplySink } from '../../engine/core/item/call.ts';
import { type Ask, callOf, open, serve } from './serving.ts';

const LIVE = { place: 60_000, firstByte: 60_000, answer: 600_000, stream: 600_000, tries: 6 };
const said = (text: string): unknown => JSON.parse(withPriority(Buffer.from(text), 10).toString());

test('a body keeps its bytes but for a number that is too low', () => {
  expect(withPriority(Buffer.from('{"n":1.0, "a":[{}]} \n'), 10).toString()).toBe(
    '{"n":1.0, "a":[{}],"priority":10} \n',
  );
  expect(withPriority(Buffer.from('{"priority": -5 ,"n":1.0}'), 10).toString()).toBe(
    '{"priority": 10 ,"n":1.0}',
  );
  for (const own of ['{"priority":12,"n":1.0}', '{"priority":"high"}', '{"priority":null}'])
    expect(withPriority(Buffer.from(own), 10).toString()).toBe(own);
  // a name that is written otherwise, or twice, or is no member of the request
  expect(said(String.raw`{"\u0070riority":-5}`)).toEqual({ priority: 10 });
  expect(said('{"priority":20,"priority":-5}')).toEqual({ priority: 10 });
  expect(said('{"a":"\\"priority\\"","b":{"priority":1}}')).toEqual({
    ...{ a: '"priority"', b: { priority: 1 }, priority: 10 },
  });
});

/** A stream that never has its first token: somebody waits beside the batch. */
const waits: ReplySink = { head() {}, data() {}, end: () => 'over', firstAt: null, enough: false };
const raw = (item: string) => ({
  ...callOf({ item, body: Buffer.from(JSON.stringify({ model: 'm', prompt: item })) }),
  ...{ raw: true as const, path: '/v1/completions', agent: '/v1/completions' },
});

/** What the lines of a batch are sent as beside a stream, at a server that answers by what `takes` says of their priority. */
async function beside(owner: string, takes: (priority: unknown) => boolean, more: object = {}) {
  const sent: { item: string; priority: unknown }[] = [];
  const held: Ask[] = [];
  const server = await serve(
    ask => {
      const { prompt, priority } = JSON.parse(ask.body) as { prompt: string; priority?: unknown };
      if (prompt === 'live') return void held.push(ask);
      sent.push({ item: prompt, priority });
      if (takes(priority))
        ask.send(200, { id: 'x', choices: [{ index: 0, text: 'x', finish_reason: 'stop' }] });
      else ask.send(400, { error: { message: 'Got priority 10 but Priority scheduling is not enabled.' } });
    },
    {
      onModels(response) {
        response.setHeader('content-type', 'application/json');
        response.end(
          JSON.stringify({ object: 'list', data: [{ id: 'm', object: 'model', owned_by: owner }] }),
        );
      },
    },
  );
  const pool = await open([{ url: server.url, limit: 8, pinned: true, ...more }], {
    lasting: true,
    lasts: true,
  });
  const live = pool.ask({ ...raw('live'), live: LIVE, sink: { ...waits } });
  await expect.poll(() => held.length).toBe(1);
  for (const item of ['a', 'b', 'c']) expect((await pool.call(raw(item))).finish).toBe('stop');
  live.cancel();
  await live.answer.catch(() => {});
  return { sent, failed: pool.stats().endpoints[0]?.failed };
}

test('a vLLM that takes it gets it with each line', async () => {
  const { sent } = await beside('vllm', () => true);
  expect(sent.map(({ priority }) => priority)).toEqual([10, 10, 10]);
});

test('one that refuses it is asked again without it, at no cost, and then no more with it', async () => {
  const { sent, failed } = await beside('vllm', priority => priority === undefined);
  expect(sent).toEqual([
    ...[BATCH_PRIORITY, undefined].map(priority => ({ item: 'a', priority })),
    ...['b', 'c'].map(item => ({ item, priority: undefined })),
  ]);
  expect(failed).toEqual({});
});

test('a server that is no vLLM is not tried, unless a person says how it schedules', async () => {
  expect((await beside('sglang', () => true)).sent.map(({ priority }) => priority)).toEqual(
    Array(3).fill(undefined),
  );
  const told = await beside('sglang', () => true, { scheduling: 'priority' });
  expect(told.sent.map(({ priority }) => priority)).toEqual([10, 10, 10]);
  const fcfs = await beside('vllm', () => true, { scheduling: 'fcfs' });
  expect(fcfs.sent.map(({ priority }) => priority)).toEqual(Array(3).fill(undefined));
});
