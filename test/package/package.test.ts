/** What is published: nothing but what a run needs, and a run needs nothing else. test/by-hand/node-versions.sh installs it. */
import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { STARTERS } from '../../bin/starters.ts';
import { yamlIn } from '../../engine/core/config/yaml.ts';
import * as library from '../../index.ts';
import { every, slow } from '../all.ts';
import { folder, ROOT } from '../fw.ts';

const { rowOfStage, run } = library;
const MOST_FILES = 160;
const MOST_BYTES = 2_400_000;
/** made at prepack alone, since it takes seconds */
const TYPES = ['answers', 'index', 'simulator'].map(name => `dist/${name}.d.ts`);

interface Packed {
  size: number;
  files: { path: string; size: number }[];
}
let packed: Packed;
let paths: string[];
/** an empty project with the packed files where npm would put them */
let project: string;
const node = (...args: string[]): string =>
  execFileSync(process.execPath, args, { cwd: project, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });

beforeAll(() => {
  const pack = ['pack', '--dry-run', '--json', '--ignore-scripts'];
  [packed] = JSON.parse(execFileSync('npm', pack, { cwd: ROOT, encoding: 'utf8', stdio: 'pipe' })) as [
    Packed,
  ];
  paths = packed.files.map(({ path }) => path).filter(path => !TYPES.includes(path));
  project = folder();
  for (const path of paths) {
    const to = join(project, 'node_modules', 'fairwatch', path);
    mkdirSync(dirname(to), { recursive: true });
    cpSync(join(ROOT, path), to);
  }
});

test('the files are those that a run needs', () => {
  const chunks = readdirSync(join(ROOT, 'dist', 'chunks')).map(name => `dist/chunks/${name}`);
  const pipelines = readdirSync(join(ROOT, 'pipelines'), { recursive: true, withFileTypes: true })
    .filter(entry => entry.isFile())
    .map(({ parentPath, name }) => relative(ROOT, join(parentPath, name)))
    .filter(path => !path.startsWith('pipelines/fairwatch/topologies/')) // examples, for who has the repository
    .filter(path => !path.startsWith('pipelines/loanapp/')) // of use with a file that is not shipped either
    .filter(path => !path.startsWith('pipelines/starters/')); // they are in dist/starters.json
  const schemas = readdirSync(join(ROOT, 'schemas')).filter(name => name.endsWith('.schema.json'));
  const validators = readdirSync(join(ROOT, 'dist', 'validators'));
  expect(paths.sort()).toEqual(
    [
      'CHANGELOG.md',
      'LICENSE',
      'README.md',
      'dist/LICENSES.txt',
      'dist/bin/fw.js',
      'dist/answers.js',
      'dist/index.js',
      'dist/simulator.js',
      'dist/page.json',
      'dist/products/serve/beating.js',
      'dist/products/view/rows/indexer.js',
      'dist/yaml.json',
      'dist/starters.json',
      'fixtures/applications-60.csv',
      'package.json',
      ...chunks,
      ...pipelines,
      ...schemas.map(name => `schemas/${name}`),
      ...validators.map(name => `dist/validators/${name}`),
    ].sort(),
  );
  expect(paths.length + 1).toBeLessThanOrEqual(MOST_FILES);
  expect(packed.size).toBeLessThanOrEqual(MOST_BYTES);
});

test('no package is needed beside it, and the licence of each that is bundled is told', () => {
  const { dependencies, optionalDependencies, scripts } = JSON.parse(
    readFileSync(join(ROOT, 'package.json'), 'utf8'),
  );
  expect([dependencies, scripts.install, scripts.postinstall]).toEqual([undefined, undefined, undefined]);
  expect(Object.keys(optionalDependencies)).toEqual(['@types/highland']); // for who writes TypeScript
  const licences = readFileSync(join(ROOT, 'dist', 'LICENSES.txt'), 'utf8');
  for (const name of ['ajv', 'highland', 'undici', 'yaml', 'yargs']) {
    expect(licences).toMatch(new RegExp(`^${name} [\\d.]+ \\(.+\\)\\n\\n.*(Copyright|License)`, 'ms'));
  }
});

test('every file of the bundle loads, and finds in the others what it imports', () => {
  const chunks = paths.filter(path => path.startsWith('dist/chunks/'));
  const loading = chunks.map(path => `await import('./node_modules/fairwatch/${path}');`).join('\n');
  writeFileSync(join(project, 'all.mjs'), `${loading}\nconsole.log('loaded');\n`);
  expect(node('all.mjs')).toBe('loaded\n');
});

