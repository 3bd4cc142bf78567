/**
 * Reads the body of a chat completion that came with HTTP 200. Such a body can still be anything: a proxy's HTML, an
 * error of the engine, half a document. What is no completion is a bad answer and is asked for again.
 */
import { isUtf8 } from 'node:buffer';
import { saidOf } from '../../answers/answers-of-line.ts';
import { type Answer, REFUSED } from '../../core/item/call.ts';
import { promptIn, usageOfParts } from '../../core/item/dialects.ts';
import type { Beside, Logprob, TokenLogprob, ToolCall, Usage } from '../../core/item/item.ts';
import { ENGINE_GAVE_UP, isSaid, textOfContent } from '../../core/item/response.ts';
import { isObject, type JsonObject, MAX_DEPTH } from '../../core/json/pointer.ts';
import { hide, holdsKey, type Key, oneLine, serverWords } from './endpoint-words.ts';

/** Bodies up to here are parsed as they are: whatever they hold, that takes a few milliseconds. */
const SMALL_BYTES = 64 * 1024;
/** Far beyond the log probabilities of a long answer. */
export const MAX_VALUES = 100_000;
/** Calls of tools in one answer. */
const MOST_CALLS = 128;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const OPEN_ARRAY = 0x5b;
const OPEN_OBJECT = 0x7b;

/** An answer, with what the reply says of itself beside it. */
export interface Completion {
  answer: Answer;
  /** of the completion, and the model that gave it; undefined where the reply does not say */
  id: string | undefined;
  model: string | undefined;
}

/**
 * The answer in `body`, or what is wrong with it, in words. `content: null` is an answer without text. A reply that says
 * two things at once (an error and an answer, two answers, a key twice) is none: nobody knows which is meant.
 */
export function readCompletion(body: Buffer, key: Key | undefined): Completion | string {
  const read = readJson(body, key);
  if (typeof read === 'string') return read;
  const { json, reply } = read;
  if (!isObject(reply)) return `HTTP 200 with a body that is no completion: ${quote(body, key)}`;
  if (isSaid(reply.error) || reply.object === 'error') return `HTTP 200 with an error: ${quote(body, key)}`;
  if (repeatsKey(json, reply)) return 'HTTP 200 with the same key twice in one JSON object';
  const first = Array.isArray(reply.choices) ? reply.choices.filter(isFirst) : [];
  const [choice] = first;
  if (choice === undefined) return 'HTTP 200 without choices';
  if (first.length > 1) return `HTTP 200 with ${first.length} choices that are the first one (index 0)`;
  const { message, error } = choice;
  if (isSaid(error))
    return `HTTP 200 with an error in its choice: ${quote(Buffer.from(JSON.stringify(error)), key)}`;
  if (!isObject(message)) return 'HTTP 200 without message.content';
  const { role, content: given, refusal, tool_calls: calls } = message;
  // a message that only calls tools may leave its content out
  const content = given === undefined && isSaid(calls) ? null : textOfContent(given);
  if (isSaid(role) && role !== 'assistant')
    return `HTTP 200 with a message of the role ${show(role, key)}, not assistant`;
  if (isSaid(refusal) && typeof refusal !== 'string')
    return 'HTTP 200 with a message.refusal that is no text';
  const said = typeof refusal === 'string' && refusal !== '' ? refusal : null;
  if (typeof content !== 'string' && content !== null && (content !== undefined || said === null))
    return 'HTTP 200 without message.content';
  // Only `stop` is whole, so a server that says nothing must not be read as having said it.
  const finish = typeof choice.finish_reason === 'string' ? choice.finish_reason : 'unknown';
  if (ENGINE_GAVE_UP.has(finish)) return `HTTP 200 with finish_reason ${finish}`;
  const spoken = content || said || '';
  const beside = besideIn(message);
  if (typeof beside === 'string') return beside;
  // The model never saw the key, so these are no words of it, and items and ledger are to be free of the key.
  if (holdsKey(spoken, key) || (beside !== null && holdsKey(JSON.stringify(beside), key)))
    return 'HTTP 200 with the API key in its answer';
  const { text, whole } = saidOf({ text: spoken });
  const told = said === null ? reason(finish, key) : REFUSED;
  const answer: Answer = { text, finish: told, usage: readUsage(reply.usage), replayed: false };
  const { id, model } = reply;
  const logprobs = readLogprobs(choice.logprobs);
  if (whole) answer.whole = whole;
  if (logprobs) answer.logprobs = logprobs;
  if (beside !== null) Object.assign(answer, beside);
  return {
    answer,
    id: typeof id === 'string' ? id : undefined,
    model: typeof model === 'string' ? model : undefined,
  };
}

