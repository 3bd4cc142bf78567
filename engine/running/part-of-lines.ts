/** --limit and --shard of a run that reads lines: a first stage lets a part of them through. What makes items has options of its own for it. */

import { type Item, saysEnd } from '../core/item/item.ts';
import { COMMON } from '../flow/join.ts';
import { stage } from '../flow/stage.ts';
import { countRows, selectRows } from '../tables/selection.ts';
import type { Pipeline } from './pipeline.ts';

/** The row behind a stage that lets the first `limit` lines through, of these those of the shard. */
export function withPart(
  row: Pipeline['row'],
  { limit, shard }: { limit?: number; shard?: string },
): Pipeline['row'] {
  const [first] = row;
  // it has the name of the stage behind it, so that a line that is no JSON fails there as in a run without a part
  const named = { ...partOfLines, name: first?.stage.name ?? partOfLines.name };
  return [{ stage: named, options: { limit, shard, 'max-line': first?.options['max-line'] } }, ...row];
}

const partOfLines = stage({
  name: 'part',
  summary: 'Let a part of the lines through.',
  options: {
    limit: { type: 'integer', description: 'Take only the first N lines.' },
    shard: { type: 'string', description: 'Take every n-th line, starting with the i-th: i/n.' },
  },
  async counts({ limit, shard }, { files, signal, rows }) {
    const maxLine = COMMON['max-line'].default;
    const lines = rows ?? (await countRows(files, { format: 'lines', maxLine, signal }));
    return lines && selectRows({ offset: 0, limit, shard }).of(lines);
  },
  through({ limit, shard }, { account }) {
    const part = selectRows({ offset: 0, limit, shard });
    let line = 0;
    const isIn = (item: Item): boolean => {
      line += 1;
      const taken = part.has(line) || saysEnd(item); // that the input is not whole is for every shard to know
      if (!taken) account.aside += 1;
      return taken;
    };
    // what is behind the limit is left unread
    return items => (limit === undefined ? items : items.take(limit)).filter(isIn);
  },
});
