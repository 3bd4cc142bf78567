/** Ids by which a request is found again: from the client through the log and the record to the model server, and back. */
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import fc from 'fast-check';
import { expect, onTestFinished, test } from 'vitest';
import { requestIdOf, traceContextOf } from '../../products/serve/request-ids.ts';
import { shell } from '../fw.ts';
import { begin, linesOf, reached } from './batching.ts';
import { MODEL, served } from './serving.ts';

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const PARENT = `00-${TRACE}-00f067aa0ba902b7-01`;
const ASKED = { model: MODEL, messages: [{ role: 'user', content: 'Hello' }] };

/** A model server that keeps the headers of what it is asked. */
async function listening() {
  const heard: IncomingHttpHeaders[] = [];
  const server = createServer((request, response) => {
    if (request.method === 'GET') return void response.end(JSON.stringify({ data: [{ id: MODEL }] }));
    heard.push(request.headers);
    let body = '';
    request.on('data', chunk => {
      body += chunk;
    });
    request.on('end', () => {
      const choices = [
        { index: 0, message: { content: 'x' }, delta: { content: 'x' }, finish_reason: 'stop' },
      ];
      const whole = {
        id: `chatcmpl-${request.headers['x-request-id']}`,
        model: MODEL,
        choices,
        usage: { prompt_tokens: 1, completion_tokens: 1 },
      };
      if (!JSON.parse(body).stream) return void response.end(JSON.stringify(whole));
      response.setHeader('content-type', 'text/event-stream');
      response.end(`data: ${JSON.stringify(whole)}\n\ndata: [DONE]\n\n`);
    });
  });
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  return { heard, url: `http://127.0.0.1:${port}/v1` };
}

test("the client's ids go to the model server, into the answer, the log and the record", async () => {
  const { heard, url } = await listening();
  const server = await served({ endpoints: [url] });
  async function ask(body: object, headers: Record<string, string>) {
    const reply = await fetch(`${server.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify({ ...ASKED, ...body }),
    });
    return { id: reply.headers.get('x-request-id') as string, text: await reply.text() };
  }
  const ids = { 'x-request-id': 'checkout-42', traceparent: PARENT, tracestate: 'vendor=1' };
  expect((await ask({}, ids)).id).toBe('checkout-42');
  expect((await ask({ stream: true }, ids)).id).toBe('checkout-42');
  for (const { 'x-request-id': id, traceparent, tracestate } of heard) {
    expect(id).toMatch(/^fw-[0-9a-f]{16}-[0-9a-f]{8}-[0-9a-z]+\.checkout-42$/);
    expect([traceparent, tracestate]).toEqual([PARENT, 'vendor=1']);
  }
  const own = await ask({}, { 'x-request-id': 'no id', traceparent: '00-short', tracestate: 'vendor=1' });
  expect(own.id).toMatch(/^req_[0-9a-f]{24}$/);
  expect(own.text).toContain(own.id);
  expect(heard.at(-1)).not.toHaveProperty('traceparent');
  expect(heard.at(-1)).not.toHaveProperty('tracestate');
  expect(server.said.filter(line => line === 'POST /v1/chat/completions 200')).toHaveLength(3);
  await server.stop();
  const { stdout } = await shell(`fw ledger export --ledger ${join(server.data, 'gateway')}`);
  const lines = stdout
    .trim()
    .split('\n')
    .map(line => JSON.parse(line));
  expect(lines.map(({ item, trace }) => [item, trace])).toEqual([
    ['checkout-42', TRACE],
    ['checkout-42', TRACE],
    [own.id, undefined],
  ]);
});

test('what a line of a batch was asked as is found from its custom_id', async () => {
  const { heard, url } = await listening();
  const server = await served({ endpoints: [url] });
  const client = server.client();
  const { id } = await begin(client, linesOf(2));
  await reached(client, id);
  await server.stop();
  const ledger = join(server.data, 'batches', id, 'ledger');
  const { stdout } = await shell(
    `fw ledger export --ledger ${ledger} | jq -r 'select(.item == "r-1") | "fw-" + .key[:16]'`,
  );
  const asked = heard.map(headers => headers['x-request-id'] as string);
  expect(asked.filter(one => one.startsWith(stdout.trim()))).toHaveLength(1);
});

test('only what has the form of an id is taken, whatever a header holds', () => {
  const text = fc.oneof(fc.string({ unit: 'binary', maxLength: 300 }), fc.stringMatching(/^[\w.-]{0,200}$/));
  fc.assert(
    fc.property(text, id => {
      const taken = requestIdOf({ 'x-request-id': id });
      expect(taken).toMatch(/^[\w.:=+/@~;-]{1,128}$/);
      if (/^[\w.-]{1,128}$/.test(id)) expect(taken).toBe(id);
    }),
  );
  fc.assert(
    fc.property(text, text, (traceparent, tracestate) => {
      expect(traceContextOf({ traceparent, tracestate })).toBe(null);
      const found = traceContextOf({ traceparent: PARENT, tracestate });
      expect(found).toMatchObject({
        trace: TRACE,
        span: '00f067aa0ba902b7',
        isSampled: true,
        parent: PARENT,
      });
      if (found?.state !== undefined) expect(found.state).toMatch(/^[\x20-\x7e]{1,512}$/);
    }),
  );
  for (const traceparent of [
    `ff-${TRACE}-00f067aa0ba902b7-01`,
    `00-${'0'.repeat(32)}-00f067aa0ba902b7-01`,
    `00-${TRACE}-${'0'.repeat(16)}-01`,
    `00-${TRACE.toUpperCase()}-00f067aa0ba902b7-01`,
    `${PARENT}-more`,
  ])
    expect(traceContextOf({ traceparent }), traceparent).toBe(null);
  // a later version may say more, of which nothing is known
  expect(traceContextOf({ traceparent: `cc-${TRACE}-00f067aa0ba902b7-00-x` })).toMatchObject({
    ...{ parent: `00-${TRACE}-00f067aa0ba902b7-00`, isSampled: false },
  });
});
