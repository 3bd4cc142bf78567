/**
 * ingest: turn the rows of a table into items.
 *
 *   $ printf 'id,question\n7,"Shall we, or not?"\n' | fw ingest --prompt question
 *   {"id":"7","row":1,"input":{"id":"7","question":"Shall we, or not?"},"prompt":"Shall we, or not?"}
 *
 * Reads   CSV, TSV, JSON or NDJSON; JSON lines that are items already pass as they are. With --format legacy the results
 *         of earlier runs, as lines or whole documents, which become the items that they were made of. With --format
 *         openai-batch lines { custom_id, method, url, body }, all of which are checked before the first is passed on
 * Writes  { id, row, input: { columns }, prompt, ordering?, sample? }, one for each row, ordering and sample; messages in place
 *         of the prompt with --messages; of a batch file { id, row, request: { method, url, body } }
 * Fails   not-a-request, ragged-row, bad-quotes, header-again, row-mismatch, duplicate-id, empty-id, empty-prompt, bad-messages,
 *         template-failed;
 *         not-utf8, not-json, not-an-object, value-not-kept and line-too-long as elsewhere. Of legacy results not-strict, unknown-agent, no-row,
 *         wrong-row; for --retry-failed sentinel-text, placeholder-text, no-valid-answer, zero-confidence, interrupted
 *
 * An item's `row` runs over all files of the run. `id` is the column id, else prompt_id, else 12 hex digits of the SHA-256
 * of the row. The ids of all rows count, also of those that --offset and --shard leave out, so that the parts of a table
 * make up the whole. A failed row is one item, whatever the orderings. In JSON null is no value, as if the key were absent.
 */

import {
  countItems,
  INGEST_OPTIONS,
  openRequests,
  openResults,
  openTable,
} from '../engine/audit/legacy/ingesting.ts';
import { stage } from '../engine/flow/stage.ts';
import { readTable, tableBatches } from '../engine/tables/read-table.ts';

export default stage({
  name: 'ingest',
  summary: 'Turn the rows of a CSV, TSV, JSON or NDJSON table into items.',
  examples: [
    'fw ingest prompts.csv --orderings batch4 --shard 1/8',
    "fw ingest 'parts/*.csv' --id name --template ask.liquid --limit 20",
    "fw ingest --format legacy --source prompts.csv 'out/*_legacy.json' | fw select --failed",
  ],
  options: INGEST_OPTIONS,

  // results whose answers all failed are what --retry-failed is for
  needsGood: options => options.format !== 'legacy',

  counts: countItems,

  async source(options, tools) {
    if (options.format === 'legacy') return openResults(options, tools);
    if (options.format === 'openai-batch') return openRequests(options, tools);
    const { reading } = await openTable(options, tools);
    return inputs => readTable(inputs, reading);
  },

  async written(options, tools) {
    if (options.format === 'legacy' || options.format === 'openai-batch') return null;
    const { reading, linesOf } = await openTable(options, tools);
    return inputs => tableBatches(inputs, reading, linesOf);
  },
});
