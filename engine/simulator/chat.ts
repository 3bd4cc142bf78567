/**
 * POST /v1/chat/completions and /v1/completions without the wire: from the bytes of a request to what will be answered.
 * Checks and error texts follow vLLM; unknown fields are ignored, as vLLM ignores them.
 */

import type { JsonObject as Schema } from '../json/pointer.ts';
import type { Bias } from './bias.ts';
import { type AnswerFault, type Content, type Shares, spoilt } from './faults.ts';
import { SchemaError } from './node.ts';
import { textOfPattern } from './pattern.ts';
import {
  checkSampling,
  type Form,
  formAsked,
  includesUsage,
  messagesOf,
  modelAsked,
  mostTokens,
  parseObject,
} from './question.ts';
import { type Draws, PURPOSE, pick, type Random } from './random.ts';
import { badRequest } from './refusal.ts';
import type { KnownSchema } from './schemas.ts';
import { type Conversation, NO_WISHES, studyWishes, unguidedAnswer } from './study.ts';
import { type Message, type PromptInput, promptTokensOf, tokensOf } from './tokens.ts';
import { fitLength, text } from './words.ts';

export interface ChatSettings {
  model: string;
  maxModelLength: number;
  faults: Shares;
  biases?: readonly Bias[];
  draws: Draws;
  /** @throws SchemaError */
  schemaOf: (schema: unknown) => KnownSchema;
}

export interface Reply {
  kind: 'chat' | 'completion' | 'embedding';
  /** `chatcmpl-`, `cmpl-` or `embd-`, and the X-Request-Id of the request, or else a hash of its body */
  id: string;
  model: string;
  /** what is computed: one prompt, or each input that is to be embedded */
  prompts: readonly PromptInput[];
  /** of embeddings the list, as JSON */
  text: string;
  finish: 'stop' | 'length';
  /** `cached` is known when the answer is there */
  usage: { prompt: number; completion: number; cached: number };
  stream: boolean;
  includeUsage: boolean;
  faults: AnswerFault[];
}

/** `request` is the hash of `body`. @throws Refusal */
export function replyTo(body: string, request: Buffer, settings: ChatSettings): Reply {
  const question = parseObject(body);
  const model = modelAsked(question, settings.model);
  const messages = messagesOf(question.messages);
  const prompt = promptTokensOf(messages);
  const most = mostTokens(question, prompt, settings.maxModelLength);
  const conversation = conversationOf(messages);
  const said = say(question, conversation, most, request, settings);
  const id = `chatcmpl-${request.toString('hex', 0, 16)}`;
  return { kind: 'chat', id, model, prompts: [messages], ...said, usage: { prompt, ...said.usage } };
}

/** What OpenAI and vLLM generate of a completion that does not say how much. */
const COMPLETION_TOKENS = 16;

/** `request` is the hash of `body`. @throws Refusal */
export function completionOf(body: string, request: Buffer, settings: ChatSettings): Reply {
  const question = parseObject(body);
  const model = modelAsked(question, settings.model);
  const given =
    Array.isArray(question.prompt) && question.prompt.length === 1 ? question.prompt[0] : question.prompt;
  if (typeof given !== 'string') {
    throw badRequest('prompt: the simulator completes one text: expected a string, or a list of one.');
  }
  const prompt = tokensOf(given);
  const most = mostTokens(question, prompt, settings.maxModelLength, COMPLETION_TOKENS);
  const said = say(question, { system: '', user: given }, most, request, settings);
  const id = `cmpl-${request.toString('hex', 0, 16)}`;
  return { kind: 'completion', id, model, prompts: [given], ...said, usage: { prompt, ...said.usage } };
}

/** The answer to a conversation, with the faults that its request drew, in at most `most` tokens. */
function say(
  question: Schema,
  conversation: Conversation,
  most: number,
  request: Buffer,
  settings: ChatSettings,
) {
  checkSampling(question);
  const content = contentOf(
    formAsked(question),
    conversation,
    settings,
    settings.draws(request, PURPOSE.answer),
  );
  const { text: spoken, faults } = spoilt(
    content,
    settings.faults,
    settings.draws(request, PURPOSE.answerFault),
  );
  // vLLM's ignore_eos: the model continues to the limit, as measurements need
  const endless = question.ignore_eos === true;
  const random = settings.draws(request, PURPOSE.answer);
  const whole = !endless && tokensOf(spoken) <= most;
  const long = endless ? fitLength(spoken, most * 4, most * 4, () => text(random, 20, 600)) : spoken;
  const said = whole ? long : long.slice(0, most * 4);
  return {
    text: said,
    finish: whole && !faults.includes('truncated') ? ('stop' as const) : ('length' as const),
    usage: { completion: tokensOf(said), cached: 0 },
    stream: question.stream === true,
    includeUsage: includesUsage(question),
    faults,
  };
}

function contentOf(form: Form, conversation: Conversation, settings: ChatSettings, random: Random): Content {
  try {
    switch (form.kind) {
      case 'choice':
        return { words: pick(random, form.choices) };
      case 'regex':
        return { words: textOfPattern(form.pattern)(random) };
      case 'schema': {
        const known = settings.schemaOf(form.schema);
        const wishes = studyWishes(known.names, conversation, random, settings.biases);
        return { value: known.answer(random, wishes.size > 0 ? wishes : NO_WISHES), valid: known.valid };
      }
      default: {
        const valid = (value: unknown) => !holdsNull(value);
        const answer = unguidedAnswer(conversation, random, settings.biases);
        if (answer !== undefined) return { value: answer, valid };
        const words = text(random, 20, 600);
        return form.kind === 'free' ? { words } : { value: { answer: words }, valid };
      }
    }
  } catch (error) {
    throw error instanceof SchemaError ? badRequest(error.message) : error;
  }
}

function conversationOf(messages: readonly Message[]): Conversation {
  const said = (role: string) =>
    messages
      .filter(message => message.role === role)
      .map(message => message.content)
      .join('\n\n');
  return { system: said('system'), user: said('user') };
}

function holdsNull(value: unknown): boolean {
  return value === null || (typeof value === 'object' && Object.values(value as object).some(holdsNull));
}
