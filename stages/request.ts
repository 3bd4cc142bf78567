/**
 * request: send each item's request unchanged, to any POST path of the servers, and keep their answer.
 *
 *   $ fw ingest --format openai-batch fixtures/requests.jsonl --limit 1 | fw request --endpoint $FW_ENDPOINT | jq -c '[.id, .steps[0].response.body.object]'
 *   ["chat-1","chat.completion"]
 *
 * Reads   { id, request: { method, url, body } }
 * Writes  { …, steps: [ { agent: url, response: { status_code, body }, … } ] }: the body is the server's own
 * Fails   bad-request, prompt-too-long, call-…: what a server answered to a refused request is kept in its step
 */

import { questionOf } from '../engine/asking/agents/asked-once.ts';
import { ASK_OPTIONS } from '../engine/asking/agents/asking-options.ts';
import { beginsBeside, beginsOf, requester } from '../engine/asking/agents/raw-request.ts';
import { takesUp } from '../engine/asking/agents/reopen.ts';
import type { Begins } from '../engine/core/item/call.ts';
import { usageError } from '../engine/core/item/failure.ts';
import type { Item } from '../engine/core/item/item.ts';
import { COMMON } from '../engine/flow/join.ts';
import { stage } from '../engine/flow/stage.ts';

export default stage({
  name: 'request',
  summary: "Send each item's request unchanged, and keep the server's answer.",
  examples: [
    'fw ingest --format openai-batch input.jsonl | fw request --endpoint http://gpu1:8005/v1 | fw export --format openai-batch > output.jsonl',
  ],
  asks: 'always',
  heals: (failure, options) => takesUp(failure, options['retry-failed'] === true),
  options: {
    once: {
      type: 'boolean',
      description:
        'Ask equal requests once: those with the same URL, model and body, and temperature 0 or an URL that samples nothing. Each item has the answer. Needs a ledger.',
    },
    'retry-failed': ASK_OPTIONS['retry-failed'],
  },

  async each(options, tools) {
    // no agents: requests name their models themselves
    const { once } = options;
    const pool = await tools.pool({ stage: 'request', agents: {}, options: { ...(once && { once }) } });
    if (once && pool.onRecord === undefined)
      throw usageError(
        '--once: expected a ledger through which equal requests share answers, found none: --ledger DIR',
      );
    tools.tellBeginnings?.(once ? named : beginsBeside(pool.onRecord));
    const maxLine = (options as { 'max-line'?: number })['max-line'] ?? COMMON['max-line'].default;
    return requester(pool, { maxLine, workload: tools.workload, once });
  },
});

/** The pool knows the calls of equal requests by the name of their question. */
function named(item: Item): Begins | null {
  const begins = beginsOf(item);
  return (
    begins && {
      ...begins,
      get name() {
        return questionOf(item) ?? begins.name;
      },
    }
  );
}
