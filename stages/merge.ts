/**
 * merge: put two files together by id. The better rung stays, failed being the worst; of equal ones the newer.
 *
 *   $ fw merge fixtures/merge/good/old.ndjson fixtures/merge/good/new.ndjson | jq -c '[.id, .tag, .steps[0].rung]'
 *   ["a","new","clean"]
 *   ["b","new","clean"]
 *   ["c","new","repaired"]
 *   ["d","old","clean"]
 *   ["e","new","clean"]
 *
 * Reads   two files, each twice; not standard input
 * Writes  OLD's ids in their order, then those that only NEW has; every line as the bytes that it had. A line without
 *         an id is kept; an item that was never asked is worse than a failed one. NEW's input-incomplete stays, OLD's does not: NEW is there to mend it.
 */
import { usageError } from '../engine/flow/failure.ts';
import { COMMON } from '../engine/flow/join.ts';
import { mergeFiles } from '../engine/flow/merge.ts';
import { stage } from '../engine/flow/stage.ts';

export default stage({
  name: 'merge',
  summary: 'Put two files together by id: the better rung stays, of equal ones the newer.',
  positional: 'OLD NEW',
  examples: [
    'fw select --failed < items.jsonl | fw chain --retry-failed --endpoint http://gpu1:8005/v1 > again.jsonl',
    'fw merge items.jsonl again.jsonl > all.jsonl',
  ],
  options: {},

  source(options, { files, signal, account }) {
    const [old, newer] = files;
    if (old === undefined || newer === undefined || files.length > 2) {
      throw usageError(`expected two files, OLD and NEW, found ${files.length}`);
    }
    if (files.includes('-')) {
      throw usageError(
        "expected two files, found '-': merge reads them twice, so write standard input to a file first",
      );
    }
    const maxLine = (options as { 'max-line'?: number })['max-line'] ?? COMMON['max-line'].default;
    return () => mergeFiles({ old, new: newer, maxLine, signal, account });
  },
});
