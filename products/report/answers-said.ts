/** The answers that a line holds, in the order in which they were asked, and whose of them is the outcome. */

import { RUNGS, type Rung, type Step } from '../../engine/core/item/item.ts';
import { answerText } from '../../engine/core/item/response.ts';
import { isObject, type JsonObject, valueAt } from '../../engine/core/json/pointer.ts';
import { provenanceCarried } from '../../engine/flow/provenance.ts';
import { outcomeIn } from './outcome-texts.ts';
import { readOut } from './read-out.ts';
import type { Asked } from './report-names.ts';
import type { OutcomeRule } from './values.ts';

/** An answer of one agent, as far as a line tells. */
export interface Answered {
  agent: string;
  /** an object, or a text, number, boolean or list that is the whole answer; undefined: none */
  output: unknown;
  /** what its outcome may be, by the agent's schema; null where that says nothing */
  allowed: ReadonlySet<string> | null;
  rung: Rung;
  /** 0: nobody kept it */
  attempts: number;
  /** the name of the question that several items share; null for none */
  shared: string | null;
  prompt: number;
  completion: number;
}

export interface OutcomeSaid {
  value: unknown;
  allowed: ReadonlySet<string> | null;
  decision: JsonObject | undefined;
  answers: Answered[];
  isTied: boolean;
  /** it is the answer of an agent by that agent's name, and no key of a decision */
  isByName: boolean;
}

/** Whose outcome counts, and what it is. `row`: the line is one of a table. */
export function outcomeSaid(
  {
    answers,
    hasDecision,
    columns,
    row,
  }: { answers: Answered[]; hasDecision: boolean; columns: JsonObject; row: JsonObject | undefined },
  asked: Asked & { rule: OutcomeRule },
): OutcomeSaid {
  const { outcome: name, agent, readOut: by } = asked;
  const ofAnswer = (answer: Answered | undefined): OutcomeSaid => ({
    value: outcomeIn(answer, name),
    allowed: answer?.allowed ?? null,
    decision: numbersOf(answer),
    answers,
    isTied: false,
    isByName: answer !== undefined && isNamed(name, answer),
  });
  if (agent !== undefined) {
    const at = answers.findLastIndex(answer => answer.agent === agent);
    // who comes behind it has not decided
    return { ...ofAnswer(answers[at]), answers: at < 0 ? answers : answers.slice(0, at + 1) };
  }
  // a column of a table that somebody made of answers
  if (
    answers.length === 0 ||
    (row !== undefined && Object.hasOwn(row, name) && !isAnswerColumn(name, answers))
  )
    return {
      ...{ value: valueIn(columns, name), allowed: null, decision: undefined, answers },
      ...{ isTied: false, isByName: false },
    };
  if (by !== undefined) {
    const all = hasDecision
      ? { answers: answers.slice(0, -1), decision: answers.at(-1) }
      : { answers, decision: undefined };
    const { outcome, output, isTied, allowed } = readOut(all, by, {
      outcome: name,
      tie: asked.tie,
      rule: asked.rule,
    });
    const decision = isObject(output) ? output : undefined;
    return {
      ...{ value: outcome, allowed: allowed ?? null, decision, answers },
      ...{ isTied: isTied && outcome === null, isByName: false },
    };
  }
  const last = ofAnswer(answers.at(-1));
  if (last.value !== undefined) return last;
  // no key of the decision: an agent whose answer is no object, by its name, or a column of `fw export`
  const named = answers.findLast(answer => outcomeIn(answer, name) !== undefined && isNamed(name, answer));
  return named === undefined ? last : ofAnswer(named);
}

function isNamed(name: string, { agent, output }: Answered): boolean {
  if (agent === '' || (isObject(output) && Object.hasOwn(output, name))) return false;
  return name === agent || name === `${agent}.output` || name.startsWith(`${agent}.output.`);
}

const isAnswerColumn = (name: string, answers: readonly Answered[]): boolean =>
  answers.some(answer => name.includes('.output') && isNamed(name, answer));

/** A column; of lines whose values have values in them also a JSON Pointer. */
function valueIn(columns: JsonObject, name: string): unknown {
  if (Object.hasOwn(columns, name)) return columns[name];
  return name.startsWith('/') ? valueAt(columns, name) : undefined;
}

/** What has the numbers of a decision: the answer, or under its agent's name the number that it is. */
function numbersOf(answer: Answered | undefined): JsonObject | undefined {
  if (answer === undefined) return undefined;
  const { agent, output } = answer;
  return isObject(output) ? output : typeof output === 'number' ? { [agent]: output } : undefined;
}

export function answersOfItem(line: JsonObject): Answered[] {
  const { steps, decision } = line;
  const all = (Array.isArray(steps) ? steps : []).filter(isObject);
  if (isObject(decision)) all.push(decision);
  return all.map(ofStep);
}

function ofStep(step: JsonObject): Answered {
  const { agent, output, response, rung, attempts, usage, shared } = step as unknown as Step;
  const count = (value: unknown): number =>
    typeof value === 'number' && Number.isFinite(value) && value > 0 ? value : 0;
  return {
    agent: typeof agent === 'string' ? agent : '',
    output: output ?? answerText(response?.body),
    allowed: null,
    rung: RUNGS.includes(rung) ? rung : 'failed',
    attempts: count(attempts),
    shared: typeof shared === 'string' ? shared : null,
    prompt: count(usage?.prompt),
    completion: count(usage?.completion),
  };
}

/** A result has no rungs; its line of provenance has. */
export function answersOfResult(line: JsonObject): Answered[] {
  const { conversation_history: turns, business_decision: decision } = line;
  const said = provenanceCarried(line)?.agents;
  const known = Array.isArray(said) ? said : [];
  const of = (agent: unknown, output: unknown, at: number): Answered => {
    const { rung, attempts } = isObject(known[at]) ? known[at] : {};
    return ofStep({
      agent,
      output,
      rung: RUNGS.includes(rung as Rung) ? rung : isObject(output) ? 'unknown' : 'failed',
      attempts,
    });
  };
  const all = (Array.isArray(turns) ? turns : []).filter(isObject);
  const answers = all.map((turn, at) => of(turn.agent, turn.output, at));
  const decider = known.at(-1)?.agent;
  if (isObject(decision))
    answers.push(of(typeof decider === 'string' ? decider : 'decision', decision, all.length));
  return answers;
}