/**
 * What a message has beside its text, null for nothing, or what is wrong with it. vLLM names it `reasoning`, before 0.12
 * and others `reasoning_content`; a server may write both.
 */
function besideIn(message: JsonObject): Beside | null | string {
  const { tool_calls: calls, reasoning_content: older, reasoning = older } = message;
  const thought = typeof reasoning === 'string' && reasoning !== '' ? reasoning : older;
  const hasCalls = isSaid(calls) && !(Array.isArray(calls) && calls.length === 0);
  const isThought = typeof thought === 'string' && thought !== '';
  if (!hasCalls && !isThought) return null;
  const beside: Beside = {};
  if (hasCalls) {
    if (!Array.isArray(calls) || !calls.every(isObject))
      return 'HTTP 200 with tool_calls that are no list of calls';
    if (calls.length > MOST_CALLS || nestsTooDeep(calls, MAX_DEPTH))
      return `HTTP 200 with more than ${MOST_CALLS} tool_calls, or some that nest too deep`;
    beside.tool_calls = calls as ToolCall[];
  }
  if (isThought) {
    const { text, whole } = saidOf({ text: thought });
    beside.reasoning = text;
    if (whole) beside.reasoning_whole = { bytes: whole.bytes, sha256: whole.sha256 };
  }
  return beside;
}

function nestsTooDeep(value: unknown, left: number): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return left === 0 || Object.values(value).some(within => nestsTooDeep(within, left - 1));
}

/** The JSON in a body that came with HTTP 200, or what is wrong with it, in words. */
export function readJson(
  body: Buffer,
  key: Key | undefined,
  most = MAX_VALUES,
): { json: string; reply: unknown } | string {
  if (!isUtf8(body)) return 'HTTP 200 with a body that is not UTF-8';
  if (hasTooManyValues(body, most)) return `HTTP 200 with a body of more than ${MAX_VALUES} JSON values`;
  const json = body.toString();
  try {
    return { json, reply: JSON.parse(json) };
  } catch {
    const found = body.length === 0 ? 'an empty body' : `a body that is not JSON: ${quote(body, key)}`;
    return `HTTP 200 with ${found}`;
  }
}

/** The choice with index 0, wherever it is in the list. A server that leaves the index out means the first one. */
function isFirst(choice: unknown): choice is JsonObject {
  return isObject(choice) && (choice.index === 0 || choice.index === undefined);
}

/**
 * Whether an object of a JSON text has a key twice, of which JSON.parse keeps the last without a word. Then the text
 * has more keys than the value. Every answer is checked so, so each key costs no more than a count.
 */
export function repeatsKey(json: string, value: object): boolean {
  let there = 0;
  for (let colon = json.indexOf(':'); colon >= 0; colon = json.indexOf(':', colon + 1))
    if (endsKey(json, colon)) there++;
  const counted = there;
  OPEN.push(value);
  for (let one = OPEN.pop(); one !== undefined; one = OPEN.pop()) {
    if (Array.isArray(one)) {
      for (const within of one) if (typeof within === 'object' && within !== null) OPEN.push(within);
      continue;
    }
    // what JSON.parse made has no keys but its own
    for (const key in one) {
      there--;
      const within = (one as JsonObject)[key];
      if (typeof within === 'object' && within !== null) OPEN.push(within);
    }
  }
  // a text that begins with a colon was counted too
  return there > 0 && keysIn(json) - counted + there > 0;
}

/** How many keys a JSON text has, to the letter. */
function keysIn(json: string): number {
  let keys = 0;
  for (let open = json.indexOf('"'); open >= 0; ) {
    let close = json.indexOf('"', open + 1);
    while (json.charCodeAt(close - 1) === BACKSLASH && !isClosing(json, close))
      close = json.indexOf('"', close + 1);
    let behind = close + 1;
    while (isSpace(json.charCodeAt(behind))) behind++;
    if (json[behind] === ':') keys++;
    open = json.indexOf('"', close + 1);
  }
  return keys;
}

