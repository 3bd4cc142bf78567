/** POST /v1/responses without the wire, as vLLM serves it: what is asked, and the items and events of the answer. */
import { isObject, type JsonObject as Schema } from '../../engine/core/json/pointer.ts';
import type { ChatSettings, Reply, Wire } from './chat.ts';
import {
  type Asked,
  eventOf,
  type Part,
  type PartEvents,
  partsScript,
  saidInParts,
  type Tool,
} from './parts.ts';
import { messagesOf, modelAsked, parseObject } from './question.ts';
import { badRequest } from './refusal.ts';
import { checkFields } from './request-fields.ts';
import type { Message } from './tokens.ts';

/** Fields of a response that mean the same in a chat. */
const SAME = [
  ...['temperature', 'top_p', 'top_k', 'seed', 'stop', 'ignore_eos', 'repetition_penalty', 'stream', 'user'],
  ...['skip_special_tokens', 'include_stop_str_in_output', 'structured_outputs', 'logit_bias', 'priority'],
  ...['cache_salt', 'vllm_xargs', 'mm_processor_kwargs'],
] as const;
/** What a request may not ask: an answer without it would look like one that has it. */
const REFUSED: Readonly<Record<string, string>> = {
  background: 'the simulator keeps no responses',
  previous_response_id: 'the simulator keeps no responses',
  previous_response: 'the simulator keeps no responses',
  conversation: 'the simulator keeps no responses',
  prompt: 'prompt template is not supported',
  top_logprobs: 'the simulator gives no logprobs of a response',
  enable_response_messages: 'the simulator gives answers alone',
};

/** `request` is the hash of `body`. @throws Refusal */
export function responseOf(body: string, request: Buffer, settings: ChatSettings): Reply {
  const question = parseObject(body);
  const model = modelAsked(question, settings.model);
  for (const [name, why] of Object.entries(REFUSED))
    if (![undefined, null, false, 0].includes(question[name] as null)) throw badRequest(`${name}: ${why}.`);
  if (question.truncation === 'auto') throw badRequest('truncation: the simulator cuts no prompt.');
  const asked = askedIn(question);
  checkFields(asked.question, 'chat', settings.byPriority);
  const said = saidInParts(asked, request, settings);
  const id =
    typeof question.request_id === 'string' ? question.request_id : `resp_${request.toString('hex', 0, 16)}`;
  return { kind: 'response', id, model, ...said, wire: wireOf(question, said.parts) };
}

function askedIn(question: Schema): Asked {
  const { input, text, tools, tool_choice: choice, max_output_tokens: most, reasoning } = question;
  const messages = responseMessages(question);
  const chat: Schema = { max_tokens: most };
  for (const name of SAME) if (question[name] !== undefined) chat[name] = question[name];
  if (isObject(text) && isObject(text.format)) {
    const { type, schema } = text.format;
    chat.response_format = type === 'json_schema' ? { type, json_schema: { schema } } : text.format;
  }
  const isNamed = isObject(choice) && typeof choice.name === 'string';
  const last = Array.isArray(input) ? input.at(-1) : undefined;
  return {
    question: chat,
    messages,
    tools: (Array.isArray(tools) ? tools : []).map(toolIn),
    choice: isNamed
      ? { name: choice.name as string }
      : choice === 'required'
        ? 'must'
        : choice === 'none'
          ? 'none'
          : 'auto',
    isResult: isObject(last) && last.type === 'function_call_output',
    reasons: isObject(reasoning) && typeof reasoning.effort === 'string' && reasoning.effort !== 'none',
  };
}

function toolIn(tool: unknown): Tool {
  if (isObject(tool) && tool.type === 'function' && typeof tool.name === 'string')
    return { name: tool.name, schema: tool.parameters };
  throw badRequest('tools: the simulator calls tools of the type "function", which have a name.');
}

/** What a model is shown, of the body of a response. @throws Refusal */
export function responseMessages({ input, instructions }: Schema): Message[] {
  const messages = messagesIn(input);
  return typeof instructions === 'string'
    ? [{ role: 'system', content: instructions }, ...messages]
    : messages;
}

function messagesIn(input: unknown): Message[] {
  if (typeof input === 'string') return [{ role: 'user', content: input }];
  if (!Array.isArray(input)) throw badRequest('input: Field required: expected a text or a list of items.');
  return messagesOf(input.map(messageIn));
}

/** What was called, and what came of it, is part of what a model is shown. */
function messageIn(item: unknown): unknown {
  if (!isObject(item)) return item;
  const { type, role, name, arguments: made, output } = item;
  if (type === 'function_call') return { role: 'assistant', content: `${name}(${made})` };
  if (type === 'function_call_output')
    return { role: 'tool', content: typeof output === 'string' ? output : JSON.stringify(output) };
  if (type === 'reasoning') return { role: 'assistant', content: '' };
  return role === 'developer' ? { ...item, role: 'system' } : item;
}

const PREFIXES = { tool: 'fc', reasoning: 'rs', text: 'msg' } as const;
const nameOf = (id: string, { kind }: Part, index: number): string =>
  `${PREFIXES[kind]}_${id.slice(-24)}_${index}`;

