/** fw bench against simulated servers on real sockets: what it asks, what it writes, how it ends. No time is judged. */
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { type AddressInfo, createServer as createNetServer } from 'node:net';
import { join } from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import formats from 'ajv-formats';
import { afterEach, describe, expect, test } from 'vitest';
import { readPreset } from '../../products/simulator/presets.ts';
import { type Simulator, type SimulatorOptions, startSimulator } from '../../products/simulator/simulator.ts';
import { folder, ROOT } from '../fw.ts';
import { fw } from '../here.ts';
import { content, DONE, finished, usage } from './shapes.ts';

const running: Simulator[] = [];
afterEach(async () => {
  await Promise.all(running.splice(0).map(simulator => simulator.close()));
});

interface Asked {
  body: Record<string, unknown> & { messages: { role: string; content: string }[] };
}

async function start(options: SimulatorOptions = {}): Promise<{ url: string; asked: Asked[] }> {
  const asked: Asked[] = [];
  const simulator = await startSimulator({
    latency: '5ms',
    ...options,
    onRequest: ({ body }) => void asked.push({ body: JSON.parse(body) }),
  });
  running.push(simulator);
  return { url: simulator.url, asked };
}

const schema = JSON.parse(readFileSync(join(ROOT, 'schemas/bench.schema.json'), 'utf8'));
const ajv = new Ajv2020({ strict: true, allowUnionTypes: true, allErrors: true });
formats.default(ajv);
const validate = ajv.compile(schema);
const read = (path: string) => JSON.parse(readFileSync(path, 'utf8'));
const readLines = (path: string) =>
  readFileSync(path, 'utf8')
    .trim()
    .split('\n')
    .map(line => JSON.parse(line));
interface Step {
  usage: { prompt: number; completion: number };
}
const SMALL = '--input-tokens 60 --output-tokens 8';

function expectValid(result: unknown): void {
  validate(result);
  expect(validate.errors).toBeNull();
}

test('prints the table of vllm bench serve, and writes its keys', async () => {
  const { url, asked } = await start();
  const at = folder();
  const ran = await fw(
    `fw bench --endpoint ${url} ${SMALL} --concurrency 1,4 --requests 12 --warmup 2 --json b.json --detailed --label mine`,
    { cwd: at },
  );
  expect(ran.code, ran.stderr).toBe(0);
  const tables = ran.stdout.split('\n\n');
  expect(tables).toHaveLength(2);
  const labels = (tables[1] as string)
    .split('\n')
    .filter(Boolean)
    .map(line => line.replace(/^(.{40}) [\d.]+ *$/, '$1').trimEnd());
  expect(labels).toEqual(readFileSync(join(ROOT, 'test/bench/table.txt'), 'utf8').trimEnd().split('\n'));

  const [first, second] = read(join(at, 'b.json'));
  for (const result of [first, second]) expectValid(result);
  expect(second).toMatchObject({
    num_prompts: 12,
    completed: 12,
    failed: 0,
    max_concurrency: 4,
    request_rate: 'inf',
    label: 'mine',
    total_output_tokens: 96,
  });
  expect(second.fw).toMatchObject({
    run: 1,
    of: 1,
    load: { kind: 'closed', concurrency: 4 },
    endpoints: [url],
  });
  expect(second.fw.workload.input_tokens.mean).toBeCloseTo(60, -1);
  expect(second.output_lens).toEqual(Array(12).fill(8));
  expect(second.itls.map((gaps: number[]) => gaps.length)).toEqual(Array(12).fill(7));
  expect(second.generated_texts.every((text: string) => text.length > 0)).toBe(true);
  // two short prompts by which words are counted, then the warm-up and the run of each load: no prompt comes twice
  expect(asked).toHaveLength(2 + 2 * (2 + 12));
  const prompts = asked.map(({ body }) => body.messages[0]?.content);
  expect(new Set(prompts).size).toBe(prompts.length);
  expect(asked[4]?.body).toMatchObject({
    stream: true,
    stream_options: { include_usage: true },
    max_tokens: 8,
    ignore_eos: true,
  });
  expect(JSON.parse(first.fw.workload.body)).toEqual(asked[4]?.body);
});

