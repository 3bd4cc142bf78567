/** fw plan against what it stands for: a run of the same items, a ledger of it, a server that counts tokens. */
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Simulator, startSimulator } from '../../products/simulator/simulator.ts';
import { runs } from '../all.ts';
import { folder, ROOT } from '../fw.ts';
import { fw } from '../here.ts';
import { serve } from '../pool/serving.ts';

const PIPELINE = join(ROOT, 'pipelines', 'fairwatch', 'chain.yaml');
const INPUT = join(ROOT, 'fixtures', 'applications-60.csv');
const ITEMS = runs(12, 30, 'ITEMS');

interface Planned {
  lengths: { prompts: string; answers: string };
  table: { calls: number; tokens_in: number; tokens_out: number; failed: number; makespan_s: number }[];
}

async function plan(options: string): Promise<Planned> {
  const line = `fw plan ${PIPELINE} ${INPUT} --preset 3b-a6000 --items ${ITEMS} --json ${options}`;
  const { code, stdout, stderr } = await fw(line);
  expect(code, stderr).toBe(0);
  return JSON.parse(stdout) as Planned;
}

let simulator: Simulator;
let faulty: Simulator;
beforeAll(async () => {
  simulator = await startSimulator();
  faulty = await startSimulator({ faults: 'truncated=0.2' });
});
afterAll(() => Promise.all([simulator.close(), faulty.close()]));

/** Runs the same items for real; the folder of its ledger, and what its account says. */
async function run({ url }: Simulator): Promise<{ ledger: string; account: string }> {
  const ledger = folder();
  const output = join(folder(), 'items.ndjson');
  const line = `fw run ${PIPELINE} ${INPUT} --limit ${ITEMS} --endpoint ${url} --ledger ${ledger} --output ${output}`;
  return { ledger, account: (await fw(line)).stderr };
}

test('calls and tokens of a plan are those of a run', async () => {
  const { account } = await run(simulator);
  const [, calls, prompt, completion] =
    /([\d,]+) calls · tokens ([\d,]+) in.*?, ([\d,]+) out/.exec(account) ?? [];
  const counts = [calls, prompt, completion].map(text => Number(text?.replaceAll(',', '')));
  const { table } = await plan('');
  expect(table.map(({ calls, tokens_in, tokens_out }) => [calls, tokens_in, tokens_out])).toEqual([counts]);
});

test('a ledger gives the lengths of its answers, and how many of them have to be asked again', async () => {
  const { ledger } = await run(faulty);
  const guessed = await plan('');
  const measured = await plan(`--ledger ${ledger}`);
  expect(measured.lengths.answers).toContain(`of an earlier run (${ledger}: `);
  const [first, second] = [guessed.table[0], measured.table[0]];
  // a fifth of the answers was cut off: which ones depends on the order of the calls
  expect(second?.calls).toBeGreaterThan(1.03 * (first?.calls ?? 0));
  // so few items wait for each other, not for a place: more calls may take no longer, in whole seconds
  expect(second?.makespan_s).toBeGreaterThanOrEqual(first?.makespan_s ?? 0);
});

test('a ledger without answers is none to plan with, and one that has them says all of it', async () => {
  const empty = await fw(`fw plan ${PIPELINE} ${INPUT} --preset 3b-a6000 --ledger ${folder()}`);
  expect(empty.code).toBe(65);
  expect(empty.stderr).toContain('expected answers with their tokens, found none');
  const both = await fw(`fw plan ${PIPELINE} ${INPUT} --preset 3b-a6000 --ledger x --output-tokens 9`);
  expect(both.code).toBe(64);
});

test('a server counts the tokens of a sample', async () => {
  const { lengths } = await plan(`--tokenizer ${simulator.url}`);
  // the simulator counts four characters as one token, and rounds up
  expect(lengths.prompts).toMatch(/^(3\.9\d|4\.00) characters a token, answers (3\.9\d|4\.00), as http/);
  const nobody = await fw(`fw plan ${PIPELINE} ${INPUT} --preset 3b-a6000 --tokenizer http://127.0.0.1:9/v1`);
  expect(nobody.code).toBe(69);
  expect(nobody.stderr).toContain('expected a count of tokens');
});

test.each([
  ['a word', '{"count":"many"}'],
  ['more than there can be', '{"count":9007199254740991}'],
  ['a page', '<html>'],
])('a server that counts %s is no tokenizer', async (_, body) => {
  const { url } = await serve(ask => ask.send(200, body));
  const { code, stderr } = await fw(
    `fw plan ${PIPELINE} ${INPUT} --preset 3b-a6000 --items 3 --tokenizer ${url}`,
  );
  expect([code, stderr]).toEqual([69, expect.stringContaining('expected a count of tokens')]);
});

test('a ledger whose server did not count is none to plan with', async () => {
  const usage = { prompt_tokens: 9007199254740991, completion_tokens: 9007199254740991 };
  const { url } = await serve(ask => ask.answer('{}', { usage }));
  const ledger = folder();
  await fw(
    `fw run ${PIPELINE} ${INPUT} --limit 2 --endpoint ${url} --ledger ${ledger} --output ${folder()}/x`,
  );
  const { code, stderr } = await fw(`fw plan ${PIPELINE} ${INPUT} --preset 3b-a6000 --ledger ${ledger}`);
  expect([code, stderr]).toEqual([65, expect.stringContaining('that say they have more than 1,048,576')]);
});

test('answers that are longer than agents let have are as long as that', async () => {
  const usage = { prompt_tokens: 500, completion_tokens: 500_000 };
  const { url } = await serve(ask => ask.answer('{}', { usage }));
  const ledger = folder();
  await fw(
    `fw run ${PIPELINE} ${INPUT} --limit 2 --endpoint ${url} --ledger ${ledger} --output ${folder()}/x`,
  );
  const { table } = await plan(`--ledger ${ledger}`);
  expect(table[0]?.tokens_out).toBe(500 * (table[0]?.calls ?? 0));
});

test('answers have the mean that was asked for, and the agents after them are shown more', async () => {
  const [short, long] = [await plan(''), await plan('--output-tokens 300')];
  const [one, other] = [short.table[0], long.table[0]];
  expect((other?.tokens_out ?? 0) / (other?.calls ?? 1)).toBeGreaterThan(285);
  expect((other?.tokens_out ?? 0) / (other?.calls ?? 1)).toBeLessThan(315);
  const more = (other?.tokens_out ?? 0) - (one?.tokens_out ?? 0);
  // of five agents' answers the first is read by four others, the second by three …
  expect((other?.tokens_in ?? 0) - (one?.tokens_in ?? 0)).toBeGreaterThan(1.5 * more);
});
