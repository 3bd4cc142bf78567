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

export interface Reading {
  head(status: number, contentType: string | undefined, at: number): void;
  /** Never throws: what is wrong with a chunk is the outcome. False where no more of it is needed. */
  chunk(bytes: Buffer, at: number): boolean;
  /** The answer has ended, or broke with an error. */
  end(at: number, error?: Error): Outcome;
}

export function readingOf(stamps: Stamps, { key, keepText }: ReadingOptions): Reading {
  let status = 0;
  let splitter: EventSplitter | null = null;
  const kept = createPieces();
  let size = 0;
  let wrong: Pick<Failed, 'code' | 'cause' | 'message'> | null = null;

  let now = 0;
  let firstEvent = Number.NaN;
  let firstAnswer = Number.NaN;
  const contents: number[] = [];
  let coalesced = 0;
  let lastChunk = -1;
  let chunks = 0;
  let usage: Answered['usage'] = null;
  let isFinished = false;
  let text = '';

  function take(data: string): void {
    if (data === '[DONE]') {
      isFinished = true;
      return;
    }
    let event: unknown;
    try {
      event = JSON.parse(data);
    } catch {
      refuse('call-failed', 'no JSON in the stream', `an event that is not JSON: ${quoted(data)}`);
      return;
    }
    if (!isObject(event))
      return refuse('call-failed', 'no JSON in the stream', `an event that is no object: ${quoted(data)}`);
    if (event.error !== undefined && event.error !== null)
      return refuse('call-failed', 'error in the stream', serverWords(Buffer.from(data), key));
    if (isObject(event.usage)) usage = usageIn(event.usage) ?? usage;
    const choice: unknown = Array.isArray(event.choices) ? event.choices[0] : undefined;
    if (!isObject(choice)) return;
    if (Number.isNaN(firstEvent)) firstEvent = now;
    if (choice.finish_reason !== undefined && choice.finish_reason !== null) isFinished = true;
    const { answer, hasContent } = contentOf(choice);
    if (!hasContent) return;
    if (lastChunk === chunks) coalesced++;
    lastChunk = chunks;
    contents.push(now);
    if (answer !== '') {
      if (Number.isNaN(firstAnswer)) firstAnswer = now;
      if (keepText) text += answer;
    }
  }

  function refuse(code: Code, cause: string, message: string): void {
    wrong ??= { code, cause, message };
  }

  /** The last of a stream, which may lack its blank line, or the body of an answer that was not streamed. */
  function ending(at: number): void {
    try {
      if (splitter === null) whole(at);
      else splitter.end();
    } catch (error) {
      refuse('answer-too-long', 'answer too long', causeOf(error as Error, key));
    }
  }

  const quoted = (data: string): string =>
    JSON.stringify(serverWords(Buffer.from(data.slice(0, 400)), key, 120));

  function whole(at: number): void {
    const body = kept.take();
    let reply: unknown;
    try {
      reply = JSON.parse(body.toString());
    } catch {
      return refuse(
        'call-failed',
        'bad answer',
        `HTTP 200 with a body that is not JSON: ${quoted(body.toString('utf8', 0, 400))}`,
      );
    }
    if (!isObject(reply))
      return refuse('call-failed', 'bad answer', 'HTTP 200 with a body that is no object');
    if (reply.error !== undefined && reply.error !== null)
      return refuse('call-failed', 'bad answer', serverWords(body, key));
    usage = isObject(reply.usage) ? usageIn(reply.usage) : null;
    isFinished = true;
    now = at;
    if (keepText && Array.isArray(reply.choices) && isObject(reply.choices[0])) {
      const [{ message, text: said }] = reply.choices as [JsonObject];
      text =
        isObject(message) && typeof message.content === 'string'
          ? message.content
          : typeof said === 'string'
            ? said
            : '';
    }
  }

  return {
    head(code, contentType, at) {
      now = at;
      status = code;
      if (code === 200 && contentType?.toLowerCase().startsWith('text/event-stream'))
        splitter = eventSplitter(take);
    },
    chunk(bytes, at) {
      now = at;
      chunks++;
      size += bytes.length;
      try {
        if (splitter !== null) {
          if (size > LONGEST_STREAM) throw new TooLong('a stream longer than 1 GiB');
          splitter.feed(bytes);
        } else if (size <= (status === 200 ? LARGEST_BODY : MOST_WORDS)) kept.add(bytes);
        else if (status === 200) throw new TooLong('an answer larger than 16 MiB');
        else return false;
      } catch (error) {
        refuse('answer-too-long', 'answer too long', causeOf(error as Error, key));
      }
      return wrong === null;
    },
    end(at, error) {
      const wasStreamed = splitter !== null;
      const isRefused = status !== 0 && status !== 200 && (error === undefined || size > MOST_WORDS);
      if (wrong === null && isRefused) {
        const body = kept.take();
        const words = serverWords(body, key);
        const label = `HTTP ${status}`;
        refuse(refusalCode(status, body), label, words === '' ? label : `${label}: ${words}`);
      } else if (wrong === null && error !== undefined) {
        // what breaks behind the last word of an answer takes nothing from it
        if (!isFinished) refuse(...brokenBy(error, key));
      } else if (wrong === null) ending(at);
      kept.take();
      if (wrong === null && !isFinished)
        refuse(
          'call-failed',
          'stream cut short',
          'the stream ended without a finish_reason and without [DONE]',
        );
      if (wrong !== null)
        return {
          ok: false,
          ...stamps,
          ...wrong,
          isIncomplete: error instanceof Stopped,
          isUnsent: status === 0 && error !== undefined && unsentFor(error) !== undefined,
          end: at,
        };
      const { sent } = stamps;
      const first = contents[0] ?? Number.NaN;
      const last = contents.at(-1) ?? at;
      const counted = usage?.completion ?? 0;
      return {
        ok: true,
        ...stamps,
        ttft: first - sent,
        firstEvent: firstEvent - sent,
        firstAnswer: firstAnswer - sent,
        e2el: (wasStreamed ? last : at) - sent,
        tpot: counted > 1 ? (last - first) / (counted - 1) : Number.NaN,
        contents,
        coalesced,
        usage,
        end: at,
        ...(keepText && { text }),
      };
    },
  };
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
  const isMore = [reasoning, older].some(said => typeof said === 'string' && said !== '');
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
