/** The main job, on the 60-row sample: the pipe of the README, the same as a file, the checks again, the recovery. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { folder, ROOT } from '../fw.ts';
import { fw } from '../here.ts';
import { type Servers, servers } from './servers.ts';

const CSV = join(ROOT, 'fixtures', 'applications-60.csv');
const PIPELINES = join(ROOT, 'pipelines', 'fairwatch');
const TIME = '2026-01-01T00:00:00.000Z';

type Line = Record<string, unknown>;
const linesOf = (text: string): Line[] =>
  text
    .split('\n')
    .filter(Boolean)
    .map(line => JSON.parse(line) as Line);
const sorted = (text: string): string[] => text.split('\n').filter(Boolean).sort();

describe('without faults', () => {
  let three: Servers;
  const at = folder();
  const out = join(at, 'out.jsonl');
  beforeAll(async () => {
    three = await servers(3);
    const ran = await fw(
      `cat ${CSV} | fw ingest | fw chain ${three.flags} | fw legacy --timestamp ${TIME} > ${out}`,
    );
    expect(ran.code, ran.stderr).toBe(0);
  });

  test('the pipe gives one strict legacy result a row, from five calls each', async () => {
    const ran = await fw(`fw verify --expect 60 ${out}`);
    expect(ran.code, ran.stderr).toBe(0);
    expect(ran.stdout).toBe('');
    expect(three.requests()).toBeGreaterThanOrEqual(300);
    const rows = linesOf(readFileSync(out, 'utf8')).map(line => line.prompt_id as number);
    expect(rows.sort((a, b) => a - b)).toEqual(Array.from({ length: 60 }, (_, row) => row + 1));
  });

  test('a pipeline file gives the same bytes', async () => {
    const ran = await fw(
      `fw run ${PIPELINES}/batch.yaml ${CSV} ${three.flags} --set legacy-convert.timestamp=${TIME} --output file.jsonl`,
      { cwd: at },
    );
    expect(ran.code, ran.stderr).toBe(0);
    expect(sorted(readFileSync(join(at, 'file.jsonl'), 'utf8'))).toEqual(sorted(readFileSync(out, 'utf8')));
  });

  test('the checks run again, as a pipe and as a file, and change nothing', async () => {
    const piped = await fw(`fw validate < ${out} | fw null-fix | fw verify --expect 60 --pass`);
    expect(piped.code, piped.stderr).toBe(0);
    expect(piped.stdout).toBe(readFileSync(out, 'utf8'));
    const ran = await fw(`fw run ${PIPELINES}/revalidate.yaml ${out} --output again.jsonl`, { cwd: at });
    expect(ran.code, ran.stderr).toBe(0);
    expect(readFileSync(join(at, 'again.jsonl'), 'utf8')).toBe(readFileSync(out, 'utf8'));
  });

  test('the context of a turn is what the agent was shown: names as the models spelled them', () => {
    // the display name, the name in results, and what this simulator calls itself
    const regulatory = ['Regulatory Compliance', 'Regulatory', 'Regulatory Compliance'] as const;
    const names: { [agent: string]: readonly [string, string, string] } = {
      risk_manager: ['Risk Manager', 'Risk Manager', 'Risk Manager'],
      data_science: ['Data Science', 'Data Science', 'Data Science'],
      regulatory,
      consumer_advocate: ['Consumer Advocate', 'Consumer Advocate', 'Consumer Advocate'],
    };
    for (const result of linesOf(readFileSync(out, 'utf8'))) {
      let context = result.initial_prompt as string;
      for (const { agent, input, output } of result.conversation_history as {
        agent: string;
        input: string;
        output: Line;
      }[]) {
        const [display, own, said] = names[agent] as readonly [string, string, string];
        expect([input, output.agent_name]).toEqual([context, own]);
        context += `\n\n${display}:\n${JSON.stringify({ ...output, agent_name: said })}`;
      }
    }
  });

  test('orderings multiply the items, and each file holds one', async () => {
    const ran = await fw(
      `fw run ${PIPELINES}/batch.yaml ${CSV} ${three.flags} --limit 2 --set ingest.orderings=batch4 && ls out && cat out/*.jsonl | fw verify --expect 24`,
      { cwd: at },
    );
    expect(ran.code, ran.stderr).toBe(0);
    expect(ran.stdout.split('\n').filter(name => name.endsWith('_legacy.jsonl'))).toHaveLength(12);
    expect(ran.stdout).toContain('sequential_consumer_data_risk_regulatory_legacy.jsonl');
  });

  test('one agent at a time gives what chain gives', async () => {
    const one = await fw(
      `fw ingest --limit 3 ${CSV} | fw agent-step --agent risk ${three.flags} | fw agent-step --agent 'Data Science' ${three.flags}` +
        ` | fw agent-step --agent regulatory ${three.flags} | fw agent-step --agent consumer ${three.flags} | fw synthesize-decision ${three.flags}`,
    );
    const all = await fw(`fw ingest --limit 3 ${CSV} | fw chain ${three.flags}`);
    expect(one.code, one.stderr).toBe(0);
    expect(sorted(one.stdout)).toEqual(sorted(all.stdout));
  });

  test('FW_ENDPOINTS is not asked where a pipeline file names its pool, and that is said', async () => {
    const [first, second] = [...three.flags.matchAll(/http:\S+/g)].map(String) as [string, string];
    const file = join(at, 'pool.yaml');
    const stages = '[{ ingest: {} }, { chain: { decision: false } }]';
    writeFileSync(file, `stages: ${stages}\noutput: pool.ndjson\npool: { endpoints: [ "${first}" ] }\n`);
    const said = 'FW_ENDPOINTS is ignored, because a pool file names the endpoints';
    const run = (FW_ENDPOINTS: string) =>
      fw(`fw run ${file} ${CSV} --limit 1`, { cwd: at, env: { FW_ENDPOINTS } });
    const other = await run(second);
    expect(other.code, other.stderr).toBe(0);
    expect(other.stderr).toContain(said);
    expect((await run(`${first}/`)).stderr).not.toContain(said);
  });

  test('a dry run counts items that have chat messages', async () => {
    const stdin = '{"id":"a","messages":[{"role":"user","content":"Is it blue?"}]}\n';
    writeFileSync(join(at, 'chat.yaml'), 'stages:\n  - chain: { decision: false }\noutput: chat.ndjson\n');
    const { code, stdout, stderr } = await fw('fw run chat.yaml - --dry-run', { cwd: at, stdin });
    expect(code, stderr).toBe(0);
    expect(stdout).toMatch(/--- user\nIs it blue\?/);
    expect(stdout).toMatch(/calls +4,/);
  });

  test('a dry run asks nothing', async () => {
    const before = three.requests();
    const ran = await fw(`fw run ${PIPELINES}/batch.yaml ${CSV} --dry-run`);
    expect(ran.code, ran.stderr).toBe(0);
    expect(ran.stdout).toMatch(/calls +300/);
    expect(three.requests()).toBe(before);
  });
});

describe('with faults', () => {
  test('every item is on a rung, and a second round finishes what failed', async () => {
    const faults = 'chatty=0.2,fence=0.2,escape=0.2,null=0.2,zero=0.2,truncated=0.2,429=0.1,500=0.1,drop=0.1';
    const { flags } = await servers(3, { faults });
    const at = folder();
    const items = join(at, 'items.ndjson');
    const first = await fw(`fw ingest ${CSV} | fw chain ${flags} > ${items}`);
    expect(first.stderr).not.toMatch(/bug/);
    const rungs = linesOf(readFileSync(items, 'utf8'));
    expect(rungs).toHaveLength(60);
    expect(new Set(rungs.map(({ id }) => id)).size).toBe(60);

    let left = rungs.filter(({ failure }) => failure !== undefined).length;
    expect(left).toBeGreaterThan(0);
    expect(first.code).toBe(1);
    for (let round = 1; left > 0 && round <= 12; round++) {
      const again = join(at, `again${round}.ndjson`);
      await fw(`fw select --failed ${items} | fw chain --retry-failed ${flags} > ${again}`);
      await fw(`fw merge ${items} ${again} > ${items}.merged && mv ${items}.merged ${items}`);
      const lines = linesOf(readFileSync(items, 'utf8'));
      expect(lines).toHaveLength(60);
      left = lines.filter(({ failure }) => failure !== undefined).length;
    }
    expect(left).toBe(0);
    const verified = await fw(`fw legacy ${items} | fw verify --expect 60`);
    expect(verified.code, verified.stderr).toBe(0);
  });

  test('a confidence of zero is asked again at rising temperature, then fails, and is never filled', async () => {
    const { flags } = await servers(1, { faults: 'zero=1' });
    const ran = await fw(`fw ingest --limit 2 ${CSV} | fw chain --on-invalid default ${flags}`);
    expect(ran.code).toBe(1);
    for (const { failure, decision } of linesOf(ran.stdout) as { failure: Line; decision: Line }[]) {
      expect(failure.code).toBe('zero-confidence');
      expect(decision.attempts).toBe(5);
      expect((decision.rejected as Line[]).map(({ temperature }) => temperature)).toEqual([
        0.7, 0.7, 0.9, 1.1,
      ]);
      expect(decision.output).toBeUndefined();
    }
  });

  test('nulls that stay are filled only when asked to, and marked', async () => {
    const { flags } = await servers(1, { faults: 'null=1' });
    const strict = await fw(`fw ingest --limit 4 ${CSV} | fw agent-step --agent risk ${flags}`);
    expect(strict.code).toBe(1);
    const filled = await fw(
      `fw ingest --limit 4 ${CSV} | fw agent-step --agent risk --on-invalid default ${flags}`,
    );
    const steps = linesOf(filled.stdout).flatMap(item => item.steps as Line[]);
    const defaulted = steps.filter(({ rung }) => rung === 'defaulted');
    expect(defaulted.length).toBeGreaterThan(0);
    for (const { repairs } of defaulted) expect(JSON.stringify(repairs)).toContain('null-default');
  });

  test('without guided decoding nothing asks for a schema, and answers are still judged', async () => {
    const seen: string[] = [];
    const { flags } = await servers(1, { onRequest: ({ body }) => void seen.push(body.toString()) });
    const ran = await fw(`fw ingest --limit 2 ${CSV} | fw chain --guided off ${flags}`);
    expect(ran.code, ran.stderr).toBe(0);
    expect(seen.length).toBeGreaterThanOrEqual(10);
    for (const body of seen) expect(body).not.toContain('response_format');
  });
});

test('a failures file takes what failed aside, and is made anew', async () => {
  const at = folder();
  writeFileSync(join(at, 'failed.ndjson'), 'of yesterday\n');
  writeFileSync(join(at, 'in.csv'), 'id,prompt\na,one\nb,\nc,three\n');
  const ran = await fw('fw ingest --failures failed.ndjson in.csv', { cwd: at });
  expect(linesOf(ran.stdout).map(({ id }) => id)).toEqual(['a', 'c']);
  const failed = linesOf(readFileSync(join(at, 'failed.ndjson'), 'utf8'));
  expect(failed.map(({ failure }) => (failure as Line).code)).toEqual(['empty-prompt']);
});

describe('an item whose first answer was healed', () => {
  test('is refused as the half chain that it is, and asked on', async () => {
    const [nulls, calm] = [await servers(1, { faults: 'null=1' }), await servers(1)];
    const cwd = folder();
    const begun = `fw ingest ${CSV} --limit 20 | fw chain --attempts 1 ${nulls.flags} | fw null-fix | fw select --no-failed`;
    await fw(`${begun} > half.ndjson`, { cwd });
    const half = linesOf(readFileSync(join(cwd, 'half.ndjson'), 'utf8')) as { steps: unknown[] }[];
    expect(half.length).toBeGreaterThan(0);
    expect(half[0]).toMatchObject({ ordering: { length: 4 }, steps: { length: 1 } });
    const strict = 'fw verify --accept clean,repaired,coerced,defaulted';
    const refused = await fw(`${strict} half.ndjson`, { cwd });
    expect([refused.code, refused.stderr]).toEqual([
      1,
      expect.stringContaining(`0 accepted, ${half.length} refused`),
    ]);
    const undecided = await fw(`fw synthesize-decision ${calm.flags} half.ndjson`, { cwd });
    expect([undecided.code, calm.requests()]).toEqual([1, 0]);
    const asked = await fw(`fw chain ${calm.flags} half.ndjson | ${strict} --expect ${half.length} --pass`, {
      cwd,
    });
    expect(asked.code, asked.stderr).toBe(0);
    for (const line of linesOf(asked.stdout)) {
      expect(line).toMatchObject({ steps: { length: 4 }, decision: { agent: 'business_decision' } });
      expect(half.map(({ steps }) => steps[0])).toContainEqual((line.steps as unknown[])[0]);
    }
  });
});
