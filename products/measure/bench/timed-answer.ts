/**
 * What came of one request, from its bytes and the times at which they came. It has no clock and no socket: whoever has
 * them gives each chunk the stamp that was taken first, and the parsing may be later.
 *
 *   due ─ sent ─ head ─ first event with choices (vLLM's TTFT) ─ first content (TTFT) ─ … ─ last content (E2EL) ─ end
 */

import {
  causeOf,
  isTooLong,
  type Key,
  serverWords,
  TooLong,
  unsentFor,
} from '../../../engine/asking/endpoints/endpoint-words.ts';
import { type EventSplitter, eventSplitter } from '../../../engine/asking/endpoints/sse.ts';
import { createPieces } from '../../../engine/core/files/pieces.ts';
import type { Code } from '../../../engine/core/item/codes.ts';
import { isObject, type JsonObject } from '../../../engine/core/json/pointer.ts';

/** Times are milliseconds of one monotonic clock. */
export interface Stamps {
  /** when it should have been sent; in a closed loop when the one before it ended */
  due: number;
  /** right before it was handed to the socket */
  sent: number;
}

/** An answer that was said to its end. Lengths of time are ms; NaN where there is none. */
export interface Answered extends Stamps {
  ok: true;
  /** first non-empty content − sent; NaN of an answer that was not streamed */
  ttft: number;
  /** first event with choices − sent: what vLLM's own client calls TTFT */
  firstEvent: number;
  /** first content outside of reasoning − sent; NaN where there is none */
  firstAnswer: number;
  /** last content − sent */
  e2el: number;
  /** (e2el − ttft) / (completion − 1); NaN of fewer than two tokens, or where nobody counted them */
  tpot: number;
  /** stamps of the events with content */
  contents: readonly number[];
  /** events with content that came in one chunk with the one before them, and share its stamp */
  coalesced: number;
  /** tokens as the server counted them; null where it did not */
  usage: { prompt: number; completion: number; cached: number | null } | null;
  end: number;
  text?: string | undefined;
}

/** One that was not: it enters no latency. */
export interface Failed extends Stamps {
  ok: false;
  code: Code;
  /** what a person counts together, such as `HTTP 503` */
  cause: string;
  message: string;
  /** the run was stopped while it was under way */
  isIncomplete: boolean;
  /** there was no connection to send it on */
  isUnsent: boolean;
  end: number;
}

export type Outcome = Answered | Failed;

/** Bytes of a refusal that are kept. */
const MOST_WORDS = 64 * 1024;
/** An answer that is not streamed; a streamed one is not kept. */
const LARGEST_BODY = 16 * 1024 * 1024;
/** Bytes of a stream: some hundred for each token of the longest context. */
const LONGEST_STREAM = 1024 * 1024 * 1024;

/** `keepText`: the outcome has the text that came. */
export interface ReadingOptions {
  key: Key | undefined;
  keepText: boolean;
}

/** One answer, from its head to its end. */
export class Reading {
  readonly #stamps: Stamps;
  readonly #key: Key | undefined;
  readonly #keepText: boolean;
  #status = 0;
  /** of a stream; null of a body that is kept whole */
  #splitter: EventSplitter | null = null;
  readonly #body = createPieces();
  #size = 0;
  #wrong: Pick<Failed, 'code' | 'cause' | 'message'> | null = null;

  #now = 0;
  #firstEvent = Number.NaN;
  #firstAnswer = Number.NaN;
  readonly #contents: number[] = [];
  #coalesced = 0;
  #lastChunk = -1;
  #chunks = 0;
  #usage: Answered['usage'] = null;
  #isFinished = false;
  #text = '';

  constructor(stamps: Stamps, { key, keepText }: ReadingOptions) {
    this.#stamps = stamps;
    this.#key = key;
    this.#keepText = keepText;
  }

  head(status: number, contentType: string | undefined, at: number): void {
    this.#now = at;
    this.#status = status;
    if (status === 200 && contentType?.toLowerCase().startsWith('text/event-stream'))
      this.#splitter = eventSplitter(data => this.#take(data));
  }

