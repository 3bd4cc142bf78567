/** The simulated server on a real port: what vLLM's clients rely on. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { afterEach, describe, expect, test } from 'vitest';
import simulate from '../../products/simulator/simulate-command.ts';
import { type Simulator, type SimulatorOptions, startSimulator } from '../../products/simulator/simulator.ts';
import { runs } from '../all.ts';
import { manualClock } from '../pool/clock.ts';
import { bodyOf, completion, contentOf, post } from './loan.ts';

const running: Simulator[] = [];
async function start(options: SimulatorOptions = {}): Promise<Simulator> {
  const simulator = await startSimulator(options);
  running.push(simulator);
  return simulator;
}
afterEach(async () => {
  await Promise.all(running.splice(0).map(simulator => simulator.close()));
});

const root = (simulator: Simulator) => simulator.url.slice(0, -'/v1'.length);
const turns = (count: number) => Array.from({ length: count }, (_, turn) => turn);

describe('determinism', () => {
  test('two servers of one seed give the same answers, in any order, together or one by one', async () => {
    const [one, two, other] = [
      await start({ seed: 11 }),
      await start({ seed: 11, latency: '1ms-9ms' }),
      await start({ seed: 12 }),
    ];
    const asked = turns(60).map(turn => bodyOf({ turn }));
    const together = await Promise.all(asked.map(body => contentOf(one!.url, body)));
    const backwards: string[] = [];
    for (const body of [...asked].reverse()) backwards.unshift(await contentOf(two!.url, body));
    expect(backwards).toEqual(together);
    expect(new Set(together).size).toBe(60);
    expect(await Promise.all(asked.map(body => contentOf(other!.url, body)))).not.toEqual(together);
  });

  test('faults of answers are alike on two servers', async () => {
    const asked = turns(60).map(turn => bodyOf({ turn }));
    const faults = 'null=0.3,fence=0.3,escape=0.3,truncated=0.3,chatty=0.3';
    const [one, two] = [await start({ faults }), await start({ faults })];
    const said = await Promise.all(
      [one, two].map(({ url }) => Promise.all(asked.map(body => contentOf(url, body)))),
    );
    expect(said[0]).toEqual(said[1]);
  });
});

describe('chat completions', () => {
  test('have the shape of vLLM, with true usage', async () => {
    const { url } = await start();
    const body = bodyOf({ system: 'You are the Risk Manager. '.repeat(40) });
    const first = await completion(url, body);
    expect(first).toMatchObject({
      object: 'chat.completion',
      model: 'simulated-3b',
      system_fingerprint: 'fw-simulated',
      choices: [{ index: 0, message: { role: 'assistant' }, finish_reason: 'stop', logprobs: null }],
      usage: { prompt_tokens_details: { cached_tokens: 0 } },
    });
    const { prompt_tokens, completion_tokens } = first.usage;
    expect(completion_tokens).toBe(Math.ceil(first.choices[0]!.message.content.length / 4));
    expect(prompt_tokens).toBeGreaterThan(260);
    const again = await completion(url, body);
    expect(again.usage.prompt_tokens_details.cached_tokens).toBe(256);
    expect(again.choices).toEqual(first.choices);
  });

  test('stream the same text in chunks, with usage and [DONE]', async () => {
    for (const latency of ['0ms', '40ms']) {
      const { url } = await start({ latency });
      const body = bodyOf({ more: { stream: true, stream_options: { include_usage: true } } });
      const response = await post(url, body);
      expect(response.headers.get('content-type')).toContain('text/event-stream');
      const events = (await response.text()).split('\n\n').filter(Boolean);
      expect(events.every(event => event.startsWith('data: '))).toBe(true);
      expect(events.pop()).toBe('data: [DONE]');
      const chunks = events.map(event => JSON.parse(event.slice(6)));
      expect(chunks.every(chunk => chunk.object === 'chat.completion.chunk')).toBe(true);
      expect(chunks[0].choices[0].delta).toEqual({ role: 'assistant', content: '' });
      const last = chunks.pop();
      expect(last.choices).toEqual([]);
      expect(chunks.at(-1).choices[0].finish_reason).toBe('stop');
      const text = chunks.map(chunk => chunk.choices[0].delta.content ?? '').join('');
      expect(JSON.parse(text).loan_type).toBe('personal_loan');
      expect(last.usage.completion_tokens).toBe(Math.ceil(text.length / 4));
      // the role, each token, and how it ended
      expect(chunks).toHaveLength(last.usage.completion_tokens + 2);
    }
  });

  test('without include_usage a stream has none', async () => {
    const { url } = await start();
    expect(await (await post(url, bodyOf({ more: { stream: true } }))).text()).not.toContain('"usage"');
  });

  test('stop at max_tokens', async () => {
    const { url } = await start();
    const { choices, usage } = await completion(url, bodyOf({ more: { max_tokens: 20 } }));
    expect(choices[0]!.finish_reason).toBe('length');
    expect(usage.completion_tokens).toBe(20);
  });

  test('fields that vLLM does not know are passed over, as vLLM does', async () => {
    const { url } = await start();
    const more = { whatever: 1 };
    expect(await contentOf(url, bodyOf({ schema: null, system: 'Be brief.', more }))).toMatch(/^[A-Za-z]/);
  });

  test('structured_outputs is understood as well', async () => {
    const { url } = await start();
    const more = { structured_outputs: { json: { type: 'integer', minimum: 3, maximum: 4 } } };
    expect(['3', '4']).toContain(await contentOf(url, bodyOf({ schema: null, more })));
  });
});

describe('errors', () => {
  const long = 'x'.repeat(4 * 900);
  test.each([
    ['not JSON', '{"model"', 400, /JSON decode error/],
    ['no object', '[1]', 400, /one JSON object/],
    ['no messages', '{"model":"simulated-3b"}', 400, /messages/],
    ['a message without a role', '{"messages":[{"content":"x"}]}', 400, /messages\[0\]/],
    [
      'an unknown model',
      '{"model":"gpt-9","messages":[{"role":"user","content":"x"}]}',
      404,
      /The model `gpt-9` does not exist\./,
    ],
    [
      'a missing schema',
      bodyOf({ schema: null, more: { response_format: { type: 'json_schema' } } }),
      400,
      /json_schema/,
    ],
    ['an impossible schema', bodyOf({ schema: { $ref: '#' } }), 400, /No finite JSON value/],
    ['a broken schema', bodyOf({ schema: { type: 'object', required: 7 } }), 400, /cannot be used/],
    [
      'a schema nested too deep',
      bodyOf({ schema: 'HERE' }).replace('"HERE"', `${'{"items":'.repeat(100_000)}{}${'}'.repeat(100_000)}`),
      400,
      /nests too deep/,
    ],
    [
      'a schema of too many levels',
      bodyOf({ schema: 'HERE' }).replace('"HERE"', `${'{"items":'.repeat(200)}{}${'}'.repeat(200)}`),
      400,
      /nests deeper than 100/,
    ],
    ['max_tokens of 0', bodyOf({ more: { max_tokens: 0 } }), 400, /max_tokens must be at least 1, got 0/],
    [
      'a context overflow',
      bodyOf({ system: '', user: long, more: { max_tokens: 200 } }),
      400,
      /maximum context length is 1000 tokens\. However, you requested 1111 tokens \(911 in the messages, 200 in the completion\)/,
    ],
  ])('%s', async (_, body, status, message) => {
    const { url } = await start({ maxModelLength: 1_000 });
    const response = await post(url, body);
    const { error } = (await response.json()) as { error: { message: string; type: string; code: number } };
    expect([response.status, error.code]).toEqual([status, status]);
    expect(error.type).toBe(status === 404 ? 'NotFoundError' : 'BadRequestError');
    expect(error.message).toMatch(message);
  });

  test('unknown routes and methods', async () => {
    const simulator = await start();
    expect((await fetch(`${root(simulator)}/nothing`)).status).toBe(404);
    expect((await fetch(`${simulator.url}/chat/completions`)).status).toBe(405);
  });

  test('a port that is taken', async () => {
    const { port } = await start();
    await expect(startSimulator({ port })).rejects.toMatchObject({ code: 'EADDRINUSE' });
  });
});

describe('the other routes', () => {
  test('models, health, version, tokenize', async () => {
    const simulator = await start({ model: 'org/other', maxModelLength: 2_048 });
    const models = await (await fetch(`${simulator.url}/models`)).json();
    expect(models).toMatchObject({
      object: 'list',
      data: [{ id: 'org/other', object: 'model', max_model_len: 2_048 }],
    });
    const health = await fetch(`${root(simulator)}/health`);
    expect([health.status, await health.text()]).toEqual([200, '']);
    expect(await (await fetch(`${root(simulator)}/version`)).json()).toMatchObject({ version: /simulated/ });
    const text = JSON.stringify({ model: 'org/other', prompt: 'a text of some twenty-eight' });
    const counted = (await (await post(root(simulator), text, '/tokenize')).json()) as { tokens: number[] };
    expect(counted).toMatchObject({ count: 7, max_model_len: 2_048, token_strs: null });
    expect(counted.tokens).toHaveLength(7);
  });

  test('tokenize counts messages as usage does', async () => {
    const simulator = await start();
    const body = bodyOf();
    const { count } = (await (await post(root(simulator), body, '/tokenize')).json()) as { count: number };
    expect((await completion(simulator.url, body)).usage.prompt_tokens).toBe(count);
  });

  test('metrics are Prometheus text with the true numbers of this process', async () => {
    const simulator = await start({ model: 'odd "name"' });
    const usages = [];
    for (const turn of turns(5)) {
      usages.push((await completion(simulator.url, bodyOf({ turn, more: { model: null } }))).usage);
    }
    await completion(simulator.url, bodyOf({ more: { model: null, max_tokens: 5 } }));
    const text = await (await fetch(`${root(simulator)}/metrics`)).text();
    const samples = new Map<string, number>();
    for (const line of text.trimEnd().split('\n')) {
      if (/^# (HELP|TYPE) vllm:\w+ ./.test(line)) continue;
      const [, name, labels, value] = /^(vllm:\w+)\{((?:\w+="(?:[^"\\]|\\.)*",?)+)\} (\S+)$/.exec(line) ?? [];
      expect(Number.isFinite(Number(value)), line).toBe(true);
      const own = labels!.replace('engine="0",model_name="odd \\"name\\""', '').replace(/^,/, '');
      samples.set(own ? `${name}{${own}}` : name!, Number(value));
    }
    const prompt = usages.reduce((sum, usage) => sum + usage.prompt_tokens, 0) + usages[0]!.prompt_tokens;
    expect(samples.get('vllm:prompt_tokens_total')).toBe(prompt);
    expect(samples.get('vllm:prefix_cache_queries_total')).toBe(prompt);
    expect(samples.get('vllm:prefix_cache_hits_total')).toBeGreaterThanOrEqual(0);
    expect(samples.get('vllm:generation_tokens_total')).toBe(
      usages.reduce((sum, usage) => sum + usage.completion_tokens, 0) + 5,
    );
    expect(samples.get('vllm:request_success_total{finished_reason="stop"}')).toBe(5);
    expect(samples.get('vllm:request_success_total{finished_reason="length"}')).toBe(1);
    expect(samples.get('vllm:e2e_request_latency_seconds_count')).toBe(6);
    expect(samples.get('vllm:e2e_request_latency_seconds_bucket{le="+Inf"}')).toBe(6);
    expect(samples.get('vllm:time_to_first_token_seconds_count')).toBe(6);
    for (const name of [
      'num_requests_running',
      'num_requests_waiting',
      'kv_cache_usage_perc',
      'num_preemptions_total',
    ]) {
      expect(samples.get(`vllm:${name}`), name).toBe(0);
    }
  });
});

describe('load', () => {
  const REQUESTS = runs(300, 1_000, 'REQUESTS');
  test(`${REQUESTS} requests in flight are counted, and none is lost`, async () => {
    const clock = manualClock();
    const arrivals: number[] = [];
    let allThere: () => void = () => {};
    const there = new Promise<void>(resolve => {
      allThere = resolve;
    });
    const simulator = await start({
      clock,
      latency: '200ms-400ms',
      onRequest: request => {
        arrivals.push(request.arrival);
        if (arrivals.length === REQUESTS) allThere();
      },
    });
    const answers = Promise.all(turns(REQUESTS).map(turn => contentOf(simulator.url, bodyOf({ turn }))));
    await there;
    const said = await clock.turning(answers);
    expect(new Set(said).size).toBe(REQUESTS);
    expect(arrivals).toEqual(turns(REQUESTS).map(() => 1));
    const { requests, maxInFlight } = simulator.counts();
    expect(simulator.counts()).toMatchObject({ requests: REQUESTS, answers: REQUESTS });
    expect(maxInFlight).toBe(requests);
  });

  test('a client that goes away is an abort, not an answer', async () => {
    const simulator = await start({ latency: '60s' });
    const patience = new AbortController();
    const asked = fetch(`${simulator.url}/chat/completions`, {
      method: 'POST',
      body: bodyOf(),
      signal: patience.signal,
    });
    const until = (busy: number) =>
      new Promise<void>(reached => {
        const look = () => (simulator.counts().inFlight === busy ? reached() : setImmediate(look));
        look();
      });
    await until(1);
    patience.abort();
    await expect(asked).rejects.toThrow();
    await until(0);
    expect(simulator.counts().answers).toBe(0);
    const text = await (await fetch(`${root(simulator)}/metrics`)).text();
    expect(text).toMatch(/finished_reason="abort"\} 1\n/);
  });
});

describe('fw simulate', () => {
  const defaults = {
    port: 0,
    host: '127.0.0.1',
    seed: 7,
    latency: '0ms',
    faults: 'none',
    model: 'm',
    'max-model-len': 512,
  };

  test.each([
    [{ latency: 'fast' }, /expected a time such as 40ms.*found "fast"/],
    [{ latency: '80ms-20ms' }, /found "80ms-20ms"/],
    [{ latency: '40' }, /found "40"/],
    [{ faults: 'rain=1' }, /expected a kind among .*found "rain"/],
  ])('%j is a usage error', async (wrong, message) => {
    const ran = simulate.run({ ...defaults, ...wrong } as never, []);
    await expect(ran).rejects.toMatchObject({ exit: 64, message: expect.stringMatching(message) });
  });

  test('a port in use is a usage error that says so', async () => {
    const { port } = await start();
    const ran = simulate.run({ ...defaults, port } as never, []);
    await expect(ran).rejects.toMatchObject({ exit: 64, message: expect.stringContaining('in use') });
  });
});

describe('the process', () => {
  test('prints its URL as a line of JSON and its counts as another, says that it simulates, and ends with 0 on SIGTERM and SIGINT', async () => {
    for (const signal of ['SIGTERM', 'SIGINT'] as const) {
      const child = spawn(
        process.execPath,
        ['dist/bin/fw.js', 'simulate', '--port', '0', '--latency', '1ms'],
        {
          stdio: ['ignore', 'pipe', 'pipe'],
        },
      );
      const said = { out: '', err: '' };
      child.stderr.on('data', chunk => {
        said.err += chunk;
      });
      const ended = once(child, 'close');
      await new Promise<void>((printed, failed) => {
        child.stdout.on('data', chunk => {
          said.out += chunk;
          if (said.out.includes('\n')) printed();
        });
        ended.then(() => failed(new Error(said.err)), failed);
      });
      const { url, simulated } = JSON.parse(said.out);
      expect(simulated).toBe(true);
      expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/v1$/);
      expect(JSON.parse(await contentOf(url, bodyOf())).loan_type).toBe('personal_loan');
      child.kill(signal);
      expect(await ended).toEqual([0, null]);
      const [, counts, ...rest] = said.out.split('\n');
      expect(JSON.parse(counts as string)).toMatchObject({
        url,
        requests: 1,
        unwell: 0,
        answers: 1,
        faults: { 500: 0 },
      });
      expect(rest).toEqual(['']);
      expect(said.err).toMatch(/simulated; no model is behind them/);
    }
  });
});
