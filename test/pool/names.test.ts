/** One model by several names, and a key for each endpoint. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { nearModel, readModelMap, servedNameOf } from '../../engine/asking/endpoints/model-names.ts';
import { poolSettings, readPoolFile } from '../../engine/asking/endpoints/settings.ts';
import type { Fatal } from '../../engine/core/item/failure.ts';
import { folder } from '../fw.ts';
import { callOf, errorOf, open, serve } from './serving.ts';

const LLAMA = 'meta-llama/Llama-3.2-3B-Instruct';

test.each([
  [LLAMA, ['llama3.2:3b'], 'llama3.2:3b'],
  ['llama3.2:3b', [LLAMA, 'lora'], LLAMA],
  ['llama3.2', ['llama3.2:latest'], 'llama3.2:latest'],
  [LLAMA, ['llama3.2:latest', 'mistral:latest'], 'llama3.2:latest'],
  [LLAMA, [LLAMA, 'llama3.2:3b'], LLAMA],
  ['lora', ['m', 'lora'], 'lora'],
  ['llama3.2:1b', [LLAMA], null],
  ['llama3.2:3b-instruct-fp16', ['llama3.2:3b'], null],
  ['x', [], null],
])('%s of %j is %s', (wanted, served, name) => {
  expect(servedNameOf(wanted, served)).toBe(name);
});

test('two served names of one model are for a person to choose from', () => {
  expect(() => servedNameOf(LLAMA, ['llama3.2:3b', 'llama3.2:latest'])).toThrow('say which is meant');
});

test('the names of a file of one’s own count before those of fw', () => {
  const path = join(folder(), 'names.yaml');
  writeFileSync(path, `${LLAMA}: [/models/tiny.gguf]\njudge: [llama3.2]\n`);
  const map = readModelMap(path);
  expect(servedNameOf(LLAMA, ['/models/tiny.gguf', 'llama3.2:latest'], map)).toBe('/models/tiny.gguf');
  expect(servedNameOf('judge', ['llama3.2:latest'], map)).toBe('llama3.2:latest');
  expect(servedNameOf('qwen2.5:7b', ['Qwen/Qwen2.5-7B-Instruct'], map)).toBe('Qwen/Qwen2.5-7B-Instruct');
  writeFileSync(path, 'a: b\n');
  expect(() => readModelMap(path)).toThrow(`${path}:1:4: a: expected array, found "b"`);
});

test.each([
  ['Llama-3.2-3B-Instruct', [LLAMA], LLAMA],
  [
    'meta-llama/Llama-3.2-3B',
    ['x', '/models/Llama-3.2-3B-Instruct-Q4_K_M.gguf'],
    '/models/Llama-3.2-3B-Instruct-Q4_K_M.gguf',
  ],
  ['lamma3.2:3b', ['mistral', 'llama3.2:3b'], 'llama3.2:3b'],
  ['gpt', [LLAMA], null],
])('for %s, served %j, near is %s', (wanted, served, near) => {
  expect(nearModel(wanted, served)).toBe(near);
});

test('calls carry the served name, that of an agent too, and a person is told', async () => {
  const named: string[] = [];
  const fake = await serve(
    ask => {
      named.push(JSON.parse(ask.body).model);
      ask.answer('hi');
    },
    { models: ['llama3.2:3b', 'qwen2.5:7b'] },
  );
  const pool = await open([fake.url], {
    model: LLAMA,
    models: ['Qwen/Qwen2.5-7B-Instruct'],
    needsDefault: true,
  });
  expect([pool.model, pool.servedAs?.('Qwen/Qwen2.5-7B-Instruct')]).toEqual(['llama3.2:3b', 'qwen2.5:7b']);
  expect(pool.warnings).toEqual([
    `asking for ${LLAMA} as llama3.2:3b, the name that the endpoints list`,
    'asking for Qwen/Qwen2.5-7B-Instruct as qwen2.5:7b, the name that the endpoints list',
  ]);
});

test('one that nobody serves is answered with what is, and what is near', async () => {
  const fake = await serve(() => {}, { models: ['llama3.2:3b', 'mistral:latest'] });
  const error = (await errorOf(open([fake.url], { model: 'llama3.2:3bb' }))) as Fatal;
  expect(error.exit).toBe(64);
  expect(error.message).toContain('llama3.2:3b, mistral:latest\ndid you mean --model llama3.2:3b?');
});

describe('a key for each endpoint', () => {
  const env = { ONE: 'sk-first-endpoint', FW_API_KEY: 'sk-for-all-others' };
  const settingsOf = (yaml: string, environment: NodeJS.ProcessEnv = env) => {
    const path = join(folder(), 'pool.yaml');
    writeFileSync(path, yaml);
    return poolSettings({ pool: readPoolFile(path) }, environment);
  };

  test('is sent to that one alone, and the others get the one for all', async () => {
    const sent: (string | undefined)[] = [];
    const note = (at: number) => (ask: Parameters<Parameters<typeof serve>[0]>[0]) => {
      sent[at] = ask.headers.authorization;
      ask.answer('hi');
    };
    const [a, b] = [await serve(note(0)), await serve(note(1))];
    const { endpoints, key } = settingsOf(
      `endpoints:\n  - { url: "${a.url}", api_key_env: ONE, limit: 1 }\n  - { url: "${b.url}", limit: 1 }\n`,
    );
    const pool = await open(endpoints, { key });
    await Promise.all([pool.call(callOf()), pool.call(callOf())]);
    expect(sent).toEqual(['Bearer sk-first-endpoint', 'Bearer sk-for-all-others']);
  });

  test('is named where it is refused, and kept out of what the endpoint says', async () => {
    const fake = await serve(() => {}, {
      onModels: response => void response.writeHead(401).end('{"error":"no key sk-first-endpoint"}'),
    });
    const { endpoints, key } = settingsOf(`endpoints: [{ url: "${fake.url}", api_key_env: ONE }]`);
    const { message } = await errorOf(open(endpoints, { key }));
    expect(message).toContain('the key of $ONE was refused');
    expect(message).not.toContain('sk-first');
  });

  test('has to be there; the one for all only where an endpoint has none of its own', () => {
    const yaml = 'endpoints: [{ url: "http://a/v1", api_key_env: ONE }]\napi_key_env: ALL\n';
    expect(settingsOf(yaml).key).toBeUndefined();
    expect(() => settingsOf(yaml, {})).toThrow('expected an API key in $ONE, found it unset or empty');
    expect(() => settingsOf(yaml.replace('api_key_env: ONE', 'limit: 3'))).toThrow('in $ALL');
  });

  test('is not shown where somebody wrote the key in the place of the name', () => {
    const yaml = 'endpoints: [{ url: "http://a/v1", api_key_env: sk-first-endpoint }]\n';
    expect(() => settingsOf(yaml)).toThrow('in the named environment variable, found it unset');
  });
});
