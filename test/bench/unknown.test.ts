/** What nobody measured is unknown in every output, and is held against nothing. */
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import formats from 'ajv-formats';
import { expect, test } from 'vitest';
import type { Comparison } from '../../products/measure/bench/compare-benches.ts';
import { folder, ROOT } from '../fw.ts';
import { fw } from '../here.ts';
import { content, DONE, finished, usage } from './shapes.ts';

/** A server that streams or not, and counts tokens of the first `counted` answers. */
async function server({ streams = true, counted = 0, fails = false }) {
  let seen = 0;
  const http = createServer((request, response) => {
    request.resume();
    request.on('end', () => {
      if (request.method === 'GET') {
        const models = request.url?.endsWith('/models');
        response.writeHead(models ? 200 : 404, { 'content-type': 'application/json' });
        return void response.end(models ? '{"data":[{"id":"m"}]}' : '{}');
      }
      if (fails) return void response.writeHead(400).end('{"error":{"message":"no"}}');
      const isCounted = seen++ < counted;
      if (streams) {
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        return void response.end(
          `${content('a')}${content('b')}${finished}${isCounted ? usage(2) : ''}${DONE}`,
        );
      }
      const choices = [{ index: 0, message: { role: 'assistant', content: 'a b' }, finish_reason: 'stop' }];
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(
        JSON.stringify({
          choices,
          ...(isCounted && { usage: { prompt_tokens: 11, completion_tokens: 2 } }),
        }),
      );
    });
  });
  await new Promise<void>(listening => http.listen(0, '127.0.0.1', listening));
  const { port } = http.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/v1`,
    close: () => {
      http.closeAllConnections();
      return new Promise(closed => http.close(closed));
    },
  };
}

const ITEM = `${JSON.stringify({ custom_id: 'a', method: 'POST', url: '/v1/chat/completions', body: { model: 'm', messages: [] } })}\n`;

async function benched(at: string, name: string, of: Parameters<typeof server>[0], more = '') {
  const { url, close } = await server(of);
  const ran = await fw(
    `fw bench --endpoint ${url} --requests 20 --warmup 0 --concurrency 2 --json ${name}.json --csv ${name}.csv --html ${name}.html ${more}`,
    { cwd: at, stdin: ITEM },
  );
  await close();
  const text = (ending: string): string => readFileSync(join(at, `${name}.${ending}`), 'utf8');
  const [head = [], row = []] = text('csv')
    .split('\r\n')
    .map(line => line.split(','));
  return {
    ...ran,
    json: JSON.parse(text('json')),
    csv: Object.fromEntries(head.map((column, at) => [column, row[at]])),
    html: text('html'),
  };
}

const ajv = new Ajv2020({ strict: true, allowUnionTypes: true });
formats.default(ajv);
const validate = ajv.compile(JSON.parse(readFileSync(join(ROOT, 'schemas/bench.schema.json'), 'utf8')));

test('a server without usage, one that does not stream, one that fails, beside one that tells all', async () => {
  const at = folder();
  const whole = await benched(at, 'whole', { counted: 20 });
  const uncounted = await benched(at, 'uncounted', {}, '--goodput tpot:50');
  const part = await benched(at, 'part', { counted: 10 });
  const flat = await benched(at, 'flat', { streams: false, counted: 20 });
  const failing = await benched(at, 'failing', { fails: true });
  for (const { json } of [whole, uncounted, part, flat, failing]) {
    validate(json);
    expect(validate.errors).toBeNull();
  }
  const LATENCY = ['mean', 'median', 'std', 'p90', 'p95', 'p99'];
  const keys = (metric: string): string[] => LATENCY.map(figure => `${figure}_${metric}_ms`);
  const TOKENS = ['total_input_tokens', 'total_output_tokens', 'output_throughput', 'total_token_throughput'];
  expect(whole.json.fw.unknown).toEqual([]);
  expect(new Set(uncounted.json.fw.unknown)).toEqual(new Set([...keys('tpot'), ...TOKENS]));
  expect(part.json.fw.unknown).toEqual([]);
  expect(new Set(flat.json.fw.unknown)).toEqual(new Set(['ttft', 'tpot', 'itl'].flatMap(keys)));
  expect(new Set(failing.json.fw.unknown)).toEqual(new Set(['ttft', 'tpot', 'itl', 'e2el'].flatMap(keys)));
  // the keys of vLLM have a number all the same; a table, a page and a person do not
  expect([uncounted.json.mean_tpot_ms, uncounted.json.output_throughput]).toEqual([0, 0]);
  expect([uncounted.json.request_goodput, uncounted.json.fw.steady?.output_throughput ?? null]).toEqual([
    null,
    null,
  ]);
  expect([
    uncounted.csv.mean_tpot_ms,
    uncounted.csv.output_throughput,
    uncounted.csv.request_goodput,
  ]).toEqual([...['', '', '']]);
  expect(Number(uncounted.csv.mean_ttft_ms)).toBeGreaterThan(0);
  expect(uncounted.stdout).toMatch(/^Mean TPOT \(ms\): +nan/m);
  expect(uncounted.stdout).toMatch(/^Output token throughput \(tok\/s\): +nan/m);
  expect(flat.stdout).toMatch(/^Median TTFT \(ms\): +nan/m);
  expect(uncounted.html).toMatch(/Most output tokens a second<\/h3><b>–<\/b>/);
  expect(flat.html).toMatch(/Shortest median TTFT<\/h3><b>– ms<\/b>/);

  const compared = async (b: string) => {
    const line = `fw bench compare whole.json ${b}.json`;
    const { stdout, code } = await fw(`${line} --json`, { cwd: at });
    expect(code).toBe(0);
    const [first] = (JSON.parse(stdout) as { comparisons: Comparison[] }).comparisons;
    const page = await fw(line, { cwd: at });
    const found = first?.differences ?? [];
    return {
      page: page.stdout,
      notes: first?.notes.join('\n') ?? '',
      unknown: found.filter(({ b: of }) => of === null).map(({ key }) => key),
      uncompared: found.flatMap(({ key, why }) => (why === 'answers without usage' ? [key] : [])),
      changes: found.filter(({ a, b: of, change }) => (a === null || of === null) && change !== null),
    };
  };
  const withoutUsage = await compared('uncounted');
  expect(withoutUsage.unknown).toEqual(['output_throughput', 'mean_tpot_ms']);
  expect(withoutUsage.page).toMatch(/mean TPOT ms +\S+ +– +– +– +unknown: not measured in B/);
  expect(withoutUsage.page).not.toContain('−100');
  expect(withoutUsage.notes).toContain('20 answers of B came without usage');
  const half = await compared('part');
  expect([half.unknown, half.uncompared]).toEqual([[], ['output_throughput']]);
  expect((await compared('flat')).unknown).toEqual([
    ...['mean_ttft_ms', 'p99_ttft_ms', 'mean_tpot_ms', 'mean_itl_ms'],
  ]);
  expect((await compared('failing')).unknown).toEqual([
    ...['mean_ttft_ms', 'p99_ttft_ms', 'mean_tpot_ms', 'mean_itl_ms', 'mean_e2el_ms', 'p99_e2el_ms'],
  ]);
  // a file of an older version does not say what is unknown
  const { unknown: _, ...fwOnly } = uncounted.json.fw;
  writeFileSync(join(at, 'old.json'), JSON.stringify({ ...uncounted.json, fw: fwOnly }));
  expect((await compared('old')).unknown).toEqual(withoutUsage.unknown);
});

test('tokens that nobody counted are no 0 in fw ledger cost, fw compare and fw report', async () => {
  const at = folder();
  const ran: string[] = [];
  for (const [name, of] of [
    ['whole', { streams: false, counted: 20 }],
    ['none', { streams: false }],
  ] as const) {
    const { url, close } = await server(of);
    const asked = await fw(
      `fw chain --agents . --ledger ${name} --endpoint ${url} asked.ndjson > ${name}.ndjson`,
      { cwd: prepared(at) },
    );
    await close();
    ran.push(asked.stderr);
    expect(asked.code, asked.stderr).toBe(0);
  }
  const cost = await fw('fw ledger cost --ledger none', { cwd: at });
  expect(cost.stdout).toMatch(/^total +4 +– +– +– /m);
  expect(cost.stdout).toContain('4 answers without usage: their tokens are unknown, and in no sum');
  expect(cost.stdout).toContain('accepted: 4 answers, tokens unknown');
  const json = await fw('fw ledger cost --ledger none --json', { cwd: at });
  expect(JSON.parse(json.stdout).total).toMatchObject({ uncounted: 4, in: 0 });
  const line =
    'fw compare whole.ndjson none.ndjson --agents . --no-decision --agent a --approve "a b" --deny no';
  for (const more of ['', '--ledger whole --ledger none']) {
    const page = await fw(`${line} ${more}`, { cwd: at });
    expect(page.code, page.stderr).toBe(0);
    expect(page.stdout).toMatch(/^whole\.ndjson .* 44 +8\b/m);
    expect(page.stdout).toMatch(/^none\.ndjson .* – +–/m);
  }
  const runs = JSON.parse((await fw(`${line} --json`, { cwd: at })).stdout).runs;
  expect(runs[1].tokens).toEqual({ prompt: null, completion: null, uncounted: 4 });
});

function prepared(at: string): string {
  const agent =
    'key: a\nshort: a\ndisplay: A\nrole: agent\npersona: p\nsampling: { temperature: 0, max_tokens: 9 }\n';
  writeFileSync(join(at, 'a.yaml'), agent);
  const items = [1, 2, 3, 4].map(k => `${JSON.stringify({ id: `r${k}`, prompt: `p${k}` })}\n`);
  writeFileSync(join(at, 'asked.ndjson'), items.join(''));
  return at;
}
