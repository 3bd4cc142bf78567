/** What a ledger has of the calls of an answer, and the schema that they asked for. */
import type { Answer } from '../../../engine/answers/answers-of-line.ts';
import { counted } from '../../../engine/core/item/wording.ts';
import { isObject, type JsonObject } from '../../../engine/core/json/pointer.ts';
import { type Html, html, joined, NONE } from '../../kit/html.ts';
import type { CallFacts } from '../ledger-facts.ts';
import type { AnswerContext } from './known.ts';
import { foldedJson } from './replies.ts';
import { folded, LONG_TEXT, type Writer } from './writer.ts';

/** Calls of one answer that are looked for in a ledger. */
const MOST_CALLS = 40;

export function callsOf({ calls }: Answer, facts: AnswerContext['facts']): CallFacts[] {
  return facts === null ? [] : calls.slice(-MOST_CALLS).flatMap(key => facts.triesOf(key));
}

export function bodyOf(request: string | null): JsonObject | null {
  if (request === null) return null;
  try {
    const body: unknown = JSON.parse(request);
    return isObject(body) ? body : null;
  } catch {
    return null;
  }
}

/** The schema by which the answer was judged, as far as anybody says one. */
export function schemaParts(
  { agent }: Answer,
  calls: readonly CallFacts[],
  { agents, schema }: AnswerContext,
  writer: Writer,
): Html {
  const known = agents?.agents.byKey.get(agent)?.schema;
  const sent = bodyOf(calls.findLast(({ request }) => request !== null)?.request ?? null);
  const found = (sent && schemaOf(sent)) ?? known ?? schema;
  return found === null || found === undefined
    ? NONE
    : writer.within(LONG_TEXT, () => foldedJson('The schema of the answer', found, writer));
}

/** What a request says of the form of its answer. */
export function schemaOf({
  response_format: format,
  guided_json: older,
  structured_outputs: now,
}: JsonObject): unknown {
  if (isObject(format) && isObject(format.json_schema))
    return format.json_schema.schema ?? format.json_schema;
  if (older !== undefined) return older;
  return isObject(now) ? (now.json ?? now) : null;
}

const CALL_HEAD = ['try', 'outcome', 'seconds', 'first token', 'endpoint', 'ended', 'call'];

/** Every try of the calls, as the ledger has them. */
export function callTable(calls: readonly CallFacts[], writer: Writer): Html {
  const rows = writer.list(
    calls,
    ({ attempt, round, outcome, seconds, firstToken, endpoint, ended, key, detail }) => {
      const first = firstToken === null ? '–' : `${firstToken.toFixed(2)} s`;
      const words = detail === null ? outcome : `${outcome}: ${detail}`;
      return html`<tr><td>${round > 0 ? `${attempt}, round ${round + 1}` : attempt}</td><td>${writer.text(words, 300)}</td><td>${seconds.toFixed(2)} s</td><td>${first}</td><td>${writer.isHidden('endpoint') ? 'hidden' : writer.text(endpoint, 200)}</td><td>${writer.text(ended, 40)}</td><td><code>${writer.text(key, 64)}</code></td></tr>`;
    },
    { most: MOST_CALLS, what: 'try', whats: 'tries', as: 'tr' },
  );
  const head = CALL_HEAD.map(name => html`<th scope="col">${name}</th>`);
  return folded(
    `${counted(calls.length, 'try', 'tries')} in the ledger`,
    html`<div class="scroll" tabindex="0"><table><thead><tr>${joined(head)}</tr></thead><tbody>${rows}</tbody></table></div>`,
  );
}
