/**
 * The fields of a request that vLLM knows, and what the simulator does with each: it is heard (an answer has what it asks
 * for), it draws (another value is another request, and so another answer), or it is refused with a 400, since an answer
 * that leaves it out would look like one that has it. Names that vLLM does not know are passed over, as vLLM does.
 */
import type { JsonObject as Schema } from '../../engine/core/json/pointer.ts';
import { badRequest } from './refusal.ts';

/** What is wrong with the value of a field, or undefined. null is as good as no field, as in vLLM. */
type Check = (value: unknown, question: Schema) => string | undefined;

/** Another file reads it, and says what is wrong with it. */
const heard: Check = () => undefined;

const found = (value: unknown): string => (JSON.stringify(value) ?? 'undefined').slice(0, 200);

const number =
  (what: string, fits: (value: number) => boolean): Check =>
  value =>
    typeof value === 'number' && fits(value) ? undefined : `must be ${what}, got ${found(value)}.`;
const whole = (what: string, fits: (value: number) => boolean): Check =>
  number(what, value => Number.isInteger(value) && fits(value));
const flag: Check = value =>
  typeof value === 'boolean' ? undefined : `must be true or false, got ${found(value)}.`;

/** Nothing but these values, which ask for nothing; written as JSON. */
const only =
  (reason: string, ...nothing: string[]): Check =>
  value =>
    nothing.includes(JSON.stringify(value)) ? undefined : reason;
const without = (what: string, ...nothing: string[]): Check =>
  only(`is not supported by the simulator: it ${what}.`, ...nothing);

const penalty = number('in [-2, 2]', value => Math.abs(value) <= 2);
const TOOLS = 'calls `tools`, as `tool_choice` says, and not what older clients call functions';
const FEW_STOPS = 1_000;

/** Of chats, completions and embeddings. */
const COMMON: readonly [string, Check][] = [
  ['model', heard],
  ['user', heard],
  ['request_id', heard],
  ['session_id', heard],
  // without an image, sound or video there is nothing that they change
  ['mm_processor_kwargs', heard],
  ['media_io_kwargs', heard],
  ['priority', only('is refused: priority scheduling is not enabled on this server.', '0')],
  ['cache_salt', without('has one prefix cache for all')],
  ['truncate_prompt_tokens', without('cuts no prompt')],
  ['prompt_embeds', without('reads texts')],
];

/** Of chats and completions. */
const SAMPLED: readonly [string, Check][] = [
  ...COMMON,
  ['temperature', number('non-negative', value => value >= 0)],
  ['top_p', number('in (0, 1]', value => value > 0 && value <= 1)],
  ['top_k', whole('-1 or 0 (off), or at least 1', value => value >= -1)],
  ['min_p', number('in [0, 1]', value => value >= 0 && value <= 1)],
  ['presence_penalty', penalty],
  ['frequency_penalty', penalty],
  ['repetition_penalty', number('greater than zero', value => value > 0)],
  // it weighs the beams of a beam search, and there is none
  ['length_penalty', number('a number', () => true)],
  ['seed', whole('an integer', () => true)],
  ['max_tokens', heard],
  ['min_tokens', heard],
  ['ignore_eos', flag],
  ['stop', stops],
  ['stop_token_ids', tokenIdsOf],
  ['include_stop_str_in_output', flag],
  // no answer has special tokens
  ['skip_special_tokens', flag],
  ['spaces_between_special_tokens', flag],
  ['stream', flag],
  ['stream_options', streamOptions],
  ['response_format', heard],
  ['structured_outputs', heard],
  ['guided_json', heard],
  ['guided_choice', heard],
  ['guided_regex', heard],
  // how a server decodes, not what
  ['guided_decoding_backend', heard],
  ['guided_grammar', without('decodes by no grammar')],
  ['grammar', without('decodes by no grammar')],
  ['guided_whitespace_pattern', without('decides on white space by itself')],
  ['n', only('must be 1: the simulator gives one answer to a request.', '1')],
  ['best_of', without('gives one answer', '1')],
  ['use_beam_search', without('searches no beams', 'false')],
  ['logit_bias', without('has no vocabulary whose tokens could be weighed', '{}')],
  ['allowed_token_ids', without('has no vocabulary to choose from')],
  ['bad_words', without('has no vocabulary to choose from', '[]')],
  ['repetition_detection', without('does not look for repetitions')],
  ['thinking_token_budget', only('is refused: this server has no reasoning parser.')],
  ['prompt_logprobs', without('gives no logprobs of a prompt')],
  ['logprob_token_ids', without('has no vocabulary to choose from')],
  ['return_tokens_as_token_ids', without('gives texts', 'false')],
  ['return_token_ids', without('gives texts', 'false')],
  ['return_prompt_text', without('gives answers alone', 'false')],
  ['include_metrics', without('tells them at /metrics', 'false')],
  ['kv_transfer_params', without('is one server')],
  ['vllm_xargs', without('has no plugins', '{}')],
];

