/** Agents are not asked about what they are not for: `expects` in the folder.yaml of an agents folder. */
import { cpSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { inputGuard } from '../../engine/asking/agents/asking-options.ts';
import { loadAgents, packagedAgents } from '../../engine/asking/agents/load-agents.ts';
import { Fatal, ItemFailure } from '../../engine/core/item/failure.ts';
import type { Item, Step } from '../../engine/core/item/item.ts';
import { folder, ROOT } from '../fw.ts';
import { fw } from '../here.ts';
import { type Servers, servers } from '../pipe/servers.ts';

const CSV = join(ROOT, 'fixtures', 'applications-60.csv');
const applicant = {
  name: 'Priya Nair',
  ethnicity_signal: 'South Asian',
  credit_score: '730',
  visa_status: 'US Citizen',
  income: '38000',
  age: '24',
  loan_amount: '38000',
};
const item = (id: string, input?: object): Item => ({ id, prompt: '?', ...(input && { input }) }) as Item;
const readBack = (id: string, input?: object): Item => {
  const step = { agent: 'risk_manager', rung: 'coerced', repairs: [{ rule: 'read-back', at: '' }] };
  return { ...item(id, input), steps: [step as unknown as Step] };
};
const other = { ticket: '1', text: 'hm' };
const shifted = { ...applicant, credit_score: 'US Citizen', visa_status: '38000' };

const naming = (isNamed: boolean) => ({ by: isNamed ? '--agents' : null, option: '--agents ', else: '' });

/** What becomes of each item: `asked`, the code of its failure, or 64; and how often was warned. */
function told(items: readonly Item[], isNamed: boolean): { ends: (string | number)[]; warnings: number } {
  let warnings = 0;
  const guard = inputGuard({ ...loadAgents(packagedAgents()), naming: naming(isNamed) }, () => {
    warnings += 1;
  });
  const ends = items.map(each => {
    try {
      guard(each);
      return 'asked';
    } catch (error) {
      if (error instanceof ItemFailure) return error.code;
      if (error instanceof Fatal) return error.exit;
      throw error;
    }
  });
  return { ends, warnings };
}

test.each<[string, Item[], boolean, (string | number)[], number]>([
  [
    'applications',
    [item('a', applicant), item('b', { ...applicant, more: 'x' })],
    false,
    ['asked', 'asked'],
    0,
  ],
  ['tickets, agents of nobody’s choice', [item('a', other), item('b', other)], false, [64, 64], 0],
  ['tickets, agents that were named', [item('a', other), item('b', other)], true, ['asked', 'asked'], 1],
  [
    'an application, then a shifted row',
    [item('a', applicant), item('b', shifted), item('c', applicant)],
    false,
    ['asked', 'unexpected-input', 'asked'],
    0,
  ],
  [
    'the same with agents that were named',
    [item('a', applicant), item('b', shifted)],
    true,
    ['asked', 'unexpected-input'],
    0,
  ],
  ['no columns', [item('a'), item('b')], false, ['asked', 'asked'], 1],
  ['no columns, then tickets', [item('a'), item('b', other)], false, ['asked', 64], 1],
  [
    'no columns, then an application, then a ticket',
    [item('a'), item('b', applicant), item('c', other), item('d')],
    false,
    ['asked', 'asked', 'unexpected-input', 'asked'],
    1,
  ],
  ['no columns, agents that were named', [item('a')], true, ['asked'], 0],
  ['empty columns', [item('a', {})], false, [64], 0],
  [
    'read back with other columns',
    [readBack('a', other), readBack('b', other)],
    false,
    ['asked', 'asked'],
    1,
  ],
  ['read back without columns', [readBack('a')], false, ['asked'], 1],
  ['read back, then tickets', [readBack('a', other), item('b', other)], false, ['asked', 64], 1],
])('%s', (_what, items, isNamed, ends, warnings) => {
  expect(told(items, isNamed)).toEqual({ ends, warnings });
});

test('each of the columns is looked for, and text is no number', () => {
  for (const column of Object.keys(applicant)) {
    const { [column]: _gone, ...rest } = applicant as Record<string, string>;
    expect(told([item('a', rest)], false).ends, column).toEqual([64]);
    expect(told([item('a', { ...applicant, [column]: '' })], false).ends, column).toEqual(['asked']);
  }
  for (const column of ['credit_score', 'income', 'age', 'loan_amount']) {
    expect(told([item('a', { ...applicant, [column]: 'H-1B' })], false).ends, column).toEqual([64]);
  }
  for (const value of ['75,000', '$75,000.50', ' 75000 ']) {
    expect(told([item('a', { ...applicant, income: value })], false).ends, value).toEqual(['asked']);
  }
});

describe('in a pipe', () => {
  let one: Servers;
  const at = folder();
  beforeAll(async () => {
    one = await servers(1);
    writeFileSync(join(at, 'tickets.csv'), 'ticket,text\n1,My printer burns\n2,It still does\n3,hm\n');
  });
  const calls = async (line: string, env: Record<string, string> = {}) => {
    const before = one.requests();
    const ran = await fw(line.replaceAll('ENDPOINT', one.flags), { cwd: at, env });
    return { ...ran, calls: one.requests() - before };
  };
  const tickets = 'fw ingest --id ticket --prompt text tickets.csv';

  test.each([
    `${tickets} | fw chain --in-flight 8 ENDPOINT`,
    `${tickets} | fw agent-step --agent risk ENDPOINT`,
    `${tickets} | jq -c '. + {steps: []}' | fw legacy ENDPOINT`,
    `${tickets} > items.ndjson; printf 'stages: [ { chain: {} } ]\\nledger: false\\n' > p.yaml; fw run p.yaml items.ndjson ENDPOINT --output out.ndjson`,
    `${tickets} > items.ndjson; printf 'stages: [ { chain: {} } ]\\n' > p.yaml; fw run p.yaml items.ndjson --dry-run`,
    `${tickets} > items.ndjson; printf 'stages: [ { chain: {} } ]\\n' > p.yaml; fw plan p.yaml items.ndjson --preset 3b-a6000`,
  ])('%s: 64 and the way out, before the first call', async line => {
    const ran = await calls(line);
    expect(ran.code, ran.stderr).toBe(64);
    expect(ran.calls).toBe(0);
    expect(ran.stderr).toMatch(/loan applications\), found the item 1 .*(--agents |agents=)FOLDER/s);
  });

  const batch = join(ROOT, 'pipelines', 'fairwatch', 'batch.yaml');
  const asTickets = '--set ingest.id=ticket --set ingest.prompt=text';
  const into = '--output out.ndjson --set legacy-convert.failures=failed.ndjson';
  const written = `printf 'stages: [ { ingest: { id: ticket, prompt: text } }, { chain: { agents: ${packagedAgents()} } } ]\\n' > own.yaml`;

  test.each([
    `fw run ${batch} tickets.csv ${asTickets} ${into} ENDPOINT`,
    `fw run ${batch} tickets.csv ${asTickets} --dry-run`,
    `fw run ${batch} tickets.csv ${into} ENDPOINT`,
    `fw plan ${batch} tickets.csv ${asTickets} --preset 3b-a6000`,
    `${written}; fw run own.yaml tickets.csv --output out.ndjson ENDPOINT`,
    `${written}; FW_AGENTS=${packagedAgents()} fw run own.yaml tickets.csv --output out.ndjson ENDPOINT`,
  ])('agents that a pipeline file names are as strict: %#', async line => {
    const ran = await calls(line);
    expect([ran.code, ran.calls], ran.stderr).toEqual([64, 0]);
    expect(ran.stderr).toMatch(
      /loan applications\), found the item .*to ask these anyway: --set STAGE\.agents=/s,
    );
    expect(ran.stderr).not.toMatch(/as --agents says/);
  });

  test('--set names agents for a run, and the warning says what did', async () => {
    const ran = await calls(
      `fw run ${batch} tickets.csv ${asTickets} --limit 1 --set chain.agents=${packagedAgents()} ${into} ENDPOINT`,
    );
    expect(ran.code, ran.stderr).toBe(0);
    expect(ran.stderr).toMatch(/asked anyway, as --set chain\.agents=\S+ says/);
  });

  test('a folder ./agents counts as found, FW_AGENTS and --agents as named', async () => {
    // the packaged agents name their schemas by a path: three folders up
    mkdirSync(join(at, 'deep', 'own'), { recursive: true });
    cpSync(packagedAgents(), join(at, 'deep', 'own', 'agents'), { recursive: true });
    cpSync(join(ROOT, 'schemas'), join(at, 'schemas'), { recursive: true });
    const found = await calls(
      `cd deep/own && fw ingest --id ticket --prompt text ../../tickets.csv | fw chain ENDPOINT`,
    );
    expect([found.code, found.calls], found.stderr).toEqual([64, 0]);
    const named = await calls(`${tickets} --limit 1 | fw chain ENDPOINT`, { FW_AGENTS: packagedAgents() });
    expect(named.code, named.stderr).toBe(0);
    expect(named.stderr).toMatch(/asked anyway/);
  });

  test('the short pipe works on the table of the study', async () => {
    const ran = await calls(`cat ${CSV} | fw ingest --limit 4 | fw chain ENDPOINT | fw legacy`);
    expect(ran.code, ran.stderr).toBe(0);
    expect(ran.stdout.trimEnd().split('\n')).toHaveLength(4);
    expect(ran.stderr).not.toMatch(/columns/);
  });
});
