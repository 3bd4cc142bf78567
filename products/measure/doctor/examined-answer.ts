/**
 * Reads the answers of an examination, whole and streamed. Whether a run would accept one is the pool's to say
 * (completion.ts); here is added what of it was really there.
 */

import { readCompletion } from '../../../engine/asking/endpoints/completion.ts';
import {
  causeOf,
  type Key,
  NoAnswerInTime,
  serverWords,
} from '../../../engine/asking/endpoints/endpoint-words.ts';
import type { Arrival, Heard } from '../../../engine/asking/pool/probe.ts';
import { isObject } from '../../../engine/core/json/pointer.ts';
import type { Answer, Outcome, Streamed } from './endpoint-facts.ts';

/** Events beyond this many are no short answer. */
const MOST_EVENTS = 5_000;

export function readAnswer(heard: Heard | Error, key: Key | undefined): Outcome {
  const silence = silenceOf(heard, key);
  if (silence) return silence;
  const { body, took } = heard as Heard;
  const read = readCompletion(body, key);
  if (typeof read === 'string') return { cause: read, status: 200, late: false };
  const reply = JSON.parse(body.toString()) as Record<string, unknown>;
  const choice = (reply.choices as unknown[]).filter(isObject)[0] ?? {};
  return { text: read.answer.text, ...detailsOf(reply, choice, choice.message), took };
}

/** A streamed answer put together, with the time of its first and its last text. */
export function readStream(heard: Heard | Error, key: Key | undefined): Outcome<Streamed> {
  const silence = silenceOf(heard, key);
  if (silence) return silence;
  const { body, arrivals, took } = heard as Heard;
  const read: Streamed = {
    text: '',
    finish: undefined,
    usage: undefined,
    thought: false,
    took,
    first: undefined,
    last: undefined,
  };
  for (const { event, end } of eventsIn(body)) {
    if (isObject(event.error)) {
      const cause = `an error in the stream: "${serverWords(Buffer.from(JSON.stringify(event)), key, 120)}"`;
      return { cause, status: 200, late: false };
    }
    const choice = (Array.isArray(event.choices) ? event.choices.filter(isObject)[0] : undefined) ?? {};
    const { finish, usage, thought } = detailsOf(event, choice, choice.delta);
    read.finish = finish ?? read.finish;
    read.usage = usage ?? read.usage;
    read.thought ||= thought;
    const content = isObject(choice.delta) ? choice.delta.content : undefined;
    if (typeof content !== 'string' || content === '') continue;
    read.text += content;
    read.last = timeOf(end, arrivals);
    read.first ??= read.last;
  }
  if (read.finish === undefined) return { cause: 'no stream of completion chunks', status: 200, late: false };
  return read;
}

function silenceOf(heard: Heard | Error, key: Key | undefined) {
  if (heard instanceof Error) {
    return { cause: causeOf(heard, key), status: undefined, late: heard instanceof NoAnswerInTime };
  }
  const { status, body } = heard;
  if (status === 200) return undefined;
  const words = serverWords(body, key, 160);
  return { cause: `HTTP ${status}${words && `: "${words}"`}`, status, late: false };
}

function detailsOf(
  reply: Record<string, unknown>,
  choice: Record<string, unknown>,
  message: unknown,
): Pick<Answer, 'finish' | 'usage' | 'thought'> {
  const { usage } = reply;
  const details = isObject(usage) ? usage.prompt_tokens_details : undefined;
  const { reasoning, reasoning_content } = isObject(message) ? message : {};
  return {
    finish: typeof choice.finish_reason === 'string' ? choice.finish_reason : undefined,
    usage: isObject(usage)
      ? {
          prompt: countOf(usage.prompt_tokens),
          completion: countOf(usage.completion_tokens),
          cached: countOf(isObject(details) ? details.cached_tokens : undefined),
        }
      : undefined,
    thought: [reasoning, reasoning_content].some(words => typeof words === 'string' && words !== ''),
  };
}

function countOf(value: unknown): number | undefined {
  return Number.isSafeInteger(value) && (value as number) >= 0 ? (value as number) : undefined;
}

/** The JSON of each `data:` line, with where in the body it ended. Comments, pings and what is no JSON are passed over. */
function* eventsIn(body: Buffer): Generator<{ event: Record<string, unknown>; end: number }> {
  let from = 0;
  for (let seen = 0; from < body.length && seen < MOST_EVENTS; seen++) {
    const newline = body.indexOf(10, from);
    const end = newline < 0 ? body.length : newline;
    const line = body.toString('utf8', from, end).trim();
    from = end + 1;
    if (!line.startsWith('data:')) continue;
    try {
      const event: unknown = JSON.parse(line.slice(5));
      if (isObject(event)) yield { event, end };
    } catch {
      // [DONE], or no JSON
    }
  }
}

function timeOf(end: number, arrivals: readonly Arrival[]): number | undefined {
  return arrivals.find(({ bytes }) => bytes >= end)?.at;
}
