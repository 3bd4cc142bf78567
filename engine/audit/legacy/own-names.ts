/**
 * Agents by the names that the scripts of the study know them by. A model spells its own name as it likes, and the
 * scripts group by that name; so a legacy result has the agent's own one, as the older orchestrator wrote it. The item
 * keeps what the model said, and so does every text that later agents were shown.
 *
 *   /agent_name                           of every answer that has one: `agent_name` of the agent file, else `display`
 *   /agent_influence/primary_influence    of the synthesis: the `display` of the agent that it names
 *
 * Each change is an entry of the rule `agent-name`, which `legacy-convert --provenance` writes.
 */

import { pointerOf } from '../../answers/entries.ts';
import { AGENT_NAME } from '../../answers/rules.ts';
import { turnText } from '../../asking/agents/arrangement.ts';
import { checkOf } from '../../asking/agents/form.ts';
import type { Agent, Agents } from '../../asking/agents/load-agents.ts';
import type { Repair } from '../../core/item/item.ts';
import { type JsonObject, parsePointer, setAt, valueAt } from '../../core/json/pointer.ts';

const NAME = '/agent_name';
const INFLUENCE = '/agent_influence/primary_influence';

/** Whether a result may have another name at this place of an answer than the item has. */
export function isNamePlace(tokens: readonly string[]): boolean {
  return [NAME, INFLUENCE].includes(pointerOf(tokens));
}

export interface Named {
  output: JsonObject;
  /** what was changed, in order; empty where `output` is the one that was given */
  repairs: Repair[];
}

/** The answer of `agent` as a legacy result has it. */
export function withOwnNames(output: JsonObject, agent: Agent | undefined, { byKey, names }: Agents): Named {
  let named: Named = { output, repairs: [] };
  const put = (at: string, to: (said: string) => string | undefined): void => {
    const from = valueAt(named.output, at);
    const own = typeof from === 'string' ? to(from) : undefined;
    if (own === undefined || own === from) return;
    const repairs = [...named.repairs, { rule: AGENT_NAME, at, from, to: own }];
    named = { output: placed(named.output, at, own), repairs };
  };
  put(NAME, () => agent?.agent_name ?? agent?.display);
  if (agent?.role === 'synthesis') put(INFLUENCE, said => byKey.get(names.get(said) ?? '')?.display);
  return named;
}

function placed(output: JsonObject, at: string, to: unknown): JsonObject {
  return setAt(output, parsePointer(at), to) as JsonObject;
}

/** The answer before the entries of `agent-name`, and the entries that are left. What was changed since stays. */
export function withoutOwnNames(output: JsonObject, repairs: readonly Repair[]): Named {
  const rest = repairs.filter(({ rule }) => rule !== AGENT_NAME);
  const before = repairs
    .filter(({ rule }) => rule === AGENT_NAME)
    .reduceRight(
      (after, { at = '', from, to }) => (valueAt(after, at) === to ? placed(after, at, from) : after),
      output,
    );
  return { output: before, repairs: rest };
}

/**
 * The answer of a turn as the agent after it was shown it, where that is the same answer but for the agent's name:
 * `input` of the next turn has the bytes. Else the answer as it is.
 */
export function asShown(
  output: JsonObject,
  {
    context,
    next,
    agent,
    agents,
  }: { context: string; next: unknown; agent: Agent | undefined; agents: Agents },
): JsonObject {
  const before = agent && context + turnText(agent.display, '');
  if (before === undefined || typeof next !== 'string' || !next.startsWith(before)) return output;
  const text = next.slice(before.length);
  if (text === JSON.stringify(output)) return output;
  let shown: unknown;
  try {
    shown = JSON.parse(text);
  } catch {
    return output;
  }
  if (typeof shown !== 'object' || shown === null || JSON.stringify(shown) !== text) return output;
  const named = withOwnNames(shown as JsonObject, agent, agents);
  return JSON.stringify(named.output) === JSON.stringify(output) ? (shown as JsonObject) : output;
}

/** A decision whose schema asks for the key of an agent, with that key where a result has another name of it. */
export function withKeys(output: JsonObject, agent: Agent | undefined, { names }: Agents): JsonObject {
  const said = valueAt(output, INFLUENCE);
  const key = typeof said === 'string' ? names.get(said) : undefined;
  if (agent === undefined || key === undefined || key === said) return output;
  const check = checkOf(agent);
  const isWrongAt = (value: JsonObject): boolean =>
    check.findings(value, true).some(({ at }) => at === INFLUENCE);
  const keyed = placed(output, INFLUENCE, key);
  return isWrongAt(output) && !isWrongAt(keyed) ? keyed : output;
}
