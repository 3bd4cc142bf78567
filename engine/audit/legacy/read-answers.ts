/**
 * The answers of a legacy result as steps: which of them a model gave, which are only in the place of one, and
 * what was noted of changes to them.
 */

import {
  type Answer,
  answersIn,
  isProvenance,
  keptOf,
  markedRepairs,
} from '../../answers/answers-of-line.ts';
import { codeOf } from '../../answers/read-answer.ts';
import { READ_BACK, rungOfEntries } from '../../answers/rules.ts';
import type { Check } from '../../answers/schema-check.ts';
import { sawIn } from '../../asking/agents/arrangement.ts';
import { askedAgainFor, asksAgain } from '../../asking/agents/form.ts';
import type { Agent, Agents } from '../../asking/agents/load-agents.ts';
import { orderingOfItem } from '../../asking/agents/orderings.ts';
import type { Code } from '../../core/item/codes.ts';
import { ItemFailure } from '../../core/item/failure.ts';
import {
  type Failure,
  type Item,
  type Mark,
  type Repair,
  RUNGS,
  type Rung,
  type Step,
  worse,
} from '../../core/item/item.ts';
import { isObject, type JsonObject, parsePointer, same } from '../../core/json/pointer.ts';
import { shorten, show, summarise } from '../../core/json/show.ts';
import { leftoverText } from './leftovers.ts';
import { withoutOwnNames } from './own-names.ts';
import { findInInputs } from './shown.ts';

/** Why an answer is none, or is to be had again: a code that --retry-failed takes up. */
export interface MissingAnswer {
  code: Code;
  message: string;
  /** what was wrong with the answer itself; absent where there is none */
  problem?: { code: Code; message: string };
  /** the text that is there, which may be the model's */
  text?: string;
}

/** The answer of a turn; `undefined` where the conversation broke off before it. */
export function answerIn(
  turn: { output: unknown } | undefined,
  agent: Agent | undefined,
  { ownWords }: Pick<Agents, 'ownWords'>,
): { output: JsonObject } | MissingAnswer {
  if (turn === undefined)
    return { code: 'interrupted', message: 'expected its answer, found none: it was not asked' };
  const { output } = turn;
  if (typeof output === 'string') {
    if (leftoverText([output])) return troubleOf(errorText(output));
    const problem = { code: 'no-json-found' as const, message: `expected an object, got ${show(output)}` };
    return { ...troubleOf(problem), code: 'no-valid-answer', text: output };
  }
  if (!isObject(output)) {
    const problem = { code: 'schema-mismatch' as const, message: `expected an object, got ${show(output)}` };
    return { ...troubleOf(problem), code: 'no-valid-answer' };
  }
  if (typeof output.error === 'string') return troubleOf(errorText(output.error));
  const left = ownWords ? leftoverText(output) : null;
  if (left !== null)
    return troubleOf({
      code: left.code,
      message: `${left.at}: expected ${left.expected}, got ${left.got}`,
    });
  if (!asksAgain(agent?.askAgain, output)) return { output };
  return troubleOf({ code: 'zero-confidence', message: askedAgainFor(output, agent?.askAgain) });
}

function troubleOf(problem: { code: Code; message: string }): MissingAnswer {
  return { code: problem.code, message: `${problem.code}: ${problem.message}`, problem };
}

function errorText(text: string): { code: Code; message: string } {
  const got = `the text of an error: ${JSON.stringify(shorten(text))}`;
  return { code: 'sentinel-text', message: `expected an answer, got ${got}` };
}

/** What nobody knows any more of an answer that was read back. */
const UNKNOWN = { calls: [], attempts: 0, usage: { prompt: 0, completion: 0 } };

/** A step to ask again. An error's text is no `raw`: that is a model's. */
export function failedStep(agent: string, before: readonly Step[], { text, problem }: MissingAnswer): Step {
  return {
    agent,
    ...(text !== undefined && keptOf(text)),
    rung: 'failed',
    saw: sawIn(before),
    repairs: [],
    ...structuredClone(UNKNOWN),
    ...(problem && { problem }),
  };
}

/**
 * `entries` are those of the record's own mark, with pointers into the answer; `vouched` is what a line of provenance says
 * of it before those. Names that legacy-convert wrote become the model's spelling of them again, where that is known.
 */
