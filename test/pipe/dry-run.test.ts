/** fw run --dry-run: counts are those of the run that follows, and nothing is asked, written or locked. */
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { folder, ROOT } from '../fw.ts';
import { fw } from '../here.ts';
import { type Servers, servers } from './servers.ts';

const CSV = join(ROOT, 'fixtures/applications-60.csv');
const AGENTS = ['risk_manager', 'data_science', 'regulatory', 'consumer_advocate', 'business_decision'];

let server: Servers;
beforeAll(async () => {
  server = await servers(1);
});

function pipeline(at: string, chain = '{}', ingest = '{}'): void {
  writeFileSync(
    join(at, 'p.yaml'),
    `stages:\n  - ingest: ${ingest}\n  - chain: ${chain}\noutput: out.ndjson\n`,
  );
}

/** Every file below a folder, with its size and its time. */
function filesIn(at: string): string[] {
  const names = readdirSync(at, { recursive: true }) as string[];
  return names.sort().map(name => {
    const { size, mtimeMs, ino } = statSync(join(at, name));
    return [name, size, mtimeMs, ino].join();
  });
}

async function dry(at: string, more = `${CSV} --limit 4`) {
  const before = [server.requests(), filesIn(at)];
  const ran = await fw(`fw run p.yaml ${more} --dry-run`, { cwd: at });
  expect([server.requests(), filesIn(at)]).toEqual(before);
  const calls = /^calls +([\d,]+), if every first answer fits(?:; ([\d,]+) are on record)?$/m.exec(
    ran.stdout,
  );
  return { ...ran, calls: Number(calls?.[1]), onRecord: Number(calls?.[2] ?? 0) };
}

test('before a run: the first prompt of the first agent, and whose cannot be known', async () => {
  const at = folder();
  pipeline(at);
  const { stdout, stderr, calls, onRecord, code } = await dry(at);
  expect([calls, onRecord, code]).toEqual([20, 0, 0]);
  expect(stdout).toMatch(
    /^The first call, of item \w+, to risk_manager:\n\n--- system\n.+\n(?:.*\n)*--- user\n/m,
  );
  expect(stdout.match(/^The first call/gm)).toHaveLength(1);
  expect(stdout).toContain(
    `What ${AGENTS.slice(1).join(', ')} will be shown holds answers that are not there yet`,
  );
  expect(stderr).toContain(`would ask the model of the endpoints as ${AGENTS.join(', ')}`);
});

test('with a ledger: what is on record is counted apart, and the prompts behind it are known', async () => {
  const at = folder();
  pipeline(at, '{ decision: false }');
  const half = await fw(`fw run p.yaml ${CSV} --limit 2 ${server.flags}`, { cwd: at });
  expect(half.code, half.stderr).toBe(0);
  pipeline(at);
  // a run that has the ledger does not keep anybody from looking
  mkdirSync(join(at, 'ledger/locks'), { recursive: true });
  const { stdout, calls, onRecord } = await dry(at);
  expect([calls, onRecord]).toEqual([2 + 2 * 5, 2 * 4]);
  expect(stdout).toMatch(/^The first call, of item \w+, to business_decision:$/m);
  expect(stdout).toMatch(/^The first call, of item \w+, to risk_manager:$/m);
  const before = server.requests();
  const whole = await fw(`fw run p.yaml ${CSV} --limit 4 ${server.flags}`, { cwd: at });
  expect([server.requests() - before, whole.stderr.includes('+ 8 replayed')]).toEqual([calls, true]);
  expect(await dry(at)).toMatchObject({ calls: 0, onRecord: 20, code: 0 });
});

test.each([
  ['{ topology: independent, decision: false }', 4, 4],
  ['{ topology: independent }', 5, 4],
  ['{ topology: peer }', 9, 4],
  ['{ decision: false }', 4, 1],
])(
  '%s: so many calls an item as the run makes, and each first prompt that is known',
  async (chain, each, known) => {
    const at = folder();
    pipeline(at, chain);
    const { stdout, calls } = await dry(at, `${CSV} --limit 2`);
    expect(stdout.match(/^The first call/gm)).toHaveLength(known);
    const before = server.requests();
    await fw(`fw run p.yaml ${CSV} --limit 2 ${server.flags}`, { cwd: at });
    expect([calls, server.requests() - before]).toEqual([2 * each, 2 * each]);
  },
);

