/**
 * select: pass on only the lines that match every given option.
 *
 *   $ printf '%s\n' '{"id":"a","prompt":"?"}' '{"id":"b","failure":{"stage":"chain","code":"call-failed","message":"…"}}' | fw select --failed
 *   {"id":"b","failure":{"stage":"chain","code":"call-failed","message":"…"}}
 *
 * A line by which the stage before says that it ended early (input-incomplete) passes whatever is asked for: without it
 * the next stage would take what was selected for the whole.
 */

import { listedIn } from '../engine/audit/expected-ids.ts';
import { usageError } from '../engine/core/item/failure.ts';
import { idOf, isFailed, RUNGS, type Rung, rungOf, saysEnd } from '../engine/core/item/item.ts';
import { COMMON } from '../engine/flow/join.ts';
import { namesIn } from '../engine/flow/options.ts';
import { stage } from '../engine/flow/stage.ts';

export default stage({
  name: 'select',
  summary: 'Pass on only the lines that match every given option: failed, rung, ids.',
  examples: [
    'fw select --failed < items.jsonl | fw chain --retry-failed --endpoint http://gpu1:8005/v1 > again.jsonl',
    'fw select --rung coerced,defaulted < items.jsonl',
    'fw select --failed answered.jsonl > failed.jsonl; fw select --ids failed.jsonl input.jsonl > again.jsonl',
  ],
  options: {
    failed: {
      type: 'boolean',
      description: 'Select failed items and lines; --no-failed selects the others.',
    },
    rung: {
      type: 'array',
      items: { type: 'string' },
      description: `Select by rung, comma-separated: ${RUNGS.join(', ')}.`,
    },
    id: {
      type: 'array',
      items: { type: 'string' },
      description:
        'Select by id: for a legacy result, prompt_id/ordering; for a line of a batch file, its custom_id. May be repeated.',
    },
    ids: {
      type: 'string',
      file: 'read',
      description:
        'Select the ids in this file, one per line: ids, items, lines of a batch file or legacy results.',
    },
  },

  through(options, { account }) {
    const { failed, rung, id } = options;
    const rungs = rung && new Set(namesIn(rung));
    for (const name of rungs ?? []) {
      if (!RUNGS.includes(name as Rung))
        throw usageError(`--rung: expected some of ${RUNGS.join(', ')}, found '${name}'`);
    }
    const ids = id && new Set(id);
    const maxLine = (options as { 'max-line'?: number })['max-line'] ?? COMMON['max-line'].default;
    const isListed = options.ids && listedIn(options.ids, { stage: 'select', maxLine });
    return items =>
      items.filter(item => {
        if (saysEnd(item)) return true; // it speaks of what is missing, which nobody selected
        const matches =
          (failed === undefined || failed === isFailed(item)) &&
          (!rungs || rungs.has(rungOf(item))) &&
          (!ids || ids.has(idOf(item) ?? '')) &&
          (!isListed || isListed(item));
        if (!matches) account.aside += 1;
        return matches;
      });
  },
});