  /** Never throws: what is wrong with a chunk is the outcome. False where no more of it is needed. */
  chunk(bytes: Buffer, at: number): boolean {
    this.#now = at;
    this.#chunks++;
    this.#size += bytes.length;
    const isGood = this.#status === 200;
    try {
      if (this.#splitter !== null) {
        if (this.#size > LONGEST_STREAM) throw new TooLong('a stream longer than 1 GiB');
        this.#splitter.feed(bytes);
      } else if (this.#size <= (isGood ? LARGEST_BODY : MOST_WORDS)) this.#body.add(bytes);
      else if (isGood) throw new TooLong('an answer larger than 16 MiB');
      else return false;
    } catch (error) {
      this.#refuse('answer-too-long', 'answer too long', causeOf(error as Error, this.#key));
    }
    return this.#wrong === null;
  }

  /** The answer has ended, or broke with an error. */
  end(at: number, error?: Error): Outcome {
    const status = this.#status;
    const isRefused = status !== 0 && status !== 200 && (error === undefined || this.#size > MOST_WORDS);
    if (this.#wrong === null && isRefused) this.#refused(status);
    else if (this.#wrong === null && error !== undefined) {
      // what breaks behind the last word of an answer takes nothing from it
      if (!this.#isFinished) this.#refuse(...brokenBy(error, this.#key));
    } else if (this.#wrong === null) this.#ending(at);
    this.#body.take();
    if (!this.#isFinished)
      this.#refuse(
        'call-failed',
        'stream cut short',
        'the stream ended without a finish_reason and without [DONE]',
      );
    if (this.#wrong === null) return this.#answered(at);
    const isUnsent = status === 0 && error !== undefined && unsentFor(error) !== undefined;
    return {
      ok: false,
      ...this.#stamps,
      ...this.#wrong,
      isIncomplete: error instanceof Stopped,
      isUnsent,
      end: at,
    };
  }

  #answered(at: number): Answered {
    const contents = this.#contents;
    const usage = this.#usage;
    const { sent } = this.#stamps;
    const first = contents[0] ?? Number.NaN;
    const last = contents.at(-1) ?? at;
    const tokens = usage?.completion ?? 0;
    return {
      ok: true,
      ...this.#stamps,
      ttft: first - sent,
      firstEvent: this.#firstEvent - sent,
      firstAnswer: this.#firstAnswer - sent,
      e2el: (this.#splitter !== null ? last : at) - sent,
      tpot: tokens > 1 ? (last - first) / (tokens - 1) : Number.NaN,
      contents,
      coalesced: this.#coalesced,
      usage,
      end: at,
      ...(this.#keepText && { text: this.#text }),
    };
  }

  #take(data: string): void {
    if (data === '[DONE]') {
      this.#isFinished = true;
      return;
    }
    let event: unknown;
    try {
      event = JSON.parse(data);
    } catch {
      return this.#notJson(`an event that is not JSON: ${this.#quoted(data)}`);
    }
    if (!isObject(event)) return this.#notJson(`an event that is no object: ${this.#quoted(data)}`);
    if (event.error !== undefined && event.error !== null)
      return this.#refuse('call-failed', 'error in the stream', serverWords(Buffer.from(data), this.#key));
    if (isObject(event.usage)) this.#usage = usageIn(event.usage) ?? this.#usage;
    const choice: unknown = Array.isArray(event.choices) ? event.choices[0] : undefined;
    if (!isObject(choice)) return;
    if (Number.isNaN(this.#firstEvent)) this.#firstEvent = this.#now;
    if (choice.finish_reason !== undefined && choice.finish_reason !== null) this.#isFinished = true;
    const { answer, hasContent } = contentOf(choice);
    if (!hasContent) return;
    if (this.#lastChunk === this.#chunks) this.#coalesced++;
    this.#lastChunk = this.#chunks;
    this.#contents.push(this.#now);
    if (answer === '') return;
    if (Number.isNaN(this.#firstAnswer)) this.#firstAnswer = this.#now;
    if (this.#keepText) this.#text += answer;
  }

  /** The first trouble is the outcome. */
  #refuse(code: Code, cause: string, message: string): void {
    this.#wrong ??= { code, cause, message };
  }

  #notJson(message: string): void {
    this.#refuse('call-failed', 'no JSON in the stream', message);
  }

  #refused(status: number): void {
    const body = this.#body.take();
    const words = serverWords(body, this.#key);
    const label = `HTTP ${status}`;
    this.#refuse(refusalCode(status, body), label, words === '' ? label : `${label}: ${words}`);
  }

  /** The last of a stream, which may lack its blank line, or the body of an answer that was not streamed. */
  #ending(at: number): void {
    try {
      if (this.#splitter === null) this.#whole(at);
      else this.#splitter.end();
    } catch (error) {
      this.#refuse('answer-too-long', 'answer too long', causeOf(error as Error, this.#key));
    }
  }

  #quoted(data: string): string {
    return JSON.stringify(serverWords(Buffer.from(data.slice(0, 400)), this.#key, 120));
  }

  #whole(at: number): void {
    const body = this.#body.take();
    const bad = (message: string): void => this.#refuse('call-failed', 'bad answer', message);
    let reply: unknown;
    try {
      reply = JSON.parse(body.toString());
    } catch {
      return bad(`HTTP 200 with a body that is not JSON: ${this.#quoted(body.toString('utf8', 0, 400))}`);
    }
    if (!isObject(reply)) return bad('HTTP 200 with a body that is no object');
    if (reply.error !== undefined && reply.error !== null) return bad(serverWords(body, this.#key));
    this.#usage = isObject(reply.usage) ? usageIn(reply.usage) : null;
    this.#isFinished = true;
    this.#now = at;
    const choice: unknown = Array.isArray(reply.choices) ? reply.choices[0] : undefined;
    if (!this.#keepText || !isObject(choice)) return;
    const { message, text } = choice;
    const whole = isObject(message) && typeof message.content === 'string' ? message.content : text;
    this.#text = typeof whole === 'string' ? whole : '';
  }
}

/** Ends a request because the whole run is stopped. */
export class Stopped extends Error {
  override name = 'Stopped';
}

/** Ends a request that got no byte for too long. */
export class TookTooLong extends Error {
  override name = 'TookTooLong';
}

function brokenBy(error: Error, key: Key | undefined): [Code, string, string] {
  if (error instanceof Stopped) return ['interrupted', 'stopped', 'the run was stopped'];
  if (error instanceof TookTooLong) return ['call-timeout', 'timeout', error.message];
  const cause = causeOf(error, key);
  return ['call-failed', cause.slice(0, 80), cause];
}

function refusalCode(status: number, body: Buffer): Code {
  if (isTooLong(status, body)) return 'prompt-too-long';
  return status >= 400 && status < 500 && status !== 429 ? 'call-refused' : 'call-failed';
}

/** What of a chunk is content: the answer, reasoning, the call of a tool, or the text of a completion. */
function contentOf({ delta, text }: JsonObject): { answer: string; hasContent: boolean } {
  if (typeof text === 'string') return { answer: text, hasContent: text !== '' };
  if (!isObject(delta)) return { answer: '', hasContent: false };
  const { content, reasoning, reasoning_content: older, tool_calls: tools } = delta;
  const answer = typeof content === 'string' ? content : '';
  const isMore = [reasoning, older].some(thought => typeof thought === 'string' && thought !== '');
  return { answer, hasContent: answer !== '' || isMore || (Array.isArray(tools) && tools.length > 0) };
}

function usageIn({
  prompt_tokens: prompt,
  completion_tokens: completion,
  prompt_tokens_details: details,
}: JsonObject): Answered['usage'] {
  if (!isCount(prompt)) return null;
  const cached = isObject(details) && isCount(details.cached_tokens) ? details.cached_tokens : null;
  // an embedding has no tokens of an answer
  return { prompt, completion: isCount(completion) ? completion : 0, cached };
}

const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;
