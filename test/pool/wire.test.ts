/** Exchanges as the pool makes them: the next one is sent from within the last one's end. */

import { type AddressInfo, createServer } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import type { Reply } from '../../engine/asking/endpoints/exchange.ts';
import { openWire } from '../../engine/asking/endpoints/wire.ts';
import { callOf, deadUrl, echo, open, outcome, serve, until } from './serving.ts';

const POST = { method: 'POST', path: '/v1/chat/completions', body: Buffer.from('{}') } as const;

/** Sends `count` requests one after the other, each as soon as the one before is settled. */
function inTurn(origin: string, count: number): Promise<(Reply | Error)[]> {
  const wire = openWire(origin, undefined);
  onTestFinished(() => wire.close());
  const outcomes: (Reply | Error)[] = [];
  return new Promise(resolve => {
    const next = (): void => {
      wire.send(POST, outcome => {
        outcomes.push(outcome);
        if (outcomes.length < count) next();
        else resolve(outcomes);
      });
    };
    next();
  });
}

test('after a connection that was refused', async () => {
  const outcomes = await inTurn(new URL(await deadUrl()).origin, 5);
  expect(outcomes.map(outcome => (outcome as NodeJS.ErrnoException).code)).toEqual(
    Array(5).fill('ECONNREFUSED'),
  );
});

test('after a connection that was cut, before and within an answer', async () => {
  for (const head of ['', 'HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc']) {
    const server = createServer(socket => {
      socket.on('error', () => {});
      socket.once('data', () => socket.end(head, () => socket.destroy()));
    });
    await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
    onTestFinished(() => void server.close());
    const outcomes = await inTurn(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, 5);
    expect(outcomes.every(outcome => outcome instanceof Error)).toBe(true);
  }
});

test('after an answer, on the same connection', async () => {
  const sockets = new Set<unknown>();
  const fake = await serve(ask => {
    sockets.add(ask.request.socket);
    ask.answer('yes');
  });
  const outcomes = await inTurn(new URL(fake.url).origin, 5);
  expect(outcomes.map(outcome => (outcome as Reply).status)).toEqual(Array(5).fill(200));
  expect(sockets.size).toBe(1);
});

test('answers that are large together are broken off before they fill the memory; a small one is not', async () => {
  const MIB = 1024 * 1024;
  const flood = Buffer.alloc(15 * MIB, 97);
  const fake = await serve(ask => {
    if (ask.n > 1) return void ask.response.writeHead(200).write(flood); // and no end
    ask.response.writeHead(200).write('{"small":');
    small = () => ask.response.end('true}');
  });
  let small = (): void => {};
  const wire = openWire(new URL(fake.url).origin, undefined, 16 * MIB);
  onTestFinished(() => wire.close());
  const first = new Promise<Reply | Error>(resolve => void wire.send(POST, resolve));
  await fake.reached(1);
  const broken: (Reply | Error)[] = [];
  const floods = Array.from({ length: 20 }, () => wire.send(POST, outcome => void broken.push(outcome)));
  // 20 × 15 MiB want to come in, and 256 MiB are let in: three give way at least, and the others have room
  await until(() => broken.length >= 3);
  for (const outcome of broken) expect(outcome).toMatchObject({ code: 'FW_TOO_LONG' });
  small();
  expect(await first).toMatchObject({ status: 200, body: Buffer.from('{"small":true}') });
  for (const exchange of floods) exchange.abort(new Error('over'));
  await until(() => broken.length === 20);
});

test.each([
  [
    'a length',
    (size: number) => `HTTP/1.1 200 OK\r\ncontent-length: ${size}\r\n\r\n`,
    (text: string) => text,
  ],
  [
    'chunks',
    () => 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n',
    (text: string) => `${text.length.toString(16)}\r\n${text}\r\n0\r\n\r\n`,
  ],
])('a body has as many bytes as it may, and not one more: %s', async (_, headOf, bodyOf) => {
  const most = 100_000;
  const sizes = [most, most + 1];
  const fake = await serve(ask => {
    const size = sizes[ask.n - 1] as number;
    ask.raw(headOf(size) + bodyOf('a'.repeat(size)));
  });
  const wire = openWire(new URL(fake.url).origin, undefined, most);
  onTestFinished(() => wire.close());
  const send = () => new Promise<Reply | Error>(resolve => void wire.send(POST, resolve));
  expect(((await send()) as Reply).body.length).toBe(most);
  expect(await send()).toMatchObject({ message: 'an answer larger than 100000 bytes (--max-body)' });
});

test('an answer that is too long is a bad answer, asked again elsewhere; of a broken connection nothing is said', async () => {
  const [long, good] = [await serve(ask => ask.answer('a'.repeat(50_000))), await serve(echo)];
  const pool = await open([long.url, good.url], { maxBody: 40_000 });
  const calls = Array.from({ length: 40 }, () => callOf());
  expect(await Promise.all(calls.map(call => outcome(pool, call)))).toEqual(calls.map(({ item }) => item));
  const [bad] = pool.stats().endpoints;
  expect(bad?.failed).toEqual({ 'bad answer': long.asked });
  expect(bad?.cause).toContain('larger than 40000 bytes');
});