test('an open loop: a rate, all at once, and bounds that answers keep', async () => {
  const { url } = await start();
  const at = folder();
  const ran = await fw(
    `fw bench --endpoint ${url} ${SMALL} --rate 200,inf --requests 20 --goodput ttft:100000,e2el:100000 --json b.json`,
    { cwd: at },
  );
  expect(ran.code, ran.stderr).toBe(0);
  expect(ran.stdout).toContain('Request rate configured (RPS):           200.00');
  expect(ran.stdout).toContain('Request goodput (req/s):');
  const [poisson, inf] = read(join(at, 'b.json'));
  expectValid(poisson);
  expectValid(inf);
  expect(poisson).toMatchObject({
    request_rate: 200,
    burstiness: 1,
    max_concurrency: null,
    request_goodput: poisson.request_throughput,
  });
  expect(inf).toMatchObject({
    request_rate: 'inf',
    completed: 20,
    fw: { load: { kind: 'open', rate: 'inf' }, goodput: { ttft: 100_000 } },
  });
});

test('one run is one object, which scripts read as that of vLLM', async () => {
  const { url } = await start();
  const at = folder();
  const ran = await fw(
    `fw bench --endpoint ${url} ${SMALL} --requests 3 --json new/folder/b.json --csv b.csv --html b.html`,
    { cwd: at },
  );
  expect(ran.code, ran.stderr).toBe(0);
  expectValid(read(join(at, 'new/folder/b.json')));
  expect(readFileSync(join(at, 'b.csv'), 'utf8').split('\r\n')).toHaveLength(3);
  expect(readFileSync(join(at, 'b.html'), 'utf8')).toContain('1 at a time');
});

test('what the servers count of the run itself is beside it, and the use of their GPUs', async () => {
  const { url } = await start({ preset: readPreset('3b-h100') });
  const exporter = createServer((_, response) =>
    response.end(
      'DCGM_FI_DEV_GPU_UTIL{gpu="0"} 90\nDCGM_FI_DEV_FB_USED{gpu="0"} 30\nDCGM_FI_DEV_FB_FREE{gpu="0"} 10\n',
    ),
  );
  await new Promise<void>(listening => exporter.listen(0, '127.0.0.1', listening));
  const { port } = exporter.address() as AddressInfo;
  const at = folder();
  writeFileSync(
    join(at, 'pool.yaml'),
    `endpoints:\n  - { url: ${url}, gpu: http://127.0.0.1:${port}/metrics }\n`,
  );
  const ran = await fw(
    `fw bench --pool pool.yaml ${SMALL} --concurrency 4 --requests 20 --json b.json --html b.html`,
    { cwd: at },
  );
  await new Promise(closed => {
    exporter.close(closed);
    exporter.closeAllConnections();
  });
  expect(ran.code, ran.stderr).toBe(0);
  const result = read(join(at, 'b.json'));
  expectValid(result);
  const { server, servers } = result.fw;
  // the warm-up and the requests by which words are counted are not in it
  expect(server).toMatchObject({
    seen: 1,
    restarted: false,
    requests: 20,
    output_tokens: 160,
    prompt_tokens: result.total_input_tokens,
    preemptions: 0,
    gpu_use: 0.9,
    gpu_memory: 0.75,
  });
  expect(server.mean_ttft_ms).toBeGreaterThan(0);
  expect(server.gap_ttft_ms).toBeCloseTo(result.mean_ttft_ms - server.mean_ttft_ms, 3);
  expect(servers[0]).toMatchObject({
    url,
    version: expect.stringContaining('simulated'),
    max_model_len: 8192,
  });
  expect(Object.keys(servers[0].settings)).toContain('num_gpu_blocks');
  expect(ran.stderr).toMatch(/servers say +TTFT mean ms/);
  expect(readFileSync(join(at, 'b.html'), 'utf8')).toContain('90.0 %');
});

