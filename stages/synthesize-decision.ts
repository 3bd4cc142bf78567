/**
 * synthesize-decision: ask the synthesis, which reads all steps, for the items that have no decision yet.
 *
 *   $ fw synthesize-decision fixtures/decided.ndjson | jq -c .decision.output.approval_decision
 *   "approve"
 *
 * Reads   { id, prompt, steps }
 * Writes  { …, decision }; an item that has one passes, and no endpoint is needed for it
 * Fails   zero-confidence, after every temperature of the agent's `ask_again`; and as chain does
 */
import { type Chain, takesUp } from '../engine/agents/chain.ts';
import { ASK_OPTIONS, agentsOf, openChain } from '../engine/agents/options.ts';
import { usageError } from '../engine/flow/failure.ts';
import { stage } from '../engine/flow/stage.ts';

export default stage({
  name: 'synthesize-decision',
  summary: 'Ask the synthesis, which reads all steps, for the items that have no decision yet.',
  examples: [
    'fw chain --no-decision --endpoint http://gpu1:8005/v1 < items.jsonl | fw synthesize-decision --endpoint http://gpu2:8005/v1',
  ],
  asks: 'when-needed',
  heals: (failure, options) => takesUp(failure, options['retry-failed'] === true),
  options: ASK_OPTIONS,

  each(options, tools) {
    const agents = agentsOf(options, tools);
    if (agents.synthesis === undefined) {
      throw usageError(`${agents.folder}: expected an agent with role: synthesis, found none`);
    }
    let chain: Promise<Chain> | null = null;
    return async item => {
      if (item.decision?.output !== undefined) return item;
      chain ??= openChain(agents, options, tools, 'synthesize-decision');
      return (await chain).decision(item);
    };
  },
});
