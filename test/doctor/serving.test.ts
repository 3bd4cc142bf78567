/** What endpoints serve, how much at once, and how they differ: what fw doctor finds. */
import { expect, onTestFinished, test } from 'vitest';
import { judge } from '../../products/measure/doctor/judge.ts';
import { type SimulatorOptions, startSimulator } from '../../products/simulator/simulator.ts';
import {
  at,
  completion,
  expectRow,
  factsOf,
  found,
  M,
  METRICS,
  models,
  type Play,
  play,
  type Row,
  reportOf,
  status,
  textFor,
} from './playing.ts';

const gateway: Play = (path, response) => {
  if (path === '/v1/models') return models({ id: 'm' });
  return path.startsWith('/v1') ? undefined : response.writeHead(404).end('<html>');
};
const enormous: Play = (path, response) =>
  path === '/metrics' ? response.end(Buffer.alloc(17 << 20, 32)) : undefined;
const metrics = (text: string): Play => at('/metrics', text);
const config = (labels: string): Play => metrics(`${METRICS}vllm:vllm_config_info{${labels}} 1\n`);

// biome-ignore format: a row a line
const rows: Row[] = [
  ['server', 'a gateway', gateway, {}, 'note', 'unknown to fw', 'gateway'],
  ['model', 'none', at('/v1/models', models()), {}, 'trouble', 'no model', 'load one'],
  ['model', 'another one', undefined, { wanted: 'x' }, 'trouble', 'it serves m, not x', '--model'],
  ['model', 'the same, by another name', at('/v1/models', models({ ...M, id: 'llama3.2:3b' })), { wanted: 'meta-llama/Llama-3.2-3B-Instruct' }, 'ok', 'llama3.2:3b (org/m), the name here of meta-llama/Llama-3.2-3B-Instruct', ''],
  ['model', 'the same, by a name of --model-map', undefined, { wanted: 'ours', modelMap: [['m', 'ours']] }, 'ok', 'the name here of ours', ''],
  ['model', 'adapters', at('/v1/models', models({ ...M, id: 'lora', parent: 'm' }, M)), {}, 'note', 'lora, m; examined: m', '--model'],
  ['model', 'an adapter that was named', at('/v1/models', models(M, { ...M, id: 'lora', parent: 'm' })), { wanted: 'lora' }, 'ok', 'lora (org/m)', ''],
  ['model', 'a name that steers terminals', at('/v1/models', models({ ...M, id: 'a\u001b[2J' })), {}, 'trouble', 'cannot be sent', '--served-model-name'],
  ['context', 'short', at('/v1/models', models({ ...M, max_model_len: 2048 })), {}, 'note', '2,048 tokens', '--max-model-len'],
  ['context', 'useless', at('/v1/models', models({ ...M, max_model_len: 512 })), {}, 'trouble', '512 tokens', '--max-model-len'],
  ['context', 'of nonsense', at('/v1/models', models({ ...M, max_model_len: -7 })), {}, 'note', 'not said', ''],
  ['context', 'not said by Ollama', at('/v1/models', models({ id: 'x', owned_by: 'library' })), {}, 'note', 'not said', 'OLLAMA_CONTEXT_LENGTH'],
  ['metrics', 'current names', undefined, {}, 'ok', 'current names', ''],
  ['metrics', 'old names', metrics(METRICS.replace('kv_cache_usage', 'gpu_cache_usage')), {}, 'note', 'gpu_cache_usage_perc', 'dashboards'],
  ['metrics', 'no values', metrics('# nothing'), {}, 'note', 'no values', '--disable-log-stats'],
  ['metrics', 'only /v1 is passed on', status(/metrics/, 403), {}, 'note', 'HTTP 403', 'beside /v1'],
  ['metrics', 'enormous', enormous, {}, 'note', 'no answer', 'beside /v1'],
  ['load', 'others', metrics(METRICS.replace(/(waiting\S+) 0/, '$1 70')), {}, 'note', '70 wait already', ''],
  ['load', 'preemptions', metrics(METRICS.replace(/(preemptions\S+) 0/, '$1 12')), {}, 'note', '12 requests were preempted', '--gpu-memory-utilization'],
  ['batch', 'smaller than a set limit', config('a="x}\\"",scheduler_config_max_num_seqs="64"'), { limit: 256 }, 'note', 'takes 64 at once, the limit is set to 256: the rest waits', 'limit: 80'],
  ['batch', 'larger than a set limit', config('max_num_seqs="1024"'), { limit: 256 }, 'note', 'never full', 'limit: 1024'],
  ['batch', 'as a set limit', config('max_num_seqs="256"'), { limit: 256 }, 'ok', 'takes 256', ''],
  ['batch', 'any, where the limit follows', config('max_num_seqs="64"'), {}, 'ok', 'takes 64 at once, the limit begins at 256 and follows', ''],
  ['batch', 'not said', undefined, { limit: 9 }, 'ok', 'set to 9; the server does not say', ''],
  ['batch', 'not said, and no load either', status(/metrics/, 404), {}, 'ok', 'stays at 256; the server does not say', ''],
  ['KV cache', 'large', undefined, { limit: 256 }, 'ok', '1,000,000 tokens, 122.1 contexts of full length; 3,906 for each of 256 calls', ''],
  ['KV cache', 'small for a set limit', undefined, { limit: 2_000 }, 'note', '500 for each of 2,000', 'limit: 666'],
  ['KV cache', 'of several kinds of layers', metrics(METRICS.replace('num_gpu', 'kv_cache_size_tokens="600000",num_gpu')), {}, 'ok', '600,000 tokens', ''],
];
test.each(rows)('%s: %s', (...row) => expectRow(row));

