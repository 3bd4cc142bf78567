/** Topologies, what is passed on, labels, twins' seeds: what each agent was shown is read from the requests on record. */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import type { Item, Step } from '../../engine/core/item/item.ts';
import type { JsonObject } from '../../engine/core/json/pointer.ts';
import { folder, ROOT } from '../fw.ts';
import { fw } from '../here.ts';
import { type Servers, servers } from '../pipe/servers.ts';

const CSV = join(ROOT, 'fixtures/applications-60.csv');
const NAMES = ['Risk Manager', 'Data Science', 'Regulatory Compliance', 'Consumer Advocate'];
const KEYS = ['risk_manager', 'data_science', 'regulatory', 'consumer_advocate'];
const VERDICT = [
  'approval_decision',
  'approval_type',
  'interest_rate',
  'confidence_probability',
  'confidence_level',
];

const at = folder();
let server: Servers;
beforeAll(async () => {
  server = await servers(1);
});

const itemsIn = (name: string): Item[] =>
  readFileSync(join(at, name), 'utf8')
    .split('\n')
    .filter(Boolean)
    .map(line => JSON.parse(line));
const stepsOf = ({ steps = [], decision }: Item): Step[] => [...steps, ...(decision ? [decision] : [])];

/** The calls of a ledger by key: what the user message said, and the seed. */
async function asked(ledger: string): Promise<Map<string, { text: string; seed: number }>> {
  const calls = new Map<string, { text: string; seed: number }>();
  const { stdout, code, stderr } = await fw(`fw ledger export --ledger ${ledger}`, { cwd: at });
  expect(code, stderr).toBe(0);
  for (const line of stdout.split('\n').filter(Boolean)) {
    const { key, input, parameters } = JSON.parse(line) as {
      key: string;
      input: JsonObject[];
      parameters: { seed: number };
    };
    const user = input.find(({ role }) => role === 'user');
    calls.set(key, { text: String(user?.content), seed: parameters.seed });
  }
  return calls;
}

