/**
 * The conversation of a legacy result: its turns and the ordering that they begin. Scripts say some of it twice; what is
 * said differently the second time is believed neither time.
 */

import type { Agents } from '../../asking/agents/load-agents.ts';
import { orderingOfItem } from '../../asking/agents/orderings.ts';
import { ItemFailure } from '../../core/item/failure.ts';
import { isObject, type JsonObject, same } from '../../core/json/pointer.ts';
import { show } from '../../core/json/show.ts';

export interface Turn {
  /** JSON Pointer of the output */
  at: string;
  agent: unknown;
  /** the text that the agent was shown, where the turn says it */
  input?: string;
  output: unknown;
}

/** The turns of the conversation; where it is missing, the list of all outputs. */
export function turnsOf(record: JsonObject): Turn[] {
  const { conversation_history: history, all_agent_outputs: outputs, final_output: last, mode } = record;
  if (mode !== undefined && mode !== 'sequential') throw contrary('/mode', '"sequential"', mode);
  for (const [key, list] of [
    ['conversation_history', history],
    ['all_agent_outputs', outputs],
  ] as const) {
    if (isSome(list) && !Array.isArray(list)) throw contrary(`/${key}`, 'a list', list);
  }
  const said = (history ?? []) as unknown[];
  const echoes = (outputs ?? []) as unknown[];
  if (isSome(history) && isSome(outputs) && said.length !== echoes.length)
    throw contrary('/all_agent_outputs', `as many outputs as turns (${said.length})`, echoes.length);
  const turns = isSome(history)
    ? said.map((turn, index) => turnAt(turn, index, echoes[index]))
    : echoes.map((output, index) => ({ at: `/all_agent_outputs/${index}`, agent: undefined, output }));
  const final = turns.at(-1);
  if (isSome(last) && final && !same(last, final.output))
    throw contrary('/final_output', 'what the last turn has', last);
  return turns;
}

function turnAt(turn: unknown, index: number, echo: unknown): Turn {
  const at = `/conversation_history/${index}`;
  if (!isObject(turn)) throw contrary(at, 'a turn', turn);
  const { agent, input, output } = turn;
  if (isSome(output) && isSome(echo) && !same(output, echo))
    throw contrary(`/all_agent_outputs/${index}`, 'what the turn has', echo);
  const said = isSome(output)
    ? { at: `${at}/output`, output }
    : { at: `/all_agent_outputs/${index}`, output: echo };
  return { agent, ...(typeof input === 'string' && { input }), ...said };
}

/** The keys of the whole ordering, which the turns must begin. */
export function orderingOf({ ordering }: JsonObject, turns: readonly Turn[], agents: Agents): string[] {
  const names = turns.map(({ agent }) => agent).filter(isSome);
  const strange = names.find(name => !isText(name));
  if (strange !== undefined) throw contrary('/conversation_history', 'turns of agents', strange);
  if (isSome(ordering) && !isText(ordering)) throw contrary('/ordering', 'text', ordering);
  if (!isText(ordering) && (names.length === 0 || names.length < turns.length))
    throw contrary('/ordering', 'the agents who were asked', ordering);
  const keys = orderingOfItem(isText(ordering) ? ordering : (names as string[]), agents);
  if (turns.length > keys.length)
    throw contrary('/ordering', `as many agents as turns (${turns.length})`, ordering);
  for (const [index, { agent }] of turns.entries()) {
    if (isText(agent) && agents.names.get(agent) !== keys[index]) {
      orderingOfItem([agent], agents);
      throw contrary('/ordering', `${agent} at place ${index + 1}, as the turns have it`, ordering);
    }
  }
  return keys;
}

export const isSome = (value: unknown): boolean => value !== undefined && value !== null;
export const isText = (value: unknown): value is string => typeof value === 'string' && /\S/.test(value);

function contrary(at: string, expected: string, found: unknown): ItemFailure {
  return new ItemFailure('not-strict', `${at}: expected ${expected}, found ${show(found)}`);
}
