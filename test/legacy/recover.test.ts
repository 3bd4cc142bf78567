/**
 * Recovery with real processes: results of the older scripts in twelve files, some of them no answers, against servers
 * that fail; by the line of docs/pipelines.md, by a pipeline file, and by make.
 */
import { spawn } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import type { JsonObject } from '../../engine/core/json/pointer.ts';
import { runs } from '../all.ts';
import { binFolder, folder, ROOT } from '../fw.ts';
import { fw } from '../here.ts';
import { type Servers, servers } from '../pipe/servers.ts';

const ROWS = runs(6, 60, 'ROWS');
const RESULTS = 12 * ROWS;
/** the first rows of the fixture */
const CSV = join(folder(), 'applications.csv');
const PIPELINES = join(ROOT, 'pipelines/fairwatch');
const FAULTS = 'chatty=0.1,escape=0.1,null=0.05,zero=0.1,truncated=0.05,429=0.05,500=0.05,drop=0.05';
const TIME = '2026-01-01T00:00:00Z';

interface Result extends JsonObject {
  conversation_history: { agent: string; output: unknown }[];
  all_agent_outputs: unknown[];
  final_output: unknown;
  business_decision: JsonObject;
}

/** Files of results; those of their provenance stand beside them. */
const resultsIn = (path: string): string[] =>
  readdirSync(path).filter(name => /^sequential_.*_legacy\.jsonl?$/.test(name));
const linesOf = (path: string): string[] => readFileSync(path, 'utf8').split('\n').filter(Boolean);
const nameOf = ({ prompt_id, ordering }: JsonObject): string => `${prompt_id}/${ordering}`;
const answersOf = ({ conversation_history: turns, business_decision }: Result): unknown[] => [
  ...turns.map(({ output }) => output),
  business_decision,
];

const made = { approval_decision: 'deny', interest_rate: 25, confidence_probability: 0 };
const error = { ...made, reasoning: { approval_decision_reason: 'System Error: timed out' } };

/** What the older scripts left where an answer had failed: at one of the five places, and in one of these ways. */
function damaged(result: Result, nth: number): { result: Result; place: number } {
  const place = nth % 5;
  if (place === 4) {
    const { business_decision: decision } = result;
    const ways = [
      error,
      { ...decision, confidence_probability: 0 },
      { ...decision, reasoning: 'Parsing Failure' },
    ];
    return { place, result: { ...result, business_decision: ways[nth % 3] as JsonObject } };
  }
  const output = [error, 'ERROR: no connection', { ...error, reasoning: '...' }][nth % 3];
  const turns = result.conversation_history.map((turn, index) =>
    index === place ? { ...turn, output } : turn,
  );
  const outputs = turns.map(turn => turn.output);
  return {
    place,
    result: {
      ...result,
      conversation_history: turns,
      all_agent_outputs: outputs,
      final_output: outputs.at(-1),
    },
  };
}

/** The sound results by name; the files that hold them; which are damaged there, and at which answer. */
const sound = new Map<string, { line: string; isLine: boolean; result: Result }>();
const places = new Map<string, number>();
let faulty: Servers;
const at = folder();

beforeAll(async () => {
  await fw(
    `fw ingest --limit ${ROWS} ${ROOT}/fixtures/applications-60.csv | jq -rs '(.[0].input | keys_unsorted), (.[].input | [.[]]) | @csv' > ${CSV}`,
  );
  const calm = await servers(2);
  faulty = await servers(2, { faults: FAULTS });
  const ran = await fw(
    `fw run ${PIPELINES}/batch.yaml ${CSV} ${calm.flags} --set ingest.orderings=batch4 --set legacy-convert.timestamp=${TIME} --output 'all/{ordering}.jsonl'`,
    { cwd: at },
  );
  expect(ran.code, ran.stderr).toBe(0);
  mkdirSync(join(at, 'old'));
  const files = readdirSync(join(at, 'all'))
    .filter(name => name.endsWith('.jsonl'))
    .sort();
  expect(files).toHaveLength(12);
  for (const [number, file] of files.entries()) {
    const results = linesOf(join(at, 'all', file)).map((line, index) => {
      const result: Result = JSON.parse(line);
      sound.set(nameOf(result), { line, isLine: number % 2 === 1, result });
      const nth = number * ROWS + index;
      if (nth % 7 !== 0) return result;
      const bad = damaged(result, nth);
      places.set(nameOf(result), bad.place);
      return bad.result;
    });
    const name = `sequential_${file.replace('.jsonl', '_legacy')}`;
    if (number % 2 === 0)
      writeFileSync(
        join(at, 'old', `${name}.json`),
        JSON.stringify({ results, status: 'complete' }, null, 2),
      );
    else
      writeFileSync(
        join(at, 'old', `${name}.jsonl`),
        `${results.map(each => JSON.stringify(each)).join('\n')}\n`,
      );
  }
});

