/**
 * Imports point one way, and enter an area by its door, so that each area can be read, tested and replaced without those
 * above it. The areas, their order and their doors are the table in docs/design.md.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';
import { expect, test } from 'vitest';
import { ROOT } from './fw.ts';

interface Area {
  path: string;
  /** the files that others may import; null: all */
  door: ReadonlySet<string> | null;
}

/** From the top: an area imports itself and the doors of those behind it. */
const AREAS: readonly Area[] = readFileSync(join(ROOT, 'docs/design.md'), 'utf8')
  .split('\n')
  .filter(line => /^\| `[a-z/]+` \|/.test(line))
  .map(line => {
    const [path, , door] = line
      .split('|')
      .slice(1)
      .map(cell => cell.trim());
    const area = (path as string).slice(1, -1);
    const files = [...(door as string).matchAll(/`([^`]+)`/g)].map(found => `${area}/${found[1]}.ts`);
    return { path: area, door: door === 'all' ? null : new Set(files) };
  });

const files = ['bin', 'engine', 'products', 'stages'].flatMap(top =>
  readdirSync(join(ROOT, top), { recursive: true, encoding: 'utf8' })
    .filter(name => name.endsWith('.ts'))
    .map(name => join(top, name)),
);
const textOf = (file: string): string => readFileSync(join(ROOT, file), 'utf8');
const importsOf = (file: string): string[] =>
  [...textOf(file).matchAll(/(?:from|import\() ?'([^']+)'/g)].map(match => match[1] as string);
const areaOf = (file: string): number => AREAS.findIndex(({ path }) => file.startsWith(`${path}/`));
/** Each file with the files of ours that it imports. */
const targets = new Map(
  files.map(file => [
    file,
    importsOf(file)
      .filter(name => name.startsWith('.'))
      .map(name => relative(ROOT, resolve(ROOT, file, '..', name))),
  ]),
);
const arrows = files.flatMap(file => (targets.get(file) as string[]).map(to => [file, to] as const));

test('every file is in an area, and every door is there', () => {
  expect(AREAS.length).toBeGreaterThan(15);
  expect(files.filter(file => areaOf(file) < 0)).toEqual([]);
  expect(
    AREAS.flatMap(({ door }) => [...(door ?? [])]).filter(file => !existsSync(join(ROOT, file))),
  ).toEqual([]);
});

test('imports point downwards, from area to area', () => {
  const upwards = arrows.filter(([from, to]) => areaOf(to) < areaOf(from)).map(arrow => arrow.join(' → '));
  expect(upwards).toEqual([]);
});

test('an area is entered by its door', () => {
  const past = arrows.filter(([from, to]) => {
    const door = AREAS[areaOf(to)]?.door;
    return areaOf(from) !== areaOf(to) && door && !door.has(to);
  });
  expect(past.map(arrow => arrow.join(' → '))).toEqual([]);
});

test('a door has no more files than somebody comes in by', () => {
  const entered = new Set(
    [
      ...arrows,
      ...['index.ts', 'answers.ts', 'errors.ts', 'simulator.ts'].flatMap(entry =>
        importsOf(entry).map(name => [entry, relative(ROOT, resolve(ROOT, name))] as const),
      ),
    ]
      .filter(([from, to]) => areaOf(from) !== areaOf(to))
      .map(([, to]) => to),
  );
  expect(AREAS.flatMap(({ door }) => [...(door ?? [])]).filter(file => !entered.has(file))).toEqual([]);
});

test('no file imports itself by way of others', () => {
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
  const sources = [
    'engine/audit/merge-files.ts',
    'engine/core/files/ndjson-in.ts',
    'engine/tables/read-table.ts',
  ];
  const joints = (file: string): boolean => file.startsWith('engine/flow/') || file.startsWith('stages/');
  expect(users.filter(file => !joints(file)).sort()).toEqual(sources);
});

test('one way to HTTP: the bundle has no more of undici than its client', () => {
  const users = files.filter(file => importsOf(file).includes('undici'));
  expect(users.sort()).toEqual([
    'engine/asking/endpoints/exchange.ts',
    'engine/asking/endpoints/wire.ts',
    'products/measure/bench/bench-wire.ts',
  ]);
});

test('ajv and yaml are loaded by who needs them: of their packages the sources import types alone', () => {
  const loading = /^import (?!type\b)[^;]*'(?:ajv|yaml)\b/m;
  expect(files.filter(file => loading.test(textOf(file)))).toEqual([]);
});

test('only bin/fw.ts ends the process', () => {
  const enders = files.filter(file => textOf(file).includes('process.exit('));
  expect(enders).toEqual(['bin/fw.ts']);
});

test('no file eats the project', () => {
  const most = (file: string): number => (file.startsWith('stages/') ? 140 : 400);
  expect(files.filter(file => textOf(file).split('\n').length > most(file))).toEqual([]);
});
