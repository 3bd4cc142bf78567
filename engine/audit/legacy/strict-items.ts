/** Strict verification of items: every answer, in its place, by its agent, after what it was shown. */

import { hashOfText } from '../../answers/answers-of-line.ts';
import {
  arrangementOf,
  dueIn,
  seenLast,
  turnsOf,
  wrongArrangement,
} from '../../asking/agents/arrangement.ts';
import { sawIn } from '../../asking/agents/ask-chain.ts';
import { type Item, isRawRequest, type Rung, rungOf, type Step, worse } from '../../core/item/item.ts';
import { troubleIn } from '../../core/item/response.ts';
import { isObject, type JsonObject } from '../../core/json/pointer.ts';
import { show } from '../../core/json/show.ts';
import type { AnswerSchemas } from './answer-schemas.ts';
import { findInDerivation } from './derivation.ts';
import { findLeftovers, MAX_VIOLATIONS, type Violation } from './leftovers.ts';
import { broken, isText, namesOf } from './strict.ts';

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
  const trouble = troubleIn(response);
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
