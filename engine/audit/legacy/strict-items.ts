/** Strict verification of items: every answer, in its place, by its agent, after what it was shown. */

import { type Answer, answerOf, givenBy, hashOfText, isRepair, list } from '../../answers/answers-of-line.ts';
import { valueEntries } from '../../answers/entries.ts';
import { READ_BACK, rungOfEntries } from '../../answers/rules.ts';
import {
  arrangementOf,
  dueIn,
  sawIn,
  seenLast,
  turnsOf,
  wrongArrangement,
} from '../../asking/agents/arrangement.ts';
import { type Item, isRawRequest, RUNGS, type Rung, rungOf, type Step, worse } from '../../core/item/item.ts';
import { troubleIn } from '../../core/item/response.ts';
import {
  differenceIn,
  getAt,
  isObject,
  type JsonObject,
  parsePointer,
  same,
  setAt,
  valueAt,
} from '../../core/json/pointer.ts';
import { show } from '../../core/json/show.ts';
import type { AnswerSchemas } from './answer-schemas.ts';
import { broken, findLeftovers, MAX_VIOLATIONS, type Violation } from './leftovers.ts';
import { isText, namesOf } from './strict.ts';

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
      schemas.judgeStep({ agent, output, tool_calls: step.tool_calls }, { at, role }, inSchema);
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
    const claimed = found.length === 0 ? schemas.otherOrderingInId(item) : null;
    if (claimed !== null)
      found.push(broken('ordering', '/ordering', `${claimed}, as in the id`, show(ordering ?? order)));
    if (found.length === 0) findBetterSaw(item, found);
  }
  const decider = decision === undefined ? schemas.decider() : null;
  if (decision !== undefined) judge(decision, '/decision', 'synthesis');
  else if (decider !== null)
    found.push(
      broken('missing answer', '/decision', `the answer of ${decider}, or --no-decision`, 'nothing'),
    );
  return found;
}

/** Whoever was shown an answer saw its rung: a step that says less is no better for it. */
function findBetterSaw(item: Item, found: Violation[]): void {
  const { steps = [], decision, ordering = steps.map(({ agent }) => agent) } = item;
  const arrangement = arrangementOf(item);
  const expectSaw = (step: Step, seen: readonly Step[], at: string): void => {
    const least = sawIn(seen);
    if (worse(step.saw, least) === step.saw) return;
    const expected = `${least} at best, the worst rung among the answers that it was shown`;
    found.push(broken('rung', `${at}/saw`, expected, show(step.saw)));
  };
  if (steps.every(({ rung, saw }) => rung === 'clean' && saw === 'clean') && decision?.saw === 'clean')
    return;
  for (const [at, { sees }] of turnsOf(ordering, arrangement).entries()) {
    const seen = sees.map(turn => steps[turn] as Step);
    if (steps[at]) expectSaw(steps[at], seen, `/steps/${at}`);
  }
  const last = seenLast(ordering, arrangement).map(turn => steps[turn] as Step);
  if (decision) expectSaw(decision, last, '/decision');
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
  const trouble = troubleIn(response, undefined, request);
  if (trouble) return [broken('missing answer', '/steps/0/response', 'an answer', trouble.message)];
  if (sha256 === hashOfText(JSON.stringify(response?.body) ?? '')) return [];
  const expected = `what the server answered, whose hash is ${sha256 ?? 'not there'}`;
  return [broken('edited answer', '/steps/0/response/body', expected, `another: ${show(response?.body)}`)];
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

/**
 * Whether an answer came about as its record says: the text of the model with the recorded changes gives the answer,
 * and the rung is no better than those changes allow. Where the text is the answer as JSON its hash stands for it. A
 * step with neither and without changes says nothing of it (isUntold). Whether it cannot be known that nobody edited an
 * answer: its step has neither the text nor its hash, nor says so.
 */
export function isUntold({ output, raw, sha256, repairs, rung }: JsonObject): boolean {
  if (output === undefined || raw !== undefined || sha256 !== undefined) return false;
  return rung !== 'unknown' && list(repairs).length === 0;
}

/** The first thing in the step at `at` that does not follow from its text and its changes; null for nearly all. */
export function findInDerivation(step: JsonObject, at: string): Violation | null {
  const { raw, sha256, repairs, rung } = step;
  const isHashed = sha256 !== undefined;
  if (isHashed && typeof sha256 !== 'string') return broken('hash', `${at}/sha256`, 'text', show(sha256));
  if (
    raw === undefined &&
    !isHashed &&
    (repairs === undefined || (Array.isArray(repairs) && repairs.length === 0))
  )
    return null;
  const odd = list(repairs).findIndex(entry => !isRepair(entry));
  if (odd >= 0 || (repairs !== undefined && !Array.isArray(repairs))) {
    const [below, found] = odd >= 0 ? [`/repairs/${odd}`, list(repairs)[odd]] : ['/repairs', repairs];
    return broken('changes', at + below, 'an entry of a change: {rule, at, from, to}', show(found));
  }
  const best = rungOfEntries(list(repairs), 'coerced');
  if (RUNGS.includes(rung as Rung) && worse(rung as Rung, best) !== rung)
    return broken('rung', `${at}/rung`, `${best} at best, by its repairs`, show(rung));
  if (raw !== undefined && typeof raw !== 'string') return broken('raw', `${at}/raw`, 'text', show(raw));
  if (raw === undefined && isHashed && list(repairs).length > 0)
    return broken('raw', `${at}/raw`, 'the text that the changes were made to', 'nothing');
  const answer = answerOf(step, at);
  if (answer.isEdited) {
    const [place, what] = raw === undefined ? ['output', 'answer'] : ['raw', 'text'];
    const expected = `the ${what} of which the model's text has the hash ${sha256}`;
    return broken('edited answer', `${at}/${place}`, expected, `another: ${show(answer.output ?? raw)}`);
  }
  if (answer.isCalls) return null; // what its model called is no reading of its text
  return answer.output === undefined ? null : (otherThanSaid(answer) ?? otherThanChanged(answer));
}

function otherThanSaid({ at, said, output, repairs }: Answer): Violation | null {
  if (said === undefined) return null;
  const given = givenBy(said, repairs, output);
  if (given === undefined) {
    const expected = 'a text that gives the answer, with the recorded changes';
    return broken('answer and raw', `${at}/raw`, expected, show(said));
  }
  const below = differenceIn(given, output);
  if (below === null) return null;
  const expected = `what raw gives with the recorded changes, ${show(valueAt(given, below))}`;
  return broken('answer and raw', `${at}/output${below}`, expected, show(valueAt(output, below)));
}

/** Each entry must end in the value that the answer has now, or in that from which the next entry at its place begins. */
function otherThanChanged({ at, output, repairs }: Answer): Violation | null {
  let value: unknown = output;
  for (const entry of valueEntries(repairs).toReversed()) {
    if (entry.rule === READ_BACK) continue;
    const tokens = parsePointer(entry.at as string);
    const parent = getAt(value, tokens.slice(0, -1));
    const found = getAt(value, tokens);
    const isThere = typeof parent === 'object' && parent !== null;
    if (!isThere || !same(found, entry.to)) {
      const expected = `a place that a change left as ${show(entry.to)} (${entry.rule})`;
      return broken('changes', `${at}/output${entry.at}`, expected, show(found));
    }
    value = setAt(value, tokens, entry.from);
  }
  return null;
}