test('a stage that reads lines and writes lines is one file, whose modules need no other', () => {
  const [text = ''] = paths.filter(path => path.startsWith('dist/chunks/text-'));
  const imported = [...readFileSync(join(ROOT, text), 'utf8').matchAll(/^import .* from "(\.[^"]*)"/gm)];
  expect(imported.map(([, from]) => from?.replace(/-[^-]*$/, ''))).toEqual(['./rolldown-runtime']);
});

test('a YAML file of ours holds what the build has read in it, and what somebody has since written into it', () => {
  const path = 'pipelines/fairwatch/agents/risk_manager.yaml';
  const text = readFileSync(join(ROOT, path), 'utf8');
  const anywhere = yamlIn(text, 'elsewhere.yaml', 'agent');
  expect(yamlIn(text, join(ROOT, path), 'agent').value).toEqual(anywhere.value);
  const places = [yamlIn(text, join(ROOT, path), 'agent'), anywhere].map(file => file.placeOf(['persona']));
  expect(places[0]).toBe(join(ROOT, places[1]?.replace('elsewhere.yaml', path) as string));
  const changed = text.replace(/^display: .*$/m, 'display: Another');
  expect(yamlIn(changed, join(ROOT, path), 'agent').value).toHaveProperty('display', 'Another');
  expect(() => yamlIn(`${text}\nmore: 1\n`, join(ROOT, path), 'agent')).toThrow("found 'more'");
});

test('the command runs from there, through the link that npm makes', () => {
  mkdirSync(join(project, 'node_modules', '.bin'));
  const fw = join(project, 'node_modules', '.bin', 'fw');
  symlinkSync('../fairwatch/dist/bin/fw.js', fw);
  expect(node(fw, '--version')).toBe(
    `${JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')).version}\n`,
  );
  const table = join('node_modules', 'fairwatch', 'fixtures', 'applications-60.csv');
  expect(node(fw, 'ingest', '--limit', '2', table).trim().split('\n')).toHaveLength(2);
  const pipeline = join('node_modules', 'fairwatch', 'pipelines', 'fairwatch', 'batch.yaml');
  expect(node(fw, 'run', pipeline, table, '--dry-run')).toContain('60');
  for (const verb of every(8, [
    'chain',
    'validate',
    'verify',
    'doctor',
    'plan',
    'simulate',
    'ledger',
    'explain',
  ]))
    expect(node(fw, verb, '--help')).toContain(verb);
});

slow.each(STARTERS)('%s of fw init gives results on the simulator, from the package alone', async starter => {
  const at = join(project, starter);
  const fw = join(project, 'node_modules', 'fairwatch', 'dist', 'bin', 'fw.js');
  node(fw, 'init', at, '--starter', starter);
  const port = 20_000 + (process.pid % 10_000) + STARTERS.indexOf(starter);
  execFileSync('make', ['try', `PORT=${port}`, `FW=${fw}`], { cwd: at, stdio: 'pipe' });
  const lines = readFileSync(join(at, 'try', 'answers.ndjson'), 'utf8')
    .trim()
    .split('\n');
  expect(lines.map(line => JSON.parse(line).failure)).toEqual(Array(10).fill(undefined));
});

test('the library is found by the name of the package, and nothing behind it', () => {
  writeFileSync(
    join(project, 'use.mjs'),
    `import * as library from 'fairwatch';
     import { createRequire } from 'node:module';
     const { name } = createRequire(import.meta.url)('fairwatch/package.json');
     const hidden = await import('fairwatch/dist/bin/fw.js').catch(error => error.code);
     const lines = [];
     const { outcome } = await library.run(library.ingest({ limit: 2 }).through(library.validate()), {
       inputs: ['node_modules/fairwatch/fixtures/applications-60.csv'],
       output: line => void lines.push(line.id),
     });
     const { readAnswer } = await import('fairwatch/answers');
     const { startSimulator } = await import('fairwatch/simulator');
     const { value, rung } = readAnswer('so: {"a": 1}', { properties: { a: { type: 'number' } } });
     const simulator = await startSimulator();
     const { status } = await fetch(simulator.url + '/models');
     await simulator.close();
     console.log(JSON.stringify({ name, hidden, value, rung, status, outcome, lines: lines.length, exported: Object.keys(library) }));`,
  );
  expect(JSON.parse(node('use.mjs'))).toEqual({
    name: 'fairwatch',
    hidden: 'ERR_PACKAGE_PATH_NOT_EXPORTED',
    value: { a: 1 },
    rung: 'repaired',
    status: 200,
    outcome: 'ok',
    lines: 2,
    exported: Object.keys(library).sort(),
  });
});

