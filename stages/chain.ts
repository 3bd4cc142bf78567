/**
 * chain: ask each item's agents in order, then the synthesis, thousands of items at once.
 *
 *   $ fw ingest fixtures/applications-60.csv --limit 1 | fw chain --endpoint $FW_ENDPOINT | jq -c '[.steps[].agent]'
 *   ["risk_manager","data_science","regulatory","consumer_advocate"]
 *
 * Reads   { id, prompt, ordering? }
 * Writes  { …, ordering, steps, decision }; with another --topology, --passed or --labels also { arrangement }
 * Fails   no-valid-answer, zero-confidence, prompt-too-long, call-…: the steps before it are kept
 */
import { ARRANGEMENT_OPTIONS, arranged, expectArrangeable } from '../engine/asking/agents/arrangement.ts';
import { ASK_OPTIONS, agentsOf, openChain } from '../engine/asking/agents/asking-options.ts';
import {
  leftOutWords,
  orderingOfItem,
  orderTeller,
  orderWords,
  resolveOrderings,
} from '../engine/asking/agents/orderings.ts';
import { takesUp } from '../engine/asking/agents/reopen.ts';
import { usageError } from '../engine/core/item/failure.ts';
import { stage } from '../engine/flow/stage.ts';

export default stage({
  name: 'chain',
  summary: "Ask each item's agents in order, then the synthesis, thousands of items at once.",
  examples: [
    'fw ingest prompts.csv | fw chain --endpoint http://gpu1:8005/v1 --endpoint http://gpu2:8005/v1 > items.jsonl',
    'fw select --failed < items.jsonl | fw chain --retry-failed --endpoint http://gpu1:8005/v1',
  ],
  asks: 'always',
  heals: (failure, options) => takesUp(failure, options['retry-failed'] === true),
  options: {
    ...ASK_OPTIONS,
    ...ARRANGEMENT_OPTIONS,
    decision: {
      type: 'boolean',
      default: true,
      description: 'Ask the synthesis for a decision at the end; --no-decision leaves it out.',
    },
  },

  async each(options, tools) {
    const agents = agentsOf(options, tools);
    const [standard, ...others] = resolveOrderings(undefined, agents);
    if (standard === undefined || others.length > 0) {
      throw usageError(`${agents.folder}/orderings.yaml: expected one ordering in the list 'default'`);
    }
    expectArrangeable(agents, options.passed);
    const { decision, topology, passed, labels } = options;
    const asked = orderWords(standard, agents, decision) + leftOutWords(standard, agents);
    const chain = await openChain(agents, options, tools, { stage: 'chain', asked });
    const tellOrder = orderTeller(standard, agents, tools.warn);
    if (tools.workload)
      tools.workload.likely =
        (topology === 'peer' ? 2 : 1) * standard.length + (decision && agents.synthesis ? 1 : 0);
    return line => {
      const item = arranged(line, { topology, passed, labels });
      const ordering = item.ordering ? orderingOfItem(item.ordering, agents) : standard;
      tellOrder(item, ordering);
      return chain(item, ordering, decision);
    };
  },
});
