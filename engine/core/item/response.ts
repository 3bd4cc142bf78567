/**
 * What came back for a raw request: whether it is an answer, and its text. There is one judgement for the lines of a
 * batch's output, whichever program wrote them, and for the steps of `fw request`; `failureOf` (item.ts) asks it of a line.
 */
import { isObject, type JsonObject } from '../json/pointer.ts';
import { show } from '../json/show.ts';
import type { Code } from './codes.ts';
import { isInParts, nothingSaidIn, textOfParts } from './dialects.ts';
import { cut } from './wording.ts';

export type Trouble = {
  /** that of the error where it says one, which may be none of ours */
  code: Code;
  message: string;
};

/** Characters of a message; a server may say anything. */
const LONGEST_MESSAGE = 2_000;

/**
 * Why a request has no answer: an error, a status other than 2xx, or a reply without an answer in it; null where it has
 * one. An answer that was cut off (finish_reason length) is one: it is as long as the request allowed. `error` is that of
 * a batch line, `response` its `{status_code, body}`, `request` what was asked, where that is known; all may be anything.
 */
export function troubleIn(response: unknown, error?: unknown, request?: unknown): Trouble | null {
  const { status_code, body } = isObject(response) ? response : ({} as JsonObject);
  const status = Number(status_code ?? Number.NaN);
  const isRefused = status_code !== undefined && !(status >= 200 && status < 300);
  if (!isSaid(error) && !isRefused) {
    const why = isObject(response)
      ? (whyNoAnswer(body) ?? whyUnread(body, request))
      : `found ${show(response)} as the response`;
    return why === null ? null : trouble('no-answer', `expected an answer, ${why}`);
  }
  const { code, message } = partsOf(isSaid(error) ? error : body);
  const name = isSaid(error) && typeof code === 'string' && code !== '' ? (code as Code) : codeOf(status);
  const words = message ?? (isSaid(error) ? textOf(error) : partsOf(body).message);
  if (isSaid(error)) return trouble(name, words ?? 'an error without a message');
  return trouble(name, `HTTP ${show(status_code)}${words === undefined ? '' : `: ${words}`}`);
}

const trouble = (code: Code, message: string): Trouble => ({
  code: cut(code, 100) as Code,
  message: cut(message, LONGEST_MESSAGE),
});

/** Of an error that has no code of its own. */
function codeOf(status: number): Code {
  return status >= 500 || status === 429 || status === 408 || Number.isNaN(status)
    ? 'call-failed'
    : 'call-refused';
}

/** `{error: {message, code}}` of OpenAI and vLLM, the same without `error` around it, `{detail}` of others. */
function partsOf(said: unknown): { code?: unknown; message?: string | undefined } {
  if (typeof said === 'string') return { message: said };
  if (!isObject(said)) return {};
  const { error, code, message, detail } = said;
  if (isSaid(error)) return partsOf(error);
  const words = [message, detail].find(each => typeof each === 'string' && each !== '');
  return { code, message: words as string | undefined };
}

function textOf(value: unknown): string | undefined {
  const text = JSON.stringify(value);
  return text === '{}' ? undefined : text;
}

/**
 * A line of the output of a batch file, of `fw batch` or any other program: it has the name of its request, and a
 * response or an error. A record that only has such names is none.
 */
export function isBatchResult(line: JsonObject): boolean {
  const { custom_id, response, error } = line;
  if (custom_id === undefined || 'prompt' in line || 'steps' in line) return false;
  if (response === null || isSaid(error)) return true;
  return isObject(response) && ('status_code' in response || 'body' in response);
}

/** A line of a batch file, of its input or its output. */
export function isOfBatch(line: JsonObject): boolean {
  return isBatchResult(line) || ('url' in line && 'method' in line && 'body' in line);
}

