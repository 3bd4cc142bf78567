/**
 * Strict verification: the rules that a result must keep before anyone counts it, by hand, at the speed of JSON.parse.
 */

import { dueIn, wrongArrangement } from '../agents/arrangement.ts';
import { showsPrompt } from '../agents/context.ts';
import { hashOfText } from '../answer/answer-limits.ts';
import { type Item, isRawRequest, type Rung, rungOf, type Step } from '../item/item.ts';
import { isObject, type JsonObject, join, valueAt } from '../json/pointer.ts';
import { differenceIn, same } from '../json/same.ts';
import { show } from '../json/show.ts';
import type { AnswerSchemas } from './answer-schemas.ts';
import { findInDerivation } from './derivation.ts';
import {
  findLeftovers,
  isInOwnWords,
  type JudgedTexts,
  MAX_VIOLATIONS,
  type Violation,
} from './leftovers.ts';
import { isTimestamp } from './result.ts';

/** Whether a line is a whole document, which belongs at the beginning of an input. */
export function isDocument(line: JsonObject): boolean {
  return Object.keys(line).every(key => ['results', 'status', 'metadata'].includes(key)) && !isEmpty(line);
}

function isEmpty(line: JsonObject): boolean {
  for (const _key in line) return false;
  return true;
}

/** What is wrong with a legacy result; empty for a strict one whose answers fit their schemas. */
export function findInLegacy(line: JsonObject, schemas: AnswerSchemas): Violation[] {
  if (schemas.fitsLegacy(line) && keepsTheRest(line)) return [];
  const found = findByRules(line, schemas.isPackaged, schemas.wantsOwnWords('legacy') ? 'answers' : 'none');
  schemas.judgeResult(line, found);
  if (found.length === 0) findEchoes(line, found);
  return found;
}