/** The answers that a text shows behind the prompt: label and value. */
function shownIn(text: string, prompt: string): [string, unknown][] {
  expect(text.startsWith(prompt)).toBe(true);
  const parts = text.slice(prompt.length).split(/\n\n(?=[A-Z][A-Za-z0-9 ]*:\n\{)/);
  return parts.filter(Boolean).map(part => {
    const end = part.indexOf(':\n');
    return [part.slice(0, end), JSON.parse(part.slice(end + 2))];
  });
}

async function run(
  name: string,
  flags: string,
  rows = 2,
): Promise<{ items: Item[]; calls: Awaited<ReturnType<typeof asked>> }> {
  const ran = await fw(
    `fw ingest ${CSV} --limit ${rows} | fw chain --ledger ${name} ${server.flags} ${flags} > ${name}.ndjson`,
    { cwd: at },
  );
  expect(ran.code, ran.stderr).toBe(0);
  return { items: itemsIn(`${name}.ndjson`), calls: await asked(name) };
}

/** What each turn, and at last the synthesis, was shown. */
function seen({ items, calls }: Awaited<ReturnType<typeof run>>): [string, unknown][][] {
  const [item] = items as [Item];
  return stepsOf(item).map(step =>
    shownIn(calls.get(step.calls[0] as string)?.text ?? '', item.prompt as string),
  );
}

test('independent: nobody is shown anybody, and the manager everybody', async () => {
  const ran = await run('independent', '--topology independent');
  const shown = seen(ran);
  const [item] = ran.items as [Item];
  expect(shown.map(each => each.length)).toEqual([0, 0, 0, 0, 4]);
  expect(shown[4]).toEqual(item.steps?.map((step, nth) => [NAMES[nth], step.output]));
  expect(item.arrangement).toEqual({ topology: 'independent', passed: 'full', labels: 'named' });
  expect(item.steps?.every(({ saw }) => saw === 'clean')).toBe(true);
});

test('peer: each answers alone, then shown the first answers of all; the synthesis reads the second ones', async () => {
  const ran = await run('peer', '--topology peer');
  const [item] = ran.items as [Item];
  expect(item.steps?.map(({ agent }) => agent)).toEqual([...KEYS, ...KEYS]);
  const shown = seen(ran);
  expect(shown.map(each => each.length)).toEqual([0, 0, 0, 0, 4, 4, 4, 4, 4]);
  const first = item.steps?.slice(0, 4).map((step, nth) => [NAMES[nth], step.output]);
  const second = item.steps?.slice(4).map((step, nth) => [NAMES[nth], step.output]);
  for (const nth of [4, 5, 6, 7]) expect(shown[nth]).toEqual(first);
  expect(shown[8]).toEqual(second);
});

test.each([
  ['evidence', (key: string) => !VERDICT.includes(key)],
  ['verdict', (key: string) => VERDICT.includes(key) || key === 'agent_name'],
])('%s: that alone is passed on', async (passed, isPassed) => {
  const ran = await run(passed, `--passed ${passed}`, 1);
  const [item] = ran.items as [Item];
  const part = (output: unknown) =>
    Object.fromEntries(Object.entries(output as JsonObject).filter(([key]) => isPassed(key)));
  const parts = item.steps?.map((step, nth) => [NAMES[nth], part(step.output)]);
  expect(seen(ran)).toEqual([0, 1, 2, 3, 4].map(nth => parts?.slice(0, nth)));
});

test('anonymous: agents go by their place, and no answer says who gave it', async () => {
  const ran = await run('anonymous', '--labels anonymous', 1);
  const last = seen(ran).at(-1) ?? [];
  expect(last.map(([label]) => label)).toEqual(['Agent 1', 'Agent 2', 'Agent 3', 'Agent 4']);
  expect(last.every(([, value]) => !('agent_name' in (value as JsonObject)))).toBe(true);
});

test('the same command again asks nothing; another arrangement of answered items is refused; verify takes each', async () => {
  const before = server.requests();
  const again = await fw(
    `fw ingest ${CSV} --limit 2 | fw chain --ledger peer --topology peer | fw verify --expect 2 && fw verify --expect 2 independent.ndjson && fw verify --expect 1 evidence.ndjson`,
    { cwd: at },
  );
  expect(again.code, again.stderr).toBe(0);
  // an item knows its arrangement: who only decides needs no option
  const decided = await fw(
    `jq -c 'del(.decision)' independent.ndjson | fw synthesize-decision --ledger independent | jq -c .decision.calls[0]`,
    { cwd: at },
  );
  expect(decided.stdout.split('\n').filter(Boolean).sort()).toEqual(
    itemsIn('independent.ndjson')
      .map(({ decision }) => JSON.stringify(decision?.calls[0]))
      .sort(),
  );
  expect(server.requests()).toBe(before);
  const other = await fw(`fw chain --topology peer --ledger other ${server.flags} independent.ndjson`, {
    cwd: at,
  });
  expect(other.code).toBe(1);
  expect(other.stdout).toContain('"code":"steps-out-of-order"');
  expect(other.stdout).toContain('arrangement peer, full, named, found some of independent, full, named');
  const legacy = await fw('fw legacy-convert --failures refused.ndjson independent.ndjson', { cwd: at });
  expect([legacy.code, legacy.stdout]).toEqual([1, '']);
  expect(readFileSync(join(at, 'refused.ndjson'), 'utf8')).toContain('such items stay items');
});

test('a peer that failed the second time is asked again there', async () => {
  const cut = itemsIn('peer.ndjson').map(item => {
    const { decision: _, ...rest } = item;
    const steps = (item.steps ?? []).slice(0, 6);
    const { output: _output, ...failed } = steps[5] as Step;
    const failure = { stage: 'chain', agent: failed.agent, code: 'no-valid-answer', message: 'x' };
    return JSON.stringify({ ...rest, steps: [...steps.slice(0, 5), { ...failed, rung: 'failed' }], failure });
  });
  writeFileSync(join(at, 'cut.ndjson'), `${cut.join('\n')}\n`);
  const ran = await fw(
    `fw chain --retry-failed --ledger peer ${server.flags} cut.ndjson > healed.ndjson; fw verify --expect 2 healed.ndjson`,
    { cwd: at },
  );
  expect(ran.code, ran.stderr).toBe(0);
  for (const item of itemsIn('healed.ndjson'))
    expect(item.steps?.map(({ round }) => round)).toEqual([...Array(5), 1, undefined, undefined]);
});

describe('verify', () => {
  test.each<[string, (item: Item) => Item, string]>([
    [
      'an arrangement that is none',
      item => ({ ...item, arrangement: { topology: 'ring' } }),
      '/arrangement/topology',
    ],
    [
      'answers of another topology',
      item => ({ ...item, arrangement: { topology: 'peer', passed: 'full', labels: 'named' } }),
      'an answer of each of risk_manager',
    ],
    ['an arrangement that is text', item => ({ ...item, arrangement: 'peer' }), '/arrangement/topology'],
  ])('finds %s', async (_what, change, message) => {
    const [item] = itemsIn('independent.ndjson') as [Item];
    const found = await fw('fw verify --pass', { cwd: at, stdin: `${JSON.stringify(change(item))}\n` });
    expect(found.code).toBe(1);
    expect(found.stdout).toContain(message);
  });
});

test('--share: nobody is shown anybody, so all orders of a row share every first answer', async () => {
  const ran = await fw(
    `fw ingest ${CSV} --limit 1 --orderings batch4 | fw chain --share --topology independent --no-decision --ledger together ${server.flags} > together.ndjson; fw verify --no-decision --expect 12 together.ndjson`,
    { cwd: at },
  );
  expect(ran.code, ran.stderr).toBe(0);
  const steps = itemsIn('together.ndjson').flatMap(item => item.steps ?? []);
  expect(new Set(steps.map(({ shared }) => shared)).size).toBe(4);
  expect(new Set(steps.flatMap(({ calls }) => calls)).size).toBe(4);
});

test('--twins: rows that are alike in these columns are asked with the same seeds, others with others', async () => {
  const ran = await run('twins', '--twins credit_score,visa_status,income,age,loan_amount', 24);
  const cells = new Map<string, Set<string>>();
  for (const item of ran.items) {
    const { credit_score, visa_status, income, age, loan_amount } = item.input ?? {};
    const cell = JSON.stringify([credit_score, visa_status, income, age, loan_amount]);
    const seeds = stepsOf(item).map(step => ran.calls.get(step.calls[0] as string)?.seed);
    cells.set(cell, (cells.get(cell) ?? new Set()).add(seeds.join()));
  }
  expect([...cells.values()].every(seeds => seeds.size === 1)).toBe(true);
  expect(new Set([...cells.values()].flatMap(seeds => [...seeds])).size).toBe(cells.size);
  expect(cells.size).toBeLessThan(24);
  const keys = ran.items.flatMap(item => stepsOf(item).flatMap(({ calls }) => calls));
  expect(new Set(keys).size).toBe(keys.length);
  const without = await fw(
    `fw ingest ${CSV} --limit 1 | fw chain --twins shoe_size --ledger shoes ${server.flags}`,
    { cwd: at },
  );
  expect(without.code).toBe(1);
  expect(without.stdout).toContain('found no column shoe_size');
});

test('agents whose verdict nobody names cannot pass on a part of their answers', async () => {
  const own = folder();
  const agent = (key: string, form: string): void =>
    writeFileSync(
      join(own, `${key}.yaml`),
      `key: ${key}\nshort: ${key}\ndisplay: ${key.toUpperCase()}\nrole: agent\npersona: Answer.\n${form}\nsampling: { temperature: 0, max_tokens: 50 }\n`,
    );
  agent('a', 'schema: { type: object, required: [ok], properties: { ok: { type: boolean } } }');
  const line = (): ReturnType<typeof fw> =>
    fw(`fw chain --no-decision --agents ${own} --passed verdict --ledger none ${server.flags}`, {
      cwd: at,
      stdin: '{"id":"1","prompt":"x"}\n',
    });
  expect((await line()).stderr).toContain('expected passing.verdict in');
  writeFileSync(join(own, 'folder.yaml'), 'passing: { verdict: [ok] }\n');
  agent('b', '');
  const found = await line();
  expect([found.code, found.stderr.includes('found b, which does not')]).toEqual([64, true]);
});

test.each(readdirSync(join(ROOT, 'pipelines/fairwatch/topologies')))(
  '%s runs as its header says',
  async name => {
    const cwd = folder();
    const ran = await fw(
      `fw run ${ROOT}/pipelines/fairwatch/topologies/${name} ${CSV} --limit 2 ${server.flags}`,
      { cwd },
    );
    expect(ran.code, ran.stderr).toBe(0);
    const out = `out/${name.replace('.yaml', '.ndjson')}`;
    const decision = name === 'independent.yaml' ? '--no-decision' : '';
    const verified = await fw(`fw verify --expect 2 ${decision} ${out}`, { cwd });
    expect(verified.code, verified.stderr).toBe(0);
  },
);
