/** A small server on a real port that plays a vLLM as it should be, and lets a test replace any part of it. */
import { createHash } from 'node:crypto';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, onTestFinished } from 'vitest';
import { systemClock, TIMING } from '../../engine/asking/endpoints/pool-clock.ts';
import type { EndpointSetting } from '../../engine/asking/endpoints/settings.ts';
import type { Facts, Finding } from '../../products/measure/doctor/endpoint-facts.ts';
import { type Examiner, examine } from '../../products/measure/doctor/examine.ts';
import { judge, type Report } from '../../products/measure/doctor/judge.ts';

export interface Body {
  seed?: number;
  stream?: boolean;
  max_tokens: number;
  messages: { role: string; content: string }[];
  response_format?: { json_schema: { schema: { properties: Record<string, { enum: string[] }> } } };
}

/** `undefined` leaves the request to what the server does by itself. */
export type Play = (path: string, response: ServerResponse, body: Body | undefined) => unknown;

export interface Player {
  url: string;
  /** method and path of each request */
  asked: string[];
  close(): Promise<void>;
}

export const METRICS = `# HELP vllm:num_requests_running Requests in execution.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 0.0
vllm:num_requests_waiting{engine="0",model_name="m"} 0.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.0
vllm:num_preemptions_total{engine="0",model_name="m"} 0.0
vllm:prefix_cache_queries_total{engine="0",model_name="m"} 4096.0
vllm:prefix_cache_hits_total{engine="0",model_name="m"} 1024.0
vllm:cache_config_info{block_size="16",cache_dtype="auto",enable_prefix_caching="True",engine="0",num_gpu_blocks="62500"} 1.0
`;

export const models = (...data: object[]): string => JSON.stringify({ object: 'list', data });
export const M = {
  id: 'm',
  object: 'model',
  owned_by: 'vllm',
  root: 'org/m',
  parent: null,
  max_model_len: 8192,
};

/** What a model says: by the schema, else a text that depends on prompt and seed. */
export function textFor({ response_format, messages, seed }: Body, obey = true): string {
  const [field] = Object.entries(response_format?.json_schema.schema.properties ?? {});
  if (field && obey) return JSON.stringify({ [field[0]]: field[1].enum[1] });
  const text = createHash('sha256')
    .update(JSON.stringify([messages, seed]))
    .digest('hex');
  return field ? 'no' : text;
}

/** A completion; `more` replaces parts of it. */
export function completion(body: Body, text: string, more: object = {}): object {
  const usage = {
    prompt_tokens: 100,
    completion_tokens: body.max_tokens,
    prompt_tokens_details: { cached_tokens: 96 },
  };
  const message = { role: 'assistant', content: text };
  return { choices: [{ index: 0, message, finish_reason: 'stop' }], usage, ...more };
}

export function events(text: string): string {
  const half = text.length >> 1;
  const chunks = [
    { choices: [{ index: 0, delta: { role: 'assistant', content: '' }, finish_reason: null }] },
    { choices: [{ index: 0, delta: { content: text.slice(0, half) }, finish_reason: null }] },
    { choices: [{ index: 0, delta: { content: text.slice(half) }, finish_reason: null }] },
    { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] },
    { choices: [], usage: { prompt_tokens: 100, completion_tokens: 64 } },
  ];
  return `${chunks.map(chunk => `data: ${JSON.stringify(chunk)}\n\n`).join('')}: ping\n\ndata: [DONE]\n\n`;
}

/** `obey: false` ignores response_format, as servers do that do not know it. */
export async function play(act: Play = () => undefined, { obey = true, root = '' } = {}): Promise<Player> {
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('error', () => {});
    request.on('data', chunk => chunks.push(chunk));
    request.on('end', () => {
      const path = request.url ?? '';
      player.asked.push(`${request.method} ${path}`);
      const body: Body | undefined =
        chunks.length > 0 ? JSON.parse(Buffer.concat(chunks).toString()) : undefined;
      const acted = act(path, response, body);
      if (acted === undefined) byItself(path, response, body);
      else if (typeof acted === 'string') response.end(acted);
      else if (acted !== response) response.end(JSON.stringify(acted));
    });
  });
  const byItself = (path: string, response: ServerResponse, body: Body | undefined) => {
    if (path === `${root}/v1/models`) return response.end(models(M));
    if (path === `${root}/version`) return response.end('{"version":"0.32.0"}');
    if (path === `${root}/metrics`) return response.end(METRICS);
    if (path !== `${root}/v1/chat/completions` || !body) return response.writeHead(404).end('{}');
    const text = textFor(body, obey);
    return response.end(body.stream ? events(text) : JSON.stringify(completion(body, text)));
  };
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
  const player: Player = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}${root}/v1`,
    asked: [],
    close: () =>
      new Promise(resolve => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
  onTestFinished(() => player.close());
  return player;
}

export const examiner: Examiner = {
  key: undefined,
  wanted: undefined,
  most: 30_000,
  clock: systemClock,
  timing: TIMING,
};

export function factsOf(url: string, more: Partial<Examiner & EndpointSetting> = {}): Promise<Facts> {
  return examine(
    { url, limit: more.limit ?? 256, pinned: more.limit !== undefined },
    { ...examiner, ...more },
  );
}

export async function reportOf(url: string, more: Partial<Examiner & EndpointSetting> = {}): Promise<Report> {
  return judge([await factsOf(url, more)], {});
}

/** The finding of one check on an endpoint that plays `act`; undefined where the check had nothing to look at. */
export async function found(
  check: string,
  act?: Play,
  more: Partial<Examiner & EndpointSetting> & { obey?: boolean } = {},
): Promise<Finding | undefined> {
  const { url } = await play(act, more);
  const { endpoints } = await reportOf(url, more);
  return endpoints[0]?.findings.find(finding => finding.check === check);
}

/** Replaces the answer to one path. */
export const at =
  (path: string, answer: unknown): Play =>
  asked =>
    asked === path ? answer : undefined;

/** Answers one path with a status. */
export const status =
  (path: RegExp, code: number, text = ''): Play =>
  (asked, response) =>
    path.test(asked) ? response.writeHead(code).end(text) : undefined;

/** Replaces completions that are not streamed, where there is something to replace them by. */
export const chat =
  (answer: (body: Body, response: ServerResponse) => unknown): Play =>
  (path, response, body) =>
    path === '/v1/chat/completions' && body && !body.stream ? answer(body, response) : undefined;

/** A row of a table: the check, what the server does, how, with what options; the mark, words of finding and advice. */
export type Row = [string, string, Play | undefined, object, string, string | RegExp, string];

export async function expectRow([check, , act, more, mark, words, advice]: Row): Promise<void> {
  const finding = await found(check, act, more);
  expect(finding).toMatchObject({ mark, expected: expect.stringMatching(/\w/) });
  if (words instanceof RegExp) expect(finding?.found).toMatch(words);
  else expect(finding?.found).toContain(words);
  if (advice === '') expect(finding?.advice ?? '').toBe('');
  else expect(finding?.advice).toContain(advice);
}
