/** Forms of a run that are as they should be: each passes, with what was asked and with its ledger beside it. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { answerSchemas } from '../../engine/audit/legacy/answer-schemas.ts';
import { findInLegacy } from '../../engine/audit/legacy/strict.ts';
import type { JsonObject } from '../../engine/core/json/pointer.ts';
import { every } from '../all.ts';
import { folder, ROOT } from '../fw.ts';
import { fw } from '../here.ts';
import { type Servers, servers } from '../pipe/servers.ts';
import { resultOf } from './results.ts';

const CSV = `${ROOT}/fixtures/applications-60.csv`;
const FAULTS = 'chatty=0.15,escape=0.1,null=0.08';
const TOPOLOGIES = [
  ['sequential', 'full', 'named'],
  ['sequential', 'evidence', 'anonymous'],
  ['independent', 'full', 'named'],
  ['independent', 'verdict', 'named'],
  ['peer', 'full', 'anonymous'],
] as const;
let faulty: Servers;
beforeAll(async () => {
  faulty = await servers(1, { faults: FAULTS });
});

const RUNS: [string, string, string][] = [
  ...TOPOLOGIES.map(([topology, passed, labels]): [string, string, string] => [
    `${topology}, ${passed}, ${labels}`,
    'fw ingest CSV --limit 3 > asked; fw chain --ledger led ASK asked > done',
    `--topology ${topology} --passed ${passed} --labels ${labels}`,
  ]),
  [
    'shared questions',
    'fw ingest CSV --limit 1 --orderings all > asked; fw chain --ledger led ASK asked > done',
    '--share',
  ],
  ['samples', 'fw ingest CSV --limit 2 --samples 3 > asked; fw chain --ledger led ASK asked > done', ''],
  [
    'twins with one seed',
    'fw ingest CSV --limit 3 > asked; fw chain --ledger led ASK asked > done',
    '--twins income,age',
  ],
  [
    'names that the ledger does not keep',
    'fw ingest CSV --limit 2 > asked; fw chain --ledger led ASK asked > done',
    '--redact /input/name',
  ],
  [
    'decoding without a schema',
    'fw ingest CSV --limit 2 > asked; fw chain --ledger led ASK asked > done',
    '--guided off',
  ],
  [
    'values that were filled in',
    'fw ingest CSV --limit 4 > asked; fw chain --ledger led --attempts 1 --on-invalid default ASK asked > all; fw select --no-failed all > done; fw select --no-failed all | jq -r .id > ids; mv ids asked',
    '',
  ],
  [
    'failed items asked again',
    'fw ingest CSV --limit 4 > asked; fw chain --ledger led --attempts 1 ASK asked > first; fw select --failed first | fw chain --ledger led --attempts 6 --retry-failed ASK > again; fw merge first again > done',
    '',
  ],
  [
    'shards',
    'fw ingest CSV --limit 4 > asked; fw ingest CSV --limit 4 --shard 1/2 | fw chain --ledger led ASK > one; fw ingest CSV --limit 4 --shard 2/2 | fw chain --ledger led ASK > two; fw merge one two > done',
    '',
  ],
  [
    'one agent after the other',
    'fw ingest CSV --limit 2 > asked; fw agent-step --ledger led --agent data ASK asked | fw agent-step --ledger led --agent risk ASK | fw synthesize-decision --ledger led ASK > done',
    '',
  ],
  [
    'requests of a batch file',
    'cat > asked; fw ingest --format openai-batch asked | fw request --ledger led ASK > done; fw ingest --format openai-batch asked > items; mv items asked',
    '',
  ],
];

const BATCH = [1, 2]
  .map(n =>
    JSON.stringify({
      custom_id: `q${n}`,
      method: 'POST',
      url: '/v1/chat/completions',
      body: { model: 'simulated-3b', messages: [{ role: 'user', content: `${n}?` }], max_tokens: 9 },
    }),
  )
  .join('\n');

describe('a run', () => {
  test.each(every(5, RUNS))('with %s', async (_name, line, more) => {
    const at = folder();
    const ask = `${faulty.flags} ${more}`;
    const made = await fw(line.replaceAll('CSV', CSV).replaceAll('ASK', ask), {
      cwd: at,
      stdin: `${BATCH}\n`,
    });
    expect(made.stderr).not.toContain('bug');
    const accept = '--accept clean,repaired,coerced,defaulted';
    for (const beside of ['', '--ids asked --ledger led']) {
      const { code, stderr } = await fw(`fw verify ${accept} ${beside} done`, { cwd: at });
      expect(code, `${beside}\n${stderr}`).toBe(0);
      if (beside.includes('--ledger')) expect(stderr).toMatch(/ [1-9]\d* answers compared/);
      expect(stderr).not.toContain('not on record');
    }
  });

  test('without a decision, and one that decides afterwards', async () => {
    const at = folder();
    await fw(
      `fw ingest ${CSV} --limit 2 > asked; fw chain --no-decision --ledger led ${faulty.flags} asked > steps; fw synthesize-decision --ledger led ${faulty.flags} steps > done`,
      { cwd: at },
    );
    for (const line of ['--no-decision steps', 'done']) {
      const { code, stderr } = await fw(`fw verify --ids asked --ledger led ${line}`, { cwd: at });
      expect(code, stderr).toBe(0);
    }
  });

  test('whose agents were changed before what failed was asked again: said, and no less true', async () => {
    const at = folder();
    const { flags } = await servers(1, { faults: 'null=0.2' });
    const agents = `cp -r ${ROOT}/pipelines/fairwatch/agents ${ROOT}/schemas .; sed -i 's|../../../schemas|../schemas|' agents/*.yaml; `;
    const made = await fw(
      `${agents} fw ingest ${CSV} --limit 6 > asked; fw chain --ledger led --attempts 1 ${flags} asked > first; ` +
        `sed -i 's/max_tokens: 500/max_tokens: 700/' agents/*.yaml; fw select --failed first | fw chain --ledger led --attempts 6 --retry-failed ${flags} > again; fw merge first again > done`,
      { cwd: at },
    );
    expect(made.stderr).not.toContain('bug');
    const { code, stderr } = await fw('fw verify --ids asked --ledger led done', { cwd: at });
    expect(code, stderr).toBe(0);
    expect(stderr).toMatch(/answers of \w+ were sampled in 2 ways \(policy\)/);
  });
});

test('legacy results: lines, documents, with provenance, read back, filled, merged', async () => {
  const at = folder();
  const run = (line: string) => fw(line, { cwd: at });
  await run(
    `fw ingest ${CSV} --limit 4 --orderings risk,data,regulatory,consumer > asked; fw chain --ledger led ${faulty.flags} asked > items; fw legacy-convert items > out.jsonl; fw legacy-convert --document --model m --provenance out.json.provenance.ndjson items > out.json; fw legacy-convert --provenance how items > /dev/null`,
  );
  await run(
    'fw ingest --format legacy out.jsonl > back; fw ingest --format legacy --provenance how out.jsonl > vouched; fw legacy-convert back > again.jsonl',
  );
  await run(
    `fw ingest --format legacy --source ${CSV} out.jsonl > sourced; fw validate out.jsonl | fw null-fix > passed.jsonl; fw merge --old out.jsonl again.jsonl > merged.jsonl`,
  );
  for (const line of [
    'out.jsonl',
    '--provenance how out.jsonl',
    '--ledger led --provenance how out.jsonl',
    'out.json',
    '--ledger led --accept clean,repaired out.json',
    'back',
    'vouched',
    'again.jsonl',
    'sourced',
    'passed.jsonl',
    'merged.jsonl',
    '--ids asked out.jsonl',
    '--ids asked back',
    '--ids asked vouched',
    '--ids asked sourced',
    '--ids out.jsonl again.jsonl',
  ]) {
    const { code, stderr } = await run(`fw verify ${line}`);
    expect(code, `${line}\n${stderr}`).toBe(0);
  }
});

test('a null that was filled in after it had been shown', async () => {
  const at = folder();
  const damaged = structuredClone(resultOf(1)) as JsonObject & {
    conversation_history: { output: JsonObject; input: string }[];
    all_agent_outputs: JsonObject[];
  };
  const rate = damaged.conversation_history[0]?.output.interest_rate;
  for (const place of [damaged.conversation_history[0]?.output, damaged.all_agent_outputs[0]] as JsonObject[])
    place.interest_rate = null;
  for (const turn of damaged.conversation_history.slice(1))
    turn.input = turn.input.replace(`"interest_rate":${rate}`, '"interest_rate":null');
  writeFileSync(join(at, 'r.jsonl'), `${JSON.stringify(damaged)}\n`);
  const accept = '--accept clean,repaired,coerced,unknown,defaulted';
  for (const line of [
    `fw null-fix r.jsonl | fw verify ${accept}`,
    `fw ingest --format legacy r.jsonl | fw null-fix | fw verify ${accept}`,
  ]) {
    const { code, stderr } = await fw(line, { cwd: at });
    expect(code, `${line}\n${stderr}`).toBe(0);
  }
});

/** What other scripts make of the answers before, as a text: FairWatch's own are in Python. */
const pythonOf = (value: unknown): string => {
  if (typeof value === 'string')
    return value.includes("'") ? JSON.stringify(value) : `'${value.replaceAll('\n', '\\n')}'`;
  if (typeof value !== 'object' || value === null) return String(value);
  return `{${Object.entries(value)
    .map(([key, below]) => `'${key}': ${pythonOf(below)}`)
    .join(', ')}}`;
};
const spaced = (value: unknown): string =>
  JSON.stringify(value, null, 1)
    .replace(/\n */g, ' ')
    .replace(/[\u0080-\uffff]/g, unit => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
const FOREIGN: [string, (prompt: string, said: { agent: string; output: JsonObject }[]) => string][] = [
  [
    'json.dumps',
    (prompt, said) =>
      prompt + said.map(({ agent, output }) => `\n\n${agent} decision:\n${spaced(output)}`).join(''),
  ],
  [
    'an indented object',
    (prompt, said) => prompt + said.map(({ output }) => `\n---\n${JSON.stringify(output, null, 2)}`).join(''),
  ],
  [
    'a dictionary of Python',
    (prompt, said) =>
      `Task:\n${prompt}\nEarlier:\n${said.map(({ agent, output }) => `- ${agent}: ${pythonOf(output)}`).join('\n')}\nAnswer as JSON.`,
  ],
  [
    'the verdict alone',
    (prompt, said) =>
      `${prompt}\n${said.map(({ agent, output: { approval_decision, interest_rate } }) => `\n${agent}: ${JSON.stringify({ approval_decision, interest_rate })}`).join('')}`,
  ],
  [
    'words',
    (prompt, said) =>
      `${prompt}\n${said.map(({ agent, output }) => `\n${agent} says ${output.approval_decision} at ${output.interest_rate} %.`).join('')}`,
  ],
  [
    'answers before the prompt',
    (prompt, said) =>
      `${said.map(({ output }) => JSON.stringify(output)).join('\n')}\n\nApplication Data: ${prompt}`,
  ],
  [
    'an example before the prompt',
    (prompt, said) =>
      `Answer like {"approval_decision": "approve"}.\n${prompt}\n${said.map(({ output }) => JSON.stringify(output)).join('\n')}`,
  ],
];

type Shown = { input: string };

describe("other scripts' texts of what was shown", () => {
  const schemas = answerSchemas({}, ROOT);
  const made = (form: (typeof FOREIGN)[number][1], nth: number): JsonObject => {
    const result = resultOf(nth);
    const turns = result.conversation_history as { agent: string; input: string; output: JsonObject }[];
    const prompt = 'Application Data: {"name": "Ann", "age": 30, "dti_ratio": 0.30}';
    const history = turns.map((turn, at) => ({ ...turn, input: form(prompt, turns.slice(0, at)) }));
    return { ...result, initial_prompt: prompt, conversation_history: history };
  };
  test.each(FOREIGN)('%s passes, and shows what was given', (name, form) => {
    for (let nth = 0; nth < 3; nth++) {
      const result = made(form, nth);
      expect(findInLegacy(result, schemas), `${name} ${nth}`).toEqual([]);
      // the third agent is shown nothing of the first two
      const turns = result.conversation_history as [Shown, Shown, Shown, Shown];
      const bare = {
        ...result,
        conversation_history: turns.with(2, { ...turns[2], input: turns[0].input }),
      };
      expect(findInLegacy(bare, schemas)).toMatchObject([
        { rule: 'other input', at: '/conversation_history/2/input' },
      ]);
      if (name === 'words') continue; // which of them are the answer nobody knows
      const input = turns[3].input.replace(
        /(['"])(approve|deny)\1/g,
        (_, quote, said) => `${quote}${said === 'approve' ? 'deny' : 'approve'}${quote}`,
      );
      const other = { ...result, conversation_history: turns.with(3, { ...turns[3], input }) };
      expect(findInLegacy(other as JsonObject, schemas)).toMatchObject([{ rule: 'other input' }]);
    }
  });
});

test("the repository's own examples pass", async () => {
  const { code, stderr } = await fw(`fw verify ${ROOT}/fixtures/decided.ndjson`);
  expect(code, stderr).toBe(0);
  expect(readFileSync(`${ROOT}/fixtures/decided.ndjson`, 'utf8')).toContain('"calls"');
});
