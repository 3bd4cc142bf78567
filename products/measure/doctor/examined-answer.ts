/**
 * Reads the answers of an examination, whole and streamed. Whether a run would accept one is the pool's to say
 * (completion.ts); here is added what of it was really there.
 */

import { randomBytes } from 'node:crypto';
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

// What a model is asked in an examination. Small questions, since somebody may be using the server, and such that the
// answer tells something whatever the model is: an untrained one will do.

const SEED = 20_260_101;
const OTHER_SEED = 7;
/** A long prompt, in characters; a model of bytes takes a token for each. */
const LONG = 4_000;
/** Enough for the answer and some thinking; few enough that a grammar which runs away in whitespace ends soon. */
const GUIDED_TOKENS = 256;
const TOLD_TOKENS = 64;

const SENTENCE =
  'The keeper of the lighthouse counted the ships, wrote their number down and trimmed the lamp. ';

type Body = Record<string, unknown>;

export interface Questions {
  trivial: Body;
  guided: readonly { body: Body; key: string; words: readonly string[] }[];
  same: Body;
  streamed: Body;
  prefix: Body;
}

/** A word that no model has seen. */
export function newWord(): string {
  return `w${randomBytes(5).toString('hex')}`;
}

/** `word` makes words that nobody can guess; `context` is what a prompt and its answer may take, in tokens. */
export function questionsFor(
  model: string,
  context: number | undefined,
  word: () => string = newWord,
): Questions {
  // A system message, as every agent has one: some chat templates refuse it.
  const ask = (content: string, more: object, system = 'You are being examined.'): Body => ({
    model,
    messages: [
      { role: 'system', content: system },
      { role: 'user', content },
    ],
    ...more,
  });
  const told = { temperature: 1, max_tokens: TOLD_TOKENS };
  const story = 'Tell a story about a lighthouse that begins with the name of its keeper.';
  const length = Math.min(LONG, Math.floor((context ?? Infinity) / 2));
  const long = `${word()} ${SENTENCE.repeat(Math.ceil(length / SENTENCE.length))}`.slice(0, length);
  return {
    trivial: ask('Hello.', { temperature: 0, max_tokens: 4 }),
    guided: [guided(), guided()],
    same: ask(story, { ...told, seed: SEED }),
    streamed: ask(story, {
      ...told,
      seed: OTHER_SEED,
      stream: true,
      stream_options: { include_usage: true },
    }),
    prefix: ask('Hello.', { temperature: 0, max_tokens: 1 }, long),
  };

  // The prompt asks for the opposite of the schema, so that a server which only shows the schema to the model is told
  // from one that decodes by it.
  function guided() {
    const [key, ...words] = [word(), word(), word()] as const;
    const schema = {
      type: 'object',
      properties: { [key]: { type: 'string', enum: words } },
      required: [key],
      additionalProperties: false,
    };
    const body = ask('Reply with the single word "no" and nothing else. Do not write JSON.', {
      temperature: 0,
      max_tokens: GUIDED_TOKENS,
      response_format: { type: 'json_schema', json_schema: { name: 'answer', schema, strict: true } },
    });
    return { body, key, words };
  }
}