test('a ramp has the keys of vLLM, and its own time', async () => {
  const { url } = await start();
  const at = folder();
  const ran = await fw(`fw bench --endpoint ${url} ${SMALL} --ramp 10:90/1s --warmup 0 --json b.json`, {
    cwd: at,
  });
  expect(ran.code, ran.stderr).toBe(0);
  const result = read(join(at, 'b.json'));
  expectValid(result);
  expect(result).toMatchObject({
    num_prompts: 50,
    ramp_up_strategy: 'linear',
    ramp_up_start_rps: 10,
    ramp_up_end_rps: 90,
    fw: { load: { kind: 'open', rate: 90, from: 10 } },
  });
});

test('the lengths of a ledger are those of its calls, one after the other', async () => {
  const { url, asked } = await start();
  const at = folder();
  const items = ['short', 'long '.repeat(200)].map(
    (prompt, row) => `${JSON.stringify({ id: `i${row}`, row, prompt })}\n`,
  );
  const piloted = await fw(`fw chain --ledger pilot --endpoint ${url} > done.ndjson`, {
    cwd: at,
    stdin: items.join(''),
  });
  expect(piloted.code, piloted.stderr).toBe(0);
  asked.splice(0);
  const ran = await fw(`fw bench --endpoint ${url} --ledger pilot --concurrency 2 --warmup 0 --json b.json`, {
    cwd: at,
  });
  expect(ran.code, ran.stderr).toBe(0);
  const result = read(join(at, 'b.json'));
  expectValid(result);
  // four agents and the decision of two items, behind the two requests by which words are counted
  expect(result.num_prompts).toBe(10);
  expect(result.fw.workload.source).toContain('the lengths of 10 calls of pilot');
  const done = readLines(join(at, 'done.ndjson'));
  const told = done.flatMap((item: { steps: Step[]; decision: Step }) => [...item.steps, item.decision]);
  const sum = (name: 'prompt' | 'completion'): number =>
    told.reduce((all: number, step: Step) => all + step.usage[name], 0);
  expect(result.total_output_tokens).toBe(sum('completion'));
  expect(Math.abs(result.total_input_tokens / sum('prompt') - 1)).toBeLessThan(0.05);
  const none = await fw(`fw bench --endpoint ${url} --ledger pilot --input-tokens 5`, { cwd: at });
  expect([none.code, none.stderr]).toEqual([
    64,
    expect.stringContaining('expected only one of --ledger, a file, and'),
  ]);
});

test('adapters are asked for in turn, and one that nobody serves is refused', async () => {
  const names: string[] = [];
  const server = createServer((request, response) => {
    let body = '';
    request.on('data', bytes => {
      body += bytes;
    });
    request.on('end', () => {
      if (request.method === 'GET') {
        const isModels = request.url === '/v1/models';
        response.writeHead(isModels ? 200 : 404, { 'content-type': 'application/json' });
        return response.end(
          isModels ? '{"data":[{"id":"base"},{"id":"a","parent":"base"},{"id":"b","parent":"base"}]}' : '{}',
        );
      }
      const { model, messages, stream } = JSON.parse(body);
      if (stream !== true) {
        const prompt_tokens = 10 + messages[0].content.length;
        return response.setHeader('content-type', 'application/json').end(
          JSON.stringify({
            choices: [{ message: { content: 'x' }, finish_reason: 'stop' }],
            usage: { prompt_tokens, completion_tokens: 1 },
          }),
        );
      }
      names.push(model);
      response
        .setHeader('content-type', 'text/event-stream')
        .end(`${content('x')}${finished}${usage(1)}${DONE}`);
    });
  });
  await new Promise<void>(listening => server.listen(0, '127.0.0.1', listening));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
  const at = folder();
  const made = await fw(
    `fw bench --endpoint ${url} --model base ${SMALL} --lora a,b --requests 6 --warmup 0`,
    { cwd: at },
  );
  const own = {
    custom_id: 'x',
    method: 'POST',
    url: '/v1/chat/completions',
    body: { model: 'base', messages: [] },
  };
  const mine = await fw(`fw bench --endpoint ${url} --lora b --requests 1 --warmup 0`, {
    cwd: at,
    stdin: `${JSON.stringify(own)}\n`,
  });
  const wrong = await fw(`fw bench --endpoint ${url} --model base ${SMALL} --lora a,c`, { cwd: at });
  await new Promise(closed => {
    server.close(closed);
    server.closeAllConnections();
  });
  expect([made.code, mine.code, wrong.code], made.stderr + mine.stderr + wrong.stderr).toEqual([0, 0, 64]);
  expect(names).toEqual(['a', 'b', 'a', 'b', 'a', 'b', 'b']);
  expect(made.stderr).toContain('for a, b in turn');
  expect(wrong.stderr).toContain('c');
});

