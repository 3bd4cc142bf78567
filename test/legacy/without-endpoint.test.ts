/** fw legacy where nobody named an endpoint for it: what needs none passes, and what does is not lost. */
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import type { Code } from '../../engine/core/item/codes.ts';
import type { Item, Step } from '../../engine/core/item/item.ts';
import { folder, ROOT } from '../fw.ts';
import { fw } from '../here.ts';
import { servers } from '../pipe/servers.ts';

const decided: Item & { steps: Step[]; ordering: string[] } = JSON.parse(
  readFileSync(join(ROOT, 'fixtures/decided.ndjson'), 'utf8'),
);
const { decision: _decision, ...undecided } = decided;
const SYNTHESIS = 'business_decision';
const CODES: Code[] = ['interrupted', 'call-failed', 'call-timeout', 'no-valid-answer', 'prompt-too-long'];

/** Failed at each place of the ordering, before the first answer and at the decision too, in each way. */
const failed = CODES.flatMap((code): Item[] =>
  [...decided.ordering, SYNTHESIS].map((agent, place) => {
    const failure = { stage: 'chain', agent, code, message: `${code} of ${agent}` };
    const steps = undecided.steps.slice(0, place);
    // a step that was asked and did not answer stands behind the others
    const last = { ...decided.steps[0], agent, rung: 'failed', output: undefined } as unknown as Step;
    const isAsked = code === 'no-valid-answer' && agent !== SYNTHESIS;
    return { ...undecided, id: `${code}/${agent}`, steps: isAsked ? [...steps, last] : steps, failure };
  }),
);
// stopped before it was begun: without steps, ordering and agent
failed.push({
  id: 'never begun',
  row: 1,
  prompt: '?',
  failure: { stage: 'chain', code: 'interrupted', message: 'stopped' },
});

const linesOf = (items: readonly object[]): string => items.map(item => `${JSON.stringify(item)}\n`).join('');
const byId = (text: string): Map<unknown, Item> =>
  new Map(
    text
      .split('\n')
      .filter(Boolean)
      .map(line => JSON.parse(line))
      .map(item => [item.id, item]),
  );

let cwd: string;
beforeEach(() => {
  cwd = folder();
});
const failures = (path = 'failed.ndjson'): Map<unknown, Item> =>
  byId(readFileSync(resolve(cwd, path), 'utf8'));
/** A run that ends with 64 leaves its files under the names that it says. */
const unfinishedIn = (stderr: string): string => /left unfinished: (\S+)/.exec(stderr)?.[1] ?? 'none';

test('what failed before it came keeps its failure, and what is decided becomes a result', async () => {
  const ran = await fw('fw legacy --failures failed.ndjson', {
    cwd,
    stdin: linesOf([...failed, decided]),
  });
  expect(ran.code, ran.stderr).toBe(1);
  expect(ran.stdout.trimEnd().split('\n')).toHaveLength(1);
  expect(JSON.parse(ran.stdout).prompt_id).toBe(decided.row);
  expect(failures()).toEqual(byId(linesOf(failed)));
});

test('one that lacks nothing but its decision ends the run with 64, and no item in hand is lost', async () => {
  const items = [failed[0], decided, { ...undecided, id: 'undecided' }, failed[1]] as Item[];
  const ran = await fw('fw legacy --failures failed.ndjson', { cwd, stdin: linesOf(items) });
  expect(ran.code).toBe(64);
  expect(ran.stderr).toContain('expected an endpoint to ask, found none');
  const left = failures(unfinishedIn(ran.stderr));
  expect(left.get('undecided')).toMatchObject({ steps: undecided.steps, failure: { code: 'interrupted' } });
  for (const item of [failed[0], failed[1]] as Item[]) expect(left.get(item.id)).toEqual(item);
  expect(ran.stdout).toContain('"business_decision"');
  expect(ran.stdout).toContain('"code":"input-incomplete"');
});

test('told to ask again it wants an endpoint, but only where it could ask', async () => {
  const [early, atDecision] = ['regulatory', SYNTHESIS].map(agent =>
    failed.find(({ id }) => id === `no-valid-answer/${agent}`),
  ) as [Item, Item];
  for (const [item, code] of [
    [early, 1],
    [atDecision, 64],
  ] as const) {
    const ran = await fw('fw legacy --retry-failed --failures failed.ndjson', {
      cwd,
      stdin: linesOf([item]),
    });
    expect(ran.code, ran.stderr).toBe(code);
    const left = failures(code === 64 ? unfinishedIn(ran.stderr) : undefined);
    expect([...left.values()]).toEqual([JSON.parse(JSON.stringify(item))]);
  }
});

describe('with an endpoint', async () => {
  const one = await servers(1);
  test('a decision that was interrupted is asked, and what lacks an answer before it is not', async () => {
    const before = one.requests();
    const ran = await fw(`fw legacy ${one.flags} --failures failed.ndjson`, {
      cwd,
      stdin: linesOf(failed),
    });
    expect(ran.code, ran.stderr).toBe(1);
    const left = byId(linesOf(failed));
    left.delete(`interrupted/${SYNTHESIS}`);
    expect(failures()).toEqual(left);
    expect(one.requests() - before).toBe(1);
  });
});

test.each([
  ['without a decision', undecided, 1],
  ['without a decision, as chain was told', undecided, 0, '--no-decision'],
  ['with one', decided, 0],
  ['with one that chain was not asked for', decided, 0, '--no-decision'],
])('fw verify of an item %s', async (_name, item, code, flags = '') => {
  const ran = await fw(`fw verify ${flags}`, { cwd, stdin: linesOf([item]) });
  expect(ran.code, ran.stderr).toBe(code);
  if (code === 1) expect(ran.stderr).toMatch(/1 missing answer/);
});

test('an agents folder without a synthesis wants no decision', async () => {
  await fw(`mkdir -p p/q && cp -r ${ROOT}/pipelines/fairwatch/agents p/q/ && cp -r ${ROOT}/schemas .`, {
    cwd,
  });
  const ran = await fw('rm p/q/agents/business_decision.* && fw verify --agents p/q/agents', {
    cwd,
    stdin: linesOf([undecided]),
  });
  expect(ran.code, ran.stderr).toBe(0);
});
