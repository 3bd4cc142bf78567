/** Every request of the gateway ends: with an answer or with one error, within its own limits, whatever the servers do. */
import { expect, test } from 'vitest';
import type { LiveLimits } from '../../engine/core/item/call.ts';
import { slow } from '../all.ts';
import { type Ask, echo, serve } from '../pool/serving.ts';
import { served } from './serving.ts';

const LIMITS: LiveLimits = { place: 400, firstByte: 300, answer: 1_000, stream: 1_500, tries: 3 };

const post = (url: string, model = 'm', more: object = {}) =>
  fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model, messages: [{ role: 'user', content: 'x' }], ...more }),
  });

/** Status, code and message of the error, and whether it says when to ask again. */
async function errorOf(reply: Response) {
  const { error } = (await reply.json()) as { error: { code: string | null; message: string } };
  return { status: reply.status, again: reply.headers.get('retry-after') !== null, ...error };
}

const models = async (url: string) =>
  ((await (await fetch(`${url}/v1/models`)).json()) as { data: { id: string; status: string }[] }).data.map(
    ({ id, status }) => [id, status],
  );

test('a model whose only server dies: its request ends, later ones get 503, and it stays listed as down', async () => {
  const dying = await serve(() => void dying.close(), { models: ['mg'] });
  const other = await serve(echo, { models: ['other'] });
  const { url } = await served({ endpoints: [dying.url, other.url], gateway: { limits: LIMITS } });
  expect(await models(url)).toEqual([
    ['mg', 'up'],
    ['other', 'up'],
  ]);
  const first = await errorOf(await post(url, 'mg'));
  expect([first.status, first.code, first.again]).toEqual([503, 'model_not_served', true]);
  // each one is told that it is down and not full, why, and how long it was waited for
  for (let times = 0; times < 3; times++) {
    const later = await errorOf(await post(url, 'mg'));
    expect([later.status, later.code, later.again]).toEqual([503, 'model_not_served', true]);
    expect(later.message).toBe(
      'No model server that serves `mg` is up (connection refused), and none came back within 0.4 s.',
    );
  }
  expect(await models(url)).toEqual([
    ['mg', 'down'],
    ['other', 'up'],
  ]);
  expect((await errorOf(await post(url, 'nobody'))).status).toBe(404);
  expect((await post(url, 'other')).status).toBe(200);
});

test('what no server that was seen has may still be there: 503, and not that it does not exist', async () => {
  const other = await serve(echo, { models: ['other'] });
  const { url } = await served({
    endpoints: [other.url, 'http://127.0.0.1:1/v1'],
    gateway: { limits: LIMITS },
  });
  const error = await errorOf(await post(url, 'mg'));
  expect([error.status, error.again]).toEqual([503, true]);
});

test('of an A/B test the share of an arm that is down goes to the other one', async () => {
  const dying = await serve(() => void dying.close(), { models: ['a'] });
  const other = await serve(echo, { models: ['b'] });
  const arms = { trial: [{ model: 'a' }, { model: 'b' }] };
  const { url } = await served({
    endpoints: [dying.url, other.url],
    gateway: { models: arms, limits: LIMITS },
  });
  await (await post(url, 'a')).text();
  const all = await Promise.all(Array.from({ length: 12 }, (_, n) => post(url, 'trial', { user: `u${n}` })));
  expect(all.map(({ status }) => status)).toEqual(all.map(() => 200));
});

test.each([429, 503])('servers that answer %d are up, whatever they are asked', async status => {
  const full = await Promise.all(
    Array.from({ length: 2 }, () => serve(ask => ask.send(status, {}, { 'retry-after': '60' }))),
  );
  const { url } = await served({ endpoints: full.map(one => one.url), gateway: { limits: LIMITS } });
  const ready = async () => {
    const reply = await fetch(`${url}/ready`);
    return [reply.status, ((await reply.json()) as { endpoints_up: number }).endpoints_up];
  };
  const errors = await Promise.all(
    Array.from({ length: 20 }, async () => {
      const error = await errorOf(await post(url));
      expect(await ready()).toEqual([200, 2]);
      return error;
    }),
  );
  expect(errors.every(error => error.status === status || error.status === 503)).toBe(true);
  const metrics = await (await fetch(`${url}/metrics`)).text();
  expect(metrics.match(/^fw_endpoint_up\{.*\} 1$/gm)).toHaveLength(2);
});

const cut = (ask: Ask): void => ask.cut();
const hang = (ask: Ask): void => ask.ignore();

test.each([
  ['refuses with 429 for ever', (ask: Ask) => ask.send(429, {}), {}, 429],
  ['refuses with 503 for ever', (ask: Ask) => ask.send(503, {}), {}, 503],
  ['fails with 500 each time', (ask: Ask) => ask.send(500, {}), {}, 502],
  ['breaks off each time', cut, {}, 502],
  ['never answers', hang, {}, 504],
  ['never begins a stream', hang, { stream: true }, 504],
])('a server that %s: the client is told in time', async (_, onAsk, more, status) => {
  const server = await serve(onAsk);
  const { url } = await served({
    endpoints: [server.url],
    gateway: { limits: { ...LIMITS, place: status === 502 ? 20_000 : LIMITS.place } },
  });
  const error = await errorOf(await post(url, 'm', more));
  expect([error.status, error.message.length > 20]).toEqual([status, true]);
  expect([429, 503].includes(status)).toBe(error.again);
  if (status === 502) expect(server.asked).toBe(LIMITS.tries);
});

test('a stream that does not begin at one server begins at another', async () => {
  const silent = await serve(hang);
  const speaking = await serve(({ response }) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const choice = { index: 0, delta: { content: 'yes' }, finish_reason: 'stop' };
    response.end(`data: ${JSON.stringify({ choices: [choice] })}\n\ndata: [DONE]\n\n`);
  });
  const { url } = await served({
    endpoints: [silent.url, speaking.url],
    gateway: { limits: { ...LIMITS, answer: 60_000 } },
  });
  const texts = await Promise.all(
    Array.from({ length: 8 }, async () => (await post(url, 'm', { stream: true })).text()),
  );
  expect(texts.every(text => text.includes('yes'))).toBe(true);
  expect(silent.asked).toBeGreaterThan(0);
});

test('a stream without an end is cut off with an error', async () => {
  const server = await serve(({ response }) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const timer = setInterval(() => response.write(': ping\n\n'), 20);
    response.on('close', () => clearInterval(timer));
  });
  const { url } = await served({ endpoints: [server.url], gateway: { limits: LIMITS } });
  const text = await (await post(url, 'm', { stream: true })).text();
  expect(text).toContain('"code":"call-timeout"');
});

test('a model has limits of its own', async () => {
  const server = await serve(hang, { models: ['quick', 'slow'] });
  const { url } = await served({
    endpoints: [server.url],
    gateway: { limits: { ...LIMITS, answer: 600_000 }, limitsOf: new Map([['quick', LIMITS]]) },
  });
  const error = await errorOf(await post(url, 'quick'));
  expect([error.status, error.message]).toEqual([504, expect.stringContaining('1 s')]);
});

slow('/ready follows what is there, also while nobody asks', async () => {
  const server = await serve(echo);
  const { url } = await served({ endpoints: [server.url] });
  const ready = async () => (await fetch(`${url}/ready`)).status;
  expect(await ready()).toBe(200);
  await server.close();
  await expect.poll(ready).toBe(503);
  await serve(echo, { port: server.port });
  await expect.poll(ready).toBe(200);
});
