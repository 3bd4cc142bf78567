/** Removing what is old: whole days of a ledger, by the names of their folders. What was removed is asked again. */
import { readdirSync, rmdirSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { holdersIn, stateOf, wordsOf } from '../../engine/asking/ledger/lock.ts';
import { usageError } from '../../engine/core/item/failure.ts';

export interface Pruned {
  days: number;
  files: number;
  bytes: number;
}

const DAY = /^\d{4}-\d{2}-\d{2}$/;

/**
 * Removes the ledger's files of the days before `before` (YYYY-MM-DD, UTC; today's stays). What is not the ledger's stays,
 * with its folder. Exit 64 where a run has the ledger.
 */
export function pruneLedger(path: string, before: string, today: string): Pruned {
  if (!DAY.test(before) || Number.isNaN(Date.parse(before)) || before > today)
    throw usageError(
      `--before: expected a day up to today, such as ${today}, found '${before.slice(0, 40)}'`,
    );
  const holder = holdersIn(join(path, 'locks')).find(one => stateOf(one) !== 'gone');
  if (holder)
    throw usageError(`${path}: the ledger is in use by ${wordsOf(holder)}; prune it when that has ended`);
  const pruned: Pruned = { days: 0, files: 0, bytes: 0 };
  for (const entry of readdirSync(path, { withFileTypes: true })) {
    if (!entry.isDirectory() || !DAY.test(entry.name) || entry.name >= before) continue;
    const folder = join(path, entry.name);
    const names = readdirSync(folder);
    const own = names.filter(name => name.endsWith('.ndjson'));
    for (const name of own) {
      pruned.bytes += statSync(join(folder, name)).size;
      rmSync(join(folder, name));
    }
    pruned.files += own.length;
    if (own.length > 0) pruned.days++;
    if (own.length === names.length) rmdirSync(folder);
  }
  return pruned;
}
