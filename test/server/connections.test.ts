/** Connections beyond the file limit: each is told so, and none is reset because too many came at once. */
import { EventEmitter, once } from 'node:events';
import http, { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { afterEach, expect, onTestFinished, test } from 'vitest';
import { openWire, sockets } from '../../engine/asking/endpoints/wire.ts';
import { watchConnections } from '../../products/serve/connections.ts';
import { every } from '../all.ts';
import { folder } from '../fw.ts';
import { serve } from '../pool/serving.ts';
import { serveProcess } from './serving.ts';

afterEach(() => sockets.setMost(Number.POSITIVE_INFINITY));

class Client extends EventEmitter {
  bytesRead = 1;
  destroy(): void {
    this.emit('close');
  }
}

test('the door stands still longer the fewer places are left, and not while there are some', () => {
  sockets.setMost(40);
  const pauses: number[] = [];
  const server = Object.assign(new EventEmitter(), { maxConnections: 0 });
  watchConnections(server as unknown as Server, ms => void pauses.push(ms));
  expect(server.maxConnections).toBe(40);
  const clients = Array.from({ length: 40 }, () => new Client());
  for (const client of clients) server.emit('connection', client);
  expect(pauses).toHaveLength(10);
  expect(pauses).toEqual(pauses.toSorted((a, b) => a - b));
  expect(pauses.at(-1)).toBe(100);
  // who keeps it full does not keep it standing: this process does nothing else meanwhile
  for (let n = 0; n < 200; n++) {
    clients[39]?.emit('close');
    server.emit('connection', clients[39]);
  }
  expect(pauses.reduce((sum, ms) => sum + ms, 0)).toBeLessThan(3_000);
  for (const client of clients) client.emit('close');
  expect(sockets.clients).toBe(0);
});

test('who takes all places and says what he asks a letter a second leaves room for others, and holds up no end', () => {
  sockets.setMost(40);
  let time = 0;
  const server = Object.assign(new EventEmitter(), { maxConnections: 0 });
  const watched = watchConnections(
    server as unknown as Server,
    () => {},
    () => time,
  );
  // Node tells of nobody else who comes
  const slow = Array.from({ length: 40 }, () => new Client());
  for (const client of slow) server.emit('connection', client);
  const known = new Client();
  const [first] = slow as [Client];
  watched.asks(first as unknown as Socket, known as unknown as ServerResponse);
  watched.makeRoom();
  expect(sockets.clients).toBe(40);
  time = 5_000;
  watched.makeRoom();
  expect(sockets.clients).toBe(30);
  watched.makeRoom();
  expect(sockets.clients).toBe(30);
  watched.stop();
  expect(sockets.clients).toBe(1); // what somebody known asked is answered
  first.emit('close');
  server.emit('close');
});

test('a client that comes closes a connection to a server that is idle, where there is no descriptor for both', async () => {
  sockets.setMost(3);
  const server = createServer((_, response) => response.end('{}')).listen(0, '127.0.0.1');
  onTestFinished(() => void server.close());
  await once(server, 'listening');
  const wire = openWire(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, undefined);
  const send = () => new Promise<unknown>(resolve => wire.send({ method: 'GET', path: '/' }, resolve));
  await Promise.all([send(), send()]);
  const connected = promisify(server.getConnections.bind(server));
  expect(await connected()).toBe(2);
  for (let client = 0; client < 2; client++) sockets.noteClient(1);
  // by themselves idle ones are closed after three seconds: both
  await expect.poll(connected, { interval: 5 }).toBe(1);
  for (let client = 0; client < 2; client++) sockets.noteClient(-1);
  await wire.close();
});

/** What became of a stream on a connection of its own: `served`, `refused`, or else what there was instead. */
function asked(url: string): Promise<string> {
  const headers = { 'content-type': 'application/json' };
  return new Promise(resolve => {
    const request = http.request(url, { method: 'POST', agent: false, headers }, async response => {
      const said = await text(response).catch(String);
      if (response.statusCode === 200 && said.includes('[DONE]')) return resolve('served');
      const isTold = response.statusCode === 503 && response.headers['retry-after'] !== undefined;
      resolve(isTold ? 'refused' : said);
    });
    request.on('error', error => resolve(String(error)));
    request.end(JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'x' }], stream: true }));
  });
}

test.each(
  every(3, [
    [64, 256],
    [256, 1_024],
    [1_024, 2_048],
  ] as const),
)(
  'ulimit -n %i and %i streams at once: each is served or gets 503 before it is begun',
  async (limit, count) => {
    const least = Math.floor(limit / 6);
    let enough = 0;
    const server = await serve(({ response }) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      const choice = { index: 0, delta: { content: 'yes' }, finish_reason: 'stop' };
      const end = `data: ${JSON.stringify({ choices: [choice] })}\n\ndata: [DONE]\n\n`;
      // as long as all of them are there
      void server.reached(enough).then(() => response.end(end));
    });
    const args = ['--data', join(folder(), 'data'), '--endpoint', server.url];
    const { url } = await serveProcess(args, `ulimit -n ${limit}`);
    // the second time with the connections to the server that the first left
    for (let time = 0; time < 2; time++) {
      enough = server.asked + least;
      const said = await Promise.all(
        Array.from({ length: count }, () => asked(`${url}/v1/chat/completions`)),
      );
      const served = said.filter(word => word === 'served').length;
      expect(said.filter(word => word !== 'served')).toEqual(Array(count - served).fill('refused'));
      expect(served).toBeGreaterThanOrEqual(least);
    }
  },
);
