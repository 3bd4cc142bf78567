/** fw ledger prune: days that go, and what stays. */
import { mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { takeLock } from '../../engine/asking/ledger/lock.ts';
import { pruneLedger } from '../../products/records/prune-verb.ts';
import { folder } from '../fw.ts';
import { fw } from '../here.ts';
import { appended, opened, recordOf } from './records.ts';

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

test('what was used stays in fw ledger cost: of a server in its folder, of a run beside its days; and only once', async () => {
  const server = folder();
  writeFileSync(join(server, 'clock.json'), '{"seen":1}');
  for (const [root, at] of [
    [server, join(server, 'gateway')],
    [join(folder(), 'ledger'), ''],
  ] as const) {
    const path = at || root;
    const ledger = opened(path);
    for (let n = 0; n < 3; n++)
      await appended(ledger, recordOf({ says: `${n}`, caller: 'ann', usage: { prompt: 5, completion: n } }));
    await ledger.close();
    const [day = ''] = readdirSync(path).filter(name => /^\d{4}-/.test(name));
    const [name = ''] = readdirSync(join(path, day));
    mkdirSync(join(path, '2026-11-20'));
    renameSync(join(path, day, name), join(path, '2026-11-20', name));
    const cost = () => fw(`fw ledger cost --json --by key,model --ledger ${root}`);
    const before = (await cost()).stdout;
    expect(JSON.parse(before).total).toMatchObject({ tries: 3, in: 15, out: 3 });
    const kept = readFileSync(join(path, '2026-11-20', name));
    expect(pruneLedger(path, '2026-11-22', TODAY)).toMatchObject({ files: 1 });
    expect((await cost()).stdout).toBe(before);
    // it was killed between the line and the file
    mkdirSync(join(path, '2026-11-20'), { recursive: true });
    writeFileSync(join(path, '2026-11-20', name), kept);
    expect((await cost()).stdout).toBe(before);
    pruneLedger(path, '2026-11-22', TODAY);
    expect((await cost()).stdout).toBe(before);
    expect((await fw(`fw ledger check --ledger ${root}`)).code).toBe(0);
  }
});