/** The trouble of a line of a batch's output, or of an item whose raw request a server has answered; null for none. */
export function unansweredIn(line: JsonObject): (Trouble & { stage: string; agent?: string }) | null {
  if (isBatchResult(line)) {
    const wrong = troubleIn(line.response, line.error);
    return wrong && { stage: 'batch', ...wrong };
  }
  const { request, steps } = line;
  if (request === undefined || !Array.isArray(steps)) return null;
  for (const step of steps) {
    const wrong =
      isObject(step) && step.response !== undefined ? troubleIn(step.response, undefined, request) : null;
    if (wrong)
      return { stage: 'request', ...(typeof step.agent === 'string' && { agent: step.agent }), ...wrong };
  }
  return null;
}

/**
 * What stands in the place of an answer in the body of a reply with HTTP 200, as `found …`; null where an answer is
 * there. Replies of URLs that nobody here knows are answers if they say anything at all.
 */
function whyNoAnswer(body: unknown): string | null {
  if (Array.isArray(body)) return body.length > 0 ? null : 'found an empty list';
  if (!isObject(body)) return `found ${show(body)} as the body`;
  const { error, object, choices, data } = body;
  if (isSaid(error) || object === 'error')
    return `found an error: ${partsOf(body).message ?? 'without a message'}`;
  const empty = emptyIn(body);
  if (empty !== null) return `found ${empty}`;
  if (Array.isArray(choices)) {
    const broken = choices.find(choice => gaveUp(choice) || (isObject(choice) && isSaid(choice.error)));
    if (broken !== undefined)
      return `found ${isSaid(broken.error) ? 'an error in a choice' : `finish_reason ${show(broken.finish_reason)}`}`;
    if (isSaid(body.prompt_logprobs) || choices.some(says)) return null;
    const [first] = choices;
    const finish = isObject(first) ? first.finish_reason : undefined;
    return `found choices without a text (finish_reason ${show(finish)})`;
  }
  if (isInParts(body)) {
    const nothing = nothingSaidIn(body);
    return nothing === null ? null : `found ${nothing}`;
  }
  const { results } = body;
  for (const list of [data, results]) {
    const nothing = Array.isArray(list) ? list.map(voidIn).find(one => one !== null) : undefined;
    if (nothing) return `found ${nothing}`;
  }
  return null;
}

/** What an entry of a list has where its numbers should be: vectors, scores, ranks, classes. */
const NUMBERS = [
  ['embedding', 'an embedding without numbers'],
  ['score', 'a score that is none'],
  ['relevance_score', 'a rank without a score'],
  ['probs', 'a class without chances'],
  ['data', 'a pooled vector without numbers'],
] as const;

function voidIn(one: unknown): string | null {
  if (!isObject(one)) return null;
  const [, nothing = null] = NUMBERS.find(([name]) => one[name] === null || isEmpty(one[name])) ?? [];
  return nothing;
}

/** Where answers are in the replies of the URLs that servers of models have. */
const LISTS = ['choices', 'data', 'results', 'scores'] as const;

/** Which list of answers a body lacks, in words; null for none. A server that says so was asked in vain, and may be asked again. */
export function emptyIn(body: JsonObject): string | null {
  for (const list of LISTS) if (isEmpty(body[list])) return `${list} without an entry`;
  if (Object.keys(body).length === 0) return 'an empty object';
  const { object, choices } = body;
  const isOfCompletion = typeof object === 'string' && /^(?:chat\.completion|text_completion)/.test(object);
  if ((isOfCompletion || choices === null) && !Array.isArray(choices)) return 'no choices';
  return object === 'response' && isEmpty(body.output) ? 'output without an entry' : null;
}

/**
 * llama.cpp's /tokenize reads `content`, passes over a `prompt`, and has no tokens then: it works, and would say so again. Of an
 * empty `content` no tokens are right. vLLM and SGLang have a count beside their tokens.
 */
