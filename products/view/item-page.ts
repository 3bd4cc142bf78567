/**
 * What the page of one line says: what it is and how it fared, what it is about, what was asked, each answer with its tries
 * and its changes, and what may be done where it failed. Of any line, at most a megabyte, and nothing of it is ever HTML.
 *
 *   head · failure · input · prompt │ answers (item/answers.ts) │ turns of a legacy result │ reply of a batch, a gateway │ record
 */
import {
  answersIn,
  isProvenance,
  isRepair,
  list,
  markedRepairs,
} from '../../engine/answers/answers-of-line.ts';
import type { Advice } from '../../engine/audit/advice.ts';
import { changesOf } from '../../engine/audit/history.ts';
import { CODES, type Code } from '../../engine/core/item/codes.ts';
import {
  type Failure,
  failureOf,
  isItem,
  isLegacy,
  isRawRequest,
  type Repair,
  rungOf,
} from '../../engine/core/item/item.ts';
import { isBatchResult } from '../../engine/core/item/response.ts';
import { counted, number } from '../../engine/core/item/wording.ts';
import { lossless } from '../../engine/core/json/lossless.ts';
import { isObject, type JsonObject } from '../../engine/core/json/pointer.ts';
import { type Html, html, joined, NONE } from '../kit/html.ts';
import { answerSections, rungMark } from './item/answers.ts';
import type { AnswerContext } from './item/known.ts';
import { messageParts } from './item/messages.ts';
import { gatewayParts, isCallLine, legacyParts, requestParts, resultParts } from './item/records.ts';
import { tokensIn } from './item/replies.ts';
import { valueTree } from './item/value-tree.ts';
import { facts, type Hidden, jsonText, type Links, LONG_TEXT, Writer } from './item/writer.ts';

export { type KnownAgents, openAgents } from './item/known.ts';
export type { Hidden, Links } from './item/writer.ts';

export interface ItemContext extends AnswerContext {
  /** it is a row of a table, and no line of ours */
  isRow: boolean;
  /** of --source: the columns of the row that the line is about */
  joined?: JsonObject | null;
  /** columns that a judge must not see; null where nobody judges */
  hidden: Hidden | null;
  links: Links;
  /** what may be done about a failure: `advisor(stages)` */
  advice: Advice;
}

/** The parts of the page about a line, below its id and its place, which the page itself has; `text` is the line as it is written. Never throws. */
export function itemParts(line: JsonObject, text: string, context: ItemContext): Html {
  const writer = new Writer(context);
  const loss = context.isRow ? null : lossless(text);
  const parts =
    loss?.code === 'too-deep'
      ? html`<p class="problem">${loss.message}, so it is shown as it is written.</p>${writer.block(text)}`
      : partsOf(line, loss?.message ?? null, context, writer);
  return html`<article class="item">
${parts}
${writer.rest(Buffer.byteLength(text))}
</article>`;
}

function partsOf(line: JsonObject, loss: string | null, context: ItemContext, writer: Writer): Html {
  const { isRow, advice } = context;
  const failure = isRow ? undefined : failureOf(line);
  const changes = isRow ? [] : markedRepairs(line);
  return joined(
    [
      headOf(line, context, writer),
      loss === null ? NONE : html`<p class="dim">Not shown as it is written: ${writer.text(loss)}.</p>`,
      failure === undefined || writer.isHidden('failure') ? NONE : failureParts(failure, advice, writer),
      context.joined ? sourceParts(context.joined, writer) : NONE,
      ...(isRow ? [recordParts(line, writer)] : bodyParts(line, context, writer)),
      changes.length === 0
        ? NONE
        : html`<section><h2>Changes to the ${isLegacy(line) ? 'legacy result' : 'record'}</h2>${changeList(changes, writer)}</section>`,
    ],
    '\n',
  );
}

