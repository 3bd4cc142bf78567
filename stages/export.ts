/**
 * export: write items as a CSV or Parquet table, or as the output lines of an OpenAI batch.
 *
 *   $ printf '%s\n' '{"id":"7","prompt":"Rain?","steps":[{"agent":"sky","output":{"rain":true},"rung":"clean"}]}' | fw export --format csv
 *   id,rung,prompt,sky.output.rain,sky.rung
 *   7,clean,Rain?,true,clean
 *
 * Reads   items, failed ones too, and any other JSON objects; for openai-batch items that fw request has asked
 * Writes  csv, parquet: a row for each item, a column for each value: id, row, rung, failure.code, input.COLUMN,
 *         AGENT.output.KEY, AGENT.rung, … Everything is written at the end, when all columns are known.
 *         openai-batch: { id, custom_id, response: { status_code, request_id, body }, error }, as they come.
 *         No stage reads these back as items
 * Fails   value-not-kept, too-deep; no-response for openai-batch
 */

import { usageError } from '../engine/core/item/failure.ts';
import { stage } from '../engine/flow/stage.ts';
import { FORMAT_NAMES, FORMATS } from '../engine/tables/export/export-formats.ts';

export default stage({
  name: 'export',
  summary: 'Write items as a CSV or Parquet table, or as the output lines of an OpenAI batch.',
  examples: [
    'fw export --format parquet < answered.ndjson > answered.parquet',
    'fw export --format csv --ordered --errors failed.csv < answered.ndjson > answered.csv',
    'fw export --format openai-batch --ordered --errors errors.jsonl < answered.jsonl > output.jsonl',
  ],
  ends: true,
  frame: ({ format, errors, ordered }) =>
    format === undefined ? undefined : FORMATS[format].frame({ errors, ordered: ordered === true }),
  options: {
    format: {
      type: 'string',
      enum: FORMAT_NAMES,
      description:
        'Output format: a table (csv, parquet), or the output lines of an OpenAI batch (openai-batch).',
    },
    errors: {
      type: 'string',
      file: 'write',
      description: 'Write failed items to this file instead of the output, in the same format.',
    },
    ordered: {
      type: 'boolean',
      description: 'Write in row order; items that come early wait on disk.',
    },
  },

  each({ format }) {
    if (format === undefined) throw usageError(`expected --format ${FORMAT_NAMES.join(' | ')}, found none`);
    const { check } = FORMATS[format];
    return item => {
      check(item);
      return item;
    };
  },
});
