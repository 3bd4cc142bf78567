/**
 * One answer of an item: what its agent was shown, each try, what it said with what was changed in it, the values that came
 * of it and where each is from. What the line does not hold is taken from the ledger or the agent files, or said to be missing.
 */
import {
  type Answer,
  isAccountedFor,
  type Refused,
  wordsOf,
} from '../../../engine/answers/answers-of-line.ts';
import { editsOf } from '../../../engine/answers/entries.ts';
import { changesOf } from '../../../engine/audit/history.ts';
import { type Origin, originsIn } from '../../../engine/audit/value-provenance.ts';
import { ItemFailure } from '../../../engine/core/item/failure.ts';
import { type Item, isRawRequest, type Rejected } from '../../../engine/core/item/item.ts';
import { counted, number } from '../../../engine/core/item/wording.ts';
import { isObject, type JsonObject, join } from '../../../engine/core/json/pointer.ts';
import { type Html, html, joined, NONE } from '../../kit/html.ts';
import type { CallFacts } from '../ledger-facts.ts';
import { bodyOf, callsOf, callTable, schemaParts } from './calls.ts';
import { curlParts } from './curl.ts';
import type { AnswerContext, KnownAgents } from './known.ts';
import { markedText } from './marks.ts';
import { bodyParts, messageParts } from './messages.ts';
import { replyParts, usageFacts } from './replies.ts';
import { boundOrigins, valueTree } from './value-tree.ts';
import { facts, folded, type Writer } from './writer.ts';

const MOST_TRIES = 40;
const MOST_CHANGES = 200;

export function answerSections(
  line: JsonObject,
  answers: readonly Answer[],
  context: AnswerContext,
  writer: Writer,
): Html[] {
  const originOf = originsIn(line, null);
  return writer.list(
    answers,
    (answer, index) =>
      // each has its share, so that a long one leaves the decision a place
      writer.within(writer.left / Math.min(12, answers.length - index), () =>
        answerSection(line, answer, { ...context, originOf }, writer),
      ),
    { most: 100, what: 'answer' },
  );
}

function answerSection(
  line: JsonObject,
  answer: Answer,
  context: AnswerContext & { originOf: (tokens: readonly string[]) => Origin },
  writer: Writer,
): Html {
  const { at, agent, output, response, said, rejected, attempts, shared } = answer;
  const calls = callsOf(answer, context.facts);
  const name = at === '/decision' ? 'decision' : 'answer';
  const isOpen = !hidesAnswers(writer);
  return html`<section class="answer" id="${anchorOf(at)}">
<h2>${writer.text(agent, 200)} <span class="dim">${name} · ${at}</span></h2>
${answerFacts(answer, calls, writer)}
${shared === undefined ? NONE : html`<p class="dim">Asked once for all items of ${writer.text(shared, 200)}.</p>`}
${shownTo(line, answer, calls, context, writer)}
${isOpen ? triesOf(answer, context, writer) : NONE}
${isOpen && attempts > rejected.length ? saidParts(answer, writer) : NONE}
${response === undefined ? NONE : responseParts(answer, writer)}
${output === undefined ? NONE : valuesOf(answer, context, writer)}
${isOpen ? NONE : html`<p class="dim">What it said is not shown, since some of its values are hidden.</p>`}
${output === undefined && said === undefined && response === undefined && rejected.length === 0 ? html`<p class="dim">No answer came.</p>` : NONE}
${schemaParts(answer, calls, context, writer)}
${calls.length === 0 ? NONE : callTable(calls, writer)}
</section>`;
}

export const anchorOf = (at: string): string => at.slice(1).replaceAll('/', '-');

/** Whether values of answers are hidden: then no text is shown that may hold them in other words. */
export function hidesAnswers({ hidden }: Writer): boolean {
  return hidden?.hidesAnswers === true;
}

function answerFacts(
  { rung, saw, attempts, round, usage }: Answer,
  calls: readonly CallFacts[],
  writer: Writer,
): Html {
  const last = calls.findLast(({ outcome }) => outcome === 'answer');
  return facts([
    writer.isHidden('rung') ? null : html`rung ${rungMark(rung, writer)}`,
    saw === 'clean' || writer.isHidden('rung') ? null : html`saw ${rungMark(saw, writer)}`,
    counted(attempts, 'attempt'),
    round > 0 ? `round ${round + 1}` : null,
    ...usageFacts(usage),
    last?.finish ? html`ended by ${writer.text(last.finish, 60)}` : null,
    last ? `${last.seconds.toFixed(2)} s` : null,
    last && !writer.isHidden('endpoint') ? writer.text(last.endpoint, 200) : null,
    last && !writer.isHidden('model') ? writer.text(last.model, 200) : null,
  ]);
}

