/**
 * What each turn of a legacy result says that its agent was shown: the prompt and the answers before it, each under its
 * agent's name. fw writes it in one form, which is held to the byte. Older scripts put words of their own around it, wrote
 * Python, or showed a part of an answer; of theirs every answer that was given before must be there, in the order of the
 * turns, and no value of it may be another one.
 */

import { list, markedRepairs, wordsOf } from '../../answers/answers-of-line.ts';
import { readAnswer } from '../../answers/read-answer.ts';
import { compileSchema } from '../../answers/schema.ts';
import type { Check } from '../../answers/schema-check.ts';
import { showsPrompt, turnText } from '../../asking/agents/arrangement.ts';
import type { Agents } from '../../asking/agents/load-agents.ts';
import type { Repair } from '../../core/item/item.ts';
import { isObject, type JsonObject, parsePointer, same, setAt } from '../../core/json/pointer.ts';
import { shorten } from '../../core/json/show.ts';
import { broken, type Violation } from './leftovers.ts';
import { withoutOwnNames } from './own-names.ts';

const NAME = 'agent_name';

interface Turn {
  agent: string;
  input: string;
  output: JsonObject;
}

/**
 * The first turn that says that its agent was shown something else; null for nearly all. `said` is the line of provenance
 * of these very answers: with it the names are known as they were shown, and so every byte.
 */
export function findInInputs(line: JsonObject, agents: Agents, said?: JsonObject): Violation | null {
  const turns = line.conversation_history as Turn[];
  const prompt = line.initial_prompt as string;
  if (said === undefined && line._fw === undefined && areNext(turns, prompt, agents)) return null;
  const answers = said ? list(said.agents) : [];
  const marks = markedRepairs(line);
  let before = '';
  let isOurs = true; // all inputs so far are as fw writes them
  const shown: { agent: string | undefined; output: JsonObject }[] = [];
  for (let at = 0; at < turns.length; at++) {
    const { agent, input, output } = turns[at] as Turn;
    const expected: string | null = at === 0 ? prompt : isOurs ? before + lastOf(shown, agents) : null;
    if (input !== expected) {
      if (said) return other(at, 'the prompt and the answers before it, as its line of provenance has them');
      const wrong = whatIsOther(input, { prompt, before: isOurs && at > 0 ? before : null, shown, agents });
      if (wrong !== null) return other(at, wrong);
      isOurs = isOurs && at > 0 && input.startsWith(before + headOf(shown, agents));
    }
    before = input;
    const key = agents.names.get(agent);
    shown.push({ agent: key, output: asGiven(output, at, { marks, answers }) });
  }
  return null;
}

/** Whether each input is as fw writes it, to the byte: of nearly all results it is, and then no more need be known. */
function areNext(turns: readonly Turn[], prompt: string, { names, byKey }: Agents): boolean {
  let before = '';
  let more = prompt;
  for (const [at, { agent, input, output }] of turns.entries()) {
    // slices, since a sum of long texts would be copied to be compared
    if (input.slice(0, before.length) !== before || input.slice(before.length) !== more) return false;
    before = input;
    if (at < turns.length - 1)
      more = turnText(byKey.get(names.get(agent) as string)?.display ?? agent, wordsOf(output));
  }
  return true;
}

/** An answer before what was changed in it since, and as it was named, where that is known. */
function asGiven(
  output: JsonObject,
  turn: number,
  { marks, answers }: { marks: readonly Repair[]; answers: unknown[] },
): JsonObject {
  const at = `/conversation_history/${turn}/output/`;
  let given = output;
  for (let i = marks.length - 1; i >= 0; i--) {
    const { at: place = '', from } = marks[i] as Repair;
    if (place.startsWith(at))
      given = setAt(given, parsePointer(place.slice(at.length - 1)), from) as JsonObject;
  }
  const answer = answers[turn];
  return isObject(answer) ? withoutOwnNames(given, list(answer.repairs) as Repair[]).output : given;
}

interface Shown {
  prompt: string;
  /** the input of the turn before, as fw writes it; null where that is not known */
  before: string | null;
  shown: readonly { agent: string | undefined; output: JsonObject }[];
  agents: Agents;
}

const headOf = (shown: Shown['shown'], { byKey }: Agents): string => {
  const { agent = '' } = shown.at(-1) ?? {};
  return turnText(byKey.get(agent)?.display ?? agent, '');
};

const lastOf = (shown: Shown['shown'], agents: Agents): string =>
  headOf(shown, agents) + wordsOf(shown.at(-1)?.output);

/** What should have been there instead, in words; null where the text may be what the agent was shown. */
function whatIsOther(input: string, { prompt, before, shown, agents }: Shown): string | null {
  if (!showsPrompt(input, prompt)) return 'the text of initial_prompt';
  const last = shown.at(-1);
  if (last === undefined) return null;
  const head = before === null ? null : before + headOf(shown, agents);
  if (head !== null && input.startsWith(head)) {
    const answer = parsed(input.slice(head.length));
    return isObject(answer) && shows(answer, last.output, true) ? null : answersOf(shown, agents);
  }
  const at = input.indexOf(prompt.trim());
  const around = [input.slice(0, at), input.slice(at + prompt.trim().length)].join('\n');
  return inOrder(around, shown, agents) ? null : answersOf(shown, agents);
}

