/** Imports point one way, so that each folder can be read, tested and replaced without those above it. */
import { readdirSync, readFileSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';
import { expect, test } from 'vitest';
import { ROOT } from './fw.ts';

const MAY_USE: Record<string, string[]> = {
  'engine/flow': ['engine/integrity'],
  'engine/integrity': ['engine/flow'],
  'engine/simulator': ['schemas'],
  'engine/ledger': ['engine/flow', 'engine/integrity'],
  'engine/pool': ['engine/flow', 'engine/integrity', 'engine/ledger'],
  'engine/agents': ['engine/flow', 'engine/integrity', 'engine/pool'],
  'engine/doctor': ['engine/flow', 'engine/pool'],
  stages: ['engine/flow', 'engine/integrity', 'engine/agents'],
  bin: [
    'engine/flow',
    'engine/integrity',
    'engine/agents',
    'engine/doctor',
    'engine/pool',
    'engine/ledger',
    'engine/simulator',
    'stages',
  ],
};

const files = ['bin', 'engine', 'stages'].flatMap(top =>
  readdirSync(join(ROOT, top), { recursive: true, encoding: 'utf8' })
    .filter(name => name.endsWith('.ts'))
    .map(name => join(top, name)),
);
const importsOf = (file: string): string[] =>
  [...readFileSync(join(ROOT, file), 'utf8').matchAll(/(?:from|import\() ?'([^']+)'/g)].map(
    match => match[1] as string,
  );
const layerOf = (file: string): string =>
  file
    .split('/')
    .slice(0, file.startsWith('engine/') ? 2 : 1)
    .join('/');

test.each(files)('%s imports downwards', file => {
  const layer = layerOf(file);
  const allowed = [layer, ...(MAY_USE[layer] ?? [])];
  for (const target of importsOf(file).filter(name => name.startsWith('.'))) {
    const imported = relative(ROOT, resolve(ROOT, file, '..', target));
    expect(allowed, `${file} imports ${imported}`).toContain(layerOf(imported));
  }
});

test('only the joints know highland', () => {
  const users = files.filter(file => importsOf(file).includes('highland'));
  for (const file of users) expect(['engine/flow', 'stages'], file).toContain(layerOf(file));
});

test('only bin/fw.ts ends the process', () => {
  const enders = files.filter(file => readFileSync(join(ROOT, file), 'utf8').includes('process.exit('));
  expect(enders).toEqual(['bin/fw.ts']);
});

test('no file eats the project', () => {
  for (const file of files) {
    const lines = readFileSync(join(ROOT, file), 'utf8').split('\n').length;
    expect(lines, file).toBeLessThanOrEqual(file.startsWith('stages/') ? 140 : 300);
  }
});
