/** fw ledger prune: days that go, and what stays. */
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { takeLock } from '../../engine/asking/ledger/lock.ts';
import { pruneLedger } from '../../products/records/prune-verb.ts';
import { folder } from '../fw.ts';

const TODAY = '2026-11-23';

function ledger(): string {
  const path = folder();
  for (const day of ['2026-11-20', '2026-11-21', TODAY, 'notes']) {
    mkdirSync(join(path, day));
    writeFileSync(join(path, day, 'a.ndjson'), '{}\n');
  }
  writeFileSync(join(path, '2026-11-21', 'mine.txt'), "not the ledger's");
  return path;
}

test("days before the date go, and what is not the ledger's stays", () => {
  const path = ledger();
  expect(pruneLedger(path, '2026-11-22', TODAY)).toEqual({ days: 2, files: 2, bytes: 6 });
  expect(readdirSync(path).sort()).toEqual(['2026-11-21', TODAY, 'notes']);
  expect(readdirSync(join(path, '2026-11-21'))).toEqual(['mine.txt']);
  expect(pruneLedger(path, '2026-11-22', TODAY)).toEqual({ days: 0, files: 0, bytes: 0 });
});

test('refused while a run has it, and for what is no day of the past', () => {
  const path = ledger();
  const lock = takeLock(join(path, 'locks'), 'run');
  expect(() => pruneLedger(path, '2026-11-22', TODAY)).toThrow('in use by');
  lock.release();
  for (const day of ['2026-11-24', '2026-13-45', 'yesterday', '../..'])
    expect(() => pruneLedger(path, day, TODAY)).toThrow('--before');
  expect(readdirSync(path)).toContain('2026-11-20');
});
