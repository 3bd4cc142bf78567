/**
 * POST /v1/chat/completions without the wire: from the bytes of a request to what will be answered. Checks and error
 * texts follow vLLM; unknown fields are ignored, as vLLM ignores them (`guided_json` of old servers included).
 */
import { type AnswerFault, type Content, type Shares, spoilt } from './faults.ts';
import { isObject, type Schema } from './merge.ts';
import { SchemaError } from './node.ts';
import { type Draws, PURPOSE, type Random } from './random.ts';
import { badRequest, notFound } from './refusal.ts';
import type { KnownSchema } from './schemas.ts';
import { type Conversation, NO_WISHES, studyWishes, unguidedAnswer } from './study.ts';
import { type Message, promptTokensOf, tokensOf } from './tokens.ts';
import { text } from './words.ts';

export interface ChatSettings {
  model: string;
  maxModelLength: number;
  faults: Shares;
  draws: Draws;
  /** @throws SchemaError */
  schemaOf: (schema: unknown) => KnownSchema;
  cachedTokensOf: (messages: readonly Message[]) => number;
}

export interface Reply {
  id: string;
  model: string;
  text: string;
  finish: 'stop' | 'length';
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
  if (question.stream !== undefined && question.stream !== null && typeof question.stream !== 'boolean') {
    throw badRequest(`stream must be true or false, got ${JSON.stringify(question.stream)}.`);
  }
  const { n = 1, temperature } = question;
  if (n !== null && n !== 1) throw badRequest(`The simulator answers n = 1 only, got ${JSON.stringify(n)}.`);
  if (typeof temperature === 'number' && temperature < 0) {
    throw badRequest(`temperature must be non-negative, got ${temperature}.`);
  }
  const content = contentOf(question, messages, settings, settings.draws(request, PURPOSE.answer));
  const faulty = spoilt(content, settings.faults, settings.draws(request, PURPOSE.answerFault));
  const whole = tokensOf(faulty.text) <= most;
  const said = whole ? faulty.text : faulty.text.slice(0, most * 4);
  const options = isObject(question.stream_options) ? question.stream_options : {};
  return {
    id: `chatcmpl-${request.toString('hex', 0, 16)}`,
    model,
    text: said,
    finish: whole && !faulty.faults.includes('truncated') ? 'stop' : 'length',
    usage: { prompt, completion: tokensOf(said), cached: settings.cachedTokensOf(messages) },
    stream: question.stream === true,
    includeUsage: options.include_usage === true,
    faults: faulty.faults,
  };
}

export function parseObject(body: string): Schema {
  let value: unknown;
  try {
    value = JSON.parse(body);
  } catch (error) {
    throw badRequest(`JSON decode error: ${(error as Error).message}`);
  }
  if (!isObject(value))
    throw badRequest('Input should be a valid dictionary: the body must be one JSON object.');
  return value;
}

/** The model of a request that names none, or null, is the one that is served. */
export function modelAsked({ model }: Schema, served: string): string {
  if (model === undefined || model === null || model === served) return served;
  if (typeof model !== 'string') throw badRequest(`model must be a string, got ${JSON.stringify(model)}.`);
  throw notFound(`The model \`${model.slice(0, 200)}\` does not exist.`);
}

export function messagesOf(value: unknown): Message[] {
  if (!Array.isArray(value) || value.length === 0) {
    throw badRequest('messages: Field required: expected a list of at least one message.');
  }
  return value.map((message: unknown, index) => {
    if (!isObject(message) || typeof message.role !== 'string') {
      throw badRequest(`messages[${index}]: expected an object with a role and a content.`);
    }
    return { role: message.role, content: textOf(message.content, index) };
  });
}

function textOf(content: unknown, index: number): string {
  if (typeof content === 'string') return content;
  if (content === undefined || content === null) return '';
  if (!Array.isArray(content))
    throw badRequest(`messages[${index}].content: expected a string or a list of parts.`);
  return content
    .map((part: unknown) => {
      if (isObject(part) && part.type === 'text' && typeof part.text === 'string') return part.text;
      throw badRequest(`messages[${index}].content: the simulator reads parts of type "text" only.`);
    })
    .join('\n');
}

/** How many tokens may be generated. */
function mostTokens(question: Schema, prompt: number, limit: number): number {
  const asked = question.max_completion_tokens ?? question.max_tokens;
  if (asked !== undefined && asked !== null && !(Number.isInteger(asked) && (asked as number) >= 1)) {
    throw badRequest(`max_tokens must be at least 1, got ${JSON.stringify(asked)}.`);
  }
  const completion = typeof asked === 'number' ? asked : 0;
  if (prompt + Math.max(completion, 1) > limit) {
    throw badRequest(
      `This model's maximum context length is ${limit} tokens. However, you requested ${prompt + completion} tokens ` +
        `(${prompt} in the messages, ${completion} in the completion). Please reduce the length of the messages or completion.`,
    );
  }
  return completion || limit - prompt;
}

function contentOf(question: Schema, messages: Message[], settings: ChatSettings, random: Random): Content {
  const conversation = conversationOf(messages);
  const schema = schemaAsked(question);
  if (schema === 'none' || schema === 'any-object') {
    const answer = unguidedAnswer(conversation, random);
    if (answer !== undefined) return { value: answer, valid: value => !holdsNull(value) };
    const words = text(random, 20, 600);
    return schema === 'none' ? { words } : { value: { answer: words }, valid: value => !holdsNull(value) };
  }
  try {
    const known = settings.schemaOf(schema.schema);
    const wishes = studyWishes(known.names, conversation, random);
    return { value: known.answer(random, wishes.size > 0 ? wishes : NO_WISHES), valid: known.valid };
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

function schemaAsked({
  response_format,
  structured_outputs,
}: Schema): { schema: unknown } | 'any-object' | 'none' {
  if (isObject(response_format)) {
    const { type, json_schema } = response_format;
    if (type === 'json_schema') {
      if (!isObject(json_schema) || json_schema.schema === undefined) {
        throw badRequest(
          "response_format of type 'json_schema' needs a 'json_schema' object with a 'schema'.",
        );
      }
      return { schema: json_schema.schema };
    }
    if (type === 'json_object') return 'any-object';
    if (type !== 'text') {
      throw badRequest(
        `The simulator knows response_format text, json_object and json_schema, got ${JSON.stringify(type)}.`,
      );
    }
  }
  if (isObject(structured_outputs)) {
    if (structured_outputs.json !== undefined) return { schema: schemaGiven(structured_outputs.json) };
    if (structured_outputs.json_object === true) return 'any-object';
    throw badRequest('The simulator knows json and json_object of structured_outputs.');
  }
  return 'none';
}

/** structured_outputs takes a schema as an object or as its text. */
const schemaGiven = (json: unknown): unknown => (typeof json === 'string' ? parseObject(json) : json);

function holdsNull(value: unknown): boolean {
  return value === null || (typeof value === 'object' && Object.values(value as object).some(holdsNull));
}