export function readStep(
  agent: string,
  output: JsonObject,
  before: readonly Step[],
  entries: readonly Repair[],
  vouched: Answer | undefined,
): Step {
  const known = withoutOwnNames(output, vouched?.repairs ?? [{ rule: READ_BACK, at: '' }]);
  const repairs = [...known.repairs, ...entries];
  return {
    agent,
    output: known.output,
    rung: worse((vouched?.rung ?? 'clean') as Rung, rungOfEntries(vouched ? entries : repairs, 'defaulted')),
    saw: (vouched?.saw as Rung | undefined) ?? sawIn(before),
    repairs,
    ...structuredClone(UNKNOWN),
    ...(vouched && { attempts: vouched.attempts }),
  };
}

/** What a line of provenance says of the answers of `agents`; undefined where it is of others, or vouches for none. */
export function vouchedBy(line: JsonObject, agents: readonly string[]): Answer[] | undefined {
  const answers = isProvenance(line) ? answersIn(line) : [];
  const isSound = ({ agent, rung, saw }: Answer, index: number): boolean =>
    agent === agents[index] && [rung, saw].every(name => name !== 'failed' && RUNGS.includes(name as Rung));
  return answers.length === agents.length && answers.every(isSound) ? answers : undefined;
}

/**
 * The first answer of an item that was read back which verify would refuse in its result: it breaks its agent's schema, or
 * was given after something else than the answers that are there. It stays, for the text stages may mend it.
 */
export function refusedIn(
  { steps = [], decision }: Item,
  record: JsonObject,
  { agents, check }: { agents: Agents; check: (agent: Agent) => Check },
): Pick<Failure, 'agent' | 'at' | 'code' | 'message'> | null {
  for (const [nth, step] of [...steps, ...(decision ? [decision] : [])].entries()) {
    const agent = agents.byKey.get(step.agent);
    // older scripts left keys out, and had others: what is judged is what the model said
    const findings = (agent === undefined ? [] : check(agent).findings(step.output, true)).filter(
      ({ keyword }) => !['required', 'additionalProperties'].includes(keyword),
    );
    if (findings.length === 0) continue;
    const at = nth < steps.length ? `/steps/${nth}` : '/decision';
    const message = `${step.agent}: ${summarise(findings)}`;
    return { agent: step.agent, at, code: codeOf(findings), message };
  }
  const { conversation_history: turns, initial_prompt } = record;
  const isWhole = (turn: unknown): boolean =>
    isObject(turn) &&
    isObject(turn.output) &&
    typeof turn.input === 'string' &&
    typeof turn.agent === 'string';
  if (!Array.isArray(turns) || typeof initial_prompt !== 'string' || !turns.every(isWhole)) return null;
  const other = findInInputs(record, agents);
  const turn = other && Number(parsePointer(other.at)[1]);
  if (other === null || turn === null || steps[turn] === undefined) return null;
  const message = `${other.at}: expected ${other.expected}, got ${other.got}`;
  return { agent: steps[turn].agent, at: `/steps/${turn}`, code: other.code, message };
}

export interface Marks {
  /** entries on the answer at a pointer into the record, as entries on the answer itself */
  of(at: string): Repair[];
  /** what is left for the item to say: entries about no answer, and a rung that no entry explains */
  rest: { _fw?: Mark };
}

/** Where a legacy result says an answer again: entries there repeat those of the turn. */
const ECHO = /^\/(?:all_agent_outputs|final_output)(?:\/|$)/;
const ANSWER = /^\/(?:conversation_history\/\d+\/output|business_decision)(?:\/|$)/;

/** What `_fw` of the record says, in the places of an item. */
export function marksOf(record: JsonObject): Marks {
  const entries = markedRepairs(record);
  const rest = entries.filter(({ at = '' }) => !ECHO.test(at) && !ANSWER.test(at));
  const said = isObject(record._fw) ? (record._fw as unknown as Mark).rung : 'clean';
  const unexplained =
    worse(said, rungOfEntries(entries, 'defaulted')) === rungOfEntries(entries, 'defaulted') ? 'clean' : said;
  const rung = worse(unexplained, rungOfEntries(rest, 'defaulted'));
  return {
    of: at =>
      entries.flatMap(entry =>
        entry.at === at || entry.at?.startsWith(`${at}/`) ? { ...entry, at: entry.at.slice(at.length) } : [],
      ),
    rest: rung === 'clean' && rest.length === 0 ? {} : { _fw: { rung, repairs: rest } },
  };
}

/**
 * The conversation of a legacy result: its turns and the ordering that they begin. Scripts say some of it twice; what
 * is said differently the second time is believed neither time.
 */
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
