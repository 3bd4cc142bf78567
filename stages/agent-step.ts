/**
 * agent-step: ask one agent about each item, showing it the item's earlier steps.
 *
 *   $ fw ingest fixtures/applications-60.csv --limit 1 | fw agent-step --agent risk --endpoint $FW_ENDPOINT | jq -c '.steps | length'
 *   1
 *
 * Reads   { id, prompt, steps? }
 * Writes  { …, steps: [ …, the new step ] }, or { …, decision } where the agent is the synthesis
 * Fails   as chain does
 */
import { arrangementOf } from '../engine/asking/agents/arrangement.ts';
import { ASK_OPTIONS, agentsOf, openChain } from '../engine/asking/agents/asking-options.ts';
import { orderWords, resolveOrdering } from '../engine/asking/agents/orderings.ts';
import { takesUp } from '../engine/asking/agents/reopen.ts';
import { ItemFailure, usageError } from '../engine/core/item/failure.ts';
import { stage } from '../engine/flow/stage.ts';

export default stage({
  name: 'agent-step',
  summary: "Ask one agent about each item, showing it the item's earlier steps.",
  examples: ['fw agent-step --agent risk_manager --endpoint http://gpu1:8005/v1 < items.jsonl'],
  asks: 'always',
  heals: (failure, options) => takesUp(failure, options['retry-failed'] === true),
  options: {
    ...ASK_OPTIONS,
    agent: { type: 'string', description: 'Key, short name or display name of the agent.' },
  },

  async each(options, tools) {
    if (options.agent === undefined) throw usageError('expected --agent KEY, found none');
    const agents = agentsOf(options, tools);
    const { synthesis } = agents;
    const decides = synthesis !== undefined && agents.names.get(options.agent) === synthesis.key;
    const [key, ...others] = decides ? [] : resolveOrdering(options.agent, agents);
    if (others.length > 0) {
      throw usageError(
        `--agent ${options.agent}: expected one agent, found ${others.length + 1}; fw chain asks several, in their ordering`,
      );
    }
    const chain = await openChain(agents, options, tools, {
      stage: 'agent-step',
      asked: orderWords(key === undefined ? [] : [key], agents, decides),
    });
    const own = decides ? synthesis.key : key;
    return item => {
      // what another agent failed at is still to be asked again: an answer of this one would hide it
      const failedAt = item.failure?.agent;
      if (failedAt !== undefined && agents.names.get(failedAt) !== own) return item;
      const { topology } = arrangementOf(item);
      if (topology === 'peer')
        throw new ItemFailure(
          'steps-out-of-order',
          'expected an item of another topology, found peer, which fw chain asks',
        );
      if (key === undefined) return chain(item, null, true);
      // of independent agents one may have failed before others: each keeps its turn, and is asked again
      const kept = (item.steps ?? []).filter(step => topology === 'independent' || step.output !== undefined);
      const answered = kept.map(step => step.agent);
      return chain(item, answered.includes(key) ? answered : [...answered, key], false);
    };
  },
});
