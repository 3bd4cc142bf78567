/** Spans, as a collector gets them: of a request with its tries, and of a batch; and a collector that is not there. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { otlpOf } from '../../products/serve/traces/otlp-settings.ts';
import { begin, linesOf, reached } from './batching.ts';
import { MODEL, served } from './serving.ts';

interface Told {
  [key: string]: unknown;
  name: string;
  traceId: string;
  spanId: string;
  parentSpanId?: string;
  attributes: { key: string; value: Record<string, unknown> }[];
}

async function listening(
  answer: (path: string, body: string, headers: Record<string, unknown>) => [number, unknown],
) {
  const server = createServer((request, response) => {
    let body = '';
    request.on('data', chunk => {
      body += chunk;
    });
    request.on('end', () => {
      const [status, said] = answer(request.url as string, body, request.headers);
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(said));
    });
  });
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** A collector, and a model server that fails its first call. */
async function traced(env: Record<string, string> = {}) {
  const spans: Told[] = [];
  const asked: unknown[] = [];
  const heads: Record<string, unknown>[] = [];
  const collector = await listening((path, body, headers) => {
    heads.push({ path, ...headers });
    for (const { scopeSpans } of JSON.parse(body).resourceSpans) spans.push(...scopeSpans[0].spans);
    return [200, {}];
  });
  let failures = 1;
  const model = await listening((path, _body, headers) => {
    if (path.endsWith('/models')) return [200, { data: [{ id: MODEL }] }];
    if (!path.endsWith('/completions')) return [404, {}];
    asked.push(headers.traceparent);
    if (failures-- > 0) return [500, {}];
    const choices = [{ index: 0, message: { content: 'secret answer' }, finish_reason: 'stop' }];
    return [
      200,
      {
        id: headers['x-request-id'],
        model: MODEL,
        choices,
        usage: { prompt_tokens: 3, completion_tokens: 5 },
      },
    ];
  });
  const otlp = otlpOf({
    OTEL_EXPORTER_OTLP_ENDPOINT: collector,
    OTEL_EXPORTER_OTLP_HEADERS: 'x-tenant=a%20b',
    ...env,
  });
  const server = await served({ endpoints: [`${model}/v1`], otlp });
  return { server, spans, asked, heads };
}

const valuesOf = ({ attributes }: Told) =>
  Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]));
const ASKED = { model: MODEL, messages: [{ role: 'user' as const, content: 'secret prompt' }] };
const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';

test('a request is a span with its tries as children, and a batch is one with its states', async () => {
  const { server, spans, asked, heads } = await traced();
  const client = server.client();
  await client.chat.completions.create(ASKED, {
    headers: { traceparent: `00-${TRACE}-00f067aa0ba902b7-01` },
  });
  await client.chat.completions.create(ASKED, {
    headers: { traceparent: `00-${TRACE}-00f067aa0ba902b7-00` },
  });
  const { id } = await begin(client, linesOf(2));
  await reached(client, id);
  await server.stop();
  expect(heads[0]).toMatchObject({ path: '/v1/traces', 'x-tenant': 'a b' });
  const batch = spans.find(({ name }) => name === 'batch') as Told;
  expect(valuesOf(batch)).toMatchObject({
    'fw.batch.id': id,
    'fw.batch.completed': '2',
    'fw.owner': 'local',
  });
  expect((batch.events as { name: string }[]).map(({ name }) => name)).toEqual([
    'in_progress',
    'finalizing',
    'completed',
  ]);
  const [failed, good, root, ...more] = spans.filter(one => one !== batch);
  expect(more).toEqual([]);
  expect(root).toMatchObject({
    traceId: TRACE,
    parentSpanId: '00f067aa0ba902b7',
    kind: 2,
    name: 'POST /v1/chat/completions',
  });
  expect(valuesOf(root as Told)).toMatchObject({
    'http.response.status_code': '200',
    'fw.tries': '2',
    'fw.owner': 'local',
  });
  for (const one of [failed, good])
    expect(one).toMatchObject({ traceId: TRACE, parentSpanId: root?.spanId, kind: 3, name: `chat ${MODEL}` });
  expect(valuesOf(failed as Told)).toMatchObject({ 'error.type': '500', 'server.address': '127.0.0.1' });
  expect(valuesOf(good as Told)).toMatchObject({
    ...{ 'gen_ai.operation.name': 'chat', 'gen_ai.request.model': MODEL },
    ...{ 'gen_ai.usage.input_tokens': '3', 'gen_ai.usage.output_tokens': '5' },
  });
  expect(asked.slice(0, 3)).toEqual([
    ...[failed, good].map(one => `00-${TRACE}-${one?.spanId}-01`),
    `00-${TRACE}-00f067aa0ba902b7-00`,
  ]);
  expect(JSON.stringify(spans)).not.toContain('secret');
});

test('a collector that is not there costs one line, and no call waits for it', async () => {
  const { server, spans } = await traced({ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:9/hidden' });
  for (let n = 0; n < 3; n++) await server.client().chat.completions.create(ASKED);
  await server.stop();
  expect(spans).toEqual([]);
  expect(server.said.filter(line => line.startsWith('traces: '))).toEqual([
    'traces: http://127.0.0.1:9 does not take spans (ECONNREFUSED): they are dropped until it does',
  ]);
});

test("the settings are OpenTelemetry's own variables", () => {
  const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318/' };
  expect(otlpOf({})).toBe(null);
  expect(otlpOf({ ...endpoint, OTEL_SDK_DISABLED: 'true' })).toBe(null);
  expect(
    otlpOf({
      ...endpoint,
      OTEL_SERVICE_NAME: 'loans',
      OTEL_TRACES_SAMPLER: 'traceidratio',
      OTEL_TRACES_SAMPLER_ARG: '0.25',
    }),
  ).toEqual({
    ...{ url: 'http://collector:4318/v1/traces', headers: [], resource: { 'service.name': 'loans' } },
    ...{ ratio: 0.25, isParentBased: false },
  });
  for (const [name, value] of [
    ['OTEL_EXPORTER_OTLP_ENDPOINT', 'collector:4318'],
    ['OTEL_EXPORTER_OTLP_PROTOCOL', 'grpc'],
    ['OTEL_TRACES_SAMPLER', 'jaeger_remote'],
  ] as const)
    expect(() => otlpOf({ ...endpoint, [name]: value }), name).toThrow(`${name}: expected`);
});
