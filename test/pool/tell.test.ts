/** What all endpoints are told: a server may take its time while it answers other requests, and 30 s where it answers none. */
import { expect, test } from 'vitest';
import { manualClock } from './clock.ts';
import { type Ask, open, type Served, serve } from './serving.ts';

const PATH = '/v1/load_lora_adapter';

async function told(onAsk: (ask: Ask, after: (ms: number, run: () => void) => void) => void, more: Served) {
  const clock = manualClock();
  const server = await serve(ask => onAsk(ask, clock.after), more);
  const pool = await open([server.url], { clock });
  const began = clock.now();
  const [one] = await clock.turning(pool.tell(PATH, Buffer.from('{}')));
  return { refusal: one?.refusal, took: (clock.now() - began) / 1000 };
}

test('a server that answers nothing at all is given up after 30 s', async () => {
  let looks = 0;
  const { refusal, took } = await told(ask => ask.ignore(), {
    onModels(response) {
      const data = [{ id: 'm', object: 'model' }];
      if (looks++ === 0) response.end(JSON.stringify({ object: 'list', data }));
    },
  });
  expect(refusal).toBe('no answer within 30 s, to GET /v1/models neither');
  expect(took).toBeLessThan(31);
  expect(looks).toBeGreaterThan(2);
});

test('one that loads for long while it answers is waited for', async () => {
  const { refusal, took } = await told((ask, after) => void after(100_000, () => ask.send(200, {})), {});
  expect([refusal, took >= 100]).toEqual([null, true]);
});

test('one that answers everything but this is given up after two minutes', async () => {
  const { refusal, took } = await told(ask => ask.ignore(), {});
  expect(refusal).toBe('no answer within 120 s');
  expect(took).toBeLessThan(121);
});
