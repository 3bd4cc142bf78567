/** Who was asked is part of what an answer answers: no model gets the recorded answer of another one. */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, onTestFinished, test } from 'vitest';
import { unnamedIn } from '../../engine/asking/ledger/key-index.ts';
import { callLine } from '../../engine/asking/ledger/ledger-format.ts';
import { startSimulator } from '../../products/simulator/simulator.ts';
import { every } from '../all.ts';
import { linesOf, serve } from '../export/serving.ts';
import { folder } from '../fw.ts';
import { fw } from '../here.ts';
import { anyText, holds, recordOf } from './records.ts';

async function simulated(model: string) {
  const simulator = await startSimulator({ port: 0, seed: 7, model });
  onTestFinished(() => simulator.close());
  return simulator;
}

const LINE = { messages: [{ role: 'user', content: 'Who are you?' }], max_tokens: 10 };
const modelIn = (path: string): string => JSON.parse(readFileSync(path, 'utf8')).response.body.model;

function inFolder(line: object = LINE, url = '/v1/chat/completions') {
  const at = folder();
  writeFileSync(join(at, 'in.jsonl'), linesOf([line], url));
  return {
    at,
    async batch(flags: string): Promise<{ said: string; asked: number; model: string }> {
      const ran = await fw(`fw batch -i in.jsonl -o o.jsonl ${flags}`, { cwd: at });
      expect(ran.code, ran.stderr).toBe(0);
      const [, asked] = /(\d+) calls?\b/.exec(ran.stderr) ?? [];
      return { said: ran.stderr, asked: Number(asked), model: modelIn(join(at, 'o.jsonl')) };
    },
  };
}

test('a line without a model: A, then B, then each again', async () => {
  const [a, b] = [await simulated('A'), await simulated('B')];
  const { at, batch } = inFolder();
  const [toA, toB] = [`--endpoint ${a.url}`, `--endpoint ${b.url}`];
  expect(await batch(toA)).toMatchObject({ asked: 1, model: 'A' });
  const second = await batch(`--model B ${toB}`);
  expect(second).toMatchObject({ asked: 1, model: 'B' });
  expect(second.said).toContain('the ledger has answers of A to requests that name no model; B is asked now');
  expect(second.said).toContain('1 request without a model asked again: the answers on record are of A');
  for (const [flags, model] of [
    [toA, 'A'],
    [`--model A ${toA}`, 'A'],
    [toB, 'B'],
    ['--model A', 'A'],
    ['--model B', 'B'],
    ['', 'B'], // without anybody to ask, that of the last run
  ] as const) {
    const again = await batch(flags);
    expect([flags, again.asked, again.model]).toEqual([flags, 0, model]);
    expect(again.said).not.toContain('asked again');
  }
  const check = await fw('fw ledger check --read-data', { cwd: at });
  expect([check.code, check.stdout]).toEqual([0, expect.stringContaining('calls answered 2 · verdicts 2')]);
  const told = await fw("fw ledger export | jq -c '[.model, .verdict.rung, .again]'", { cwd: at });
  expect(told.stdout).toBe('["A","clean",null]\n["B","clean",null]\n');
  const cost = await fw('fw ledger cost', { cwd: at });
  expect(cost.stdout).toContain('2 calls, 2 answered; 0 tries after the first of a call');
  expect((await fw('fw ledger show line-0', { cwd: at })).stdout.match(/verdict clean/g)).toHaveLength(2);
});

/** The ledger as versions wrote it that kept no model of such a request. */
function madeOld(at: string): void {
  const ledger = join(at, 'ledger');
  for (const name of readdirSync(ledger, { recursive: true, encoding: 'utf8' })) {
    if (!name.endsWith('.ndjson')) continue;
    const lines = readFileSync(join(ledger, name), 'utf8').trimEnd().split('\n');
    const old = lines.map(line => {
      const plain = line
        .replace(/"model":"\w+","unnamed":true/, '"model":""')
        .replace(/(^\{"verdict":.*),"model":"\w+"/, '$1')
        .replace(/,"crc":"\w+"\}$/, '');
      return `${plain},"crc":"${crc32(plain).toString(16).padStart(8, '0')}"}\n`;
    });
    writeFileSync(join(ledger, name), old.join(''));
  }
}