function itemOf(response: string, part: Part, index: number, status: string): Schema {
  const { kind, text, name } = part;
  const id = nameOf(response, part, index);
  if (kind === 'tool')
    return { id, type: 'function_call', call_id: `call_${id.slice(3)}`, name, arguments: text, status };
  if (kind === 'reasoning') {
    const content = text === '' ? null : [{ type: 'reasoning_text', text }];
    return { id, type: 'reasoning', summary: [], encrypted_content: null, status: null, content };
  }
  const content = text === '' ? [] : [textPart(text)];
  return { id, type: 'message', role: 'assistant', content, status };
}

const textPart = (text: string): Schema => ({ type: 'output_text', text, annotations: [], logprobs: null });

/** `status`: of one that is not there yet; null where it is whole. */
function bodyOf(
  question: Schema,
  parts: readonly Part[],
  { id, model, finish, usage: { prompt, completion, cached } }: Reply,
  { created_at, status }: { created_at: number; status: string | null },
): Schema {
  const {
    instructions = null,
    metadata = null,
    tools = [],
    tool_choice = 'auto',
    reasoning = null,
  } = question;
  const { text = null, user = null, temperature = 1, top_p = 1, parallel_tool_calls = true } = question;
  const isCut = status === null && finish === 'length';
  const items = parts.map((part, index) =>
    itemOf(id, part, index, isCut && index === parts.length - 1 ? 'incomplete' : 'completed'),
  );
  const usage = {
    ...{ input_tokens: prompt, input_tokens_details: { cached_tokens: cached } },
    ...{ output_tokens: completion, output_tokens_details: { reasoning_tokens: 0 } },
    total_tokens: prompt + completion,
  };
  return {
    ...{ id, created_at, incomplete_details: isCut ? { reason: 'max_output_tokens' } : null },
    ...{ instructions, metadata, model, object: 'response', output: status === null ? items : [] },
    ...{ parallel_tool_calls, temperature, tool_choice, tools, top_p, background: false },
    ...{ max_output_tokens: question.max_output_tokens ?? null, max_tool_calls: null },
    ...{ previous_response_id: null, prompt: null, reasoning, service_tier: 'auto' },
    ...{ status: status ?? (isCut ? 'incomplete' : 'completed'), text, top_logprobs: null },
    ...{ truncation: 'disabled', usage: status === null ? usage : null, user },
    system_fingerprint: 'fw-simulated',
  };
}

type Say = (type: string, more: object) => string;

const NAMES = {
  text: { text: 'output_text', part: 'content_part' },
  reasoning: { text: 'reasoning_text', part: 'reasoning_part' },
  tool: { text: 'function_call_arguments', part: '' },
} as const;

const inside = ({ kind, text }: Part): Schema =>
  kind === 'text' ? textPart(text) : { type: 'reasoning_text', text };

function itemEvents(id: string, event: Say): PartEvents {
  const at = (part: Part, output_index: number): Schema => ({
    ...{ output_index, item_id: nameOf(id, part, output_index) },
    ...(part.kind !== 'tool' && { content_index: 0 }),
    ...(part.kind === 'text' && { logprobs: [] }),
  });
  return {
    begin(part, output_index) {
      const none = { ...part, text: '' };
      const item = itemOf(id, none, output_index, 'in_progress');
      const added = event('response.output_item.added', { output_index, item });
      if (part.kind === 'tool') return added;
      const name = `response.${NAMES[part.kind].part}.added`;
      return added + event(name, { ...at(part, output_index), part: inside(none) });
    },
    piece: (part, index, delta) =>
      event(`response.${NAMES[part.kind].text}.delta`, { ...at(part, index), delta }),
    end(part, output_index) {
      const { kind, text, name } = part;
      const said = kind === 'tool' ? { arguments: text, name } : { text };
      let events = event(`response.${NAMES[kind].text}.done`, { ...at(part, output_index), ...said });
      if (kind !== 'tool')
        events += event(`response.${NAMES[kind].part}.done`, {
          ...at(part, output_index),
          part: inside(part),
        });
      const item = itemOf(id, part, output_index, 'completed');
      return events + event('response.output_item.done', { output_index, item });
    },
  };
}

function wireOf(question: Schema, parts: readonly Part[]): Wire {
  return {
    whole: (reply, now) => JSON.stringify(bodyOf(question, parts, reply, { created_at: now, status: null })),
    script(reply, now) {
      let sequence_number = 0;
      const event: Say = (type, more) => eventOf({ type, sequence_number: sequence_number++, ...more });
      const response = (status: string | null): object => ({
        response: bodyOf(question, parts, reply, { created_at: now, status }),
      });
      return partsScript(
        parts,
        itemEvents(reply.id, event),
        () =>
          event('response.created', response('in_progress')) +
          event('response.in_progress', response('in_progress')),
        // as vLLM: also where it is incomplete
        () => event('response.completed', response(null)),
      );
    },
  };
}
