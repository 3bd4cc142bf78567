/** ledger prune: removes old days, or the texts of an owner. */

import { existsSync, readdirSync, rmdirSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { holdersIn, stateOf, wordsOf } from '../../engine/asking/ledger/lock.ts';
import { isFull } from '../../engine/core/files/durable.ts';
import { writePage } from '../../engine/core/files/ndjson-out.ts';
import { EXIT, usageError } from '../../engine/core/item/failure.ts';
import { number } from '../../engine/core/item/wording.ts';
import { visible } from '../../engine/core/json/visible.ts';
import { command } from '../../engine/flow/command.ts';
import { alikesOf, BY, costBy } from './cost-by.ts';
import { forgetOwner } from './forget-owner.ts';
import { LEDGER, placeOf } from './reading-options.ts';
import { appendRemoved, keeperOf } from './spent.ts';

export default command({
  name: 'ledger prune',
  summary: 'Delete the days of a ledger before a date, or the texts of what a key of a server has asked.',
  examples: [
    'fw ledger prune --before 2026-11-01',
    'fw ledger prune --before 2026-11-01 --ledger serve/gateway',
    'fw ledger prune --owner alice --ledger serve/gateway',
  ],
  options: {
    ...LEDGER,
    before: {
      type: 'string',
      description:
        'First day to keep (UTC), e.g. 2026-11-01. Answers that only the days before it had are asked for again.',
    },
    owner: {
      type: 'string',
      description:
        'Remove only texts of calls of this owner (fw keys): requests, answers and errors. Times, tokens and counts stay.',
    },
  },

  async run({ ledger, before, owner }) {
    if (before === undefined && owner === undefined)
      throw usageError('expected a day or an owner, found none: fw ledger prune --before 2026-11-01');
    const at = placeOf(ledger);
    if (!existsSync(at)) throw usageError(`${at}: expected the folder of a ledger, found none`);
    if (owner !== undefined) return forget(at, owner, before ?? null);
    const { days, files, bytes } = pruneLedger(at, before as string, new Date().toISOString().slice(0, 10));
    await writePage(
      `${visible(at)}: removed ${number(days)} days · files ${number(files)} · bytes ${number(bytes)}\n`,
    );
    return EXIT.ok;
  },
});

async function forget(at: string, owner: string, before: string | null): Promise<number> {
  if (before !== null) checkDay(before, new Date().toISOString().slice(0, 10));
  refuseHeld(at);
  let unread = 0;
  const { calls, files, bytes } = forgetOwner(at, owner, before, ({ path, message, kind }) => {
    if (kind === 'torn') return; // a server is writing it, or was killed: nobody has used it
    unread += 1;
    process.stderr.write(`fw ledger prune: ${visible(path)}: ${visible(message)}\n`);
  });
  await writePage(
    `${visible(at)}: removed the texts of ${number(calls)} calls of ${visible(owner)} · files ${number(files)} · bytes ${number(bytes)}\n`,
  );
  // what cannot be read may be his, too
  return unread > 0 ? EXIT.failed : EXIT.ok;
}

export interface Pruned {
  days: number;
  files: number;
  bytes: number;
}

const DAY = /^\d{4}-\d{2}-\d{2}$/;

/**
 * Removes the ledger's files of the days before `before` (YYYY-MM-DD, UTC; today's stays). What their calls used is added up
 * first (spent.ts). What is not the ledger's stays, with its folder. Exit 64 where a run has the ledger.
 */
export function pruneLedger(path: string, before: string, today: string): Pruned {
  checkDay(before, today);
  refuseHeld(path);
  const pruned: Pruned = { days: 0, files: 0, bytes: 0 };
  const keeper = keeperOf(path);
  for (const entry of readdirSync(path, { withFileTypes: true })) {
    if (!entry.isDirectory() || !DAY.test(entry.name) || entry.name >= before) continue;
    const folder = join(path, entry.name);
    const names = readdirSync(folder);
    const own = names.filter(name => name.endsWith('.ndjson'));
    for (const name of own) {
      pruned.bytes += statSync(join(folder, name)).size;
      removeSummed(join(folder, name), `${keeper.name}${entry.name}/${name}`, keeper.folder);
    }
    pruned.files += own.length;
    if (own.length > 0) pruned.days++;
    if (own.length === names.length) rmdirSync(folder);
  }
  return pruned;
}

/** Each call counts once, wherever this is killed: the line first, then the file. But on a full disk it is the file that makes room. */
function removeSummed(path: string, ledger: string, folder: string): void {
  const sums = alikesOf(costBy([path], BY, new Map(), () => {}));
  const keep = (): void => {
    if (sums.length > 0) appendRemoved(folder, { ledger, sums });
  };
  try {
    keep();
    rmSync(path);
  } catch (error) {
    if (!isFull(error)) throw error;
    rmSync(path);
    keep();
  }
}

function checkDay(before: string, today: string): void {
  if (DAY.test(before) && !Number.isNaN(Date.parse(before)) && before <= today) return;
  throw usageError(`--before: expected a day up to today, such as ${today}, found '${before.slice(0, 40)}'`);
}

/** A run that has it relies on what it has read; the record of a server is read by nobody but its cache, which looks again. */
function refuseHeld(path: string): void {
  const holder = holdersIn(join(path, 'locks')).find(one => stateOf(one) !== 'gone');
  if (holder)
    throw usageError(`${path}: the ledger is in use by ${wordsOf(holder)}; prune it when that has ended`);
}
