/**
 * Strict verification: the rules that a result must keep before anyone counts it, by hand, at the speed of JSON.parse.
 */

import { differenceIn, isObject, type JsonObject, join, same, valueAt } from '../../core/json/pointer.ts';
import { show } from '../../core/json/show.ts';
import type { AnswerSchemas } from './answer-schemas.ts';
import { broken, findLeftovers, isInOwnWords, type JudgedTexts, type Violation } from './leftovers.ts';
import { isTimestamp } from './legacy-result.ts';
import { findInInputs, findOtherName } from './shown.ts';

/** Whether a line is a whole document, which belongs at the beginning of an input. */
export function isDocument(line: JsonObject): boolean {
  return Object.keys(line).every(key => ['results', 'status', 'metadata'].includes(key)) && !isEmpty(line);
}

function isEmpty(line: JsonObject): boolean {
  for (const _key in line) return false;
  return true;
}

/**
 * What is wrong with a legacy result; empty for a strict one whose answers fit their schemas. `said` is the line of
 * provenance of these very answers, where there is one.
 */
export function findInLegacy(line: JsonObject, schemas: AnswerSchemas, said?: JsonObject): Violation[] {
  if (schemas.fitsLegacy(line) && keepsTheRest(line)) return findInTurns(line, schemas, said);
  const found = findByRules(line, schemas.isPackaged, schemas.wantsOwnWords('legacy') ? 'answers' : 'none');
  schemas.judgeResult(line, found);
  if (found.length === 0) findEchoes(line, found);
  return found.length === 0 ? findInTurns(line, schemas, said) : found;
}

/** Of a result in which everything has its form: whether its turns show what was said before them, by whom. */
function findInTurns(line: JsonObject, schemas: AnswerSchemas, said?: JsonObject): Violation[] {
  const agents = schemas.ofResults();
  const found = findInInputs(line, agents, said) ?? findOtherName(line, agents);
  return found === null ? [] : [found];
}

/** Whether a result that fits schemas/legacy.schema.json also keeps the rules that a schema cannot say: nearly all do. */
function keepsTheRest(line: JsonObject): boolean {
  const { conversation_history, all_agent_outputs: outputs, ordering, timestamp, prompt_id, _fw } = line;
  const history = conversation_history as { agent: string; output: JsonObject }[];
  return (
    _fw === undefined &&
    (outputs as unknown[]).length === history.length &&
    ordering === history.map(({ agent }) => agent).join() &&
    Number.isSafeInteger(prompt_id) &&
    isTimestamp(timestamp as string) &&
    repeatsItself(line) &&
    history.every(({ output }) => hasOwnWords(output)) &&
    hasOwnWords(line.business_decision as JsonObject)
  );
}

/** Of an answer that fits its schema: its other texts are those of an enum. */
function hasOwnWords({ agent_name, reasoning }: JsonObject): boolean {
  return (
    isInOwnWords(agent_name as string) &&
    Object.values(reasoning as object).every(reason => isInOwnWords(reason as string))
  );
}

function findByRules(line: JsonObject, isPackaged: boolean, texts: JudgedTexts): Violation[] {
  const found: Violation[] = [];
  expectAll(line, '', RESULT, found);
  // agents that were named say themselves what a decision has
  if (isPackaged && isObject(line.business_decision))
    expectAll(line.business_decision, '/business_decision', DECISION, found);
  const { conversation_history: history, all_agent_outputs: outputs, ordering } = line;
  for (const [index, output] of (Array.isArray(outputs) ? outputs : []).entries()) {
    if (!isObject(output) && output !== null)
      found.push(broken('all_agent_outputs', `/all_agent_outputs/${index}`, 'an object', show(output)));
  }
  if (Array.isArray(history) && history.length > 0) {
    for (let i = 0; i < history.length; i++) {
      const turn: unknown = history[i];
      const at = `/conversation_history/${i}`;
      if (isObject(turn)) {
        expectAll(turn, at, TURN, found);
      } else found.push(broken('conversation_history', at, 'agent, input and output', show(turn)));
    }
    if (Array.isArray(outputs) && outputs.length !== history.length) {
      const expected = `as many outputs as turns (${history.length})`;
      found.push(broken('all_agent_outputs', '/all_agent_outputs', expected, String(outputs.length)));
    }
    const order = namesOf(history.map(turn => (isObject(turn) ? turn.agent : undefined)));
    if (typeof ordering === 'string' && ordering !== order) {
      found.push(broken('ordering', '/ordering', `the agents of the turns, ${order}`, show(ordering)));
    }
  }
  if (found.length === 0 && repeatsItself(line)) {
    findLeftovers(line, '', texts, found, SAID_TWICE);
    if (found.length === 0) return found;
    found.length = 0; // walked again with the repetitions, whose places are findings too
  }
  findLeftovers(line, '', texts, found, MARK);
  return found;
}

