/** Servers of each kind, as the real ones answer: what fw doctor finds out of them. What each says is from its own source. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { KIND_NAMES, KINDS } from '../../engine/asking/endpoints/server-kinds.ts';
import { ROOT } from '../fw.ts';
import { models, type Play, play, reportOf } from './playing.ts';

const notFound: Play = (_, response, body) =>
  body ? undefined : response.writeHead(404).end('{"detail":"Not Found"}');

/** GET pages by their path; others are not there. Completions are answered as by any other. */
const pages =
  (answers: Record<string, unknown>, other: Play = notFound): Play =>
  (path, response, body) => {
    if (body) return other(path, response, body);
    return path in answers ? answers[path] : other(path, response, body);
  };

async function examined(act: Play) {
  const server = await play(act);
  const report = await reportOf(server.url);
  const [one] = report.endpoints;
  const found = Object.fromEntries((one?.findings ?? []).map(finding => [finding.check, finding]));
  return { ...one, found, asked: server.asked, text: JSON.stringify(report) };
}

const SGLANG_MODELS = models({ id: 'org/m', owned_by: 'sglang', root: 'org/m', max_model_len: 32768 });
const SGLANG_METRICS = `sglang:num_running_reqs{model_name="org/m",tp_rank="0"} 0.0
sglang:num_queue_reqs{model_name="org/m",tp_rank="0"} 0.0
sglang:token_usage{model_name="org/m",tp_rank="0"} 0.28
sglang:max_total_num_tokens{model_name="org/m",tp_rank="0"} 400000.0
sglang:prompt_tokens_total{model_name="org/m"} 812.0
sglang:generation_tokens_total{model_name="org/m"} 755.0
`;

test('SGLang: its page of settings, of which no more is read than two numbers', async () => {
  const info = { version: '0.5.9', max_running_requests: 48, api_key: 'sk-not-to-be-told', tp_size: 1 };
  const one = await examined(
    pages({ '/v1/models': SGLANG_MODELS, '/server_info': info, '/metrics': SGLANG_METRICS }),
  );
  expect(one).toMatchObject({ server: 'SGLang', version: '0.5.9', figures: { context: 32768, batch: 48 } });
  expect(one.found.metrics).toMatchObject({ mark: 'ok', found: "SGLang's names" });
  expect(one.found.load).toMatchObject({ mark: 'ok', found: 'idle' });
  expect(one.found['KV cache']?.found).toContain('400,000 tokens');
  expect(one.found.without?.found).toContain('structured_outputs');
  expect(one.text).not.toContain('sk-not-to-be-told');
  expect(one.asked).not.toContain('GET /version');
});

test('an older SGLang without --enable-metrics', async () => {
  const one = await examined(
    pages({ '/v1/models': SGLANG_MODELS, '/get_server_info': { version: '0.4.1' } }),
  );
  expect(one).toMatchObject({ server: 'SGLang', version: '0.4.1' });
  expect(one.found.metrics).toMatchObject({ mark: 'note', advice: 'start it with --enable-metrics' });
  expect(one.asked.length).toBeLessThanOrEqual(12);
});

test('TGI: its one model owns itself, /info says the rest; it takes no schema as OpenAI has it', async () => {
  const refusing: Play = (_, response, body) =>
    body?.response_format
      ? response
          .writeHead(422, { 'content-type': 'text/plain' })
          .end(
            'Failed to deserialize the JSON body into the target type: response_format: missing field `value` at line 1 column 168',
          )
      : undefined;
  const info = { model_id: 'org/m', version: '3.3.4', max_total_tokens: 8192, max_concurrent_requests: 128 };
  const metrics = 'tgi_batch_current_size 0\ntgi_queue_size 0\ntgi_request_generated_tokens_sum 7\n';
  const one = await examined(
    pages(
      { '/v1/models': models({ id: 'org/m', owned_by: 'org/m' }), '/info': info, '/metrics': metrics },
      (path, response, body) => refusing(path, response, body) ?? notFound(path, response, body),
    ),
  );
  expect(one).toMatchObject({ server: 'TGI', version: '3.3.4', figures: { context: 8192, batch: 128 } });
  expect(one.found.metrics).toMatchObject({ mark: 'ok', found: "TGI's names" });
  expect(one.found['guided decoding']).toMatchObject({
    mark: 'note',
    found: expect.stringContaining('missing field `value`'),
    advice: expect.stringContaining('without schemas'),
  });
  expect(one.asked).not.toContain('GET /version');
});

test('a model that owns itself at another server is no TGI', async () => {
  const one = await examined(pages({ '/v1/models': models({ id: 'm', owned_by: 'm' }) }));
  expect(one.server).toBe('unknown');
  expect(one.asked.length).toBeLessThanOrEqual(12);
});

test('llama.cpp behind a list of models without an owner, by its Server header', async () => {
  const one = await examined((path, response, body) => {
    response.setHeader('server', 'llama.cpp');
    if (body) return undefined;
    if (path === '/v1/models') return models({ id: 'g.gguf' });
    if (path === '/props')
      return { total_slots: 8, build_info: 'b7000-abc', default_generation_settings: {} };
    return response.writeHead(501).end('{}');
  });
  expect(one).toMatchObject({ server: 'llama.cpp', version: 'b7000-abc', figures: { batch: 8 } });
});

/** It answers every path: those that it does not have with 200 and an error. */
const lmStudio = (owner?: string): Play => {
  const instance = { id: 'qwen', config: { context_length: 4096, parallel: 4 } };
  return pages(
    {
      '/v1/models': models({ id: 'qwen', ...(owner && { owned_by: owner }) }),
      '/api/v1/models': { models: [{ type: 'llm', key: 'qwen', loaded_instances: [instance] }] },
    },
    (path, _, body) => (body ? undefined : { error: `Unexpected endpoint or method. (GET ${path})` }),
  );
};
test.each(['organization_owner', undefined])('LM Studio, its models owned by %s', async owner => {
  const one = await examined(lmStudio(owner));
  expect(one).toMatchObject({ server: 'LM Studio', figures: { context: 4096, batch: 4 } });
  expect(one.found.metrics).toBeUndefined();
  expect(one.found.without?.found).toContain('no /metrics');
  expect(one.asked.length).toBeLessThanOrEqual(12);
});

test("OpenAI's own endpoint, by the header that only it has: nothing is asked beside /v1", async () => {
  const one = await examined((path, response, body) => {
    response.setHeader('openai-version', '2020-10-01');
    if (body) return undefined;
    return path === '/v1/models'
      ? models({ id: 'gpt-x', owned_by: 'system' })
      : response.writeHead(404).end('{}');
  });
  expect(one).toMatchObject({ server: 'OpenAI', version: '2020-10-01' });
  expect(one.asked.filter(path => path.startsWith('GET'))).toEqual(['GET /v1/models']);
});

test('docs/endpoints.md has a column for each kind', () => {
  const page = readFileSync(join(ROOT, 'docs/endpoints.md'), 'utf8');
  const [header = ''] = page.match(/^\| {1,3}\| vLLM .*$/m) ?? [];
  for (const name of KIND_NAMES) expect(header).toContain(`| ${name} `);
  for (const { metrics, about } of Object.values(KINDS)) {
    if (metrics !== null) expect(page).toContain(`\`${metrics}`);
    for (const { path } of about) expect(page).toContain(path);
  }
});
