/** What lines call things reaches stderr and paths cut, counted and harmless, however many names there are. */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { folder, ROOT } from '../fw.ts';
import { fw } from '../here.ts';

const good = JSON.parse(readFileSync(join(ROOT, 'fixtures/decided.ndjson'), 'utf8'));
const [step] = good.steps;

const written = (lines: object[]): string => {
  const cwd = folder();
  writeFileSync(join(cwd, 'in.ndjson'), lines.map(line => `${JSON.stringify(line)}\n`).join(''));
  return cwd;
};

test('a hundred thousand agents are 64 and the others', async () => {
  const steps = (from: number) =>
    Array.from({ length: 110_000 }, (_, at) => ({
      agent: `agent ${from + at}`,
      output: {},
      rung: 'clean',
      saw: 'clean',
    }));
  const cwd = written([0, 110_000].map(from => ({ id: `${from}`, prompt: '?', steps: steps(from) })));
  const ran = await fw('fw verify --max-line 20000000 --report report.json in.ndjson', { cwd });
  expect(ran.code, ran.stderr).toBe(1); // nobody knows these agents
  const { agents } = JSON.parse(readFileSync(join(cwd, 'report.json'), 'utf8'));
  expect(Object.keys(agents)).toHaveLength(65);
  expect(agents['(others)'].clean).toBe(219_936);
});

test('names and codes of any length are cut', async () => {
  const long = (at: number): string => `${at} ${'x'.repeat(20_000)}`;
  const lines = Array.from({ length: 200 }, (_, at) => ({
    id: long(at % 100),
    prompt: '?',
    steps: [{ ...step, agent: long(at) }],
    ...(at % 2 === 0 && { failure: { stage: long(at), code: long(at), message: long(at) } }),
  }));
  const cwd = written(lines);
  const ran = await fw('fw verify --report report.json in.ndjson', { cwd });
  expect(ran.code, ran.stderr.slice(0, 2_000)).toBe(1);
  expect(ran.stderr.length).toBeLessThan(64_000);
  expect(readFileSync(join(cwd, 'report.json')).length).toBeLessThan(64_000);
});

test('no name forges a line or reaches the terminal as a command', async () => {
  const evil = 'x\n\u001b[2Jverify: in 1 = 1 clean\r\u202e\u2028';
  const lines = [
    { ...good, id: evil, steps: [{ ...step, agent: evil }], ordering: undefined },
    { ...good, id: evil, failure: { stage: evil, code: evil, message: evil } },
  ];
  const cwd = written(lines);
  for (const command of [
    'fw verify',
    'fw select --failed',
    'fw validate',
    'fw fix-escapes',
    'fw merge in.ndjson',
  ]) {
    const { stderr } = await fw(`${command} in.ndjson > /dev/null`, { cwd });
    expect(stderr, command).not.toMatch(/[^\P{Cc}\n]|\p{Cf}|[\u2028\u2029]/u);
    const name = command.split(' ')[1];
    for (const line of stderr.trimEnd().split('\n')) expect(line).toMatch(new RegExp(`^(${name}: | )`));
    expect(stderr).not.toMatch(/^verify: in 1 /m);
  }
});

test('an ordering that is none is no path, and ends no run', async () => {
  const orderings = [
    good.ordering,
    ['nobody'],
    ['../../up'],
    ['/etc/x'],
    [{ toString: 1 }],
    5,
    { toString: 1 },
    undefined,
  ];
  const many = Array.from({ length: 300 }, (_, at) => [`nobody ${at}`]);
  const cwd = written([...orderings, ...many].map((ordering, at) => ({ ...good, id: `${at}`, ordering })));
  mkdirSync(join(cwd, 'out'));
  writeFileSync(
    join(cwd, 'p.yaml'),
    `stages: [ select: {} ]\noutput: "${join(cwd, 'out', '{ordering}.ndjson')}"\n`,
  );
  const ran = await fw('fw run p.yaml in.ndjson', { cwd });
  expect(ran.code, ran.stderr).toBeLessThanOrEqual(1);
  expect(readdirSync(join(cwd, 'out')).sort()).toEqual([
    'risk_data_regulatory_consumer.ndjson',
    'unordered.ndjson',
  ]);
});