describe("the user's own requests", () => {
  const items = ['first', 'second', 'third'].map((prompt, row) => ({ id: `i${row}`, row: row + 1, prompt }));
  const lines = (list: readonly object[]): string => list.map(each => `${JSON.stringify(each)}\n`).join('');

  test('items are asked as their agents ask them, as far as their answers are known', async () => {
    const { url, asked } = await start();
    const at = folder();
    const whole = await fw(`fw chain --endpoint ${url} 2> /dev/null > whole.ndjson`, {
      cwd: at,
      stdin: lines(items),
    });
    expect(whole.code).toBe(0);
    const chained = asked
      .splice(0)
      .map(({ body }) => JSON.stringify(body.messages))
      .sort();
    const ran = await fw(`fw bench whole.ndjson --endpoint ${url} --concurrency 3 --warmup 0 --json b.json`, {
      cwd: at,
    });
    expect(ran.code, ran.stderr).toBe(0);
    const result = read(join(at, 'b.json'));
    expectValid(result);
    // four agents and the decision, of three items
    expect(result).toMatchObject({ num_prompts: 15, completed: 15 });
    const again = asked.map(({ body }) => JSON.stringify(body.messages)).sort();
    expect(again).toEqual(chained);

    asked.splice(0);
    const bare = await fw(`fw bench --endpoint ${url} --warmup 0 --requests 5`, {
      cwd: at,
      stdin: lines(items),
    });
    expect(bare.code, bare.stderr).toBe(0);
    expect(asked.map(({ body }) => body.messages.at(-1)?.content)).toEqual([
      'first',
      'second',
      'third',
      'first',
      'second',
    ]);
    expect(bare.stderr).toContain('2 requests had been asked before');
  });

  test('lines of a batch file go as they are, as streams where that can be', async () => {
    const { url, asked } = await start();
    const chat = {
      custom_id: 'a',
      method: 'POST',
      url: '/v1/chat/completions',
      body: { model: 'simulated-3b', messages: [{ role: 'user', content: 'hi' }], max_tokens: 5 },
    };
    const embedding = {
      custom_id: 'b',
      method: 'POST',
      url: '/v1/embeddings',
      body: { model: 'simulated-3b', input: 'hi' },
    };
    const ran = await fw(`fw bench --endpoint ${url} --warmup 0`, {
      stdin: lines([chat, embedding]),
    });
    expect(ran.code, ran.stderr).toBe(0);
    expect(asked.map(({ body }) => body)).toEqual([
      { ...chat.body, stream: true, stream_options: { include_usage: true } },
      embedding.body,
    ]);
    expect(ran.stdout).toContain('Successful requests:                     2');
  });

  test.each([
    ['', /expected items, or lines of a batch file, found none/],
    ['id,prompt\na,b\nc,d\n', /found what looks like a CSV table.*\n.*fw ingest \| fw bench/],
    ['{"id":"a"}\n', /line 1: expected a prompt, messages, or a request, found none/],
    [
      '{"id":"a","prompt":"x"}\n[1]\n',
      /line 2: expected something to ask, found a failed line: not-an-object/,
    ],
    [
      '{"custom_id":"a","method":"GET","url":"/v1/models","body":{}}\n',
      /line 1: expected the method POST, found "GET"/,
    ],
    [
      '{"custom_id":"a","method":"POST","url":"http://x/","body":{}}\n',
      /line 1: expected a path of the server/,
    ],
    [
      '{"custom_id":"a","method":"POST","url":"/v1/completions","body":{"n":3}}\n',
      /line 1: expected one answer of a request/,
    ],
  ])('%j ends with 65', async (stdin, message) => {
    const { url } = await start();
    const ran = await fw(`fw bench --endpoint ${url}`, { stdin });
    expect([ran.code, ran.stdout]).toEqual([65, '']);
    expect(ran.stderr).toMatch(message);
  });
});

