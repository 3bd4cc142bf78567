/** What the routes that ask have in common: a body, the model, messages, how many tokens, which form of answer. */
import { isObject, type JsonObject as Schema } from '../../engine/core/json/pointer.ts';
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
    const content = contentText(message.content, index);
    // calls of an earlier turn are part of what a model is shown
    const calls = Array.isArray(message.tool_calls) ? JSON.stringify(message.tool_calls) : '';
    return { role: message.role, content: content + calls };
  });
}

const TEXTS: ReadonlySet<unknown> = new Set(['text', 'input_text', 'output_text']);
/** What a part is called that a model of texts alone has no place for. */
const MEDIA: readonly [RegExp, string][] = [
  [/image/, 'image'],
  [/audio/, 'audio'],
  [/video/, 'video'],
];

function contentText(content: unknown, index: number): string {
  if (typeof content === 'string') return content;
  if (content === undefined || content === null) return '';
  if (!Array.isArray(content))
    throw badRequest(`messages[${index}].content: expected a string or a list of parts.`);
  return content.map((part: unknown) => (typeof part === 'string' ? part : partText(part, index))).join('\n');
}

function partText(part: unknown, index: number): string {
  if (!isObject(part)) throw badRequest(`messages[${index}].content: expected parts that are objects.`);
  const { type, text } = part;
  if (TEXTS.has(type) && typeof text === 'string') return text;
  const kind = String(type ?? Object.keys(part)[0]).slice(0, 200);
  const [, media] = MEDIA.find(([word]) => word.test(kind)) ?? [];
  throw badRequest(
    media === undefined
      ? `messages[${index}].content: the simulator reads parts of type "text" only, got ${JSON.stringify(kind)}.`
      : `At most 0 ${media}(s) may be provided in one prompt: the simulator reads text only.`,
  );
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

/** How many tokens must be generated, of at most `most`. */
export function leastTokens({ min_tokens: least }: Schema, most: number): number {
  if (least === undefined || least === null) return 0;
  if (!Number.isInteger(least) || (least as number) < 0)
    throw badRequest(`min_tokens must be greater than or equal to 0, got ${JSON.stringify(least)}.`);
  if ((least as number) > most)
    throw badRequest(`min_tokens must be less than or equal to max_tokens=${most}, got ${least}.`);
  return least as number;
}

/** Of a stream: whether its usage comes at the end, and whether each event has what it is so far. */
export function usageWanted({ stream_options: options }: Schema): { atEnd: boolean; inEach: boolean } {
  const atEnd = isObject(options) && options.include_usage === true;
  return { atEnd, inEach: atEnd && options.continuous_usage_stats === true };
}

/** The form that an answer must have. */
export type Form =
  | { kind: 'free' }
  | { kind: 'any-object' }
  | { kind: 'schema'; schema: unknown }
  | { kind: 'choice'; choices: string[] }
  | { kind: 'regex'; pattern: string };

/** response_format wins over structured_outputs, as in vLLM; the guided_* are those of vLLM up to 0.11. */
export function formAsked(question: Schema): Form {
  const { response_format } = question;
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
  } else if (response_format !== undefined && response_format !== null) {
    throw badRequest(
      `response_format: expected an object with a type, got ${JSON.stringify(response_format)}.`,
    );
  }
  return structuredForm(question) ?? { kind: 'free' };
}

/** What says how an answer is structured; the other keys say how it is decoded. */
const KINDS = ['json', 'json_object', 'choice', 'regex', 'grammar', 'structural_tag'] as const;

function structuredForm({ structured_outputs, guided_json, guided_choice, guided_regex }: Schema) {
  const guided = { json: guided_json, choice: guided_choice, regex: guided_regex };
  if (structured_outputs === undefined || structured_outputs === null) return formOf('guided_*', guided);
  if (!isObject(structured_outputs))
    throw badRequest(`structured_outputs: expected an object, got ${JSON.stringify(structured_outputs)}.`);
  const form = formOf('structured_outputs', structured_outputs);
  if (form === undefined)
    throw badRequest(`structured_outputs: expected one of ${KINDS.join(', ')}, found none.`);
  return form;
}

/** undefined where no kind is asked for. */
function formOf(name: string, asked: Schema): Form | undefined {
  const said = KINDS.filter(kind => asked[kind] !== undefined && asked[kind] !== null);
  const [kind] = said;
  if (kind === undefined) return undefined;
  if (said.length > 1) throw badRequest(`${name}: expected one constraint, found ${said.join(' and ')}.`);
  const { json, choice, regex } = asked;
  if (asked.whitespace_pattern || asked.disable_additional_properties)
    throw badRequest(`${name}: the simulator decides on white space and further properties by itself.`);
  if (kind === 'json') return { kind: 'schema', schema: typeof json === 'string' ? parseObject(json) : json };
  if (kind === 'json_object' && asked.json_object === true) return { kind: 'any-object' };
  if (kind === 'regex' && typeof regex === 'string') return { kind: 'regex', pattern: regex };
  const isChoice = Array.isArray(choice) && choice.length > 0;
  if (isChoice && choice.every(option => typeof option === 'string'))
    return { kind: 'choice', choices: choice };
  throw badRequest(`The simulator knows json, json_object, choice and regex of ${name}, got ${kind}.`);
}