function bodyParts(line: JsonObject, context: ItemContext, writer: Writer): Html[] {
  if (isProvenance(line)) return answerSections(line, answersIn(line), context, writer);
  if (isItem(line)) {
    const answers = answersIn(line);
    const none = answers.length === 0 ? html`<p class="dim">No answers: no agent was asked yet.</p>` : NONE;
    const asked =
      isRawRequest(line.request) && answers.length === 0 ? requestParts(line.request, writer) : NONE;
    const input = inputParts(line, writer);
    const prompt = promptParts(line, writer);
    const sections = answerSections(line, answers, context, writer);
    // what was decided is what is judged: it stands before how it came about
    const decided = isObject(line.decision) ? sections.splice(-1) : [];
    return [input, ...decided, prompt, asked, none, ...sections];
  }
  if (isCallLine(line)) return [gatewayParts(line, writer)];
  if (isBatchResult(line)) return [resultParts(line, writer)];
  if (isObject(line.body) && typeof line.url === 'string') return [requestParts(line, writer)];
  if (isLegacy(line)) return [legacyParts(line, writer)];
  return line.failure === undefined ? [recordParts(line, writer)] : [];
}

/** `item, row 3 of its source` */
export function kindWords(line: JsonObject, isRow: boolean): string {
  if (isRow) return 'row of a table';
  if (isProvenance(line)) return 'provenance of a legacy result';
  if (isItem(line)) {
    const what = isRawRequest(line.request) ? 'request' : 'item';
    return typeof line.row === 'number' ? `${what}, row ${number(line.row)} of its source` : what;
  }
  if (isCallLine(line)) return 'call on record';
  if (isBatchResult(line)) return 'answer of a batch';
  if (isObject(line.body) && typeof line.url === 'string') return 'request of a batch';
  if (isLegacy(line)) return 'legacy result';
  return line.failure === undefined ? 'record' : 'line that could not be read';
}

function headOf(line: JsonObject, { isRow, facts: ledger }: ItemContext, writer: Writer): Html {
  const isTold =
    !isRow && (isItem(line) || isLegacy(line) || isProvenance(line) || failureOf(line) !== undefined);
  const rung = isProvenance(line) ? String(line.rung) : isTold ? rungOf(line) : null;
  const { ordering } = line;
  const order = Array.isArray(ordering) ? ordering.map(String).join(',') : ordering;
  const tokens = isRow ? null : tokensIn(line);
  return facts([
    rung === null || writer.isHidden('rung') ? null : html`rung ${rungMark(rung, writer, true)}`,
    kindWords(line, isRow),
    typeof order === 'string' && order !== '' && !writer.isHidden('ordering')
      ? html`ordering ${writer.value('ordering', order)}`
      : null,
    tokens && `${number(tokens.prompt)} tokens in, ${number(tokens.completion)} out`,
    isRow ? null : secondsOf(line, ledger),
  ]);
}

/** The time that the calls of all answers took, as far as the ledger has them. */
function secondsOf(line: JsonObject, ledger: AnswerContext['facts']): string | null {
  if (ledger === null) return null;
  const keys = answersIn(line).flatMap(({ calls }) => calls.slice(0, 10));
  const tries = keys.slice(0, 100).flatMap(key => ledger.triesOf(key));
  if (tries.length === 0) return null;
  const seconds = tries.reduce((sum, one) => sum + one.seconds, 0);
  return `${seconds.toFixed(1)} s in ${counted(tries.length, 'try', 'tries')}`;
}

function failureParts(failure: Failure, advice: Advice, writer: Writer): Html {
  const { stage, code, message, agent, text, base64, would } = failure;
  const meaning = Object.hasOwn(CODES, code) ? CODES[code as Code] : '';
  const by = typeof agent === 'string' ? html`, at ${writer.value('agent', agent)}` : NONE;
  const was = typeof text === 'string' ? text : typeof base64 === 'string' ? base64 : null;
  const entries = list(would).filter(isRepair);
  return html`<section class="failure"><h2>Failed in ${writer.value('stage', stage)}${by}: ${writer.value('failure', code)}</h2>
${meaning === '' ? NONE : html`<p>${meaning}</p>`}
<p class="problem">${writer.text(message, 5_000)}</p>
${was === null ? NONE : html`<h3>The line as it was</h3>${writer.block(was, LONG_TEXT / 2)}`}
${entries.length === 0 ? NONE : html`<h3>null-fix would put</h3>${changeList(entries, writer)}`}
<h3>What may be done</h3>
<ul>${advice(failure).map(one => html`<li>${one}</li>`)}</ul></section>`;
}

