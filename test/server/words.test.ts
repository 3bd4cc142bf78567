/** What operators and users met by the docs alone, and what each is told by now. */
import { once } from 'node:events';
import { connect } from 'node:net';
import { gzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import type { About } from '../../engine/core/item/say.ts';
import { Budgets } from '../../products/serve/budgets.ts';
import { expiryOf } from '../../products/serve/key-changes.ts';
import { watchStanding } from '../../products/serve/standing-still.ts';
import { boundOf } from '../../products/serve/token-bounds.ts';
import { freePort } from '../free-port.ts';
import { folder, shell } from '../fw.ts';
import { echo, serve } from '../pool/serving.ts';
import { begin, lineOf, reached } from './batching.ts';
import { configured } from './reloading.ts';
import { keyOf, served } from './serving.ts';

const DAY = 86_400_000;

test('a day that has not come, of a clock that was ahead, is no day without a budget', () => {
  let now = 100 * DAY + 1000;
  const budgets = new Budgets(() => now);
  const limits = { tokens_per_day: 100 };
  budgets.charge('k', 60);
  now += 3 * DAY; // it is believed for a while
  budgets.charge('k', 50);
  now -= 3 * DAY;
  expect(budgets.usedToday('k')).toBe(50);
  budgets.charge('k', 50);
  expect(() => budgets.begin('k', limits, 1)).toThrow('100 tokens a day');
  // on record, with the time of such a clock
  budgets.charge('l', 70, undefined, now + 5 * DAY);
  budgets.charge('l', 40);
  expect(budgets.isSpent('l', limits)).toBe(true);
  // midnight
  now = 101 * DAY - 1;
  expect(budgets.usedToday('k')).toBe(100);
  now = 101 * DAY;
  expect([budgets.usedToday('k'), budgets.usedToday('l')]).toEqual([0, 0]);
  budgets.charge('k', 7);
  budgets.charge('k', 5, undefined, now - 1); // a record of yesterday
  expect(budgets.usedToday('k')).toBe(7);
});

test('what is reserved follows what a server makes of a request', () => {
  const of = (fields: Record<string, unknown>, path = '/v1/chat/completions'): number =>
    boundOf(path, fields, 40, undefined) - 10;
  expect(of({ max_tokens: 7 })).toBe(7);
  expect(of({ max_tokens: '4000' })).toBe(4000); // vLLM reads it so
  expect(of({ max_tokens: 5, n: '3' })).toBe(15);
  expect(of({ max_tokens: 5, n: 1e9 })).toBe(5 * 128);
  for (const none of [
    -1,
    1.5,
    Number.POSITIVE_INFINITY,
    Number.NaN,
    null,
    {},
    [],
    '1e9',
    '-1',
    'x'.repeat(1e5),
  ])
    expect(of({ max_tokens: none })).toBe(of({}));
  const listed = (prompt: unknown): number => of({ prompt, max_tokens: 5 }, '/v1/completions');
  expect([listed('a'), listed(['a', 'b', 'c']), listed([1, 2, 3]), listed([[1], [2]]), listed([])]).toEqual([
    5, 15, 5, 10, 5,
  ]);
});

test('a process that stood still says so once, and whether it was busy', () => {
  let [elapsed, cpu] = [0, 0];
  let look = (): void => {};
  const said: [string, About | undefined][] = [];
  const watch = watchStanding((message, about) => void said.push([message, about]), {
    elapsed: () => elapsed,
    cpu: () => cpu,
    every: (_ms, given) => {
      look = given;
      return () => {};
    },
  });
  const after = (ms: number, busy: number): void => {
    elapsed += ms;
    cpu += busy;
    look();
  };
  after(1_000, 10);
  after(5_900, 5_800);
  expect(said).toEqual([]);
  after(21_000, 3);
  after(1_000, 3);
  after(9_000, 8_900);
  watch.stop();
  expect(said.map(([message]) => message)).toEqual([
    expect.stringMatching(/^nothing was done for 20 s: it was frozen/),
    expect.stringMatching(/^nothing was done for 8 s: it was busy/),
  ]);
  expect(said[0]?.[1]).toMatchObject({ event: 'stood-still', level: 'warn', seconds: 20 });
});

test('an endpoint that is added and does not answer is told, once', async () => {
  const one = await serve(echo, { models: ['a'] });
  const port = await freePort();
  const server = await configured(`pool: { endpoints: ["${one.url}"] }\n`);
  const dead = `http://127.0.0.1:${port}/v1`;
  await server.again(`pool: { endpoints: ["${one.url}", "${dead}"] }\n`);
  const words = `${dead} is not up: connection refused; it is asked once it answers`;
  await expect.poll(() => server.said).toContain(words);
  await server.again(`pool: { endpoints: ["${one.url}", "${dead}"] }\n`);
  expect(server.said.filter(line => line === words)).toHaveLength(1);
});

test('a packed body is refused by its name, and a line that is too long without a flag that nobody has', async () => {
  const data = folder();
  const key = keyOf(data, 'ann');
  const server = await served({ data, limits: { line: 1_000 } });
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  for (const [path, encoding] of [
    ['/v1/chat/completions', 'gzip'],
    ['/v1/files', 'br'],
    ['/v1/batches', 'GZIP, identity'],
  ] as const) {
    const answer = await fetch(`${server.url}${path}`, {
      method: 'POST',
      headers: { ...headers, 'content-encoding': encoding },
      body: gzipSync('{}'),
    });
    expect(answer.status).toBe(415);
    expect(await answer.json()).toMatchObject({
      error: {
        message: `Expected a body without content-encoding, found '${encoding}': send it as it is.`,
        code: 'unsupported_content_encoding',
      },
    });
  }
  const client = server.client(key);
  const long = lineOf('long', { messages: [{ role: 'user', content: 'x'.repeat(2_000) }] });
  const batch = await reached(client, (await begin(client, `${long}\n`)).id);
  expect(batch.errors?.data?.[0]).toMatchObject({
    code: 'line_too_long',
    message: expect.stringMatching(/^Expected a line of at most 1000 bytes, found \d+\.$/),
  });
});

test('with --log json a mistyped flag is a line of JSON, too, also where the file asks for that', async () => {
  const path = folder();
  for (const args of ['--dat x --log=json', '--config serve.yaml --dat x']) {
    const { code, stderr } = await shell(
      `cd ${path} && printf 'data: d\\nlog: json\\n' > serve.yaml && fw serve ${args}`,
    );
    expect(code).toBe(64);
    expect(JSON.parse(stderr)).toMatchObject({
      level: 'error',
      event: 'ended',
      message: expect.stringContaining("found '--dat'"),
      exit: 64,
    });
  }
  const text = await shell(`cd ${path} && fw serve --config serve.yaml --log text --dat x`);
  expect([text.code, text.stderr.split(':')[0]]).toEqual([64, 'fw serve']);
});

test('a key may end within minutes', () => {
  expect(['30s', '5m', '2h', '1d'].map(text => expiryOf(text, 0, 'x'))).toEqual([30, 300, 7_200, 86_400]);
  for (const wrong of ['5', '5w', '0s', '-5m', '5 m'])
    expect(() => expiryOf(wrong, 0, 'x')).toThrow('expected');
});

test('a connection that has asked nothing does not hold up the end', async () => {
  const server = await served({ settings: { grace: 3_600_000 } });
  const socket = connect(Number(new URL(server.url).port), '127.0.0.1');
  await once(socket, 'connect');
  const closed = once(socket, 'close');
  expect((await fetch(`${server.url}/health`)).status).toBe(200); // it is let in by now
  await server.stop();
  await closed;
});
