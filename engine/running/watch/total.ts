/**
 * How many items a run will give: counted beside it where its first stage reads files; where it reads a pipe, what
 * --total says of it, and unknown without.
 */

import type { Account } from '../../core/item/account.ts';
import { counted, number } from '../../core/item/wording.ts';
import type { Values } from '../../flow/options.ts';
import { isSource, type Stage, type Tools } from '../../flow/stage.ts';
import { countRows } from '../../tables/selection.ts';

export interface Total {
  /** How many items are to come out, given how many were left out so far; null until it knows. */
  items(aside: number): number | null;
  /** In words, that --total said another number than came, once all have come; null where it did not, or was not needed. */
  missed(account: Pick<Account, 'read' | 'endedAt'>): string | null;
}

/** Begins to count. */
export function countItems(row: readonly { stage: Stage; options: Values }[], tools: Tools): Total {
  const [first] = row;
  // who lets only the first items through has counted what it leaves out
  const isLimit = first?.stage.counts !== undefined && !isSource(first.stage, first.options);
  // behind a merge into old files their lines have come too
  const isOfInput = !isLimit && !row.some(({ stage }) => stage.name === 'merge');
  const said = row.find(({ options }) => options.total !== undefined)?.options.total as number | undefined;
  let found: number | null = null;
  let isSaid = false;
  const count = async (): Promise<void> => {
    const own = await countOf(row, tools);
    isSaid = own === null && said !== undefined;
    found = isSaid ? await countOf(row, { ...tools, rows: said as number }) : own;
  };
  void count();
  return {
    items: aside => (found === null || isLimit ? found : found - aside),
    missed({ read, endedAt }) {
      if (!isSaid || !isOfInput || said === undefined || found === null || endedAt === null || read === found)
        return null;
      const means = found === said ? '' : `, which makes ${counted(found, 'item')}`;
      const how =
        read < found ? 'less than that: did its writer end early?' : 'more: the bar could not know the end';
      return `--total ${number(said)}${means}: ${counted(read, 'item')} came, ${how}`;
    },
  };
}

async function countOf(
  [first]: readonly { stage: Stage; options: Values }[],
  tools: Tools,
): Promise<number | null> {
  if (first === undefined) return null;
  const { stage, options } = first;
  if (stage.counts) return stage.counts(options, tools);
  if (tools.rows !== undefined) return tools.rows;
  if (isSource(stage, options)) return null;
  // a document holds as many results as it holds
  if (stage.documents) return null;
  const maxLine = options['max-line'] as number;
  return countRows(tools.files, { format: 'lines', maxLine, signal: tools.signal });
}