test('failures are counted by cause, end with 1, and are in no latency', async () => {
  const { url } = await start({ faults: '429=0.3,drop=0.2' });
  const at = folder();
  const ran = await fw(
    `fw bench --endpoint ${url} ${SMALL} --concurrency 4 --requests 60 --warmup 0 --json b.json`,
    { cwd: at },
  );
  expect(ran.code, ran.stderr).toBe(1);
  const result = read(join(at, 'b.json'));
  expectValid(result);
  expect(result.completed + result.failed).toBe(60);
  expect(result.fw.failures.reduce((sum: number, { count }: { count: number }) => sum + count, 0)).toBe(
    result.failed,
  );
  expect(result.fw.failures.map(({ cause }: { cause: string }) => cause)).toContain('HTTP 429');
  expect(result.fw.e2el_due_ms.n).toBe(result.completed);
  expect(result.total_output_tokens).toBe(8 * result.completed);
  expect(ran.stderr).toMatch(/requests? failed: call-failed, HTTP 429/);
});

test('two servers share a load, and each of one, of two has as much', async () => {
  const servers = [await start(), await start()];
  const [one, two] = servers.map(({ url }) => `--endpoint ${url}`);
  const at = folder();
  const ran = await fw(
    `fw bench ${one} ${two} --endpoints-up-to ${SMALL} --concurrency 2 --requests 6 --repeat 2 --warmup 0 --json b.json`,
    { cwd: at },
  );
  expect(ran.code, ran.stderr).toBe(0);
  const all = read(join(at, 'b.json'));
  for (const result of all) expectValid(result);
  expect(
    all.map(
      ({
        fw: { run, endpoints },
        completed,
        max_concurrency,
      }: {
        fw: { run: number; endpoints: string[] };
        completed: number;
        max_concurrency: number;
      }) => [run, endpoints.length, completed, max_concurrency],
    ),
  ).toEqual([
    [1, 1, 6, 2],
    [1, 2, 12, 4],
    [2, 1, 6, 2],
    [2, 2, 12, 4],
  ]);
  const [first = 0, second = 0] = servers.map(({ asked }) => asked.length);
  expect(first + second).toBe(2 + 2 * (6 + 12));
  expect(second).toBeGreaterThan(2);
  expect(ran.stderr).toContain('means over runs');
});

test('a sweep begins with one at a time, and ends where the server is full', async () => {
  const { url } = await start({ latency: '2ms' });
  const at = folder();
  const ran = await fw(`fw bench --endpoint ${url} ${SMALL} --sweep --requests 8 --warmup 1 --json b.json`, {
    cwd: at,
  });
  expect(ran.code, ran.stderr).toBe(0);
  const loads = read(join(at, 'b.json')).map(({ fw: { load } }: { fw: { load: object } }) => load);
  expect(loads.slice(0, 2)).toEqual([
    { kind: 'closed', concurrency: 1 },
    { kind: 'closed', concurrency: 8 },
  ]);
});

