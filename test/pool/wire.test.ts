/** Exchanges as the pool makes them: the next one is sent from within the last one's end. */

import { type AddressInfo, createServer } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { openWire, type Reply } from '../../engine/pool/wire.ts';
import { deadUrl, serve, until } from './serving.ts';

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
  const wire = openWire(new URL(fake.url).origin, undefined);
  onTestFinished(() => wire.close());
  const first = new Promise<Reply | Error>(resolve => void wire.send(POST, resolve));
  await fake.reached(1);
  const broken: (Reply | Error)[] = [];
  const floods = Array.from({ length: 20 }, () => wire.send(POST, outcome => void broken.push(outcome)));
  // 20 × 15 MiB want to come in, and 256 MiB are let in: three give way at least, and the others have room
  await until(() => broken.length >= 3);
  for (const outcome of broken) expect(outcome).toMatchObject({ code: 'FW_TOO_MUCH' });
  small();
  expect(await first).toMatchObject({ status: 200, body: Buffer.from('{"small":true}') });
  for (const exchange of floods) exchange.abort(new Error('over'));
  await until(() => broken.length === 20);
});
