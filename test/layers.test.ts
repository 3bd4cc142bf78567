/** Imports point one way, so that each room can be read, tested and replaced without those above it. */
import { readdirSync, readFileSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';
import { expect, test } from 'vitest';
import { ROOT } from './fw.ts';

/** A room imports only itself and the rooms behind it in this list. */
const ROOMS = [
  'bin',
  'engine/server',
  'engine/shards',
  'engine/tune',
  'engine/plan',
  'engine/models',
  'engine/run',
  'engine/bench',
  'engine/study',
  'engine/doctor',
  'engine/watch',
  'stages',
  'engine/export',
  'engine/audit',
  'engine/legacy',
  'engine/agents',
  'engine/pool',
  'engine/ledger',
  'engine/simulator',
  'engine/flow',
  'engine/table',
  'engine/answer',
  'engine/config',
  'engine/files',
  'engine/item',
  'engine/json',
  'schemas',
];

const files = ['bin', 'engine', 'stages'].flatMap(top =>
  readdirSync(join(ROOT, top), { recursive: true, encoding: 'utf8' })
    .filter(name => name.endsWith('.ts'))
    .map(name => join(top, name)),
);
const textOf = (file: string): string => readFileSync(join(ROOT, file), 'utf8');
const importsOf = (file: string): string[] =>
  [...textOf(file).matchAll(/(?:from|import\() ?'([^']+)'/g)].map(match => match[1] as string);
const roomOf = (file: string): string =>
  file
    .split('/')
    .slice(0, file.startsWith('engine/') ? 2 : 1)
    .join('/');

test('imports point downwards, from room to room', () => {
  const upwards = files.flatMap(file =>
    importsOf(file)
      .filter(name => name.startsWith('.'))
      .map(name => relative(ROOT, resolve(ROOT, file, '..', name)))
      .filter(target => ROOMS.indexOf(roomOf(target)) < ROOMS.indexOf(roomOf(file)))
      .map(target => `${file} imports ${target}`),
  );
  expect(upwards).toEqual([]);
  expect(files.map(roomOf).filter(room => !ROOMS.includes(room))).toEqual([]);
});

test('no file imports itself by way of others', () => {
  const targets = new Map(
    files.map(file => [
      file,
      importsOf(file)
        .filter(name => name.startsWith('.'))
        .map(name => relative(ROOT, resolve(ROOT, file, '..', name))),
    ]),
  );
  /** all that a file imports, at whatever distance */
  const reach = (file: string): Set<string> => {
    const found = new Set<string>();
    const open = [file];
    for (let at = open.pop(); at !== undefined; at = open.pop()) {
      for (const target of targets.get(at) ?? []) {
        if (found.has(target)) continue;
        found.add(target);
        open.push(target);
      }
    }
    return found;
  };
  const reached = new Map(files.map(file => [file, reach(file)]));
  const circles = files
    .filter(file => reached.get(file)?.has(file))
    .map(file =>
      [...(reached.get(file) as Set<string>)]
        .filter(other => reached.get(other)?.has(file))
        .sort()
        .join(' '),
    );
  expect([...new Set(circles)]).toEqual([]);
});

test('only the joints and the sources know highland', () => {
  const users = files.filter(file => importsOf(file).includes('highland'));
  const sources = ['engine/audit/merge.ts', 'engine/files/lines.ts', 'engine/table/table.ts'];
  expect(users.filter(file => !['engine/flow', 'stages'].includes(roomOf(file))).sort()).toEqual(sources);
});

test('one way to HTTP: the bundle has no more of undici than its client', () => {
  const users = files.filter(file => importsOf(file).includes('undici'));
  expect(users.sort()).toEqual(['engine/bench/line.ts', 'engine/pool/exchange.ts', 'engine/pool/wire.ts']);
});

test('only bin/fw.ts ends the process', () => {
  const enders = files.filter(file => textOf(file).includes('process.exit('));
  expect(enders).toEqual(['bin/fw.ts']);
});

test('no file eats the project', () => {
  const most = (file: string): number => (file.startsWith('stages/') ? 140 : 300);
  expect(files.filter(file => textOf(file).split('\n').length > most(file))).toEqual([]);
});