test('a server as it should be: nothing to say, in at most a dozen requests', async () => {
  const server = await play();
  const { endpoints, exit, together } = await reportOf(server.url);
  expect(endpoints[0]?.findings.filter(({ mark }) => mark !== 'ok')).toEqual([]);
  expect([exit, together]).toEqual([0, []]);
  expect(endpoints[0]).toMatchObject({
    server: 'vLLM',
    version: '0.32.0',
    model: 'm',
    reachable: true,
    figures: { limit: 256, context: 8192, calls: server.asked.length },
  });
  expect(server.asked.length).toBeLessThanOrEqual(12);
});

test('no server is asked more than a dozen times, a gateway that says little neither', async () => {
  const untold: Play = (path, response, body) => {
    if (path === '/metrics') return METRICS;
    if (!body || body.stream) return gateway(path, response, body);
    return completion(body, textFor(body), { usage: null });
  };
  const server = await play(untold);
  expect((await reportOf(server.url)).endpoints[0]?.server).toBe('vLLM');
  expect(server.asked.length).toBeLessThanOrEqual(12);
});

test('llama.cpp: recognised by what it answers, slots and context from /props', async () => {
  const server = await play((path, response) => {
    if (path === '/v1/models')
      return models({ id: 'g.gguf', owned_by: 'llamacpp', meta: { n_ctx_train: 32768 } });
    if (path === '/props')
      return { total_slots: 4, build_info: 'b6000', default_generation_settings: { n_ctx: 8192 } };
    return path === '/metrics'
      ? response.writeHead(501).end('{"error":{"message":"no --metrics"}}')
      : undefined;
  });
  const { endpoints } = await reportOf(server.url);
  expect(endpoints[0]).toMatchObject({
    server: 'llama.cpp',
    version: 'b6000',
    figures: { context: 8192, batch: 4 },
  });
  const notes = endpoints[0]?.findings.filter(({ mark }) => mark !== 'ok');
  expect(notes?.map(({ check, advice }) => [check, advice])).toEqual([
    ['without', undefined],
    ['metrics', 'start llama-server with --metrics'],
    ['batch', 'limit: 5 in a pool file, or start the server with -np 256'],
  ]);
  expect(server.asked).not.toContain('GET /version');
  expect(server.asked.length).toBeLessThanOrEqual(12);
});

test.each(['library', 'somebody'])('Ollama, its model owned by %s', async owner => {
  const server = await play((path, response) => {
    if (path === '/v1/models') return models({ id: 'llama3.2:3b', owned_by: owner });
    if (path === '/api/version') return { version: '0.9.0' };
    if (path === '/api/ps') return { models: [{ name: 'llama3.2:3b', context_length: 4096 }] };
    return path.startsWith('/v1') ? undefined : response.writeHead(404).end('404 page not found');
  });
  const { endpoints } = await reportOf(server.url);
  expect(endpoints[0]).toMatchObject({ server: 'Ollama', version: '0.9.0', figures: { context: 4096 } });
  const batch = endpoints[0]?.findings.find(({ check }) => check === 'batch');
  expect(batch?.advice).toContain('OLLAMA_NUM_PARALLEL');
  expect(server.asked).not.toContain('GET /metrics');
  expect(server.asked.length).toBeLessThanOrEqual(12);
});

