/**
 * synthesize-decision: ask the synthesis to decide the items without a decision, from all their steps.
 *
 *   $ fw synthesize-decision fixtures/decided.ndjson | jq -c .decision.output.approval_decision
 *   "approve"
 *
 * Reads   { id, prompt, steps }
 * Writes  { …, decision }; an item that has one passes, and no endpoint is needed for it (but for --redo zero-confidence,
 *         which also asks a decision of zero confidence again that nobody had failed). An item that failed before its
 *         decision was due passes too; one that failed at it is asked where an endpoint is named
 * Fails   zero-confidence, after every temperature of the agent's `ask_again`; and as chain does
 */

import { lackingIn } from '../engine/asking/agents/arrangement.ts';
import { ASK_OPTIONS, agentsOf, openChain } from '../engine/asking/agents/asking-options.ts';
import { asksAgain } from '../engine/asking/agents/form.ts';
import { orderWords } from '../engine/asking/agents/orderings.ts';
import { ASKING_CODES, reopened, takesUp } from '../engine/asking/agents/reopen.ts';
import type { Code } from '../engine/core/item/codes.ts';
import { ItemFailure, usageError } from '../engine/core/item/failure.ts';
import type { Item } from '../engine/core/item/item.ts';
import { namesIn } from '../engine/flow/options.ts';
import { stage } from '../engine/flow/stage.ts';

export default stage({
  name: 'synthesize-decision',
  summary: 'Ask the synthesis to decide the items without a decision, from all their steps.',
  examples: [
    "fw ingest --format legacy --source prompts.csv 'out/*_legacy.json' | fw synthesize-decision --redo zero-confidence --endpoint http://gpu1:8005/v1",
    'fw chain --no-decision --endpoint http://gpu1:8005/v1 < items.jsonl | fw synthesize-decision --endpoint http://gpu2:8005/v1',
  ],
  asks: 'when-needed',
  heals: (failure, options) =>
    takesUp(failure, options['retry-failed'] === true) || namesIn(options.redo).includes(failure.code),
  options: {
    ...ASK_OPTIONS,
    redo: {
      type: 'array',
      items: { type: 'string' },
      description:
        'Ask again for decisions that failed with these codes, comma-separated, e.g. zero-confidence.',
    },
  },

  each(options, tools) {
    const agents = agentsOf(options, tools);
    if (agents.synthesis === undefined) {
      throw usageError(`${agents.folder}: expected an agent with role: synthesis, found none`);
    }
    const redo = namesIn(options.redo);
    const unknown = redo.find(code => !ASKING_CODES.includes(code as Code));
    if (unknown !== undefined)
      throw usageError(`--redo: expected some of ${ASKING_CODES.join(', ')}, found '${unknown}'`);
    const retry = options['retry-failed'] === true;
    let chain: ReturnType<typeof openChain> | null = null;
    return async line => {
      const { failure } = line;
      const item = retry ? { ...reopened(line), ...(failure && { failure }) } : line;
      const { decision } = item;
      // what is asked again by its code alone must be a decision, and not the answer of a step
      const isRedone = failure !== undefined && !takesUp(failure, retry);
      if (isRedone && failure.agent !== agents.synthesis?.key) return line;
      if (decision?.output !== undefined) {
        const isZero = asksAgain(agents.synthesis?.askAgain, decision.output);
        if (!isZero || !redo.includes('zero-confidence')) return line;
      }
      if (failure !== undefined) {
        // an answer before the decision is lacking, which chain asks for: the item keeps the failure that says so
        if (lackingIn(item) !== null) return line;
        // what a stopped run left is for whoever has an endpoint; that there is none here is then no mistake
        const isTold = retry || isRedone;
        if (chain === null && !isTold && (await tools.namesEndpoint?.()) === false) return line;
      }
      chain ??= openChain(agents, options, tools, {
        stage: 'synthesize-decision',
        asked: orderWords([], agents, true),
      });
      const ask = await chain.catch(error => {
        if (failure === undefined || !(error instanceof ItemFailure)) throw error;
        return null; // nobody could be asked: it keeps the failure that it came with
      });
      return ask === null ? line : ask(withoutAnswer(item), null, true);
    };
  },
});

/** Without the decision's answer, so that it is asked in a new round. */
function withoutAnswer(item: Item): Item {
  if (item.decision?.output === undefined) return item;
  const { output: _output, ...unanswered } = item.decision;
  return { ...item, decision: unanswered };
}
