/** A choice of models: the same items through several servers, and what the table, the file and the page say of each. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Browser } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { wilson } from '../../products/kit/statistics.ts';
import { type Quality, qualityOf } from '../../products/measure/models/answer-figures.ts';
import { modelsPage } from '../../products/measure/models/models-page.ts';
import { type ModelsJson, modelsJson } from '../../products/measure/models/models-result.ts';
import { type Simulator, type SimulatorOptions, startSimulator } from '../../products/simulator/simulator.ts';
import { CHROMIUM, startChromium } from '../chromium.ts';
import { folder, ROOT } from '../fw.ts';
import { fw } from '../here.ts';

const running: Simulator[] = [];
afterEach(() => Promise.all(running.splice(0).map(each => each.close())));

async function start(options: SimulatorOptions = {}): Promise<{ url: string; prompts: string[] }> {
  const prompts: string[] = [];
  const simulator = await startSimulator({
    latency: '2ms',
    ...options,
    onRequest: ({ body }) => void prompts.push(JSON.stringify(JSON.parse(body).messages)),
  });
  running.push(simulator);
  return { url: simulator.url, prompts };
}

/** A folder with a pipeline of one agent that says yes or no, and a table whose rows have an answer. */
function study(): string {
  const at = folder();
  mkdirSync(join(at, 'desk'));
  writeFileSync(
    join(at, 'desk/judge.yaml'),
    `key: judge
short: judge
display: Judge
role: agent
persona: You judge.
schema: { type: object, required: [verdict], additionalProperties: false, properties: { verdict: { enum: ['yes', 'no'] } } }
sampling: { temperature: 0, max_tokens: 50 }
`,
  );
  writeFileSync(
    join(at, 'pipe.yaml'),
    'input: none.csv\nstages:\n  - ingest: {}\n  - agent-step: { agent: judge, agents: desk }\n  - verify: {}\noutput: never.ndjson\n',
  );
  const rows = Array.from({ length: 12 }, (_, i) => `row ${i},${i % 2 === 0 ? 'yes' : 'no'}`);
  writeFileSync(join(at, 'rows.csv'), `prompt,truth\n${rows.join('\n')}\n`);
  return at;
}

const read = (at: string, name: string) => JSON.parse(readFileSync(join(at, name), 'utf8'));

test('each model gets the same items; speed, validity, agreement and cost stand side by side', async () => {
  const [good, bad] = [await start(), await start({ faults: 'fence=0.3,truncated=0.3' })];
  const at = study();
  const file = (more: string): void =>
    writeFileSync(
      join(at, 'models.yaml'),
      `pipeline: pipe.yaml
input: rows.csv
limit: 10
outcome: verdict
label: truth
out: kept
${more}models:
  - { name: good, pool: { endpoints: [ ${good.url} ] }, price: 2 }
  - { name: bad, pool: pool.yaml, gpus: 4, price: 0.5 }
`,
    );
  writeFileSync(join(at, 'pool.yaml'), `endpoints: [ ${bad.url} ]\n`);
  file('');
  const ran = await fw('fw bench models.yaml --json m.json --csv m.csv --html m.html', { cwd: at });
  expect([0, 1], ran.stderr).toContain(ran.code);
  expect(ran.stdout).toMatch(
    /^quality +items +accepted +valid at first try +as truth\n(?:.*\n){3}speed and cost +items\/s/,
  );
  expect(existsSync(join(at, 'never.ndjson'))).toBe(false);
  // what did not fit is asked again, with the answer behind the prompt
  const asked = (prompts: string[]): string[] =>
    [...new Set(prompts.filter(text => !text.includes('assistant')))].sort();
  expect(asked(good.prompts)).toEqual(asked(bad.prompts));
  expect(asked(good.prompts)).toHaveLength(10);

  const all = read(at, 'm.json');
  expect(all).toMatchObject({ bench_models: 1, items: 10, label: 'truth', pipeline: 'pipe.yaml' });
  const [first, second] = all.models;
  expect(first).toMatchObject({ name: 'good', broken: null, items: 10, accepted: 10, calls: 10, gpus: 1 });
  expect(first.first_try.value).toBe(1);
  expect(first.rungs).toEqual({ clean: 10 });
  // what was kept says how often it was right, counted here by hand
  const kept = readFileSync(join(at, 'kept/good.ndjson'), 'utf8')
    .trim()
    .split('\n')
    .map(line => JSON.parse(line));
  const right = kept.filter(({ input, steps }) => input.truth === steps[0].output.verdict).length;
  expect(first.label).toMatchObject({ matched: 10, share: { value: right / 10 } });
  expect(first.cost_per_1000_items).toBeCloseTo((2 * 1 * first.seconds * 1000) / 3600 / 10, 9);
  expect(second.cost_per_1000_items).toBeCloseTo((0.5 * 4 * second.seconds * 1000) / 3600 / 10, 9);
  expect(second.first_try.value).toBeLessThan(1);
  const rungs: number[] = Object.values(second.rungs);
  expect(rungs.reduce((sum, n) => sum + n, 0)).toBe(10);
  expect(readFileSync(join(at, 'm.csv'), 'utf8').split('\r\n')).toHaveLength(4);
  const page = readFileSync(join(at, 'm.html'), 'utf8');
  expect(page).toContain('Valid at first try');
  expect(page).not.toContain('<script');

  // what was kept can be the reference of the next choice
  file('reference: kept/good.ndjson\n');
  const again = await fw('fw bench models.yaml --json again.json', { cwd: at });
  expect([0, 1], again.stderr).toContain(again.code);
  expect(read(at, 'again.json').models[0].reference).toMatchObject({ matched: 10, share: { value: 1 } });
});