test('an old ledger, which has no model of such a request, is replayed for the model of its run alone', async () => {
  const [a, b] = [await simulated('A'), await simulated('B')];
  const { at, batch } = inFolder();
  await batch(`--endpoint ${a.url}`);
  madeOld(at);
  expect((await batch(`--endpoint ${a.url}`)).asked).toBe(0);
  expect((await batch('')).asked).toBe(0);
  expect(await batch(`--endpoint ${b.url}`)).toMatchObject({ asked: 1, model: 'B' });
  madeOld(at);
  expect(await batch(`--endpoint ${a.url}`)).toMatchObject({ asked: 0, model: 'A' });
  expect(await batch(`--endpoint ${b.url}`)).toMatchObject({ asked: 0, model: 'B' });
  const check = await fw('fw ledger check --read-data', { cwd: at });
  expect([check.code, check.stdout]).toEqual([0, expect.stringContaining('calls answered 2 · verdicts 2')]);
});

test('the model of a request that names none is read from any line, and of any other none', async () => {
  await holds(fc.tuple(anyText, anyText, fc.boolean()), ([model, endpoint, unnamed]) => {
    const record = recordOf({ model, endpoint, ...(unnamed && { unnamed: true as const }) });
    const { before, bytes, after } = callLine(record, '', '');
    const line = Buffer.concat([Buffer.from(before), bytes, Buffer.from(after)]);
    const said = JSON.parse(`${line}}`).model; // as UTF-8 has it
    expect(unnamedIn(line, { model: 'of the run' })).toBe(
      model === '' ? 'of the run' : unnamed ? said : null,
    );
  });
});

describe('its siblings: A, B, A, B cost two calls', () => {
  const item =
    '{"id":"1","prompt":"Who are you?","request":{"method":"POST","url":"/v1/completions","body":{"prompt":"?","max_tokens":4}}}';
  const agent =
    'key: one\ndisplay: One\nshort: o\nrole: agent\npersona: You answer.\nsampling: { temperature: 0, max_tokens: 60 }\n';
  const CASES: [name: string, files: Record<string, string>, line: (model: string, url: string) => string][] =
    [
      ...(['/v1/chat/completions', '/v1/completions', '/v1/embeddings'] as const).map(
        (path): (typeof CASES)[number] => [
          `a line of ${path}`,
          {
            'in.jsonl': linesOf(
              [
                path === '/v1/embeddings'
                  ? { input: 'x' }
                  : path.includes('chat')
                    ? LINE
                    : { prompt: 'x', max_tokens: 3 },
              ],
              path,
            ),
          },
          (_, url) => `fw batch -i in.jsonl -o o.jsonl --endpoint ${url}`,
        ],
      ),
      [
        'a model that is null',
        { 'in.jsonl': linesOf([{ ...LINE, model: null }], '/v1/chat/completions') },
        (model, url) => `fw batch -i in.jsonl -o o.jsonl --model ${model} --endpoint ${url}`,
      ],
      [
        'fw request in a pipe',
        { 'in.jsonl': `${item}\n` },
        (_, url) => `fw request --ledger ledger --endpoint ${url} in.jsonl`,
      ],
      [
        'a pipeline file, a model of the pool file',
        {
          'in.jsonl': linesOf([LINE], '/v1/chat/completions'),
          'p.yaml':
            'input: in.jsonl\nstages:\n  - ingest: { format: openai-batch }\n  - request: {}\noutput: o.ndjson\n',
        },
        (model, url) =>
          `printf 'model: ${model}\\nendpoints: [ ${url} ]\\n' > pool.yaml; fw run p.yaml --set request.pool=$PWD/pool.yaml`,
      ],
      [
        'fw chain, an agent without a model',
        { 'in.jsonl': `${item}\n`, 'agents/one.yaml': agent },
        (_, url) => `fw chain --ledger ledger --agents agents --endpoint ${url} in.jsonl`,
      ],
      [
        'fw chain --model',
        { 'in.jsonl': `${item}\n`, 'agents/one.yaml': agent },
        (model, url) =>
          `fw chain --ledger ledger --agents agents --model ${model} --endpoint ${url} in.jsonl`,
      ],
    ];
  test.each(every(3, CASES))('%s', async (_name, files, line) => {
    const servers = [await simulated('A'), await simulated('B')] as const;
    const at = folder();
    for (const [name, text] of Object.entries(files)) {
      await fw(`mkdir -p $(dirname ${name})`, { cwd: at });
      writeFileSync(join(at, name), text);
    }
    const outs: string[] = [];
    for (const [which, model] of [
      [0, 'A'],
      [1, 'B'],
      [0, 'A'],
      [1, 'B'],
    ] as const) {
      const ran = await fw(line(model, servers[which].url), { cwd: at });
      expect(ran.code, ran.stderr).toBe(0);
      outs.push(ran.stdout);
    }
    expect(servers.map(server => server.counts().requests)).toEqual([1, 1]);
    expect([outs[2], outs[3]]).toEqual([outs[0], outs[1]]);
  });
});

