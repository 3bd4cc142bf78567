/**
 * ledger: what is on record. Each verb of it is a command of its own, in bin/ledger/.
 *
 *   fw ledger ls
 *   fw ledger show 50acc2a3e4e6
 *   fw ledger export --since 2026-11-20 > calls.ndjson
 */

import { usageError } from '../../engine/core/item/failure.ts';
import { didYouMean } from '../../engine/core/item/wording.ts';
import { type Command, command } from '../../engine/flow/command.ts';
import check from './check-verb.ts';
import exporting from './export-verb.ts';
import cost from './ledger-cost.ts';
import ls from './ls-verb.ts';
import prune from './prune-verb.ts';
import repair from './repair-verb.ts';
import show from './show-verb.ts';

const verbs: Readonly<Record<string, Command>> = { check, cost, export: exporting, ls, prune, repair, show };
const names = Object.keys(verbs).join(', ');

export default command({
  name: 'ledger',
  summary: `Inspect a ledger: ${names}.`,
  positional: 'VERB',
  examples: Object.values(verbs).flatMap(({ examples = [] }) => examples.slice(0, 1)),
  options: {},
  verbs,

  async run(_options, [verb]) {
    const found = verb === undefined ? 'none' : `'${verb}'${didYouMean(verb, Object.keys(verbs))}`;
    throw usageError(`expected one of ${names}, found ${found}; fw ledger VERB --help shows its options`);
  },
});