/** Every result once, the sound ones as they were, of the others the answers before the damage. */
function expectWhole(lines: string[]): void {
  expect(new Set(lines.map(line => nameOf(JSON.parse(line)))).size).toBe(RESULTS);
  expect(lines).toHaveLength(RESULTS);
  for (const line of lines) {
    const result: Result = JSON.parse(line);
    const before = sound.get(nameOf(result));
    const place = places.get(nameOf(result));
    if (place === undefined) expect(result).toEqual(before?.result);
    else
      expect(answersOf(result).slice(0, place)).toEqual(answersOf(before?.result as Result).slice(0, place));
  }
}

const again = (flags: string, input = ''): string =>
  `fw chain --retry-failed ${flags} ${input} | fw legacy --failures failed.ndjson`;

test('the line of docs/pipelines.md recovers what is no answer, and asks nothing else', async () => {
  const all = join(at, 'all.jsonl');
  const before = faulty.requests();
  const first = await fw(
    `fw ingest --format legacy --source ${CSV} 'old/*' | fw select --failed | ${again(faulty.flags)} | fw merge --old 'old/*' > ${all}`,
    { cwd: at },
  );
  expect(first.stderr).toContain(
    `in ${RESULTS} = 0 clean + 0 repaired + 0 coerced + ${RESULTS - places.size} unknown`,
  );
  expect(first.stderr).not.toMatch(/ at .*\.ts|bug/);
  for (let round = 1; linesOf(join(at, 'failed.ndjson')).length > 0; round++) {
    expect(round).toBeLessThan(12);
    await fw(
      `mv failed.ndjson again.ndjson; ${again(faulty.flags, '< again.ndjson')} | fw merge --old ${all} > next; mv next ${all}`,
      { cwd: at },
    );
  }
  const verified = await fw(`fw verify --expect ${RESULTS} ${all}`);
  expect(verified.code, verified.stderr).toBe(0);
  expectWhole(linesOf(all));
  // five answers less those before the damage, each asked a few times at these rates of faults
  const needed = [...places.values()].reduce((sum, place) => sum + 5 - place, 0);
  expect(faulty.requests() - before).toBeGreaterThanOrEqual(needed);
  expect(faulty.requests() - before).toBeLessThan(needed * 4);
});

test('what came as a line and was sound leaves as its bytes', () => {
  const all = new Set(linesOf(join(at, 'all.jsonl')));
  const kept = [...sound].filter(([name, { isLine }]) => isLine && !places.has(name));
  expect(kept.length).toBeGreaterThan(0.4 * RESULTS);
  for (const [, { line }] of kept) expect(all).toContain(line);
});

/** The same folder as a user's, with links where the project is. */
function checkout(): string {
  const cwd = folder();
  for (const name of ['dist', 'pipelines', 'schemas', 'node_modules', 'package.json'])
    symlinkSync(join(ROOT, name), join(cwd, name));
  symlinkSync(CSV, join(cwd, 'prompts.csv'));
  return cwd;
}

describe('make recover', () => {
  const cwd = checkout();
  const make = (target: string) =>
    fw(`make -s -f ${ROOT}/Makefile -o dist/.built ${target}`, {
      cwd,
      env: { FW_ENDPOINTS: faulty.all.map(({ url }) => url).join() },
    });

  test('takes RESULTS of any origin into out/, a file for each ordering', async () => {
    const ran = await make(`recover RESULTS='${at}/old/*'`);
    expect(ran.code, ran.stderr).toBeLessThanOrEqual(2); // 2: make's, where items failed again
    expect(resultsIn(join(cwd, 'out'))).toHaveLength(12);
    expect(readdirSync(join(cwd, 'out')).filter(name => name.endsWith('.partial'))).toEqual([]);
  });

  test('is run until nothing fails, and says then that nothing did', async () => {
    for (let round = 1; linesOf(join(cwd, 'out/failed.ndjson')).length > 0; round++) {
      expect(round).toBeLessThan(12);
      await make('recover');
    }
    expect((await make('recover')).stdout).toContain('nothing failed');
    const verified = await fw(`fw verify --expect ${RESULTS} 'out/sequential_*_legacy.jsonl'`, { cwd });
    expect(verified.code, verified.stderr).toBe(0);
    const files = resultsIn(join(cwd, 'out'));
    expectWhole(files.flatMap(name => linesOf(join(cwd, 'out', name))));
  });
});

