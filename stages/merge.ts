/**
 * merge: put files together by id. The better rung stays, failed being the worst; of equal ones the newer.
 *
 *   $ fw merge fixtures/merge/good/old.ndjson fixtures/merge/good/new.ndjson | jq -c '[.id, .tag, .steps[0].rung]'
 *   ["a","new","clean"]
 *   ["b","new","clean"]
 *   ["c","new","repaired"]
 *   ["d","old","clean"]
 *   ["e","new","clean"]
 *
 * Reads   two files or more, the oldest first, each twice: lines, or whole legacy documents. With --old the newest lines
 *         come through a pipe; behind other stages from these, and the old files are those that the run reads
 * Writes  the ids in the order in which they first came; every line as the bytes that it had. A line without an id is
 *         kept; an item that was never asked is worse than a failed one, and a legacy result that verify refuses as bad.
 *         The newest file's input-incomplete stays, that of the others does not: the newest is there to mend it. With
 *         --old new lines are passed on at once, and the old lines follow
 * Fails   other-prompt: a line whose id an earlier one has, with another prompt. It replaces no line, and no line replaces it
 */

import { resolve } from 'node:path';
import { mergeFiles, mergeInto } from '../engine/audit/merge-files.ts';
import { refusedResults } from '../engine/audit/verdict.ts';
import {
  expandPaths,
  expectResults,
  identityOf,
  isRemote,
  notOnDisk,
} from '../engine/core/files/input-files.ts';
import { usageError } from '../engine/core/item/failure.ts';
import { COMMON } from '../engine/flow/join.ts';
import { refuseTables } from '../engine/flow/looks-like.ts';
import { stage } from '../engine/flow/stage.ts';

export default stage({
  name: 'merge',
  summary: 'Merge files by id: keep the line with the better rung, else the newer one.',
  positional: 'OLD… NEW',
  documents: true,
  examples: [
    'fw select --failed < items.jsonl | fw chain --retry-failed --endpoint http://gpu1:8005/v1 > again.jsonl',
    'fw merge items.jsonl again.jsonl > all.jsonl',
    "fw chain --retry-failed --endpoint http://gpu1:8005/v1 < failed.jsonl | fw legacy | fw merge --old 'out/*_legacy.jsonl' > all.jsonl",
  ],
  options: {
    agents: {
      type: 'string',
      file: 'read-folder',
      from: 'base',
      description:
        'Folder of agents whose schemas legacy results must fit. Default: the packaged FairWatch agents.',
    },
    old: {
      type: 'array',
      items: { type: 'string' },
      file: 'read-many',
      description:
        'Files to merge standard input (or NEW) into, oldest first. Default after other stages: the files they read.',
    },
  },

  isSource: ({ old }) => old === undefined,
  source(options, { base, files, signal, account }) {
    if (files.length < 2) throw usageError(`expected two files or more, OLD and NEW, found ${files.length}`);
    if (files.includes('-')) {
      throw usageError(
        "expected files, found '-', which cannot be read twice; to read NEW from a pipe: fw merge --old OLD",
      );
    }
    const again = twiceIn(files);
    if (again !== null) throw usageError(`expected different files, found ${again}`);
    refuseTables(files, 'merge', { documents: true, inPlace: true });
    return () => mergeFiles(files, { ...merging(options, base), signal, account });
  },

  async through(options, { base, account, files }) {
    const { old = files } = options;
    if (old.length === 0 || old.includes('-'))
      throw usageError('--old: expected files to merge into, found none, or standard input');
    const paths = expectResults(await expandPaths(old));
    const again = twiceIn(paths);
    if (again !== null) throw usageError(`--old: expected different files, found ${again}`);
    refuseTables(paths, 'merge', { documents: true, inPlace: true });
    return mergeInto(paths, { ...merging(options, base), account });
  },
});

/** Which file is there twice, in words: a line that is merged with itself tells nobody anything. */
function twiceIn(files: readonly string[]): string | null {
  const known = new Map<string, string>();
  for (const file of files) {
    if (isRemote(file)) throw notOnDisk(file);
    const identity = identityOf(file) ?? resolve(file);
    const other = known.get(identity);
    if (other === file) return `${file} twice`;
    if (other !== undefined) return `${other} twice: ${file} is another name of it`;
    known.set(identity, file);
  }
  return null;
}

/** What verify refuses as bad is as bad here. */
function merging({ agents, ...rest }: { agents?: string; 'max-line'?: number }, base: string) {
  const maxLine = rest['max-line'] ?? COMMON['max-line'].default;
  return { maxLine, isRefused: refusedResults(agents, base) };
}