async function between(...acts: (Play | undefined)[]): Promise<Record<string, string>> {
  const servers = await Promise.all(acts.map(act => play(act)));
  const report = judge(await Promise.all(servers.map(({ url }) => factsOf(url))), {});
  return Object.fromEntries(report.together.map(({ check, mark, found }) => [check, `${mark}: ${found}`]));
}

test('endpoints that are alike', async () => {
  expect(await between(undefined, undefined, undefined)).toMatchObject({
    model: 'ok: all serve m',
    weights: 'ok: org/m',
    context: 'ok: 8,192',
    version: 'ok: vLLM 0.32.0',
    answers: 'ok: the same from all',
  });
});

test('endpoints that differ: who from whom', async () => {
  const other: Play = (path, _, body) => {
    if (path === '/v1/models') return models({ ...M, root: 'org/m-v2', max_model_len: 4096 });
    if (path === '/version') return { version: '0.10.2' };
    return body?.seed && !body.stream ? completion(body, 'other') : undefined;
  };
  expect(await between(undefined, other)).toMatchObject({
    model: 'ok: all serve m',
    weights: expect.stringMatching(/^trouble: org\/m: http:\S+; org\/m-v2: http:\S+$/),
    context: expect.stringMatching(/^note: 8,192: http:\S+; 4,096: http:\S+$/),
    version: expect.stringMatching(/^note: vLLM 0\.32\.0: http:\S+; vLLM 0\.10\.2: http:\S+$/),
    answers: expect.stringMatching(/^note: ".+" from http:\S+, "other" from http:\S+$/),
  });
});

test('where a run would have to guess the model, it is trouble', async () => {
  const lora = at('/v1/models', models(M, { ...M, id: 'lora', parent: 'm' }));
  expect((await between(lora, lora)).model).toBe('trouble: 2 that all serve');
  expect((await between(lora, undefined)).model).toBe('ok: all serve m');
  const others = await between(undefined, at('/v1/models', models({ ...M, id: 'n', root: 'org/n' })));
  expect(others.model).toMatch(/^trouble: none/);
  // once is enough
  expect([others.weights, others.answers]).toEqual([undefined, undefined]);
});

test('a finding of one check can be missing, as of an endpoint without metrics', async () => {
  expect(await found('KV cache', status(/metrics/, 404))).toBeUndefined();
});

// Queue limits and faults of a simulated vLLM, as an operator would meet them.
test.each<[string, SimulatorOptions, string, string, RegExp]>([
  ['still loading', { startupDelay: '1h' }, 'reachable', 'trouble', /still loading/],
  ['old names', { metricNames: 'old' }, 'metrics', 'note', /gpu_cache_usage_perc/],
  ['both names', { metricNames: 'both' }, 'metrics', 'ok', /current/],
  ['a full queue', { maxQueuedRequests: 0 }, 'answers', 'trouble', /^HTTP 503/],
  ['an engine that fails', { faults: '500=1' }, 'answers', 'trouble', /^HTTP 500/],
  ['fences where schemas are asked for', { faults: 'fence=1' }, 'guided decoding', 'trouble', /not enforced/],
])('a simulated server: %s', async (_, options, check, mark, found) => {
  const simulator = await startSimulator(options);
  onTestFinished(() => simulator.close());
  const { endpoints } = await reportOf(simulator.url);
  expect(endpoints[0]?.findings.find(finding => finding.check === check)).toMatchObject({
    mark,
    found: expect.stringMatching(found),
  });
});

test('endpoints that serve the named model by two names do not serve one', async () => {
  const named = (id: string): Play => at('/v1/models', models({ ...M, id }));
  const wanted = 'meta-llama/Llama-3.2-3B-Instruct';
  const servers = [await play(named(wanted)), await play(named('llama3.2:3b'))];
  const report = judge(await Promise.all(servers.map(({ url }) => factsOf(url, { wanted }))), {});
  expect(report.together.find(({ check }) => check === 'model')).toMatchObject({
    mark: 'trouble',
    found: `served as ${wanted}, llama3.2:3b`,
  });
});
