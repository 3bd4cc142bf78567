/**
 * ingest: turn the rows of a table into items.
 *
 *   $ printf 'id,question\n7,"Shall we, or not?"\n' | fw ingest --prompt question
 *   {"id":"7","row":1,"input":{"id":"7","question":"Shall we, or not?"},"prompt":"Shall we, or not?"}
 *
 * Reads   CSV, TSV, JSON, NDJSON or Parquet; JSON lines that are items already pass as they are. Text may be compressed by
 *         gzip, and in another encoding (--encoding). With --format legacy the results
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

import { AGENTS_OPTION, agentsOf } from '../engine/asking/agents/asking-options.ts';
import { labelledOrderings } from '../engine/asking/agents/orderings.ts';
import { openResults } from '../engine/audit/legacy/read-results.ts';
import type { OptionsOf } from '../engine/flow/options.ts';
import { stage, type Tools } from '../engine/flow/stage.ts';
import {
  countItems,
  INGEST_OPTIONS,
  type Orderings,
  openRequests,
  openTable,
} from '../engine/tables/ingesting.ts';
import { readTable, tableBatches } from '../engine/tables/read-table.ts';

const OPTIONS = { ...INGEST_OPTIONS, ...AGENTS_OPTION } as const;

export default stage({
  name: 'ingest',
  summary: 'Turn the rows of a CSV, TSV, JSON, NDJSON or Parquet table into items.',
  examples: [
    'fw ingest prompts.csv --orderings batch4 --shard 1/8',
    "fw ingest 'data/train-*.parquet' --prompt text --limit 1000",
    "fw ingest 'parts/*.csv' --id name --template ask.liquid --limit 20",
    "fw ingest --format legacy --source prompts.csv 'out/*_legacy.json' | fw select --failed",
  ],
  options: OPTIONS,

  // results whose answers all failed are what --retry-failed is for
  needsGood: options => options.format !== 'legacy',

  counts: (options, tools) => countItems(options, tools, orderingsOf(options, tools)),

  async source(options, tools) {
    if (options.format === 'legacy') return openResults(options, tools, () => agentsOf(options, tools));
    if (options.format === 'openai-batch') return openRequests(options, tools);
    const { reading } = await openTable(options, tools, orderingsOf(options, tools));
    return inputs => readTable(inputs, reading);
  },

  async written(options, tools) {
    if (options.format === 'legacy' || options.format === 'openai-batch') return null;
    const { reading, shapeOf } = await openTable(options, tools, orderingsOf(options, tools));
    return inputs => tableBatches(inputs, reading, shapeOf);
  },
});

function orderingsOf(options: OptionsOf<typeof OPTIONS>, tools: Tools): Orderings {
  const { orderings } = options;
  return () => (orderings === undefined ? null : labelledOrderings(orderings, agentsOf(options, tools)));
}
