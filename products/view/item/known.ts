/** What is known of answers beside their lines: the ledger of the run, the agent files, a schema. */
import { type Agents, loadAgents } from '../../../engine/asking/agents/load-agents.ts';
import { type ShownMessages, shownMessages } from '../../../engine/asking/agents/shown-messages.ts';
import type { JsonObject } from '../../../engine/core/json/pointer.ts';
import type { LedgerFacts } from '../ledger-facts.ts';

/** The agent files of a run: what agents were shown is made again from them. */
export interface KnownAgents {
  agents: Agents;
  shown: ShownMessages;
}

/** Exit 64 and 65 as `loadAgents`. */
export async function openAgents(folder: string): Promise<KnownAgents> {
  const agents = loadAgents(folder);
  return { agents, shown: await shownMessages(agents) };
}

export interface AnswerContext {
  facts: Pick<LedgerFacts, 'triesOf'> | null;
  agents: KnownAgents | null;
  /** a schema of answers where nothing else says one */
  schema: JsonObject | null;
}
