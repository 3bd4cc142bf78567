/** A server that is stopped: whoever still waits when it ends is told so, in a whole answer or as the last event of a stream. */
import { readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { folder } from '../fw.ts';
import { type Ask, type Fake, serve } from '../pool/serving.ts';
import { begin, lineOf, reached } from './batching.ts';
import { type Served, served, serveProcess } from './serving.ts';

const PATH = '/v1/chat/completions';
const STOPPING = { error: { code: 'stopping', message: 'The server is being stopped.' } };
const events = (text: string): string[] => text.split('\n').filter(line => line.startsWith('data: '));

/** Begins a stream, in the middle of an event, where it is asked for one; answers nothing else. */
const hang = ({ body, response }: Ask): void => {
  if (!JSON.parse(body).stream) return;
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  response.write('data: {"choices": []}\n\ndata: {"cho');
};

const post = (url: string, stream: boolean) =>
  fetch(`${url}${PATH}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'm', stream, messages: [{ role: 'user', content: 'x' }] }),
  });

/** A bare connection, and all that comes over it until it ends. */
async function raw(port: number) {
  const socket = connect(port, '127.0.0.1');
  let said = '';
  socket.on('data', chunk => {
    said += chunk;
  });
  const all = new Promise<string>(resolve => socket.on('close', () => resolve(said)));
  await new Promise(resolve => socket.once('connect', resolve));
  return { socket, all };
}

/** One call of each kind, both at the server of the model; the stream has begun. */
async function calling(url: string, model: Fake) {
  const whole = post(url, false);
  const stream = await post(url, true);
  await model.reached(2);
  return {
    async ends() {
      const reply = await whole;
      expect(reply.status).toBe(503);
      expect(Number(reply.headers.get('retry-after'))).toBeGreaterThan(0);
      expect(await reply.json()).toMatchObject(STOPPING);
      const [first, half, last, ...more] = events(await stream.text());
      expect([first, half, more]).toEqual(['data: {"choices": []}', 'data: {"cho', []]);
      expect(JSON.parse((last as string).slice('data: '.length))).toMatchObject(STOPPING);
    },
  };
}

test.each([
  ['when the grace is over', (server: Served) => server.stop()],
  ['told to stop at once', (server: Served) => Promise.all([server.stopAtOnce(), server.stop()])],
])('%s, calls and streams that are open get an error', async (_, stop) => {
  const model = await serve(hang);
  const server = await served({ endpoints: [model.url] });
  const calls = await calling(server.url, model);
  await stop(server);
  await calls.ends();
  // the server of the model has seen that nobody waits any more
  await model.dropped(2);
});

test('a call that waits for a place gets the same, and so does an upload that is still coming', async () => {
  const model = await serve(hang);
  const server = await served({ endpoints: [model.url], limit: 1 });
  const calls = Promise.all([post(server.url, false), post(server.url, false)]);
  await model.reached(1);
  const { socket, all } = await raw(Number(new URL(server.url).port));
  await new Promise(resolve =>
    socket.write(
      'POST /v1/files HTTP/1.1\r\nhost: localhost\r\ncontent-type: multipart/form-data; boundary=b\r\n' +
        'content-length: 9999\r\n\r\n--b\r\ncontent-disposition: form-data; name="file"; filename="f"\r\n\r\nx',
      resolve,
    ),
  );
  await server.stop();
  expect((await calls).map(({ status }) => status)).toEqual([503, 503]);
  expect(await all).toMatch(/^HTTP\/1\.1 503 [\s\S]*retry-after: 5[\s\S]*"code":"stopping"/);
});

test('what comes during the grace gets the same, and is not asked; what is under way is answered', async () => {
  let answer = (): void => {};
  const model = await serve(one => {
    answer = () => one.answer('late');
  });
  const server = await served({ endpoints: [model.url], settings: { grace: 60_000 } });
  const port = Number(new URL(server.url).port);
  const [early, late] = [await raw(port), await raw(port)];
  const body = JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'x' }] });
  const post = `POST ${PATH} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
  early.socket.write(post);
  await model.reached(1);
  const stopped = server.stop();
  late.socket.write(post);
  expect(await late.all).toMatch(/^HTTP\/1\.1 503 [\s\S]*retry-after: 5[\s\S]*"code":"stopping"/);
  answer();
  expect(await early.all).toMatch(/^HTTP\/1\.1 200 [\s\S]*late/);
  await stopped;
  expect(model.asked).toBe(1);
});

test('a batch asks no line that waits for a place when it is stopped, and none of them counts as failed', async () => {
  const held: Ask[] = [];
  let isHeld = true;
  const model = await serve(one => (isHeld ? void held.push(one) : one.answer('yes')));
  const data = join(folder(), 'data');
  // half of the places are kept for live calls
  const server = await served({ data, endpoints: [model.url], limit: 4, settings: { grace: 60_000 } });
  const lines = Array.from({ length: 40 }, (_, n) => lineOf(`r-${n}`, { model: 'm' }));
  const { id } = await begin(server.client(), lines.join('\n'));
  await model.reached(2);
  const stopped = server.stop();
  for (const one of held) one.answer('yes'); // one that is asked now would hold up the stop for all of its grace
  await stopped;
  expect(model.asked).toBe(2);
  const state = JSON.parse(readFileSync(join(data, 'batches', id, 'state.json'), 'utf8'));
  expect([state.status, state.counts]).toEqual(['in_progress', { total: 40, completed: 2, failed: 0 }]);
  isHeld = false;
  const next = await served({ data, endpoints: [model.url] });
  const done = await reached(next.client(), id);
  expect(done.request_counts).toEqual({ total: 40, completed: 40, failed: 0 });
  expect(model.asked).toBe(40);
});

test('SIGTERM ends it while a reader of stderr that has gone to sleep leaves the pipe full', async () => {
  const { child, url } = await serveProcess([
    ...['--data', join(folder(), 'data'), '--endpoint', (await serve(hang)).url, '--log', 'json'],
  ]);
  child.stderr?.removeAllListeners('data').pause();
  for (let n = 0; n < 60; n++)
    await Promise.all(Array.from({ length: 20 }, () => fetch(`${url}/v1/batches?after=${'x'.repeat(300)}`)));
  const code = new Promise(resolve => child.on('exit', resolve));
  child.kill('SIGTERM');
  expect(await code).toBe(0);
});

test.each([
  ['SIGTERM twice', ['SIGTERM', 'SIGTERM'], '60s', 143],
  ['SIGTERM, after the grace', ['SIGTERM'], '100ms', 0],
] as const)('%s', async (_, signals, grace, exit) => {
  const model = await serve(hang);
  const { child, url } = await serveProcess([
    ...['--data', join(folder(), 'data'), '--endpoint', model.url, '--grace', grace],
  ]);
  const calls = await calling(url, model);
  const code = new Promise(resolve => child.on('exit', resolve));
  const heard = new Promise<void>(resolve =>
    child.stderr?.on('data', chunk => String(chunk).includes('no new work') && resolve()),
  );
  child.kill(signals[0]);
  await heard;
  if (signals[1] !== undefined) child.kill(signals[1]);
  await calls.ends();
  expect(await code).toBe(exit);
});
