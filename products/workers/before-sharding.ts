/**
 * What is to be known of all lines before they are cut into shards. Whether the items are of the kind that the agents are
 * for: the first item of all decides (engine/asking/agents/asking-options.ts), so no worker judges it again. And which models requests
 * name: workers that serve these get them.
 */

import { agentsOf, inputGuard } from '../../engine/asking/agents/asking-options.ts';
import { folderOfAgents } from '../../engine/asking/agents/load-agents.ts';
import { originOf, textOf } from '../../engine/core/files/origin.ts';
import { type Item, isItem, isRawRequest } from '../../engine/core/item/item.ts';
import { lossless } from '../../engine/core/json/lossless.ts';
import { stage } from '../../engine/flow/stage.ts';
import type { OptionsOfStage } from '../../engine/running/named-files.ts';
import { optionsOf } from '../../engine/running/stage-options.ts';

/** models of requests that are told apart */
const MOST_MODELS = 64;

/** What requests ask: the models that they name, and whether one names none. */
export interface AskedByLines {
  models: Set<string>;
  hasUnnamed: boolean;
}

/** The stage that looks, to be put before the moved ones. It fails items in the name of the first of them, and adds to `lines`. */
export function expecting(
  moved: readonly OptionsOfStage[],
  base: string,
  lines: AskedByLines,
): OptionsOfStage {
  const [first] = moved as readonly [OptionsOfStage];
  const { name, heals = [] } = first.stage;
  const named = new Map<string, string | undefined>();
  for (const { stage, options } of moved) {
    if (!stage.asks || !('agents' in optionsOf(stage))) continue;
    const agents = options.agents as string | undefined;
    named.set(folderOfAgents(agents, base), agents);
  }
  const sends = moved.some(({ stage }) => stage.name === 'request');
  const noteModel = ({ request }: Item): void => {
    if (!isRawRequest(request)) return;
    if (typeof request.body.model !== 'string') lines.hasUnnamed = true;
    else if (lines.models.size < MOST_MODELS) lines.models.add(request.body.model);
  };
  const judging = stage({
    name,
    summary: 'Judge whether the agents are meant for the items.',
    options: {},
    heals: typeof heals === 'function' ? failure => heals(failure, first.options) : heals,
    each(_options, tools) {
      const guards = [...named.values()].map(agents => inputGuard(agentsOf({ agents }, tools), tools.warn));
      return item => {
        // what is no item, or no whole one, the first moved stage fails by its own words
        const origin = originOf(item);
        const isWhole = isItem(item) && typeof item.id === 'string' && !(origin && lossless(textOf(origin)));
        if (isWhole) for (const guard of guards) guard(item);
        if (isWhole && sends) noteModel(item);
        return item;
      };
    },
  });
  return { stage: judging, options: { 'max-line': first.options['max-line'] } };
}