function answersOf(shown: Shown['shown'], { byKey }: Agents): string {
  const names = shown.map(({ agent = 'an unknown agent' }) => byKey.get(agent)?.display ?? agent);
  return `the prompt and what was answered before: that of ${shorten(names.join(', '))}`;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Whether an object shows `output`, but for the agent's name: all of it, or a part that has something of it. */
function shows(object: JsonObject, output: JsonObject, isWhole: boolean): boolean {
  const keys = Object.keys(object).filter(key => key !== NAME);
  const most = Object.keys(output).filter(key => key !== NAME).length;
  if (isWhole ? keys.length !== most : keys.length === 0) return false;
  return keys.every(key => Object.hasOwn(output, key) && same(object[key], output[key]));
}

/** Whether a text shows each of the answers, one after the other, and none of them under the name of another agent. */
function inOrder(text: string, shown: Shown['shown'], agents: Agents): boolean {
  const found = objectsIn(text);
  if (found.length === 0) return namesValues(text, shown);
  let next = 0;
  for (const { agent, output } of shown) {
    const at = found.findIndex(({ value }, index) => index >= next && shows(value, output, false));
    if (at < 0) return false;
    const label = labelIn((found[at] as FoundObject).before, agents);
    if (label !== null && agent !== undefined && label !== agent) return false;
    next = at + 1;
  }
  return true;
}

/** A text without objects tells the answers in words: some value of each must be among them. */
function namesValues(text: string, shown: Shown['shown']): boolean {
  let from = 0;
  return shown.every(({ output }) => {
    const values = Object.entries(output).flatMap(([key, value]) =>
      key !== NAME && ['string', 'number'].includes(typeof value) ? [String(value)] : [],
    );
    const at = values.map(value => text.indexOf(value, from)).filter(place => place >= 0);
    from = Math.min(...at) + 1;
    return at.length > 0;
  });
}

/** Characters of a line that is a label and no sentence. */
const LONGEST_LABEL = 60;

/** The key of the agent under whose name an object stands: in the words before it, or in the line above; null for none. */
function labelIn(before: string, { byKey }: Agents): string | null {
  const label = before.trimEnd().split('\n').at(-1) as string;
  if (label.length > LONGEST_LABEL) return null;
  let longest = '';
  let found: string | null = null;
  for (const { key, display, agent_name = display } of byKey.values())
    for (const name of [key, display, agent_name])
      if (name.length > longest.length && label.includes(name)) {
        longest = name;
        found = key;
      }
  return found;
}

interface FoundObject {
  value: JsonObject;
  /** the text between it and the one before */
  before: string;
}

let anyObject: Check | undefined;

/** The objects of a text, in JSON or as Python prints a dictionary. Takes time linear in the text. */
function objectsIn(text: string): FoundObject[] {
  const found: FoundObject[] = [];
  let told = 0;
  for (let at = text.indexOf('{'); at >= 0; at = text.indexOf('{', told)) {
    const end = objectEnd(text, at);
    if (end === null) break;
    const value = objectOf(text.slice(at, end));
    if (value !== null) found.push({ value, before: text.slice(told, at) });
    told = end;
  }
  return found;
}

function objectOf(text: string): JsonObject | null {
  const json = parsed(text);
  if (isObject(json)) return json;
  anyObject ??= compileSchema({ type: 'object' }, 'an object');
  const { output } = readAnswer(text, anyObject, { finish: 'stop' });
  return isObject(output) ? output : null;
}

/** Where the object that begins at `from` ends; null where it does not. Python takes either quote, JSON one. */
function objectEnd(text: string, from: number): number | null {
  const quotes = /['"]/.exec(text.slice(from, from + 100))?.[0] === "'" ? `'"` : '"';
  let depth = 0;
  let quote = '';
  for (let at = from; at < text.length; at++) {
    const unit = text[at] as string;
    if (quote !== '') {
      if (unit === '\\') at += 1;
      else if (unit === quote) quote = '';
    } else if (quotes.includes(unit)) quote = unit;
    else if (unit === '{') depth += 1;
    else if (unit === '}' && --depth === 0) return at + 1;
  }
  return null;
}

function other(turn: number, expected: string): Violation {
  const at = `/conversation_history/${turn}/input`;
  const rule = expected === 'the text of initial_prompt' ? 'other prompt' : 'other input';
  return broken(rule, at, expected, 'another');
}

/** Of an answer that carries the name of another agent of the folder: whose answer is it? Null for nearly all. */
export function findOtherName(result: JsonObject, { names, synthesis }: Agents): Violation | null {
  const turns = result.conversation_history as Turn[];
  for (let at = 0; at <= turns.length; at++) {
    const turn = turns[at];
    const { [NAME]: name } = (turn ? turn.output : result.business_decision) as JsonObject;
    const key = typeof name === 'string' ? names.get(name) : undefined;
    const own = turn ? names.get(turn.agent) : synthesis?.key;
    if (key === undefined || own === undefined || key === own) continue;
    const place = turn ? `/conversation_history/${at}/output/${NAME}` : `/business_decision/${NAME}`;
    const expected = `the name of ${own}, or one that no other agent has`;
    return broken('name of another agent', place, expected, JSON.stringify(name));
  }
  return null;
}