const RUNGS = ['clean', 'repaired', 'coerced', 'unknown', 'defaulted', 'failed'];

export function rungMark(rung: string, writer: Writer, isLink = false): Html {
  const known = RUNGS.includes(rung) ? rung : 'unknown';
  const mark = html`<span class="rung ${known}">${writer.text(rung, 60)}</span>`;
  return isLink ? writer.link(writer.links.filter('rung', rung), mark) : mark;
}

/** What the agent was shown: as the ledger has it, as the request of the line is, or as the agent files make it. */
function shownTo(
  line: JsonObject,
  answer: Answer,
  calls: readonly CallFacts[],
  { agents, facts: ledger }: AnswerContext,
  writer: Writer,
): Html {
  if (isRawRequest(line.request)) return sentAgain(line.request as JsonObject, calls, writer);
  if (hidesAnswers(writer))
    return html`<p class="dim">What it was shown is not shown here, since answers before it have hidden values.</p>`;
  // the first request of the last round: later ones have the refused answers behind it, which stand below
  const call = calls.find(({ request }) => request !== null);
  const last = calls.findLast(({ request }) => request !== null);
  const body = bodyOf(call?.request ?? null);
  if (call !== undefined && last !== undefined && body !== null) {
    const redacted = call.isRedacted
      ? html`<p class="dim">Texts of it were left out of the ledger (--redact).</p>`
      : NONE;
    const { request } = last;
    return folded(
      'What it was shown',
      writer.within(writer.left / 3, () => {
        const asked = bodyParts(body, writer);
        const curl =
          request === null || last.isRedacted ? null : curlParts({ ...last, body: request }, writer);
        return html`<p class="dim">As it went over the wire, from the ledger.</p>${redacted}${asked}${curl ?? NONE}`;
      }),
    );
  }
  if (agents !== null) return madeAgain(line as Item, answer, agents, writer);
  const why = ledger === null ? '' : 'The ledger does not have its calls. ';
  return html`<p class="dim missing">What it was shown is not in the line: ${why}the ledger of the run has the exact requests (--ledger DIR), the agent files the personas (--agents FOLDER).</p>`;
}

function madeAgain(item: Item, { at }: Answer, { agents, shown }: KnownAgents, writer: Writer): Html {
  let messages: unknown[];
  try {
    messages = shown.messagesTo(item, at);
  } catch (error) {
    const why = error instanceof ItemFailure ? error.message : 'the line is not as a run writes it';
    return html`<p class="dim missing">What it was shown cannot be made again from ${writer.text(agents.folder, 300)}: ${writer.text(why, 500)}. The ledger of the run has the exact request (--ledger DIR).</p>`;
  }
  return folded(
    'What it was shown',
    writer.within(
      writer.left / 3,
      () =>
        html`<p class="dim">Made again from the agent files in ${writer.text(agents.folder, 300)}, which may have changed since; the ledger of the run has the exact request (--ledger DIR).</p>${messageParts(messages, writer)}`,
    ),
  );
}

/** A raw request stands in its line as it was sent. */
function sentAgain({ url, body }: JsonObject, calls: readonly CallFacts[], writer: Writer): Html {
  if (!isObject(body)) return NONE;
  const path = typeof url === 'string' ? url : '';
  const endpoint = calls.findLast(({ outcome }) => outcome === 'answer')?.endpoint ?? null;
  const text = hasText(body);
  const curl = text === null ? null : curlParts({ endpoint, path, isRaw: true, body: text }, writer);
  return html`<h3>What was asked</h3><p class="facts">${writer.text(path, 300)}</p>${writer.within(writer.left / 2, () => bodyParts(body, writer))}${curl ?? NONE}`;
}

export function hasText(body: unknown): string | null {
  try {
    return JSON.stringify(body) ?? null;
  } catch {
    return null;
  }
}

