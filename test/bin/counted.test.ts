/** One is one: nothing that a run says of a single line, item, call or answer has it in the plural. */
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { folder, ROOT } from '../fw.ts';
import { fw } from '../here.ts';
import { servers } from '../pipe/servers.ts';

/** `1 calls`, `1 more endpoints`; behind "of" or a comma too. A rate (`1 calls/s`) is none, nor is `11 calls`. */
const ONE_OF_SEVERAL =
  /(?<![\d.,])1 (?:\w+ )?(?:answers|bytes|calls|characters|endpoints|fields|files|items|lines|records|requests|results|retries|rows|sequences|tokens|tries)\b(?!\/)/;

test('a run of one item, and what is said of it afterwards', async () => {
  const { flags } = await servers(1);
  const cwd = folder();
  const ledger = `--ledger ledger --agents ${join(ROOT, 'pipelines/fairwatch/agents')} ${flags}`;
  let said = '';
  for (const line of [
    `printf 'id,prompt\n1,"Application Data: {}"\n' > one.csv`,
    'fw ingest one.csv > items.jsonl',
    `fw agent-step --agent risk_manager ${ledger} < items.jsonl > asked.jsonl`,
    `fw agent-step --agent risk_manager ${ledger} < items.jsonl > again.jsonl`,
    'fw verify --expect 1 asked.jsonl',
    'fw verify --expect 2 --no-decision asked.jsonl',
    'fw ledger ls',
    'fw ledger cost',
    'fw ledger check',
    'fw ledger show 1',
    'fw ledger export --files exported',
    `printf '{"torn' >> "$(find ledger -name '*.ndjson' | head -1)"`,
    'fw ledger check',
    'fw ledger ls',
    `fw agent-step --agent risk_manager ${ledger} < items.jsonl > again.jsonl`,
    "printf 'x\n' | fw ingest --format csv",
  ]) {
    const { stdout, stderr } = await fw(line, { cwd });
    said += stdout + stderr;
  }
  // it has seen what it judges
  for (const words of [
    '1 call ·',
    '1 answer',
    'calls answered 1',
    'expected 2 accepted results',
    'wrote 1 file under',
  ])
    expect(said).toContain(words);
  expect(said.split('\n').filter(line => ONE_OF_SEVERAL.test(line))).toEqual([]);
});