test('the batch given again after a recovery keeps what was recovered', async () => {
  const cwd = checkout();
  const run = (file: string) =>
    fw(
      `fw run pipelines/fairwatch/${file} ${faulty.flags} --set chain.attempts=1 --set legacy-convert.timestamp=${TIME}`,
      { cwd },
    );
  const sorted = () =>
    resultsIn(join(cwd, 'out')).map(name =>
      linesOf(join(cwd, 'out', name))
        .sort()
        .join('\n'),
    );
  await run('batch.yaml');
  expect(linesOf(join(cwd, 'out/failed.ndjson')).length).toBeGreaterThan(ROWS / 20);
  for (let round = 0; linesOf(join(cwd, 'out/failed.ndjson')).length > 0; round++) {
    expect(round).toBeLessThan(20);
    await run('recover.yaml');
  }
  const recovered = sorted();
  const before = faulty.requests();
  const ran = await run('batch.yaml');
  expect([ran.code, faulty.requests() - before], ran.stderr).toEqual([0, 0]);
  expect(sorted()).toEqual(recovered);
  expect(readdirSync(join(cwd, 'out')).filter(name => /legacy.*\.before/.test(name))).toEqual([]);
});

test('where nobody answers a recovery leaves everything as it was', async () => {
  const cwd = checkout();
  mkdirSync(join(cwd, 'out'));
  const failure = { stage: 'chain', code: 'call-failed', message: 'no endpoint', agent: 'risk_manager' };
  const item = { id: 'a', row: 1, prompt: 'May they?', ordering: ['risk_manager'], steps: [], failure };
  writeFileSync(join(cwd, 'out/failed.ndjson'), `${JSON.stringify(item)}\n`);
  writeFileSync(join(cwd, 'out/sequential_risk_legacy.jsonl'), `${[...sound.values()][0]?.line}\n`);
  const kept = () => readdirSync(join(cwd, 'out')).map(name => readFileSync(join(cwd, 'out', name), 'utf8'));
  const before = kept();
  const ran = await fw('fw run pipelines/fairwatch/recover.yaml --wait 0s --endpoint http://127.0.0.1:1', {
    cwd,
  });
  expect([ran.code, kept()], ran.stderr).toEqual([69, before]);
});

test('stopped in the middle, the line still writes every result, and goes on from there', async () => {
  const cwd = folder();
  let asked = 0;
  let stop = (): void => {};
  // a call takes far longer than the signal: those in flight end, and no other begins
  const slow = await servers(1, {
    latency: '500ms',
    onRequest: () => {
      asked += 1;
      if (asked === Math.max(10, ROWS)) stop();
    },
  });
  const fast = await servers(1);
  const line =
    `fw ingest --format legacy --source ${CSV} '${at}/old/*' | fw select --failed` +
    ` | fw chain --retry-failed --in-flight 10 ${slow.flags} | fw legacy --failures failed.ndjson` +
    ` | fw merge --old '${at}/old/*' > all.jsonl`;
  await new Promise<void>(resolve => {
    const env = { ...process.env, PATH: `${binFolder}:${process.env.PATH}` };
    const child = spawn('bash', ['-c', line], { cwd, env, detached: true, stdio: 'ignore' });
    stop = () => process.kill(-(child.pid as number), 'SIGINT');
    child.on('close', () => resolve());
  });
  const results = linesOf(join(cwd, 'all.jsonl')).filter(each => !each.includes('"id":null'));
  expect(new Set(results.map(each => nameOf(JSON.parse(each)))).size).toBe(RESULTS);
  const isSound = (line: string): boolean =>
    !/System Error|Parsing Failure|ERROR|"\.\.\."|"confidence_probability":0/.test(line);
  const recovered = results.filter(line => isSound(line) && places.has(nameOf(JSON.parse(line))));
  expect(recovered.length).toBeGreaterThan(0);
  expect(recovered.length).toBeLessThan(places.size);
  const rest = await fw(
    `fw ingest --format legacy --source ${CSV} all.jsonl | fw select --failed | fw chain --retry-failed ${fast.flags} | fw legacy | fw merge --old all.jsonl > whole.jsonl`,
    { cwd },
  );
  const whole = linesOf(join(cwd, 'whole.jsonl')).filter(each => !each.includes('"id":null'));
  expect(whole.length, rest.stderr).toBe(RESULTS);
  expectWhole(whole);
});