test('questions that the orderings of a row share are counted once', async () => {
  const at = folder();
  pipeline(at, '{ share: true }', '{ orderings: batch4 }');
  const { calls } = await dry(at, `${CSV} --limit 1`);
  const before = server.requests();
  await fw(`fw run p.yaml ${CSV} --limit 1 ${server.flags}`, { cwd: at });
  expect(server.requests() - before).toBe(calls);
  expect(calls).toBeLessThan(60);
});

test('why rows fail: before any call, and by what is on record', async () => {
  const at = folder();
  writeFileSync(join(at, 'rows.csv'), 'id,prompt\n1,first\n2\n3,third\n');
  mkdirSync(join(at, 'agents'));
  writeFileSync(
    join(at, 'agents/facts.yaml'),
    'key: facts\nshort: facts\ndisplay: Facts\nrole: agent\nschema: { type: object, required: [why], properties: { why: { type: string, minLength: 30 } } }\nsampling: { temperature: 0, max_tokens: 4 }\n',
  );
  pipeline(at, '{ agents: agents }');
  const first = await dry(at, 'rows.csv');
  expect([first.code, first.calls]).toEqual([1, 2]);
  expect(first.stdout).toMatch(/^items +3, 1 of them fail without a further call\n +failed: 1 ragged-row, /m);
  await fw(`fw run p.yaml rows.csv ${server.flags}`, { cwd: at });
  const again = await dry(at, 'rows.csv');
  expect([again.code, again.calls, again.onRecord]).toEqual([1, 0, 6]);
  expect(again.stdout).toMatch(
    /failed: 2 no-valid-answer \(truncated\), 1: facts: 3 attempts.*its max_tokens is 4/,
  );
});

test('requests of a batch file', async () => {
  const at = folder();
  const lines = [1, 2, 3].map(nth =>
    JSON.stringify({
      custom_id: `${nth}`,
      method: 'POST',
      url: '/v1/chat/completions',
      body: { messages: [{ role: 'user', content: `${nth}` }], max_tokens: 3 },
    }),
  );
  writeFileSync(join(at, 'in.jsonl'), `${lines.join('\n')}\n`);
  writeFileSync(join(at, 'one.jsonl'), `${lines[0]}\n`);
  writeFileSync(
    join(at, 'p.yaml'),
    'stages:\n  - ingest: { format: openai-batch }\n  - request: {}\noutput: out.ndjson\n',
  );
  expect(await dry(at, 'in.jsonl')).toMatchObject({ calls: 3, onRecord: 0 });
  const one = await fw(`fw run p.yaml one.jsonl ${server.flags}`, { cwd: at });
  expect(one.code, one.stderr).toBe(0);
  const { calls, onRecord, stdout } = await dry(at, 'in.jsonl');
  expect([calls, onRecord]).toEqual([2, 1]);
  expect(stdout).toContain('The first request, of item 2, to /v1/chat/completions:');
  expect(readFileSync(join(at, 'out.ndjson'), 'utf8')).toContain('"id":"1"');
});

test('after a pilot: tokens and cost as in the answers on record, and near what the run then costs', async () => {
  const at = folder();
  const [{ url } = { url: '' }] = server.all;
  writeFileSync(join(at, 'pool.yaml'), `endpoints:\n  - { url: "${url}", price: 2/1/8 }\n`);
  pipeline(at, '{ decision: false, pool: pool.yaml }');
  const unknown = await dry(at, `${CSV} --limit 20`);
  expect(unknown.stdout).toMatch(/^tokens out {7}about [\d,]+ \(half of max_tokens\)$/m);
  const pilot = await fw(`fw run p.yaml ${CSV} --limit 6`, { cwd: at });
  expect(pilot.stderr).toMatch(/ cost \d+\.\d+/);
  const { stdout, calls } = await dry(at, `${CSV} --limit 20`);
  expect(calls).toBe(14 * 4);
  expect(stdout).toMatch(/^tokens in {8}about [\d,]+ \(as in the 24 answers on record\)$/m);
  const [, foretold] = /^cost {13}about (\S+) if all is asked at http:\S+ \(2\/1\/8\)$/m.exec(stdout) ?? [];
  const rest = await fw(`fw run p.yaml ${CSV} --limit 20`, { cwd: at });
  const [, cost] = / cost (\d+\.\d+)/.exec(rest.stderr) ?? [];
  expect(Number(foretold) / Number(cost)).toBeGreaterThan(0.7);
  expect(Number(foretold) / Number(cost)).toBeLessThan(1.4);
});
