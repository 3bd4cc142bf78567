/**
 * POST /v1/chat/completions and /v1/completions without the wire: from the bytes of a request to what will be answered.
 * Checks and error texts follow vLLM; request-fields.ts has what is done with each field.
 */

import type { JsonObject as Schema } from '../../engine/core/json/pointer.ts';
import { endedAs } from './answer-ending.ts';
import type { Bias } from './bias.ts';
import { type ContentSettings, contentOf } from './content.ts';
import { type AnswerFault, faultsFrom, type Shares, spoilt } from './faults.ts';
import { text } from './filler-words.ts';
import type { Conversation } from './loans/loans.ts';
import { chancesOf, type TokenChances } from './logprobs.ts';
import {
  formAsked,
  leastTokens,
  messagesOf,
  modelAsked,
  mostTokens,
  parseObject,
  usageWanted,
} from './question.ts';
import { drawsOf, PURPOSE, sha256 } from './random.ts';
import { badRequest } from './refusal.ts';
import { checkFields } from './request-fields.ts';
import { schemaCache } from './schemas.ts';
import { type Message, type PromptInput, promptTokensOf, tokensOf } from './tokens.ts';

export { messagesOf, tooLong } from './question.ts';
export { badRequest } from './refusal.ts';

export interface ChatSettings extends ContentSettings {
  model: string;
  maxModelLength: number;
  faults: Shares;
  /** it schedules by the priority of requests, which it refuses otherwise */
  byPriority?: boolean;
  /** the length of an answer is all that is wanted: fields that cannot be heard are passed over */
  forLength?: boolean;
}

/** A streamed answer, to be said in parts as its tokens come. */
export interface Script {
  /** The events up to this share of the text, 0 to 1, that were not given before. */
  upTo(share: number): string;
  /** All that is left, the usage where it was asked for, and what ends a stream. */
  rest(): string;
}

/** `now` in whole seconds since 1970. */
export interface Wire {
  whole(reply: Reply, now: number): string;
  script(reply: Reply, now: number): Script;
}

export interface Reply {
  /** `embedding`: a list of whatever kind, of vectors, scores or classes */
  kind: 'chat' | 'completion' | 'embedding' | 'rerank' | 'response' | 'message' | 'count';
  /** `chatcmpl-`, `cmpl-` or `embd-`, and the X-Request-Id of the request, or else a hash of its body */
  id: string;
  model: string;
  /** what is computed: one prompt, or each input that is to be embedded */
  prompts: readonly PromptInput[];
  /** of embeddings the list, as JSON */
  text: string;
  /** a text that is said before it */
  echo: string;
  finish: 'stop' | 'length';
  stopReason: string | number | null;
  /** of the tokens of `text`, where they are asked for */
  chances: readonly TokenChances[] | null;
  /** `cached` is known when the answer is there */
  usage: { prompt: number; completion: number; cached: number };
  /** lower runs sooner */
  priority: number;
  stream: boolean;
  includeUsage: boolean;
  /** of a stream: each event tells the usage so far */
  usageInEach: boolean;
  faults: AnswerFault[];
  /** those that were planted in it */
  biases: readonly Bias[];
  /** of the dialects that say an answer in parts: how this one is written */
  wire?: Wire;
}

/** What an embedding, say, has nothing of. */
export const NOTHING_SAID = {
  echo: '',
  finish: 'stop',
  stopReason: null,
  chances: null,
  priority: 0,
  stream: false,
  includeUsage: false,
  usageInEach: false,
  faults: [],
  biases: [],
} satisfies Partial<Reply>;

/** `request` is the hash of `body`. @throws Refusal */
export function replyTo(body: string, request: Buffer, settings: ChatSettings): Reply {
  const question = parseObject(body);
  const model = modelAsked(question, settings.model);
  if (!settings.forLength) checkFields(question, 'chat', settings.byPriority);
  const messages = messagesOf(question.messages);
  const prompt = promptTokensOf(messages);
  const most = mostTokens(question, prompt, settings.maxModelLength);
  const conversation = conversationOf(messages);
  const top = question.logprobs === true ? ((question.top_logprobs ?? 0) as number) : undefined;
  const said = say(question, { conversation, most, top }, request, settings);
  const id = `chatcmpl-${idOf(question, request)}`;
  return { kind: 'chat', id, model, prompts: [messages], ...said, usage: { prompt, ...said.usage } };
}

/** What OpenAI and vLLM generate of a completion that does not say how much. */
const COMPLETION_TOKENS = 16;

