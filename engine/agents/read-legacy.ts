/**
 * A legacy result back into the item that it was made of, as far as it says: ours (legacy.ts), or one of the older
 * scripts. What they wrote in the place of an answer (the text of an error, a placeholder, a confidence of zero) becomes
 * a failed step, so that it is asked again; what contradicts itself is no item and throws ItemFailure.
 *
 * Nobody kept the text of the model, so that no answer here is `clean`: each carries the mark `read-back`, on the rung
 * `coerced`, until a line of `legacy-convert --provenance` says more of it.
 */
import { ItemFailure } from '../flow/failure.ts';
import { type Failure, type Item, isItem, type JsonObject, type Step } from '../flow/item.ts';
import type { SourceRows } from '../flow/source-rows.ts';
import { isObject } from '../integrity/pointer.ts';
import { show } from '../integrity/problem.ts';
import { same } from '../integrity/same.ts';
import { contextAfter } from './context.ts';
import type { Agent, Agents } from './load.ts';
import { orderingLabel, orderingOfItem } from './orderings.ts';
import { answerIn, failedStep, type Marks, marksOf, readStep, type Trouble } from './read-answers.ts';

export interface LegacyWorld {
  stage: string;
  agents: Agents;
  /** the table that was asked; it gives ids, columns and prompts by row */
  rows: SourceRows | null;
}

export interface ReadBack {
  item: Item;
  /** a turn shows its agent another text than fw would, so that what is written anew from the item differs there */
  showsOther: boolean;
}

/** Whether a line means to be a legacy result, even one with an `id` of its own. */
export function isLegacyLike(line: JsonObject): boolean {
  return (
    !isItem(line) &&
    ('business_decision' in line || 'conversation_history' in line || 'all_agent_outputs' in line)
  );
}

/** Throws ItemFailure: not-strict, unknown-agent, no-row, wrong-row, empty-prompt. */
export function readLegacy(record: JsonObject, { stage, agents, rows }: LegacyWorld): ReadBack {
  const turns = turnsOf(record);
  const ordering = orderingOf(record, turns, agents);
  const row = rowOf(record, rows);
  const asked = rows === null ? null : askedIn(rows, row, record);
  const prompt = [record.initial_prompt, turns[0]?.input, asked?.prompt].find(isText);
  if (prompt === undefined) throw new ItemFailure('empty-prompt', 'expected a prompt, found none');

  const marks = marksOf(record);
  const answered = stepsOf(turns, { ordering, prompt, marks, agents });
  const { steps, late, showsOther } = answered;
  const decided = answered.trouble ? null : decisionOf(record, steps, marks, agents.synthesis);
  const trouble = answered.trouble ?? decided?.trouble ?? null;
  const { timestamp } = record;
  const item: Item = {
    id: asked === null ? `${row}/${ordering.join()}` : `${asked.id}/${orderingLabel(ordering, agents)}`,
    row,
    ...(asked?.input && { input: asked.input }),
    prompt,
    ordering,
    steps,
    ...(decided?.decision && { decision: decided.decision }),
    ...(isText(timestamp) && { timestamp }),
    ...othersIn(record),
    ...marks.rest,
    ...(trouble && { failure: failureOf(stage, trouble, late + (decided ? 0 : decisionsIn(record))) }),
  };
  return { item, showsOther };
}

type Broken = Trouble & { agent: string };

/** `late`: answers that were given after one that is none. */
function failureOf(stage: string, { agent, code, message }: Broken, late: number): Failure {
  const rest =
    late > 0 ? `; left out: ${late} later ${late === 1 ? 'answer' : 'answers'}, given after it` : '';
  return { stage, agent, code, message: `${agent}: ${message}${rest}` };
}

const decisionsIn = (record: JsonObject): number => (isSome(record.business_decision) ? 1 : 0);

interface Asked {
  ordering: readonly string[];
  prompt: string;
  marks: Marks;
  agents: Agents;
}

