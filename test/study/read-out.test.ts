/** One chain, three results: what the judge, the last agent and the majority decided, and what a tie is. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { readOut } from '../../products/report/read-out.ts';
import { folder, ROOT } from '../fw.ts';
import { fw } from '../here.ts';
import { servers } from '../pipe/servers.ts';

const CSV = join(ROOT, 'fixtures/applications-60.csv');
const of = (...said: [agent: string, ok: unknown][]) =>
  said.map(([agent, ok]) => ({ agent, output: { ok } }));

test.each<[string, ReturnType<typeof of>, string | undefined, string | null, boolean]>([
  ['three of four', of(['a', 'yes'], ['b', 'yes'], ['c', 'no'], ['d', 'yes']), undefined, 'yes', false],
  ['two of four', of(['a', 'yes'], ['b', 'no'], ['c', 'no'], ['d', 'yes']), undefined, null, true],
  ['two of four, and a rule', of(['a', 'yes'], ['b', 'no'], ['c', 'no'], ['d', 'yes']), 'no', 'no', true],
  [
    'most, though not half',
    of(['a', 'yes'], ['b', 'no'], ['c', 'later'], ['d', 'yes']),
    undefined,
    'yes',
    false,
  ],
  [
    'peers: the second answer counts',
    of(['a', 'no'], ['b', 'no'], ['a', 'yes'], ['b', 'yes']),
    undefined,
    'yes',
    false,
  ],
  ['one that says nothing', of(['a', 'yes'], ['b', null], ['c', 'yes']), 'no', null, false],
  ['nobody', [], 'no', null, false],
])('the majority of %s', (_what, answers, tie, outcome, isTied) => {
  const read = readOut({ answers, decision: undefined }, 'majority', { outcome: 'ok', tie });
  expect(read).toEqual({ outcome, output: undefined, isTied });
});

test('the judge and the last agent', () => {
  const said = { answers: of(['a', 'yes'], ['b', 'no']), decision: { agent: 'j', output: { ok: 'yes' } } };
  expect(readOut(said, 'judge', { outcome: 'ok' }).outcome).toBe('yes');
  expect(readOut(said, 'terminal', { outcome: 'ok' }).outcome).toBe('no');
  expect(readOut({ ...said, decision: undefined }, 'judge', { outcome: 'ok' }).outcome).toBeNull();
});

test('a report of each, of one run and of legacy results, without asking again', async () => {
  const at = folder();
  const { flags, requests } = await servers(1);
  const ran = await fw(
    `fw ingest ${CSV} | fw chain ${flags} > items.ndjson; fw legacy-convert items.ndjson > out.jsonl`,
    { cwd: at },
  );
  expect(ran.code, ran.stderr).toBe(0);
  // of the first ten two agents approve and two deny
  const lines = readFileSync(join(at, 'out.jsonl'), 'utf8').split('\n').filter(Boolean);
  const halves = lines.map((line, nth) => {
    const result = JSON.parse(line);
    if (nth >= 10) return line;
    const decisionOf = (turn: number): string => (turn < 2 ? 'approve' : 'deny');
    for (const [turn, said] of result.conversation_history.entries()) {
      const { output } = said;
      output.approval_decision = decisionOf(turn);
      let shown = 0;
      said.input = said.input.replace(
        /"approval_decision":"\w+"/g,
        () => `"approval_decision":"${decisionOf(shown++)}"`,
      );
      result.all_agent_outputs[turn] = output;
      result.final_output = output;
    }
    return JSON.stringify(result);
  });
  writeFileSync(join(at, 'halves.jsonl'), `${halves.join('\n')}\n`);
  const before = requests();
  const rate = async (file: string, more: string) => {
    const { stdout, code, stderr } = await fw(
      `fw report ${file} --outcome approval_decision --approve approve --json ${more}`,
      { cwd: at },
    );
    expect(code, stderr).toBe(0);
    const { level, notes } = JSON.parse(stdout);
    return { n: level.n as number, approved: level.approved as number, notes: notes.join() as string };
  };
  const yes = (said: readonly (string | undefined)[]): number =>
    said.filter(each => each === 'approve').length;
  for (const file of ['items.ndjson', 'halves.jsonl']) {
    const said = decisionsIn(readFileSync(join(at, file), 'utf8'));
    const ties = said.filter(each => yes(each.slice(0, 4)) === 2).length;
    const majority = said.filter(each => yes(each.slice(0, 4)) > 2).length;
    if (file === 'halves.jsonl') expect(ties).toBeGreaterThanOrEqual(10);
    const judge = await rate(file, '--read-out judge');
    expect([judge.n, judge.approved]).toEqual([60, yes(said.map(each => each[4]))]);
    const terminal = await rate(file, '--read-out terminal');
    expect([terminal.n, terminal.approved]).toEqual([60, yes(said.map(each => each[3]))]);
    const { n, approved, notes } = await rate(file, '--read-out majority');
    expect([n, approved]).toEqual([60 - ties, majority]);
    expect(notes).toContain(`equal halves have no outcome: ${ties} left out`);
    const ruled = await rate(file, '--read-out majority --tie approve');
    expect([ruled.n, ruled.approved]).toEqual([60, majority + ties]);
  }
  expect(requests()).toBe(before);
  const odd = await fw('fw report items.ndjson --outcome approval_decision --approve approve --tie deny', {
    cwd: at,
  });
  expect([odd.code, odd.stderr.includes('--tie: expected --read-out majority')]).toEqual([64, true]);
});

/** What the agents and the synthesis decided, of items and of results. */
function decisionsIn(text: string): string[][] {
  return text
    .split('\n')
    .filter(Boolean)
    .map(line => {
      const { steps, decision, all_agent_outputs: outputs, business_decision } = JSON.parse(line);
      const all = steps ? [...steps, decision].map(({ output }) => output) : [...outputs, business_decision];
      return all.map(({ approval_decision }) => approval_decision);
    });
}