/** The answers that were refused, each with why, and what the agent was told of it. */
function triesOf({ agent, rejected }: Answer, { agents }: AnswerContext, writer: Writer): Html {
  if (rejected.length === 0) return NONE;
  const one = (refused: Refused, index: number): Html => {
    const { raw, whole, code, message, temperature } = refused;
    const heat = temperature === undefined ? '' : ` at temperature ${temperature}`;
    const told = agents && complaint(agents, agent, refused);
    return html`<li>${folded(
      html`Try ${index + 1}${heat}: not accepted: <b>${writer.text(code, 100)}</b>: ${writer.text(message, 600)}`,
      html`${writer.block(raw)}${wholeNote(whole)}${told === null ? NONE : html`<p class="dim">Then it was told: ${writer.text(told, 2_000)}</p>`}`,
    )}</li>`;
  };
  const made = writer.within(writer.left / 2, () =>
    joined(writer.list(rejected, one, { most: MOST_TRIES, what: 'try', whats: 'tries', as: 'li' })),
  );
  return html`<h3>${counted(rejected.length, 'answer')} not accepted</h3><ol class="tries">${made}</ol>`;
}

function complaint({ shown }: KnownAgents, agent: string, refused: Refused): string | null {
  try {
    return shown.complaintAbout(agent, refused as Rejected);
  } catch {
    return null; // the schema does not compile: who asks the agents says so
  }
}

const wholeNote = (whole: Answer['whole']): Html =>
  whole === undefined
    ? NONE
    : html`<p class="dim">The beginning of ${number(whole.bytes)} bytes; the ledger has more of it.</p>`;

/** The model's text, marked, and the changes in words. */
function saidParts(answer: Answer, writer: Writer): Html {
  const { said, output, whole, repairs, rejected, problem } = answer;
  if (said === undefined) return NONE;
  const edits = editsOf(repairs);
  const isSame = edits.length === 0 && typeof output === 'string' && said === output;
  const refused = problem
    ? html`<p class="problem">Not accepted: <b>${writer.text(problem.code, 100)}</b>: ${writer.text(problem.message, 2_000)}</p>`
    : NONE;
  const words = changesOf(repairs.slice(0, MOST_CHANGES), { said, indent: '' });
  const isMasked = writer.hidden !== null;
  const changes =
    words.length === 0 || isMasked
      ? NONE
      : folded(
          counted(repairs.length, 'change by fw', 'changes by fw'),
          html`<ul class="changes">${writer.list(words, text => html`<li>${writer.text(text, 1_000)}</li>`, { most: 2 * MOST_CHANGES, what: 'line', as: 'li' })}</ul>`,
        );
  const nth = rejected.length > 0 ? `Try ${rejected.length + 1}: what` : 'What';
  if (isSame) return refused;
  const text = html`${markedText(said, edits, writer)}${wholeNote(whole)}${changes}`;
  // the same words stand below as values: what was changed in them is worth a look at once
  const asValues = edits.length === 0 && output !== undefined && said === wordsText(output);
  return html`${refused}${asValues ? folded(`${nth} it said, to the letter`, text) : html`<h3>${nth} it said</h3>${text}`}`;
}

function wordsText(output: unknown): string | null {
  try {
    return wordsOf(output);
  } catch {
    return null;
  }
}

function responseParts({ at, response, isEdited }: Answer, writer: Writer): Html {
  const edited = isEdited
    ? html`<p class="problem">This is not what the server answered: it has another hash.</p>`
    : NONE;
  return html`<h3>What the server answered</h3>${facts([html`HTTP ${writer.value('status', String(response?.status_code))}`])}${edited}${replyParts(response?.body, `${join(at, 'response')}/body`, writer)}`;
}

function valuesOf(
  answer: Answer,
  { originOf }: { originOf: (tokens: readonly string[]) => Origin },
  writer: Writer,
): Html {
  const { at, agent, output, said, repairs } = answer;
  const checked = isAccountedFor(answer);
  const warning =
    checked === false
      ? html`<p class="problem">What the model said, with the changes on record, does not give this answer: something else changed it.</p>`
      : NONE;
  const columns = at === '/decision' ? 'out.' : `step.${agent}.`;
  if (typeof output === 'string') return html`<h3>The answer</h3>${warning}${writer.block(output)}`;
  const origins = boundOrigins(originOf, (said?.length ?? 0) + 20 * repairs.length);
  const tree = valueTree(output, { at: join(at, 'output'), origins, columns }, writer);
  return html`<h3>The answer, value by value</h3>${warning}${tree}`;
}
