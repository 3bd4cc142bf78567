/** A ledger that an earlier version wrote is replayed: same bodies, same keys, and nothing is asked twice. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { Item } from '../../engine/core/item/item.ts';
import { ROOT } from '../fw.ts';
import { fw } from '../here.ts';

const REPLAY = join(ROOT, 'fixtures/replay');
const CSV = join(ROOT, 'fixtures/applications-60.csv');

const itemsIn = (text: string): Item[] =>
  text
    .split('\n')
    .filter(Boolean)
    .map(line => JSON.parse(line) as Item)
    .sort((a, b) => ((a.id as string) < (b.id as string) ? -1 : 1));

// A key is the hash of the request body, the item, the agent, the round and the attempt. Without an endpoint the run
// ends with 69 at the first call whose key is not on record.
test('version 0.1.0: every answer is on record, and is read as it was then', async () => {
  const ran = await fw(`fw ingest ${CSV} --limit 8 | fw chain --ledger ${REPLAY}/accepted/ledger.ndjson`);
  expect(ran.code, ran.stderr).toBe(0);
  expect(ran.stderr).toContain('0 calls + 52 replayed');
  expect(ran.stderr).not.toContain('refuse');
  const before = itemsIn(readFileSync(join(REPLAY, 'accepted/items.ndjson'), 'utf8'));
  // that version kept no hash of a text that it left out, nor how an answer was sampled, and had one rule for all text
  const hashless = JSON.parse(ran.stdout.trim() && JSON.stringify(itemsIn(ran.stdout)), (key, value) =>
    key === 'sha256' || key === 'policy' ? undefined : value === 'text-after' ? 'text-around' : value,
  );
  expect(hashless).toEqual(before);
});

test('version 0.1.0: answers that were accepted by mistake are counted before the first call, and asked again', async () => {
  const ran = await fw(`fw ingest ${CSV} --limit 6 | fw chain --ledger ${REPLAY}/refused/ledger.ndjson`);
  // nothing can be asked here: the first question that is not on record ends the run
  expect(ran.code, ran.stderr).toBe(64);
  expect(ran.stderr).toContain(
    "the ledger has 30 answers that an earlier version of fw accepted; today's rules refuse 20 of them " +
      '(5 null-value, 5 schema-mismatch, 10 several-answers)',
  );
  expect(ran.stderr.indexOf("today's rules")).toBeLessThan(ran.stderr.indexOf('is not on record'));
});
