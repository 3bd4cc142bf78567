/** Lines that are no items: those of batch files, calls that a gateway put on record, results of the older scripts. */
import { list } from '../../../engine/answers/answers-of-line.ts';
import { counted, number } from '../../../engine/core/item/wording.ts';
import { isObject, type JsonObject } from '../../../engine/core/json/pointer.ts';
import { type Html, html, joined, NONE } from '../../kit/html.ts';
import { hasText } from './answers.ts';
import { bodyOf } from './calls.ts';
import { curlParts } from './curl.ts';
import { bodyParts, messageParts } from './messages.ts';
import { jsonAnswer, replyParts, usageFacts } from './replies.ts';
import { valueTree } from './value-tree.ts';
import { facts, folded, jsonText, type Writer } from './writer.ts';

const wordOf = (value: unknown): string => (typeof value === 'string' ? value : '');

/** A line of a batch file that asks, or the request of an item that nobody has answered. */
export function requestParts({ url, body }: JsonObject, writer: Writer): Html {
  const text = hasText(body);
  const curl =
    text === null ? null : curlParts({ endpoint: null, path: wordOf(url), isRaw: true, body: text }, writer);
  const asked = isObject(body) ? bodyParts(body, writer) : writer.block(jsonText(body));
  return html`<section><h2>What is asked</h2>${facts([writer.text(wordOf(url), 300)])}${asked}${curl ?? NONE}</section>`;
}

/** A line of a batch's output. */
export function resultParts({ response, error }: JsonObject, writer: Writer): Html {
  const { status_code: status, body, request_id: request } = isObject(response) ? response : {};
  const head = facts([
    status === undefined ? null : html`HTTP ${writer.value('status', String(status))}`,
    typeof request === 'string' ? html`request ${writer.text(request, 200)}` : null,
  ]);
  const wrong =
    error === null || error === undefined
      ? NONE
      : html`<h3>The error</h3>${writer.block(typeof error === 'string' ? error : jsonText(error))}`;
  const said = body === undefined || body === null ? NONE : replyParts(body, '/response/body', writer);
  return html`<section><h2>What was answered</h2>${head}${wrong}${said}</section>`;
}

/** A call of a ledger: those of a gateway hold their whole request, those of agents what is their own in it. */
export function isCallLine({ key, outcome, endpoint, request }: JsonObject): boolean {
  return (
    typeof key === 'string' &&
    typeof outcome === 'string' &&
    typeof endpoint === 'string' &&
    isObject(request)
  );
}

export function gatewayParts(line: JsonObject, writer: Writer): Html {
  const { outcome, time, endpoint, model, ms, ttft, caller, arm, agent, finish, usage, detail, answer } =
    line;
  const { path, body, messages, head } = line.request as JsonObject;
  const seconds = (value: unknown): string | null =>
    typeof value === 'number' ? `${(value / 1000).toFixed(2)} s` : null;
  const first = seconds(ttft);
  const told = facts([
    writer.text(wordOf(outcome), 100),
    seconds(ms),
    first && `first token after ${first}`,
    writer.isHidden('endpoint') ? null : writer.text(plain(wordOf(endpoint)), 200),
    writer.isHidden('model') ? null : writer.text(wordOf(model), 200),
    writer.text(wordOf(time), 40),
    typeof caller === 'string' ? html`asked by ${writer.text(caller, 100)}` : null,
    typeof arm === 'string' ? html`arm ${writer.text(arm, 100)}` : null,
    typeof agent === 'string' && agent !== path ? writer.text(agent, 100) : null,
    typeof finish === 'string' ? html`ended by ${writer.text(finish, 60)}` : null,
    ...usageFacts(usage),
  ]);
  const why = typeof detail === 'string' ? html`<p class="problem">${writer.text(detail, 2_000)}</p>` : NONE;
  const text = isObject(body) ? hasText(body) : null;
  const sent = { endpoint: plain(wordOf(endpoint)), path: wordOf(path), isRaw: true };
  const asked = isObject(body)
    ? writer.within(writer.left / 2, () => bodyParts(body, writer))
    : html`${messageParts(messages ?? [], writer)}${head === undefined ? NONE : html`<p class="dim missing">What all calls of the agent begin with stands in the ledger once: fw ledger show KEY has the whole request.</p>`}`;
  const curl = text === null ? null : curlParts({ ...sent, body: text }, writer);
  const reply = typeof answer === 'string' ? (bodyOf(answer) ?? answer) : undefined;
  return html`<section><h2>The call</h2>${told}${why}</section>
<section><h2>What was asked</h2>${asked}${curl ?? NONE}</section>
${reply === undefined ? NONE : html`<section><h2>What was answered</h2>${typeof reply === 'string' || !('choices' in reply) ? plainReply(reply, writer) : replyParts(reply, '/answer', writer)}</section>`}`;
}

const plain = (endpoint: string): string => endpoint.replace(/^([a-z]{1,10}:\/\/)[^/?#]*@/i, '$1');

/** The text of an agent's answer, with its values where it is an object; or a reply of another form. */
function plainReply(reply: string | JsonObject, writer: Writer): Html {
  if (typeof reply === 'string') return writer.block(reply);
  return 'data' in reply || 'output' in reply
    ? replyParts(reply, '/answer', writer)
    : valueTree(reply, { at: '/answer', columns: 'out.' }, writer);
}

const MOST_TURNS = 100;

/** A result of the older scripts: its prompt, each turn with what the agent was shown, the decision. */
export function legacyParts(line: JsonObject, writer: Writer): Html {
  const { initial_prompt: prompt, conversation_history: history, business_decision: decision } = line;
  const turns = list(history);
  const first =
    typeof prompt === 'string'
      ? html`<section><h2>Prompt</h2>${writer.within(writer.left / 4, () => writer.block(prompt))}</section>`
      : NONE;
  const each = writer.list(
    turns,
    (turn, index) =>
      writer.within(writer.left / Math.min(12, turns.length - index + 1), () =>
        turnParts(turn, index, writer),
      ),
    { most: MOST_TURNS, what: 'turn' },
  );
  const note = html`<p class="dim">A legacy result has no place to say where a value came from: fw explain tells it, with the items or the file of --provenance beside it.</p>`;
  return joined(
    [
      html`<section class="answer" id="decision"><h2>Decision</h2>${valueTree(decision, { at: '/business_decision', columns: 'out.' }, writer)}</section>`,
      first,
      note,
      ...each,
    ],
    '\n',
  );
}

function turnParts(turn: unknown, index: number, writer: Writer): Html {
  const at = `/conversation_history/${index}`;
  if (!isObject(turn))
    return html`<section class="answer"><h2>Turn ${index + 1}</h2>${writer.block(jsonText(turn))}</section>`;
  const { agent, input, output } = turn;
  const shown =
    typeof input === 'string' && !writer.hidden?.hidesAnswers
      ? folded(
          `What it was shown, ${counted(input.length, 'character')}`,
          writer.within(writer.left / 2, () => writer.block(input)),
        )
      : NONE;
  const value = typeof output === 'string' ? (jsonAnswer(output) ?? output) : output;
  const values =
    typeof value === 'string'
      ? writer.block(value)
      : valueTree(value, { at: `${at}/output`, columns: `step.${wordOf(agent)}.` }, writer);
  return html`<section class="answer"><h2>${writer.text(wordOf(agent) || `turn ${number(index + 1)}`, 200)} <span class="dim">${at}</span></h2>${shown}${values}</section>`;
}
