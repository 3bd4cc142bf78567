/**
 * Every folder fixtures/<stage>/<case>/ is a test: `cmd` is a shell line that runs in the folder, expected.ndjson its
 * stdout, each line of expected.err a part of its stderr, `exit` its exit code (0 where there is no such file).
 * `make test` runs the `fw`s of a line in this process, `make test-all` each as a process. With FW_UPDATE=1 the expected
 * files are written anew: the diff is the review.
 */
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Simulator, startSimulator } from '../products/simulator/simulator.ts';
import { stages } from '../stages/index.ts';
import { ROOT } from './fw.ts';
import { fw } from './here.ts';

const FIXTURES = join(ROOT, 'fixtures');
const isFolder = (path: string): boolean => statSync(path).isDirectory();
const foldersIn = (path: string): string[] => readdirSync(path).filter(name => isFolder(join(path, name)));
const read = (path: string): string => (existsSync(path) ? readFileSync(path, 'utf8') : '');

let simulator: Simulator;
beforeAll(async () => {
  simulator = await startSimulator({ port: 0, seed: 7 });
});
afterAll(() => simulator.close());

const cases = foldersIn(FIXTURES).flatMap(stage =>
  foldersIn(join(FIXTURES, stage)).map(name => `${stage}/${name}`),
);

test.each(cases)('fixtures/%s', async name => {
  const path = join(FIXTURES, name);
  const file = (what: string): string => join(path, what);
  const ran = await fw(read(file('cmd')), { cwd: path, env: { FW_ENDPOINT: simulator.url } });
  if (process.env.FW_UPDATE) {
    writeFileSync(file('expected.ndjson'), ran.stdout);
    if (ran.code !== 0) writeFileSync(file('exit'), `${ran.code}\n`);
  }
  expect(ran.stdout, ran.stderr).toBe(read(file('expected.ndjson')));
  for (const line of read(file('expected.err')).split('\n').filter(Boolean))
    expect(ran.stderr).toContain(line);
  expect(ran.code, ran.stderr).toBe(Number(read(file('exit')) || 0));
});

test('every stage has a good, a bad and an edge case', () => {
  for (const stage of Object.keys(stages)) {
    const folder = join(FIXTURES, stage);
    expect(existsSync(folder), `fixtures/${stage}`).toBe(true);
    expect(foldersIn(folder).length, `fixtures/${stage} has cases`).toBeGreaterThanOrEqual(3);
  }
});