test('a model whose server is not there is named, and the others are measured', async () => {
  const { url } = await start();
  const at = study();
  writeFileSync(
    join(at, 'models.yaml'),
    `pipeline: pipe.yaml
input: rows.csv
models:
  - { name: gone, pool: { endpoints: [ http://127.0.0.1:1/v1 ] } }
  - { name: there, pool: { endpoints: [ ${url} ] } }
`,
  );
  const ran = await fw('fw bench models.yaml --json m.json', { cwd: at });
  expect(ran.code).toBe(1);
  expect(ran.stdout).toMatch(/gone: not measured: expected an endpoint that answers.*connection refused/);
  const [gone, there] = read(at, 'm.json').models;
  expect(gone).toMatchObject({ items: 0, accepted_share: null, cost: null });
  expect(there).toMatchObject({ items: 12, accepted: 12, label: null, reference: null });
});

describe('a file that does not fit ends with its line and column', () => {
  const models = 'models:\n  - { name: a, pool: { endpoints: [ http://127.0.0.1:1/v1 ] } }\n';
  test.each([
    ['pipeline: pipe.yaml\n', 65, /models\.yaml:1:1: expected the key 'models', found none/],
    [
      `pipeline: pipe.yaml\nmodel: x\n${models}`,
      65,
      /models\.yaml:2:1: expected the keys pipeline, .* found 'model'/,
    ],
    [`pipeline: pipe.yaml\nlabel: truth\n${models}`, 65, /outcome/],
    [
      `pipeline: pipe.yaml\n${models}  - { name: A, pool: p.yaml }\n`,
      65,
      /models\.yaml:4:13: expected different names/,
    ],
    [
      `pipeline: pipe.yaml\nmodels:\n  - { name: ../a, pool: p.yaml }\n`,
      65,
      /models\.yaml:3:13: models\.0\.name/,
    ],
    [
      `pipeline: pipe.yaml\nmodels:\n  - { name: a, pool: { endpoints: [ 'ftp://x' ] } }\n`,
      65,
      /models\.yaml:3:.*base URL/,
    ],
    [
      `pipeline: pipe.yaml\nmodels:\n  - { name: a, pool: none.yaml }\n`,
      65,
      /none\.yaml: expected a YAML file/,
    ],
    [`pipeline: other.yaml\n${models}`, 65, /other\.yaml: expected a YAML file/],
    [`pipeline: pipe.yaml\nset: [ chain.x=1 ]\n${models}`, 64, /--set chain\.x=1/],
  ])('%j', async (text, code, message) => {
    const at = study();
    writeFileSync(join(at, 'models.yaml'), text);
    const ran = await fw('fw bench models.yaml', { cwd: at });
    expect([ran.code, ran.stdout], ran.stderr).toEqual([code, '']);
    expect(ran.stderr).toMatch(message);
  });

  test('an option of a load is refused beside it, and a second file', async () => {
    const at = study();
    writeFileSync(join(at, 'models.yaml'), `pipeline: pipe.yaml\n${models}`);
    const load = await fw('fw bench models.yaml --concurrency 4', { cwd: at });
    expect([load.code, load.stderr]).toEqual([
      64,
      expect.stringContaining('--concurrency: expected only --json'),
    ]);
    const two = await fw('fw bench models.yaml rows.csv', { cwd: at });
    expect([two.code, two.stderr]).toEqual([
      64,
      expect.stringContaining('expected one file of models, found 2'),
    ]);
  });
});