describe('which model a line without one means', () => {
  const answering = (model: string) =>
    serve(
      [model],
      (_asked, response) =>
        void response.end(
          JSON.stringify({
            id: 'x',
            model: `${model}-0613`,
            choices: [{ index: 0, text: model, finish_reason: 'stop' }],
          }),
        ),
    );

  test('of two servers with different ones either; with --model the one that has it', async () => {
    const [a, b] = [await answering('A'), await answering('B')];
    const { batch } = inFolder({ prompt: 'x' }, '/v1/completions');
    const both = `--endpoint ${a.url} --endpoint ${b.url}`;
    const first = await batch(both);
    expect(await batch(both)).toMatchObject({ asked: 0, model: first.model });
    const [known, other] = first.model === 'A-0613' ? ['A', 'B'] : ['B', 'A'];
    expect(await batch(`--model ${known} ${both}`)).toMatchObject({ asked: 0 });
    expect(await batch(`--model ${other} ${both}`)).toMatchObject({ asked: 1, model: `${other}-0613` });
    expect(a.asked.length + b.asked.length).toBe(2);
  });

  test('the name that a server gives itself in its answer is not what was asked', async () => {
    const { url, asked } = await answering('alias');
    const { batch } = inFolder({ prompt: 'x' }, '/v1/completions');
    expect((await batch(`--endpoint ${url}`)).asked).toBe(1);
    expect(await batch(`--endpoint ${url}`)).toMatchObject({ asked: 0, model: 'alias-0613' });
    const named = inFolder({ prompt: 'x', model: 'alias' }, '/v1/completions');
    for (let n = 0; n < 2; n++) expect((await named.batch(`--endpoint ${url}`)).model).toBe('alias-0613');
    expect(asked).toHaveLength(2);
  });

  test('a server of adapters means the model that it lists first, and an adapter where --model names it', async () => {
    const { url, asked } = await serve(
      ['base', 'lora'],
      (_asked, response) =>
        void response.end(
          JSON.stringify({ id: 'x', choices: [{ index: 0, text: 'y', finish_reason: 'stop' }] }),
        ),
    );
    const { at } = inFolder({ prompt: 'x' }, '/v1/completions');
    const run = async (flags: string) =>
      expect((await fw(`fw batch -i in.jsonl -o o.jsonl --endpoint ${url} ${flags}`, { cwd: at })).code).toBe(
        0,
      );
    for (const flags of ['', '--model base', '--model lora', '', '--model lora']) await run(flags);
    expect(asked).toHaveLength(2);
  });
});