/** Whether the quote at `at` is no part of its text: an even number of backslashes stands before it. */
function isClosing(json: string, at: number): boolean {
  let slash = at;
  while (json.charCodeAt(slash - 1) === BACKSLASH) slash--;
  return (at - slash) % 2 === 0;
}

/** What `repeatsKey` has still to look at: one list for all answers, empty between two. */
const OPEN: object[] = [];

/** Whether a colon of a JSON text stands behind a key: behind the quote that ends it, and white space. */
function endsKey(json: string, colon: number): boolean {
  let quote = colon - 1;
  while (isSpace(json.charCodeAt(quote))) quote--;
  return json.charCodeAt(quote) === QUOTE && isClosing(json, quote);
}

const isSpace = (code: number): boolean => code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09;

/** finish_reason goes into items and messages. */
function reason(finish: string, key: Key | undefined): string {
  return finish === 'stop' || finish === 'length' ? finish : oneLine(hide(finish, key), 60);
}

export function readUsage(usage: unknown): Usage {
  if (!isObject(usage)) return { prompt: 0, completion: 0 };
  if (usage.input_tokens !== undefined && usage.prompt_tokens === undefined) {
    const { reasoning: _reasoning, ...read } = usageOfParts(usage);
    return read;
  }
  const read: Usage = {
    prompt: count(usage.prompt_tokens ?? promptIn(usage)),
    completion: count(usage.completion_tokens),
  };
  const details = usage.prompt_tokens_details;
  if (isObject(details) && details.cached_tokens !== undefined) read.cached = count(details.cached_tokens);
  return read;
}

function count(value: unknown): number {
  return Number.isSafeInteger(value) && (value as number) > 0 ? (value as number) : 0;
}

function show(value: unknown, key: Key | undefined): string {
  return oneLine(hide(JSON.stringify(value), key), 60);
}

export function quote(body: Buffer, key: Key | undefined): string {
  return JSON.stringify(serverWords(body, key, 120));
}

/**
 * Whether the JSON in `body` has more than `MAX_VALUES` objects and lists, or more than `most` values: brackets that open
 * and commas are counted, outside of texts. A completion is a few values and one long text. A body of the same length that has nothing but values takes
 * fifty times as long to parse, and as much more memory, while everything else in this process waits.
 */
export function hasTooManyValues(body: Buffer, most = MAX_VALUES): boolean {
  if (body.length <= SMALL_BYTES) return false;
  let values = 0;
  let opened = 0;
  let inText = false;
  for (let at = 0; at < body.length; at++) {
    const byte = body[at];
    if (inText) {
      if (byte === BACKSLASH) at++;
      else if (byte === QUOTE) inText = false;
    } else if (byte === QUOTE) inText = true;
    else if (byte === COMMA && ++values > most) return true;
    else if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) {
      if (++values > most || ++opened > MAX_VALUES) return true;
    }
  }
  return false;
}

/**
 * Token by token, of `choice.logprobs` of a chat completion; undefined where there are none. `bytes` of a token are left
 * out, and whatever else a server may add: they take as much room as all the rest.
 */
function readLogprobs(logprobs: unknown): TokenLogprob[] | undefined {
  if (!isObject(logprobs) || !Array.isArray(logprobs.content)) return undefined;
  const tokens = logprobs.content.map(tokenOf);
  return tokens.every(token => token !== undefined) ? tokens : undefined;
}

function tokenOf(value: unknown): TokenLogprob | undefined {
  const one = logprobOf(value);
  if (one === undefined) return undefined;
  const { top_logprobs: top } = value as { top_logprobs?: unknown };
  const likely = (Array.isArray(top) ? top : []).map(logprobOf).filter(other => other !== undefined);
  return likely.length > 0 ? { ...one, top_logprobs: likely } : one;
}

function logprobOf(value: unknown): Logprob | undefined {
  if (!isObject(value)) return undefined;
  const { token, logprob } = value;
  return typeof token === 'string' && typeof logprob === 'number' ? { token, logprob } : undefined;
}