slow('the types are whole in one file, and know the options of each stage', () => {
  execFileSync('npm', ['run', '--silent', 'types'], { cwd: ROOT, stdio: 'pipe' });
  for (const path of TYPES) cpSync(join(ROOT, path), join(project, 'node_modules', 'fairwatch', path));
  const types = join(ROOT, 'node_modules', '@types');
  const compilerOptions = {
    strict: true,
    module: 'nodenext',
    target: 'es2023',
    skipLibCheck: false,
    noEmit: true,
  };
  writeFileSync(
    join(project, 'tsconfig.json'),
    JSON.stringify({ compilerOptions: { ...compilerOptions, typeRoots: [types], types: ['node'] } }),
  );
  writeFileSync(
    join(project, 'use.mts'),
    `import { boundedMap, chain, type Facts, type Item, type Items, itemsOf, rowOfStage, run, select, stage, verify } from 'fairwatch';
     import { type Answer, readAnswer } from 'fairwatch/answers';
     import { type Simulator, startSimulator } from 'fairwatch/simulator';
     const twice = rowOfStage(stage({
       name: 'twice',
       summary: 'Each item twice.',
       options: { mark: { type: 'string', default: '!', description: 'What tells them apart.' } },
       through: ({ mark }) => (items: Items) =>
         items.map((item: Item) => [item, { ...item, id: item.id + mark.trim() }]).sequence<Item>(),
     }));
     const row = chain({ endpoint: ['http://gpu1:8005/v1'] }).through(twice({ mark: '?' })).through(select());
     const { outcome, account } = await run(row, { output: (line: Item) => void line, progress: (facts: Facts) => void facts });
     export const [how, calls]: ['ok' | 'failed' | 'stopped', number | undefined] = [outcome, account.asked?.calls];
     for await (const { id } of itemsOf(row, { input: [{ id: 'a', prompt: '?' }] })) console.log(id);
     export const answer: Answer = readAnswer('{}', { type: 'object' });
     export const server: Promise<Simulator> = startSimulator({ seed: 7 });
     export const own: (numbers: Highland.Stream<number>) => Parameters<typeof boundedMap<number, number>>[0] = numbers => numbers;
     // @ts-expect-error no such option
     verify({ expct: 5 });
     // @ts-expect-error a number
     verify({ expect: 'five' });
     // @ts-expect-error an option of our own stage
     twice({ mrk: '?' });`,
  );
  const page = readFileSync(join(ROOT, 'docs/library.md'), 'utf8');
  for (const [at, [, text = '']] of [...page.matchAll(/^```ts\n(.*?)^```$/gms)].entries())
    writeFileSync(join(project, `page-${at}.mts`), text);
  const tsc = join(ROOT, 'node_modules', '.bin', 'tsc');
  expect(spawnSync(tsc, ['--project', project], { encoding: 'utf8' })).toMatchObject({
    status: 0,
    stdout: '',
  });
});

test('the stage in CONTRIBUTING does what its header shows', async () => {
  const page = readFileSync(join(ROOT, 'CONTRIBUTING.md'), 'utf8');
  const [, code = ''] = /```ts\n\/\/ stages\/shorten\.ts\n(.*?)```/s.exec(page) ?? [];
  const [, given, to, printed] = /\$ echo '(.*)' \| fw shorten --to (\d+)\n \* {3}(.*)\n/.exec(code) ?? [];
  const at = folder();
  writeFileSync(join(at, 'shorten.ts'), code.replace("'../engine", `'${ROOT}/engine`));
  writeFileSync(join(at, 'in.ndjson'), `${given}\n`);
  const { default: shorten } = await import(/* @vite-ignore */ join(at, 'shorten.ts'));
  const lines: unknown[] = [];
  const row = rowOfStage(shorten)({ to: Number(to) } as object);
  await run(row, { inputs: [join(at, 'in.ndjson')], output: line => void lines.push(line) });
  expect(lines).toEqual([JSON.parse(printed as string)]);
});