/** Whether each output is the one of its turn, and the last output that of the last turn. */
function repeatsItself({
  all_agent_outputs: outputs,
  conversation_history: history,
  final_output,
}: JsonObject): boolean {
  if (!Array.isArray(outputs) || !Array.isArray(history)) return false;
  const last: unknown = history.at(-1);
  return (
    history.every((turn, i) => isObject(turn?.output) && same(turn.output, outputs[i])) &&
    isObject(last) &&
    same(last.output, final_output)
  );
}

/** What a result that is strict otherwise says twice must be the same both times: each output, and the last one again. */
function findEchoes(line: JsonObject, found: Violation[]): void {
  const { all_agent_outputs, conversation_history, final_output: last } = line;
  const outputs = all_agent_outputs as unknown[];
  const history = conversation_history as unknown[];
  const compare = (echo: unknown, turn: unknown, at: string, rule: string): void => {
    if (!isObject(turn) || !isObject(echo) || !isObject(turn.output) || same(turn.output, echo)) return;
    const below = differenceIn(turn.output, echo) ?? '';
    const expected = `what the turn has, ${show(valueAt(turn.output, below))}`;
    found.push(broken(rule, at + below, expected, show(valueAt(echo, below))));
  };
  for (let i = 0; i < history.length; i++)
    compare(outputs[i], history[i], `/all_agent_outputs/${i}`, 'all_agent_outputs');
  compare(last, history.at(-1), '/final_output', 'final_output');
}

/** fw's own mark records what was null before; that is no null of the result. */
const MARK: ReadonlySet<string> = new Set(['_fw']);
/** What is said twice is walked once: a third of the time of verification. */
const SAID_TWICE: ReadonlySet<string> = new Set(['_fw', 'all_agent_outputs', 'final_output']);

interface Rule {
  key: string;
  expected: string;
  fits(value: unknown): boolean;
}

function expectAll(parent: JsonObject, at: string, rules: readonly Rule[], found: Violation[]): void {
  for (const { key, expected, fits } of rules) {
    const value = parent[key];
    if (value === undefined) found.push(broken('missing key', join(at, key), expected, 'nothing'));
    // null is found by the walk, wherever it is
    else if (value !== null && !fits(value)) found.push(broken(key, join(at, key), expected, show(value)));
  }
}

export const isText = (value: unknown): value is string =>
  typeof value === 'string' && (isPrinting(value.charCodeAt(0)) || /\S/.test(value));
/** Of ASCII; nearly every text begins with one, and a regular expression takes ten times as long to see it. */
const isPrinting = (unit: number): boolean => unit > 0x20 && unit < 0x7f;
const isSome = (value: unknown): boolean =>
  Array.isArray(value) ? value.length > 0 : !isObject(value) || !isEmpty(value);
const isList = (value: unknown): boolean => Array.isArray(value) && value.length > 0;
const isNumber = (value: unknown): value is number => typeof value === 'number';

const text = (key: string): Rule => ({ key, expected: 'text', fits: isText });
const object = (key: string): Rule => ({ key, expected: 'an object', fits: isObject });
const list = (key: string): Rule => ({ key, expected: 'an array, not empty', fits: isList });

const RESULT: readonly Rule[] = [
  { key: 'mode', expected: '"sequential"', fits: value => value === 'sequential' },
  text('initial_prompt'),
  list('conversation_history'),
  list('all_agent_outputs'),
  object('final_output'),
  object('business_decision'),
  {
    key: 'prompt_id',
    expected: 'the number of a row, from 1',
    fits: value => Number.isSafeInteger(value) && (value as number) > 0,
  },
  text('ordering'),
  {
    key: 'timestamp',
    expected: 'a date and time, such as 2026-03-01T09:30:00',
    fits: value => typeof value === 'string' && isTimestamp(value),
  },
];
const TURN: readonly Rule[] = [text('agent'), text('input'), object('output')];
const DECISION: readonly Rule[] = [
  text('approval_decision'),
  { key: 'interest_rate', expected: 'a number', fits: isNumber },
  {
    key: 'confidence_probability',
    expected: 'a number above 0',
    fits: value => isNumber(value) && value > 0,
  },
  { key: 'reasoning', expected: 'reasons', fits: isSome },
];

/** Names as an ordering has them; what is no text is shown, never converted: a `toString` from outside may be anything. */
export function namesOf(names: readonly unknown[]): string {
  return names.map(name => (typeof name === 'string' ? name : show(name))).join();
}
