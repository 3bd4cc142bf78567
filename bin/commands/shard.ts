/**
 * A run that is one of n shards (`--shard i/n`): it takes every n-th row or line of the input, and whatever it writes has the
 * shard in its name. So no two shards write into one file, however outputs are named and wherever the shards run.
 *
 *   out/sequential_{ordering}_legacy.jsonl  →  out/sequential_{ordering}_legacy.2-of-8.jsonl
 *   ledger/                                 →  ledger/2-of-8/
 */
import { existsSync } from 'node:fs';
import { extname, join } from 'node:path';
import { unfinished } from '../../engine/core/files/saving.ts';
import { usageError } from '../../engine/core/item/failure.ts';
import { type Item, saysEnd } from '../../engine/core/item/item.ts';
import { COMMON } from '../../engine/flow/join.ts';
import type { Values } from '../../engine/flow/options.ts';
import { stage } from '../../engine/flow/stage.ts';
import type { Pipeline } from '../../engine/running/pipeline.ts';
import { type OptionsOfStage, optionsOf } from '../../engine/running/stage-options.ts';
import { countRows, selectRows, shardOf } from '../../engine/tables/selection.ts';

/** What a run works on and where it writes: `target` is a path, or `-`. */
export interface Writing extends Pick<Pipeline, 'row' | 'ledger'> {
  target: string;
}

/** The shard of a run, `i/n`: the flag's, else what its first stage says (`--set ingest.shard=1/8`). Exit 64 where they differ. */
export function shardOfRun([first]: Pipeline['row'], flag: string | undefined): string | undefined {
  const own = first?.options.shard as string | undefined;
  if (flag !== undefined && own !== undefined && own !== flag)
    throw usageError(
      `--shard ${flag}: expected the shard that the pipeline names too, found ${own} for ${first?.stage.name}; leave one out`,
    );
  return flag ?? own;
}

/** The run with the shard in the names of all that it writes. Exit 64 where one of its stages needs the whole. */
export function writingOf(shard: string, { row, ledger, target }: Writing): Writing {
  const name = nameOf(shard);
  refuseWhole(row);
  return {
    row: row.map(placed => ({ ...placed, options: writingTo(placed, name) })),
    ledger: ledger === false ? false : ledgerIn(ledger, name),
    target: target === '-' ? target : inShard(target, name),
  };
}

/** `02-of-16` for 2/16: with as many digits as n has, so that a list of files is in the order of the shards. */
function nameOf(shard: string): string {
  const [index, of] = shardOf(shard);
  return `${String(index).padStart(String(of).length, '0')}-of-${of}`;
}

/** The name before the ending of the file. Devices and pipes are written as they are; what is no name of a file is refused later. */
function inShard(path: string, name: string): string {
  if (path === '' || path.endsWith('/') || unfinished(path, 'output').partial === null) return path;
  const end = path.length - extname(path).length;
  return `${path.slice(0, end)}.${name}${path.slice(end)}`;
}

/** A ledger that is one file is only read once it is there, so that all shards may have it. */
function ledgerIn(path: string, name: string): string {
  if (!path.endsWith('.ndjson')) return join(path, name);
  return existsSync(path) ? path : inShard(path, name);
}

function writingTo({ stage, options }: OptionsOfStage, name: string): Values {
  const own = { ...options };
  for (const [option, schema] of Object.entries(optionsOf(stage))) {
    const path = options[option] as string | undefined;
    if (path === undefined || !('file' in schema)) continue;
    if (schema.file === 'write') own[option] = inShard(path, name);
    if (schema.file === 'write-folder') own[option] = ledgerIn(path, name);
  }
  return own;
}

/** Exit 64 for stages that speak of the whole: in a shard they would be wrong, and that is better known before it is paid for. */
function refuseWhole(row: readonly OptionsOfStage[]): void {
  for (const { stage, options } of row) {
    if (stage.name === 'merge')
      throw usageError(
        '--shard: expected a pipeline without merge, which would put all old lines into every shard; merge the shards when all are there',
      );
    const counts = ['expect', 'ids'].find(option => stage.name === 'verify' && options[option] !== undefined);
    if (counts !== undefined)
      throw usageError(
        `--shard: expected verify without ${counts}, which is about all shards; when all are there: fw verify --${counts} … over their files`,
      );
  }
}

/**
 * --limit and --shard of a run that reads lines: a first stage lets a part of them through. What makes items has options of its
 * own for it. The row behind a stage that lets the first `limit` lines through, of these those
 * of the shard.
 */
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
