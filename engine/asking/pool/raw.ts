/**
 * Raw calls (`fw request`): the path and the body are those of the request, the answer is all that the server said. Of a
 * reply with HTTP 200 no more is asked than that it is whole JSON and no error.
 */
import { isUtf8 } from 'node:buffer';
import { type Answer, type Call, CallFailure } from '../../core/item/call.ts';
import { gaveUpIn, isInParts } from '../../core/item/dialects.ts';
import type { Response } from '../../core/item/item.ts';
import { emptyIn, gaveUp, isSaid } from '../../core/item/response.ts';
import { isObject } from '../../core/json/pointer.ts';
import { type Completion, quote, readJson, readUsage, repeatsKey } from '../endpoints/completion.ts';
import { holdsKey, type Key, oneLine } from '../endpoints/endpoint-words.ts';
import type { Reply } from '../endpoints/wire.ts';
import type { Endpoint } from './pool-state.ts';

/** Numbers side by side, as in embeddings, are read fast, so that of these there may be more; what opens costs the memory. */
const MAX_NUMBERS = 2_000_000;
/** Bytes of a refusal that an item keeps. */
const MAX_REFUSAL_BYTES = 64 * 1024;
/** URLs whose answers are told apart; a file may have any number of them. */
const MAX_URLS = 64;
/** Models that a message names. */
const MAX_NAMED = 20;

/** Whether a call may be asked at an endpoint. */
export function serves({ models }: Endpoint, { model, anywhere }: Pick<Call, 'model' | 'anywhere'>): boolean {
  return anywhere === true || models.has(model);
}

/** A raw call that names no model asks `model`; where that is null, each endpoint for the one that it lists first. */
export function meant(call: Call, model: string | null): Call {
  if (!call.raw || call.model !== '') return call;
  return model === null ? { ...call, unnamed: true, anywhere: true } : { ...call, unnamed: true, model };
}

/**
 * The call as it is queued. One whose model no endpoint serves fails: some servers answer it all the same, as another
 * model.
 */
export function routed(call: Call, endpoints: readonly Endpoint[]): Call | CallFailure {
  const there = (one: Endpoint): boolean => !one.leaving && one.models.has(call.model);
  if (!call.raw || call.anywhere || endpoints.some(there)) return call;
  const served = [...new Set(endpoints.flatMap(({ models, leaving }) => (leaving ? [] : [...models])))];
  const more = served.length > MAX_NAMED ? [`and ${served.length - MAX_NAMED} more`] : [];
  const names = [...served.slice(0, MAX_NAMED), ...more].map(name => oneLine(name, 200)).join(', ');
  const asked = JSON.stringify(oneLine(call.model, 200));
  return new CallFailure('no-such-model', `Expected a model that is served (${names}), found ${asked}.`);
}

/** `/v1/…` is below the base URL of an endpoint; any other path, such as `/rerank`, is beside its `/v1`. */
export function pathBelow(prefix: string, url: string): string {
  return url.startsWith('/v1/') ? prefix + url.slice(3) : prefix.replace(/\/v1$/, '') + url;
}

/** The answer in `body`, or what is wrong with it, in words. Its text is the body. */
export function readRaw(body: Buffer, key: Key | undefined): Completion | string {
  const read = readJson(body, key, MAX_NUMBERS);
  if (typeof read === 'string') return read;
  const { json: text, reply } = read;
  if (typeof reply !== 'object' || reply === null)
    return `HTTP 200 with a body that is no JSON object or list: ${quote(body, key)}`;
  if (repeatsKey(text, reply)) return 'HTTP 200 with the same key twice in one JSON object';
  if (holdsKey(text, key)) return 'HTTP 200 with the API key in its answer';
  const answer: Answer = {
    text,
    body: reply,
    finish: 'stop',
    usage: { prompt: 0, completion: 0 },
    replayed: false,
  };
  if (!isObject(reply)) return { answer, id: undefined, model: undefined };
  const { error, object, choices, usage, id, model } = reply;
  if (isSaid(error) || object === 'error') return `HTTP 200 with an error: ${quote(body, key)}`;
  const empty = emptyIn(reply);
  if (empty !== null) return `HTTP 200 with ${empty}`;
  const unfinished = (Array.isArray(choices) ? choices : []).find(gaveUp);
  if (unfinished) return `HTTP 200 with finish_reason ${unfinished.finish_reason}`;
  const gaveUpOn = choices === undefined && isInParts(reply) ? gaveUpIn(reply) : null;
  if (gaveUpOn !== null) return `HTTP 200 with ${gaveUpOn}`;
  return {
    answer: { ...answer, usage: readUsage(usage) },
    id: typeof id === 'string' ? id : undefined,
    model: typeof model === 'string' ? model : undefined,
  };
}

/** What a server answered that refused: its JSON, else its words; null where they are too long or hold the API key. */
export function refusalIn({ status, body }: Reply, key: Key | undefined): Response {
  const none = { status_code: status, body: null };
  if (body.length === 0 || body.length > MAX_REFUSAL_BYTES || !isUtf8(body)) return none;
  const text = body.toString();
  if (holdsKey(text, key)) return none;
  try {
    return { status_code: status, body: JSON.parse(text) };
  } catch {
    return { status_code: status, body: text };
  }
}

/** How many answers had the id of their request: servers repeat it in the answers of some URLs and not of others. */
export function checksOf({ checksAt }: Endpoint, url: string): { checked: number; unchecked: number } {
  const known = checksAt.get(url) ?? { checked: 0, unchecked: 0 };
  if (checksAt.size < MAX_URLS) checksAt.set(url, known);
  return known;
}
