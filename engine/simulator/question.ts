/** What the routes that ask have in common: a body, the model, messages, how many tokens, which form of answer. */
import { isObject, type JsonObject as Schema } from '../json/pointer.ts';
import { badRequest, notFound } from './refusal.ts';
import type { Message } from './tokens.ts';

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
    return { role: message.role, content: contentText(message.content, index) };
  });
}

function contentText(content: unknown, index: number): string {
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

/** How many tokens may be generated after a prompt of `prompt` tokens; `unsaid` where the request does not say. */
export function mostTokens(question: Schema, prompt: number, limit: number, unsaid?: number): number {
  const asked = question.max_completion_tokens ?? question.max_tokens;
  if (asked !== undefined && asked !== null && !(Number.isInteger(asked) && (asked as number) >= 1)) {
    throw badRequest(`max_tokens must be at least 1, got ${JSON.stringify(asked)}.`);
  }
  const completion = typeof asked === 'number' ? asked : 0;
  if (prompt + Math.max(completion, 1) > limit) throw tooLong(prompt, completion, limit);
  return completion || Math.min(unsaid ?? limit, limit - prompt);
}

export function tooLong(prompt: number, completion: number, limit: number) {
  return badRequest(
    `This model's maximum context length is ${limit} tokens. However, you requested ${prompt + completion} tokens ` +
      `(${prompt} in the messages, ${completion} in the completion). Please reduce the length of the messages or completion.`,
  );
}

/** Refuses what the simulator would otherwise ignore, and answer wrongly. */
export function checkSampling({ stream, n, temperature }: Schema): void {
  if (stream !== undefined && stream !== null && typeof stream !== 'boolean') {
    throw badRequest(`stream must be true or false, got ${JSON.stringify(stream)}.`);
  }
  if (n !== undefined && n !== null && n !== 1) {
    throw badRequest(`The simulator answers n = 1 only, got ${JSON.stringify(n)}.`);
  }
  if (typeof temperature === 'number' && temperature < 0) {
    throw badRequest(`temperature must be non-negative, got ${temperature}.`);
  }
}

export function includesUsage({ stream_options }: Schema): boolean {
  return isObject(stream_options) && stream_options.include_usage === true;
}

/** The form that an answer must have. */
export type Form =
  | { kind: 'free' }
  | { kind: 'any-object' }
  | { kind: 'schema'; schema: unknown }
  | { kind: 'choice'; choices: string[] }
  | { kind: 'regex'; pattern: string };

/** response_format wins over structured_outputs, as in vLLM; the guided_* of old servers are ignored. */
export function formAsked({ response_format, structured_outputs }: Schema): Form {
  if (isObject(response_format)) {
    const { type, json_schema } = response_format;
    if (type === 'json_schema') {
      if (!isObject(json_schema) || json_schema.schema === undefined) {
        throw badRequest(
          "response_format of type 'json_schema' needs a 'json_schema' object with a 'schema'.",
        );
      }
      return { kind: 'schema', schema: json_schema.schema };
    }
    if (type === 'json_object') return { kind: 'any-object' };
    if (type !== 'text') {
      throw badRequest(
        `The simulator knows response_format text, json_object and json_schema, got ${JSON.stringify(type)}.`,
      );
    }
  }
  return isObject(structured_outputs) ? structuredForm(structured_outputs) : { kind: 'free' };
}

function structuredForm({ json, json_object, choice, regex }: Schema): Form {
  if (json !== undefined)
    return { kind: 'schema', schema: typeof json === 'string' ? parseObject(json) : json };
  if (json_object === true) return { kind: 'any-object' };
  if (typeof regex === 'string') return { kind: 'regex', pattern: regex };
  if (Array.isArray(choice) && choice.length > 0 && choice.every(option => typeof option === 'string')) {
    return { kind: 'choice', choices: choice };
  }
  throw badRequest('The simulator knows json, json_object, choice and regex of structured_outputs.');
}