const MOST_CHANGES = 200;

function changeList(changes: readonly Repair[], writer: Writer): Html {
  if (writer.hidden !== null)
    return html`<p class="dim">${counted(changes.length, 'change')}, not shown: columns are hidden.</p>`;
  const words = changesOf(changes.slice(0, MOST_CHANGES), { indent: '' });
  const more = changes.length - MOST_CHANGES;
  return html`<ul class="changes">${writer.list(words, one => html`<li>${writer.text(one, 1_000)}</li>`, { most: 2 * MOST_CHANGES, what: 'line', as: 'li' })}</ul>${more > 0 ? html`<p class="dim">${writer.leftOut(counted(more, 'more change'))}</p>` : NONE}`;
}

/** Columns of an item, or of a row, that a page has. */
const MOST_COLUMNS = 1_000;

function inputParts({ input, prompt }: JsonObject, writer: Writer): Html {
  if (!isObject(input) || Object.keys(input).length === 0) return NONE;
  return html`<section><h2>Input</h2>${columnTable(Object.entries(input), prompt, writer)}</section>`;
}

const sourceParts = (columns: JsonObject, writer: Writer): Html =>
  html`<section><h2>Its row in the table that was asked</h2>${columnTable(Object.entries(columns), undefined, writer)}</section>`;

function columnTable(entries: readonly [string, unknown][], prompt: unknown, writer: Writer): Html {
  const rows = writer.within(writer.left / 4, () =>
    joined(
      writer.list(
        entries,
        ([name, value]) => {
          const column = `in.${name}`;
          const head = html`<th scope="row">${writer.text(name, 200)}</th>`;
          if (writer.isHidden(column)) return html`<tr>${head}<td class="hidden">hidden</td></tr>`;
          if (typeof value === 'string' && value === prompt)
            return html`<tr>${head}<td class="dim">(the prompt below)</td></tr>`;
          const text = typeof value === 'string' ? value : jsonText(value);
          const cell = text.length > 300 ? writer.text(text, LONG_TEXT / 6) : writer.value(column, text);
          return html`<tr>${head}<td class="value">${cell}</td></tr>`;
        },
        { most: MOST_COLUMNS, what: 'column', as: 'tr' },
      ),
      '\n',
    ),
  );
  return html`<div class="scroll" tabindex="0"><table class="columns"><tbody>${rows}</tbody></table></div>`;
}

function promptParts({ prompt, messages }: JsonObject, writer: Writer): Html {
  const parts =
    typeof prompt === 'string'
      ? html`<h2>Prompt</h2>${writer.within(writer.left / 4, () => writer.block(prompt))}`
      : messages === undefined
        ? NONE
        : html`<h2>Messages</h2>${writer.within(writer.left / 2, () => messageParts(messages, writer))}`;
  return parts === NONE ? NONE : html`<section>${parts}</section>`;
}

/** Any record: texts and numbers as columns, what has values in it as a tree. */
function recordParts(line: JsonObject, writer: Writer): Html {
  const entries = Object.entries(line).filter(([name]) => name !== '_fw' && name !== 'failure');
  const isFlat = entries.every(([, value]) => typeof value !== 'object' || value === null);
  if (isFlat) return html`<section><h2>Record</h2>${columnTable(entries, undefined, writer)}</section>`;
  return html`<section><h2>Record</h2>${valueTree(Object.fromEntries(entries), { at: '', columns: 'in.' }, writer)}</section>`;
}