/** Whether a result that fits schemas/legacy.schema.json also keeps the rules that a schema cannot say: nearly all do. */
function keepsTheRest(line: JsonObject): boolean {
  const { conversation_history, all_agent_outputs: outputs, ordering, timestamp, prompt_id, _fw } = line;
  const history = conversation_history as { agent: string; input: string; output: JsonObject }[];
  const prompt = line.initial_prompt as string;
  return (
    _fw === undefined &&
    (outputs as unknown[]).length === history.length &&
    ordering === history.map(({ agent }) => agent).join() &&
    Number.isSafeInteger(prompt_id) &&
    isTimestamp(timestamp as string) &&
    repeatsItself(line) &&
    history.every(({ input }) => showsPrompt(input, prompt)) &&
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
        if (!isOfPrompt(turn, line)) found.push(broken('other prompt', `${at}/input`, ASKED, 'another'));
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

const ASKED = 'the text of initial_prompt';

/** Whether the turn showed its agent the prompt of the result, where both say a text. */
function isOfPrompt({ input }: JsonObject, { initial_prompt: prompt }: JsonObject): boolean {
  return !isText(input) || !isText(prompt) || showsPrompt(input, prompt);
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

const isText = (value: unknown): value is string =>
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
function namesOf(names: readonly unknown[]): string {
  return names.map(name => (typeof name === 'string' ? name : show(name))).join();
}

function broken(rule: string, at: string, expected: string, got: string): Violation {
  return { code: 'not-strict', rule, at, expected, got };
}

/** What is wrong with an item; empty for one that may be counted. */
export function findInItem(item: Item, accepted: ReadonlySet<Rung>, schemas: AnswerSchemas): Violation[] {
  if (isRawRequest(item.request)) return findInRequest(item, accepted);
  const found: Violation[] = [];
  const { steps, decision, ordering } = item;
  const judge = (step: unknown, at: string, role: 'agent' | 'synthesis'): void => {
    if (!isObject(step)) return void found.push(broken('step', at, 'a step', show(step)));
    const { agent, rung, saw, output } = step as unknown as Step;
    for (const [key, value] of [
      ['rung', rung],
      ['saw', saw],
    ] as const) {
      if (accepted.has(value)) continue;
      found.push(rungFinding(`${at}/${key}`, accepted, `${show(value)} (${show(agent)})`));
      break;
    }
    const making = findInDerivation(step, at);
    if (making !== null) found.push(making);
    if (output !== undefined && output !== null) {
      const inSchema: Violation[] = [];
      schemas.judgeStep({ agent, output }, { at, role }, inSchema);
      const left: Violation[] = [];
      // an answer in text may be about anything, errors too
      if (typeof output === 'object')
        findLeftovers(output, `${at}/output`, schemas.wantsOwnWords('item') ? 'all' : 'none', left);
      // a null that its agent's schema asks for is an answer: "the text does not say"
      found.push(...left.filter(({ rule }) => rule !== 'null' || inSchema.length > 0));
      found.push(...inSchema.filter(({ at }) => left.every(known => known.at !== at)));
    } else found.push(broken('missing answer', `${at}/output`, `the answer of ${show(agent)}`, show(output)));
  };
  if (!isText(item.id)) found.push(broken('id', '/id', 'text', show(item.id)));
  if (!Array.isArray(steps) || steps.length === 0) {
    found.push(broken('missing answer', '/steps', 'at least one answer', show(steps)));
  } else {
    for (let i = 0; i < steps.length && found.length < MAX_VIOLATIONS; i++)
      judge(steps[i], `/steps/${i}`, 'agent');
    const order = namesOf(steps.map(step => step?.agent));
    const wrong = wrongArrangement(item);
    if (wrong) found.push(broken('arrangement', wrong.at, wrong.expected, wrong.got));
    const agents = wrong ? ordering : dueIn(item);
    const due = ordering === undefined ? order : Array.isArray(agents) ? namesOf(agents) : show(ordering);
    if (order !== due)
      found.push(broken('ordering', '/steps', `an answer of each of ${due}`, `answers of ${order}`));
  }
  const decider = decision === undefined ? schemas.decider() : null;
  if (decision !== undefined) judge(decision, '/decision', 'synthesis');
  else if (decider !== null)
    found.push(
      broken('missing answer', '/decision', `the answer of ${decider}, or --no-decision`, 'nothing'),
    );
  return found;
}

/** Of a raw request the server's answer must be there, as it came: what it says is nobody's to judge. */
function findInRequest({ id, request, steps }: Item, accepted: ReadonlySet<Rung>): Violation[] {
  if (!isText(id)) return [broken('id', '/id', 'text', show(id))];
  const [step] = Array.isArray(steps) ? steps : [];
  if (!isObject(step)) return [broken('missing answer', '/steps', 'the answer to the request', show(steps))];
  const { agent, rung, response, sha256 } = step as unknown as Step;
  if (!accepted.has(rung)) return [rungFinding('/steps/0/rung', accepted, show(rung))];
  if (agent !== request?.url)
    return [
      broken('other request', '/steps/0/agent', `the URL of the request, ${request?.url}`, show(agent)),
    ];
  if (response?.status_code !== 200) {
    const at = '/steps/0/response/status_code';
    return [broken('missing answer', at, 'an answer with HTTP 200', show(response?.status_code))];
  }
  if (sha256 === hashOfText(JSON.stringify(response.body) ?? '')) return [];
  const expected = `what the server answered, whose hash is ${sha256 ?? 'not there'}`;
  return [broken('edited answer', '/steps/0/response/body', expected, `another: ${show(response.body)}`)];
}

/** A record that is no item and no legacy result is judged by its rung alone. */
export function findInRecord(line: JsonObject, accepted: ReadonlySet<Rung>): Violation[] {
  const rung = rungOf(line);
  return accepted.has(rung) ? [] : [rungFinding('/_fw/rung', accepted, show(rung))];
}

function rungFinding(at: string, accepted: ReadonlySet<Rung>, got: string): Violation {
  const expected = `one of ${[...accepted].join(', ')} (--accept)`;
  return { code: 'not-accepted', rule: 'rung', at, expected, got };
}