/** `request` is the hash of `body`. @throws Refusal */
export function completionOf(body: string, request: Buffer, settings: ChatSettings): Reply {
  const question = parseObject(body);
  const model = modelAsked(question, settings.model);
  if (!settings.forLength) checkFields(question, 'completion', settings.byPriority);
  const given =
    Array.isArray(question.prompt) && question.prompt.length === 1 ? question.prompt[0] : question.prompt;
  if (typeof given !== 'string') {
    throw badRequest('prompt: the simulator completes one text: expected a string, or a list of one.');
  }
  const prompt = tokensOf(given);
  const most = mostTokens(question, prompt, settings.maxModelLength, COMPLETION_TOKENS);
  const conversation = { system: '', user: given };
  const top = (question.logprobs ?? undefined) as number | undefined;
  const said = say(question, { conversation, most, top }, request, settings);
  if (question.echo === true) {
    if (top !== undefined)
      throw badRequest('echo with logprobs: the simulator gives no logprobs of a prompt.');
    said.echo = given;
  }
  const id = `cmpl-${idOf(question, request)}`;
  return { kind: 'completion', id, model, prompts: [given], ...said, usage: { prompt, ...said.usage } };
}

/** It was checked with the other fields. */
export const priorityOf = ({ priority }: Schema): number => (typeof priority === 'number' ? priority : 0);

/** As vLLM: what the request calls itself; the X-Request-Id goes before it. */
export const idOf = ({ request_id: own }: Schema, request: Buffer): string =>
  typeof own === 'string' && own !== '' ? own : request.toString('hex', 0, 16);

export interface Unserved {
  seed: number;
  /** default: longer than any prompt */
  maxModelLength?: number;
  /** shares of faulty answers, as `fw simulate --faults` takes them */
  faults?: string;
  forLength?: boolean;
  byPriority?: boolean;
}

export interface Replies {
  /** What a chat is answered by this model. @throws Refusal */
  reply(body: Buffer, model: string): Reply;
  /** Whether the form that `question` asks for takes a text. */
  fits(question: Schema): (text: string) => boolean;
}

/** The answers of `fw simulate`, without a server. */
export function repliesOf({
  seed,
  maxModelLength = 131_072,
  faults = 'none',
  forLength = false,
  byPriority = false,
}: Unserved): Replies {
  const schemaOf = schemaCache();
  const settings = {
    maxModelLength,
    faults: faultsFrom(faults),
    draws: drawsOf(seed),
    schemaOf,
    forLength,
    byPriority,
  };
  return {
    reply: (body, model) => replyTo(body.toString(), sha256(body), { ...settings, model }),
    fits(question) {
      const form = formAsked(question);
      return text => form.kind !== 'schema' || schemaOf(form.schema).valid(JSON.parse(text));
    },
  };
}

interface Saying {
  conversation: Conversation;
  /** tokens */
  most: number;
  /** how many of the likeliest tokens are told; undefined: no logprobs are */
  top: number | undefined;
}

/** The answer to a conversation, with the faults that its request drew, in at most `most` tokens. */
export function say(
  question: Schema,
  { conversation, most, top }: Saying,
  request: Buffer,
  settings: ChatSettings,
) {
  const { draws } = settings;
  const form = formAsked(question);
  const { content, biases } = contentOf(form, conversation, request, settings);
  const { text: spoken, faults } = spoilt(content, settings.faults, draws(request, PURPOSE.answerFault));
  const random = draws(request, PURPOSE.answer);
  const bounds = { least: leastTokens(question, most), most, hasForm: form.kind !== 'free' };
  const {
    text: said,
    tokens,
    finish,
    stopReason,
  } = endedAs(question, spoken, bounds, () => text(random, 20, 600));
  const { atEnd, inEach } = usageWanted(question);
  const isCut = faults.includes('truncated') && stopReason === null;
  return {
    ...NOTHING_SAID,
    text: said,
    finish: isCut ? 'length' : finish,
    stopReason,
    chances: top === undefined ? null : chancesOf(said, top, draws(request, PURPOSE.logprobs)),
    usage: { completion: tokens, cached: 0 },
    priority: priorityOf(question),
    stream: question.stream === true,
    includeUsage: atEnd,
    usageInEach: inEach,
    faults,
    biases,
  };
}

export function conversationOf(messages: readonly Message[]): Conversation {
  const said = (role: string) =>
    messages
      .filter(message => message.role === role)
      .map(message => message.content)
      .join('\n\n');
  return { system: said('system'), user: said('user') };
}
