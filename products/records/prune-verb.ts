/** ledger prune: removes old days. */

import { existsSync, readdirSync, rmdirSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { holdersIn, stateOf, wordsOf } from '../../engine/asking/ledger/lock.ts';
import { writePage } from '../../engine/core/files/ndjson-out.ts';
import { EXIT, usageError } from '../../engine/core/item/failure.ts';
import { number } from '../../engine/core/item/wording.ts';
import { visible } from '../../engine/core/json/visible.ts';
import { command } from '../../engine/flow/command.ts';
import { LEDGER, placeOf } from './reading-options.ts';

export default command({
  name: 'ledger prune',
  summary: 'Delete the days of a ledger before a date. Answers that only they had are asked for again.',
  examples: [
    'fw ledger prune --before 2026-11-01',
    'fw ledger prune --before 2026-11-01 --ledger serve/gateway',
  ],
  options: {
    ...LEDGER,
    before: { type: 'string', description: 'First day to keep (UTC), e.g. 2026-11-01.' },
  },

  async run({ ledger, before }) {
    if (before === undefined)
      throw usageError('expected a day, found none: fw ledger prune --before 2026-11-01');
    const at = placeOf(ledger);
    if (!existsSync(at)) throw usageError(`${at}: expected the folder of a ledger, found none`);
    const { days, files, bytes } = pruneLedger(at, before, new Date().toISOString().slice(0, 10));
    await writePage(
      `${visible(at)}: removed ${number(days)} days · files ${number(files)} · bytes ${number(bytes)}\n`,
    );
    return EXIT.ok;
  },
});

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
