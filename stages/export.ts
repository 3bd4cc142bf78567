/**
 * export: write items as others read them: a table in CSV or Parquet, or the output lines of an OpenAI batch file.
 *
 *   $ printf '%s\n' '{"id":"7","prompt":"Rain?","steps":[{"agent":"sky","output":{"rain":true},"rung":"clean"}]}' | fw export --format csv
 *   id,rung,prompt,sky.output.rain,sky.rung
 *   7,clean,Rain?,true,clean
 *
 * Reads   items, failed ones too, and any other JSON objects; for openai-batch items that fw request has asked
 * Writes  csv, parquet: a row for each item, a column for each value: id, row, rung, failure.code, input.COLUMN,
 *         AGENT.output.KEY, AGENT.rung, … All of it is written at the end, since only then the columns are known.
 *         openai-batch: { id, custom_id, response: { status_code, request_id, body }, error }, as they come.
 *         Nothing reads these as items again
 * Fails   value-not-kept, too-deep; no-response for openai-batch
 */

import { usageError } from '../engine/core/item/failure.ts';
import { stage } from '../engine/flow/stage.ts';
import { FORMAT_NAMES, FORMATS } from '../engine/tables/export/export-formats.ts';

export default stage({
  name: 'export',
  summary: 'Write items as others read them: a table in CSV or Parquet, or the output lines of a batch file.',
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
      description: 'Format of the output: a table (csv, parquet), or the output lines of OpenAI batches.',
    },
    errors: {
      type: 'string',
      file: 'write',
      description: 'Write failed items to this file, in the same format, and not among the others.',
    },
    ordered: {
      type: 'boolean',
      description: 'Write in the order of the rows. What comes early waits on disk.',
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