describe('ends', () => {
  test.each([
    ['--endpoint http://127.0.0.1:1/v1', 69, /connection refused/],
    ['', 64, /expected an endpoint to ask, found none/],
    ['--endpoint URL --concurrency 0', 64, /--concurrency: expected whole numbers from 1/],
    ['--endpoint URL --concurrency 1,1', 64, /found '1' twice; --repeat/],
    ['--endpoint URL --rate -2', 64, /--rate/],
    ['--endpoint URL --rate 1e9', 64, /--rate: expected requests a second/],
    ['--endpoint URL --rate inf', 64, /--rate inf: expected --requests/],
    ['--endpoint URL --requests 5 --duration 5s', 64, /found both/],
    ['--endpoint URL --ramp 1-5', 64, /--ramp: expected FROM:TO\/TIME/],
    ['--endpoint URL --ramp 1:5/5s --rate 2', 64, /expected --ramp, or --concurrency/],
    ['--endpoint URL --ramp 1:5/5s --requests 2', 64, /--ramp alone, which sets its own duration/],
    ['--endpoint URL --lora a,,b', 64, /--lora: expected up to 100 different names/],
    ['--endpoint URL --sweep --rate 2', 64, /a sweep finds its own loads/],
    ['--endpoint URL --burstiness 0', 64, /--burstiness: expected 0.01 to 1000/],
    ['--endpoint URL --json x/same --csv ./x/same', 64, /found .*same for --json and --csv/],
    ['--endpoint URL --goodput itl:5', 64, /--goodput: expected ttft, tpot or e2el/],
    ['--endpoint URL --goodput ttft:5,ttft:6', 64, /expected ttft once/],
    ['--endpoint URL --prefix-tokens 60', 64, /--prefix-tokens: expected fewer than/],
    ['--endpoint URL --output-tokens 9000', 64, /fit into the 8192 tokens of the model/],
    ['--endpoint URL items.ndjson', 65, /found none: items\.ndjson/],
    ['--endpoint URL --model other', 64, /other/],
  ])('%j with its own code, and nothing on stdout', async (flags, code, message) => {
    const { url } = flags.includes('URL') ? await start() : { url: '' };
    const ran = await fw(`fw bench --input-tokens 60 ${flags.replace('URL', url)}`);
    expect([ran.code, ran.stdout], ran.stderr).toEqual([code, '']);
    expect(ran.stderr).toMatch(message);
  });

  test('a server that closes each connection behind its answer costs no request', async () => {
    const stream = `${content('a')}${content('b')}${finished}${usage(2)}${DONE}`;
    const server = createNetServer(socket => {
      socket.on('error', () => {});
      let asked = '';
      socket.on('data', bytes => {
        asked += bytes;
        if (asked.startsWith('GET'))
          return void socket.end(reply('application/json', '{"data":[{"id":"m"}]}', 'close'));
        const length = Number(/content-length: (\d+)/.exec(asked)?.[1]);
        if (asked.length < asked.indexOf('\r\n\r\n') + 4 + length) return;
        // it says that the connection stays, and closes it, as llama.cpp does
        socket.end(reply('text/event-stream', stream, 'keep-alive'));
      });
    });
    const reply = (type: string, body: string, connection: string): string =>
      `HTTP/1.1 200 OK\r\nContent-Type: ${type}\r\nContent-Length: ${body.length}\r\nConnection: ${connection}\r\n\r\n${body}`;
    await new Promise<void>(listening => server.listen(0, '127.0.0.1', listening));
    const { port } = server.address() as AddressInfo;
    const item = {
      custom_id: 'a',
      method: 'POST',
      url: '/v1/chat/completions',
      body: { model: 'm', messages: [] },
    };
    const ran = await fw(
      `fw bench --endpoint http://127.0.0.1:${port}/v1 --requests 20 --warmup 0 --concurrency 3`,
      { stdin: `${JSON.stringify(item)}\n` },
    );
    await new Promise(closed => server.close(closed));
    expect(ran.code, ran.stderr).toBe(0);
    expect(ran.stdout).toContain('Successful requests:                     20');
    expect(ran.stdout).toContain('Total generated tokens:                  40');
  });

  test('a server that does not stream, and counts no tokens of a stream, is measured as far as that goes', async () => {
    // counts the tokens of a whole answer, and answers all requests so
    const server = createServer((request, response) => {
      request.resume().on('end', () => {
        response.setHeader('content-type', 'application/json');
        if (request.method === 'GET') return response.end('{"data":[{"id":"m"}]}');
        response.end(
          JSON.stringify({
            choices: [{ message: { content: 'x' }, finish_reason: 'stop' }],
            usage: { prompt_tokens: 10 + seen++ },
          }),
        );
      });
    });
    let seen = 0;
    await new Promise<void>(listening => server.listen(0, '127.0.0.1', listening));
    const { port } = server.address() as AddressInfo;
    const ran = await fw(`fw bench --endpoint http://127.0.0.1:${port}/v1 ${SMALL} --requests 3 --warmup 0`);
    await new Promise(closed => {
      server.close(closed);
      server.closeAllConnections();
    });
    expect(ran.code, ran.stderr).toBe(0);
    expect(ran.stderr).toContain('no answer was streamed: there is no TTFT');
  });
});