function whyUnread(reply: unknown, request: unknown): string | null {
  if (!isObject(reply) || !isEmpty(reply.tokens) || Object.keys(reply).length !== 1) return null;
  if (!isObject(request) || !isObject(request.body)) return null;
  const { content, prompt, messages } = request.body;
  const asks = [prompt, messages].some(one => isSaid(one) && !isEmpty(one));
  if (!asks || content !== undefined) return null;
  return 'found tokens without an entry (llama.cpp reads `content`, and neither `prompt` nor `messages`)';
}

const isEmpty = (value: unknown): boolean => Array.isArray(value) && value.length === 0;

/** Values of finish_reason where the engine gave up on the request, so that the text is not all that the model had to say. */
export const ENGINE_GAVE_UP: ReadonlySet<unknown> = new Set(['abort', 'error']);

/** Whether the engine gave up on a choice: its text is not all that the model had to say. */
export function gaveUp(choice: unknown): choice is { finish_reason: string } {
  return isObject(choice) && ENGINE_GAVE_UP.has(choice.finish_reason);
}

/** Servers write what is not there as null, some as an empty text or false. */
export function isSaid(value: unknown): boolean {
  return value !== undefined && value !== null && value !== '' && value !== false;
}

/** What a choice may hold in place of a text. */
const BESIDE_TEXT = ['refusal', 'tool_calls', 'function_call', 'audio'] as const;
/** Values of finish_reason of a text that was ended by the server: where it is empty, it was ended before it began. */
const CUT: ReadonlySet<unknown> = new Set(['length', 'content_filter']);

function says(choice: unknown): boolean {
  if (!isObject(choice)) return false;
  const { logprobs, prompt_logprobs, finish_reason } = choice;
  const text = textIn(choice);
  // an empty text is what the model said, if it ended there by itself
  if (typeof text === 'string' && (text !== '' || !CUT.has(finish_reason))) return true;
  if (isSaid(logprobs) || isSaid(prompt_logprobs) || !isEmptyPart(text)) return true;
  const message = isObject(choice.message) ? choice.message : {};
  return BESIDE_TEXT.some(key => isSaid(message[key]) && !isEmpty(message[key]));
}

const isEmptyPart = (content: unknown): boolean => !Array.isArray(content) || content.length === 0;

function textIn({ text, message }: JsonObject): unknown {
  return text ?? (isObject(message) ? message.content : undefined);
}

/** Some servers write a content as a list of parts: the text of them, where that is all they are; else the content. */
export function textOfContent(content: unknown): unknown {
  if (!Array.isArray(content)) return content;
  const texts = content.map(part => (isObject(part) && part.type === 'text' ? part.text : undefined));
  return texts.every(text => typeof text === 'string') ? texts.join('') : content;
}

/**
 * The text of an answer of chat, completions, responses or messages: of one choice its text (the refusal, where there is no
 * text), of several a list of them. undefined for any other answer, such as embeddings, and where a choice has no text.
 */
export function answerText(body: unknown): string | string[] | undefined {
  if (!isObject(body)) return undefined;
  const { choices } = body;
  if (!Array.isArray(choices) || choices.length === 0) return isInParts(body) ? textOfParts(body) : undefined;
  const texts = choices.map(choice => {
    if (!isObject(choice)) return undefined;
    const text = textOfContent(textIn(choice));
    const { refusal } = isObject(choice.message) ? choice.message : ({} as JsonObject);
    return isSaid(text) ? text : isSaid(refusal) ? refusal : text;
  });
  if (!texts.every(text => typeof text === 'string')) return undefined;
  return texts.length === 1 ? texts[0] : (texts as string[]);
}

/** The JSON of what a server answered: made once, for its hash and for the line of a batch file that has it. */
const texts = new WeakMap<object, string>();

/** `JSON.stringify(body)`. Nobody changes a body: stages return new objects. */
export function textOfBody(body: unknown): string {
  if (typeof body !== 'object' || body === null) return JSON.stringify(body) ?? '';
  let text = texts.get(body);
  if (text === undefined) {
    text = JSON.stringify(body);
    texts.set(body, text);
  }
  return text;
}
