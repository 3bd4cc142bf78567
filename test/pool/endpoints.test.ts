/** Which endpoints a run asks, from flags, the environment and files; and what is said about wrong ones. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inspect } from 'node:util';
import { expect, onTestFinished, test } from 'vitest';
import {
  FIRST_LIMIT,
  noneNamed,
  type PoolFlags,
  poolOfPipeline,
  poolSettings,
  readPoolFile,
} from '../../engine/asking/endpoints/settings.ts';
import { readYaml } from '../../engine/core/config/yaml.ts';
import type { Fatal } from '../../engine/core/item/failure.ts';

function fatal(run: () => unknown): Fatal {
  try {
    run();
  } catch (error) {
    return error as Fatal;
  }
  throw new Error('expected an error, found none');
}

const refused = (flags: PoolFlags, env: NodeJS.ProcessEnv = {}) => {
  const error = fatal(() => poolSettings(flags, env));
  expect(error.exit).toBe(64);
  return error.message;
};

function fileOf(text: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'pool-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const path = join(folder, 'pool.yaml');
  writeFileSync(path, text);
  return path;
}

test('--endpoint, then the pool file, then FW_ENDPOINTS', () => {
  const env = { FW_ENDPOINTS: 'http://a:1/v1/, https://b/v1' };
  expect(poolSettings({}, env).endpoints).toEqual([
    { url: 'http://a:1/v1', limit: FIRST_LIMIT, pinned: false },
    { url: 'https://b/v1', limit: FIRST_LIMIT, pinned: false },
  ]);
  expect(poolSettings({ endpoint: ['http://c:1'] }, env).endpoints).toEqual([
    { url: 'http://c:1', limit: FIRST_LIMIT, pinned: false },
  ]);
  const pool = {
    endpoints: [{ url: 'http://d/v1', limit: 3 }, { url: 'http://e/v1' }],
    limit: 7,
    model: 'm',
  };
  expect(poolSettings({ pool, inFlight: 9 }, env)).toEqual({
    endpoints: [
      { url: 'http://d/v1', limit: 3, pinned: true },
      { url: 'http://e/v1', limit: 7, pinned: true },
    ],
    model: 'm',
    inFlight: 9,
    key: undefined,
    retryBudget: 0.2,
  });
  expect(poolSettings({ inFlight: 2_001 }, env).endpoints).toMatchObject([
    { limit: FIRST_LIMIT, meant: 1_001 },
    { meant: 1_001 },
  ]);
  expect(poolSettings({ inFlight: 9 }, env).endpoints).toMatchObject([
    { limit: FIRST_LIMIT, meant: 5 },
    { meant: 5 },
  ]);
  expect(poolSettings({ pool, model: 'n' }, env).model).toBe('n');
  expect(refused({ pool, endpoint: ['http://c:1'] })).toContain('found both');
});

test('what is no base URL is refused, with what was meant', () => {
  expect(noneNamed().message).toContain('--endpoint http://HOST:PORT/v1');
  for (const named of ['localhost:8005/v1', 'localhost:8005'])
    expect(refused({ endpoint: [named] })).toContain('did you mean http://localhost:8005/v1?');
  expect(refused({ endpoint: ['ftp://a/v1'] })).toContain('found "ftp://a/v1"');
  expect(refused({ endpoint: ['http://'] })).toContain('--endpoint: expected a base URL');
  expect(refused({}, { FW_ENDPOINTS: 'nonsense' })).toContain('FW_ENDPOINTS: expected a base URL');
  expect(refused({ endpoint: ['http://a/v1', 'http://a/v1/'] })).toContain('http://a/v1 twice');
});

test('credentials in a URL are refused and not repeated', () => {
  for (const url of [
    'http://me:hunter2@host:1/v1',
    'https://hunter2@host:1/v1',
    'http://host:1/v1?key=hunter2',
    'me:hunter2@host:1/v1',
    'http://me:hunter2@[bad/v1',
  ]) {
    expect(refused({ endpoint: [url] })).not.toContain('hunter2');
    expect(refused({}, { FW_ENDPOINTS: url })).not.toContain('hunter2');
    const path = fileOf(`endpoints:\n  - url: "${url}"\n`);
    expect(fatal(() => readPoolFile(path)).message).not.toContain('hunter2');
    const pipeline = fileOf(`stages: [{ verify: {} }]\npool:\n  endpoints: ["${url}"]\n`);
    const told = fatal(() => poolOfPipeline(readYaml(pipeline, 'pipeline')));
    expect(told.message).not.toContain('hunter2');
  }
});

test('the key comes from the environment, and printing the settings does not show it', () => {
  const endpoint = ['http://a/v1'];
  const both = { FW_API_KEY: 'first', OPENAI_API_KEY: 'second' };
  const settings = poolSettings({ endpoint }, both);
  expect(settings.key?.name).toBe('$FW_API_KEY');
  expect(settings.key?.read()).toBe('first');
  expect(inspect(settings, { depth: 9 }) + JSON.stringify(settings) + String(settings.key)).not.toContain(
    'first',
  );
  expect(poolSettings({ endpoint }, { FW_API_KEY: '', OPENAI_API_KEY: 'second\n' }).key?.read()).toBe(
    'second',
  );
  expect(poolSettings({ endpoint }, {}).key).toBe(undefined);
  expect(poolSettings({ endpoint, apiKeyEnv: 'MINE' }, { ...both, MINE: 'third' }).key?.read()).toBe('third');
  expect(refused({ endpoint, apiKeyEnv: 'MINE' }, both)).toContain('API key in $MINE, found it unset');
  expect(refused({ endpoint, apiKeyEnv: 'sk-live-abc' }, both)).not.toContain('sk-live');
  expect(refused({ endpoint }, { FW_API_KEY: 'abc\ndef' })).not.toContain('abc');
});

test('a pool file', () => {
  const path = fileOf(
    'endpoints:\n  - http://a:1/v1/\n  - { url: http://b:1/v1, limit: 4 }\nmodel: m\nin_flight: 20\n',
  );
  expect(readPoolFile(path)).toEqual({
    endpoints: [{ url: 'http://a:1/v1' }, { url: 'http://b:1/v1', limit: 4 }],
    model: 'm',
    in_flight: 20,
  });
});

test.each([
  ['endpoints: [http://a/v1\n', ':2:1', 'expected YAML'],
  ['endpoints: [http://a/v1]\nlimits: 3\n', ':2:1', "found 'limits'"],
  ['endpoints: [http://a/v1]\nlimit: 0\n', ':2:8', '>= 1'],
  ['endpoints:\n  - url: http://a/v1\n    limt: 3\n', ':3:5', "found 'limt'"],
  ['endpoints:\n  - limit: 3\n', ':2:5', "'url'"],
  ['endpoints:\n  - a/v1\n', ':2:5', 'expected a base URL'],
  ['endpoints: []\n', ':1:12', 'fewer than 1'],
  ['model: m\n', ':1:1', "'endpoints'"],
  ['', ':1:1', 'object'],
])('a wrong pool file is told by line and column: %j', (text, place, words) => {
  const { message } = fatal(() => readPoolFile(fileOf(text)));
  expect(message).toContain(`pool.yaml${text === '' ? '' : place}:`);
  expect(message).toContain(words);
});

test.each([
  'endpoints: "http://user:sk-SECRET123@h/v1"\n',
  'endpoints: ["http://user:sk-SECRET123@h/v1"]\n',
  'http://user:sk-SECRET123@h/v1: 8\n',
  'endpoints: [{ url: "http://h/v1", limit: sk-SECRET123 }]\n',
  'sk-SECRET123\n',
  'endpoints: [*sk-SECRET123]\n',
  'endpoints: [http://h/v1]\nretry_budget: sk-SECRET123\n',
])('a wrong pool file is told without what may be a key: %j', text => {
  const { message } = fatal(() => readPoolFile(fileOf(text)));
  expect(message).toMatch(/pool\.yaml(:\d+:\d+)?: /);
  expect(message).not.toContain('SECRET');
  expect(fatal(() => readPoolFile('http://user:sk-SECRET123@h/v1')).message).not.toContain('SECRET');
});

test('the pool of a pipeline file has the same form', () => {
  const read = (pool: string) =>
    poolOfPipeline(readYaml(fileOf(`stages: [{ verify: {} }]\npool:\n  ${pool}\n`), 'pipeline'));
  expect(read('endpoints: [http://a/v1]')).toEqual({ endpoints: [{ url: 'http://a/v1' }] });
  const told = (pool: string) => fatal(() => read(pool)).message;
  expect(told('endpoints: [http://a/v1]\n  size: 1')).toMatch(/:4:3: pool: expected the keys .*found 'size'/);
  expect(told('endpoints: [a]')).toMatch(/:3:15: expected a base URL/);
  expect(told('endpoints: [{ url: http://a, limit: sk-SECRET123 }]')).toMatch(
    /:3:39: pool.endpoints.0.limit: expected integer, found another text$/,
  );
});

test('--endpoint-limit sets the limit of each endpoint that says nothing of its own, and keeps it there', () => {
  const flags = { endpointLimit: 8 };
  expect(poolSettings({ ...flags, endpoint: ['http://a:1/v1'] }, {}).endpoints).toEqual([
    { url: 'http://a:1/v1', limit: 8, pinned: true },
  ]);
  const pool = { endpoints: [{ url: 'http://a:1/v1', limit: 3 }, { url: 'http://b:1/v1' }], limit: 5 };
  expect(poolSettings({ ...flags, pool }, {}).endpoints).toMatchObject([{ limit: 3 }, { limit: 8 }]);
  expect(poolSettings(flags, { FW_ENDPOINTS: 'http://c:1/v1' }).endpoints).toMatchObject([
    { limit: 8, pinned: true },
  ]);
});