/** The steps up to the first answer that is none: who was asked after that had read it, and is asked again too. */
function stepsOf(turns: readonly Turn[], { ordering, prompt, marks, agents }: Asked) {
  const steps: Step[] = [];
  let context = prompt;
  let showsOther = false;
  for (const [index, agent] of ordering.entries()) {
    const turn = turns[index];
    if (turn?.input !== undefined && turn.input !== context) showsOther = true;
    const answer = answerIn(turn, agents.byKey.get(agent));
    if ('code' in answer) {
      if (turn) steps.push(failedStep(agent, steps, answer));
      const trouble: Broken = { ...answer, agent };
      return { steps, trouble, late: turns.length - steps.length, showsOther };
    }
    const step = readStep(agent, answer.output, steps, marks.of((turn as Turn).at));
    steps.push(step);
    context = contextAfter(context, [step], agents);
  }
  return { steps, trouble: null, late: 0, showsOther };
}

function decisionOf(
  record: JsonObject,
  steps: readonly Step[],
  marks: Marks,
  synthesis: Agent | undefined,
): { decision?: Step; trouble?: Broken } {
  const { business_decision: output } = record;
  if (output === undefined && synthesis === undefined) return {};
  const agent = synthesis?.key ?? 'business_decision';
  const answer = answerIn(output === undefined ? undefined : { output }, synthesis);
  if (!('code' in answer))
    return { decision: readStep(agent, answer.output, steps, marks.of('/business_decision')) };
  const trouble: Broken = { ...answer, agent };
  return output === undefined ? { trouble } : { decision: failedStep(agent, steps, answer), trouble };
}

interface Turn {
  /** JSON Pointer of the output */
  at: string;
  agent: unknown;
  /** the text that the agent was shown, where the turn says it */
  input?: string;
  output: unknown;
}

/** The turns of the conversation; where it is missing, the list of all outputs. */
function turnsOf(record: JsonObject): Turn[] {
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
function orderingOf({ ordering }: JsonObject, turns: readonly Turn[], agents: Agents): string[] {
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

function rowOf({ prompt_id: named }: JsonObject, rows: SourceRows | null): number {
  const byId = typeof named === 'string' ? rows?.rowOf(named) : undefined;
  const row = byId ?? (typeof named === 'string' && /^[1-9]\d{0,14}$/.test(named) ? Number(named) : named);
  if (Number.isSafeInteger(row) && (row as number) > 0) return row as number;
  const expected = `the row of the source, a whole number from 1${rows ? `, or an id of ${rows.path}` : ''}`;
  throw new ItemFailure('no-row', `/prompt_id: expected ${expected}, found ${show(named)}`);
}

/** The item of the row, without which no id can be restored. */
function askedIn(rows: SourceRows, row: number, { initial_prompt: prompt }: JsonObject): Item {
  const asked = rows.at(row);
  const where = `row ${row} of ${rows.path}`;
  if (asked === undefined)
    throw new ItemFailure('wrong-row', `expected a row of ${rows.path}, 1 to ${rows.size}, found ${row}`);
  if (asked.failure !== undefined)
    throw new ItemFailure('wrong-row', `expected ${where} to be an item: ${asked.failure.message}`);
  if (isText(prompt) && prompt !== asked.prompt)
    throw new ItemFailure('wrong-row', `/initial_prompt: expected the prompt of ${where}, found another`);
  return asked;
}

const OWN = new Set([
  ...['mode', 'initial_prompt', 'conversation_history', 'all_agent_outputs', 'final_output'],
  ...['business_decision', 'prompt_id', 'ordering', 'timestamp', '_fw', 'failure'],
  ...['id', 'row', 'input', 'prompt', 'steps', 'decision'],
]);

/** Keys that only this result has survive, as in any item. */
function othersIn(record: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(record).filter(([key]) => !OWN.has(key)));
}

const isSome = (value: unknown): boolean => value !== undefined && value !== null;
const isText = (value: unknown): value is string => typeof value === 'string' && /\S/.test(value);

function contrary(at: string, expected: string, found: unknown): ItemFailure {
  return new ItemFailure('not-strict', `${at}: expected ${expected}, found ${show(found)}`);
}
