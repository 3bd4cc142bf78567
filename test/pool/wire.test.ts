/** Exchanges as the pool makes them: the next one is sent from within the last one's end. */

import type { AddressInfo } from 'node:net';
import { createServer } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { openWire, type Reply } from '../../engine/pool/wire.ts';
import { deadUrl, serve } from './serving.ts';

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