const TEMPLATE = 'writes its prompts without a template';

const CHAT: ReadonlyMap<string, Check> = new Map([
  ...SAMPLED,
  ['messages', heard],
  ['max_completion_tokens', heard],
  ['logprobs', flag],
  ['top_logprobs', topLogprobs],
  // with tools in it a question is chat-tools.ts's
  ['tools', only('must be a list of functions: {"type": "function", "function": {"name": …}}.', '[]')],
  ['tool_choice', only('needs `tools`, a list of functions, to choose from.', '"none"')],
  ['functions', without(TOOLS, '[]')],
  ['function_call', without(TOOLS, '"none"')],
  ['parallel_tool_calls', flag],
  ['modalities', without('answers with text', '["text"]')],
  ['audio', without('answers with text')],
  // a template that knows none of them, of a model that does not reason
  ['chat_template_kwargs', heard],
  ['reasoning_effort', heard],
  ['include_reasoning', flag],
  ['chat_template', only('is refused: --trust-request-chat-template is not set.')],
  ['documents', without(TEMPLATE, '[]')],
  ['add_generation_prompt', without(TEMPLATE, 'true')],
  ['continue_final_message', without('continues no message', 'false')],
  ['add_special_tokens', without(TEMPLATE, 'false')],
  ['echo', without('says no message again', 'false')],
]);

const COMPLETION: ReadonlyMap<string, Check> = new Map([
  ...SAMPLED,
  ['prompt', heard],
  ['logprobs', completionLogprobs],
  ['echo', flag],
  ['suffix', only('is not currently supported.')],
  ['add_special_tokens', without('counts no special tokens of a text', 'true')],
]);

const EMBEDDING: ReadonlyMap<string, Check> = new Map([
  ...COMMON,
  ['input', heard],
  ['dimensions', heard],
  ['encoding_format', heard],
  ['messages', without('embeds texts: `input`')],
  ['add_special_tokens', without('counts no special tokens of a text', 'true')],
  ['normalize', without('gives vectors of length 1', 'true')],
  ['use_activation', without('gives vectors of length 1', 'true')],
  ['embed_dtype', without('gives 32 bits', '"float32"')],
  ['endianness', without('gives the order of this machine', '"native"')],
]);

/** Of scores, ranks, classes and pooled vectors. */
const POOLING: ReadonlyMap<string, Check> = new Map([
  ...COMMON,
  ['dimensions', without('gives vectors of one length')],
  ['encoding_format', without('gives numbers', '"float"')],
  ['add_special_tokens', without('counts no special tokens of a text', 'true')],
  ['use_activation', without('gives no raw scores', 'true')],
]);

export const FIELDS = { chat: CHAT, completion: COMPLETION, embedding: EMBEDDING, pooling: POOLING };

/** @throws Refusal at the first field that cannot be heard; `byPriority`: a priority can be */
export function checkFields(question: Schema, kind: keyof typeof FIELDS, byPriority = false): void {
  for (const name of Object.keys(question)) {
    const value = question[name];
    if (value === null) continue;
    const check = byPriority && name === 'priority' ? anyPriority : FIELDS[kind].get(name);
    const wrong = check?.(value, question);
    if (wrong !== undefined) throw badRequest(`${name} ${wrong}`);
  }
}

const anyPriority = whole('an integer', Number.isSafeInteger);

function stops(value: unknown): string | undefined {
  const texts: unknown[] = Array.isArray(value) ? value : [value];
  if (texts.length > FEW_STOPS) return `must have at most ${FEW_STOPS} texts, got ${texts.length}.`;
  if (texts.every(text => typeof text === 'string' && text !== '')) return undefined;
  return `must be a text or a list of texts, and cannot contain an empty string, got ${found(value)}.`;
}

function tokenIdsOf(value: unknown): string | undefined {
  if (Array.isArray(value) && value.length <= FEW_STOPS && value.every(Number.isInteger)) return undefined;
  return `must be a list of at most ${FEW_STOPS} integers, got ${found(value)}.`;
}

function streamOptions(value: unknown, { stream }: Schema): string | undefined {
  if (typeof value !== 'object' || Array.isArray(value)) return `must be an object, got ${found(value)}.`;
  return stream === true || Object.keys(value as object).length === 0
    ? undefined
    : 'can only be defined when `stream=True`.';
}

/** vLLM's --max-logprobs. */
const MOST_LOGPROBS = 20;

function topLogprobs(value: unknown, { logprobs }: Schema): string | undefined {
  if (value !== 0 && logprobs !== true) return 'needs `logprobs`, which must be set to true.';
  return completionLogprobs(value);
}

function completionLogprobs(value: unknown): string | undefined {
  if (!Number.isInteger(value) || (value as number) < 0)
    return `must be a positive value, got ${found(value)}.`;
  return (value as number) <= MOST_LOGPROBS
    ? undefined
    : `is greater than the max allowed: ${MOST_LOGPROBS}, got ${found(value)}.`;
}