test('agreement is over items that are accepted, and kappa over all outcomes', async () => {
  const at = study();
  const item = (id: number, verdict: string, truth: string, more: object = {}) => ({
    id: `i${id}`,
    row: id,
    input: { truth },
    prompt: 'x',
    steps: [
      {
        agent: 'judge',
        output: { verdict },
        raw: JSON.stringify({ verdict }),
        rung: 'clean',
        saw: 'clean',
        repairs: [],
        calls: [],
        attempts: 1,
        ...more,
      },
    ],
  });
  const lines = [
    item(1, 'yes', 'yes'),
    item(2, 'no', 'yes'),
    item(3, 'no', 'no', { attempts: 2 }),
    { ...item(4, 'yes', 'yes'), failure: { stage: 'agent-step', code: 'call-failed', message: 'x' } },
  ];
  const path = join(at, 'items.ndjson');
  writeFileSync(path, lines.map(line => `${JSON.stringify(line)}\n`).join(''));
  const quality = await qualityOf(path, {
    outcome: 'verdict',
    label: 'truth',
    reference: new Map([
      ['i1', 'no'],
      ['i3', 'no'],
      ['i9', 'no'],
    ]),
    agents: 'desk',
    base: at,
    warn: () => {},
  });
  expect(quality).toMatchObject({ items: 4, accepted: 3, answers: 4, left: [['call-failed', 1]] });
  expect(quality.firstTry?.value).toBe(3 / 4);
  expect(quality.label).toMatchObject({ matched: 3, share: { value: 2 / 3 } });
  // po = 2/3, pe = (2/3 · 1/3 + 1/3 · 2/3) = 4/9
  expect(quality.label?.kappa?.value).toBeCloseTo((2 / 3 - 4 / 9) / (1 - 4 / 9), 12);
  expect(quality.reference).toMatchObject({ matched: 2, share: { value: 1 / 2 } });
});

describe.runIf(CHROMIUM !== '')('the page in Chromium', () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await startChromium();
  });
  afterAll(() => browser?.close());

  test.each([
    [1280, 'light'],
    [390, 'dark'],
  ] as const)('%i pixels, %s', async (width, colorScheme) => {
    const wicked = '<b>"\u202e&name</b>';
    const at = folder();
    writeFileSync(join(at, 'models.html'), modelsPage(choiceOf(wicked)));
    const page = await browser.newPage({ viewport: { width, height: 900 }, colorScheme });
    await page.goto(`file://${at}/models.html`);
    const seen = await page.evaluate(readFileSync(join(ROOT, 'test/study/in-page.js'), 'utf8'));
    expect(seen).toMatchObject({ wrong: [], over: 0, scripts: 0, figures: 6 });
    await page.close();
  });
});

/** Three models, of which one could not be asked. */
function choiceOf(text: string): ModelsJson {
  const quality = (hits: number): Quality => ({
    items: 100,
    accepted: hits,
    rungs: { clean: hits, failed: 100 - hits },
    answers: 500,
    firstTry: wilson({ n: 500, hits: 4 * hits }),
    left: [[text, 100 - hits]],
    label: { matched: hits, share: wilson({ n: hits, hits: hits - 10 }), kappa: null },
    reference: { matched: hits, share: wilson({ n: hits, hits: hits - 5 }), kappa: null },
  });
  const model = (name: string, hits: number) => ({
    name,
    endpoints: [text],
    model: text,
    gpus: 2,
    price: 1.5,
    broken: hits === 0 ? text : null,
    seconds: hits,
    calls: 500,
    retries: 3,
    promptTokens: 60_000,
    completionTokens: 20_000,
    cachedTokens: 10_000,
    latency: { p50: 900, p99: 2_000 },
    gpuUse: 0.9,
    quality:
      hits === 0
        ? { ...quality(20), items: 0, rungs: {}, left: [], label: null, reference: null }
        : quality(hits),
  });
  const told = {
    version: '0',
    began: '2026-11-23T03:00:00Z',
    pipeline: text,
    outcome: text,
    label: text,
    reference: text,
  };
  return modelsJson(
    { items: 100, models: [model('a model', 95), model('another one', 80), model('gone', 0)], stopped: null },
    told,
  );
}
