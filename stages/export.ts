/**
 * export: write items as others read them: an output line of OpenAI's batch format for each.
 *
 *   $ fw ingest --format openai-batch fixtures/requests.jsonl --limit 1 | fw request --endpoint $FW_ENDPOINT | fw export --format openai-batch | jq -c '[.custom_id, .response.status_code, .error]'
 *   ["chat-1",200,null]
 *
 * Reads   items that fw request has asked, failed ones too
 * Writes  { id, custom_id, response: { status_code, request_id, body }, error }, as they come; nothing reads it as items
 * Fails   no-response
 */
import { FORMAT_NAMES, FORMATS } from '../engine/export/formats.ts';
import { stage } from '../engine/flow/stage.ts';
import { usageError } from '../engine/item/failure.ts';

export default stage({
  name: 'export',
  summary: 'Write items as others read them: as the output lines of an OpenAI batch file.',
  examples: [
    'fw export --format openai-batch < answered.jsonl > output.jsonl',
    'fw export --format openai-batch --ordered --errors errors.jsonl < answered.jsonl > output.jsonl',
  ],
  ends: true,
  frame: ({ format, errors, ordered }) =>
    format === undefined ? undefined : FORMATS[format].frame({ errors, ordered: ordered === true }),
  options: {
    format: {
      type: 'string',
      enum: FORMAT_NAMES,
      description: 'Format of the output.',
    },
    errors: {
      type: 'string',
      file: 'write',
      description: 'Write failed items to this file, in the same format, and not among the others.',
    },
    ordered: {
      type: 'boolean',
      description: 'Write lines in the order of the rows. Those that come early wait on disk.',
    },
  },

  each({ format }) {
    if (format === undefined) throw usageError('expected --format openai-batch, found none');
    const { check } = FORMATS[format];
    return item => {
      check(item);
      return item;
    };
  },
});
