/** POST /v1/responses without the wire, as vLLM serves it: what is asked, and the items and events of the answer. */
import { isObject, type JsonObject as Schema } from '../../engine/core/json/pointer.ts';
import type { ChatSettings, Reply, Wire } from './chat.ts';
import { type Asked, eventOf, type Part, partsScript, saidInParts, type Tool } from './parts.ts';
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
};

/** `request` is the hash of `body`. @throws Refusal */
export function responseOf(body: string, request: Buffer, settings: ChatSettings): Reply {
  const question = parseObject(body);
  const model = modelAsked(question, settings.model);
  for (const [name, why] of Object.entries(REFUSED))
    if (question[name] !== undefined && question[name] !== null && question[name] !== false)
      throw badRequest(`${name}: ${why}.`);
  const asked = askedIn(question);
  checkFields(asked.question, 'chat', settings.byPriority);
  const said = saidInParts(asked, request, settings);
  const id =
    typeof question.request_id === 'string' ? question.request_id : `resp_${request.toString('hex', 0, 16)}`;
  return { kind: 'response', id, model, ...said, wire: wireOf(question, said.parts) };
}

function askedIn(question: Schema): Asked {
  const {
    input,
    instructions,
    text,
    tools,
    tool_choice: choice,
    max_output_tokens: most,
    reasoning,
  } = question;
  const messages = messagesIn(input);
  if (typeof instructions === 'string') messages.unshift({ role: 'system', content: instructions });
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

const idOf = ({ id }: Reply, index: number, prefix: string): string => `${prefix}_${id.slice(-24)}_${index}`;

/** `isWhole`: it has ended, and was not cut off. */
function itemOf(reply: Reply, part: Part, index: number, status: string): Schema {
  const { kind, text, name } = part;
  if (kind === 'tool')
    return {
      ...{ id: idOf(reply, index, 'fc'), type: 'function_call', call_id: idOf(reply, index, 'call') },
      ...{ name, arguments: text, status },
    };
  if (kind === 'reasoning')
    return {
      ...{
        id: idOf(reply, index, 'rs'),
        type: 'reasoning',
        summary: [],
        encrypted_content: null,
        status: null,
      },
      content: text === '' ? null : [{ type: 'reasoning_text', text }],
    };
  const content = text === '' ? [] : [textPart(text)];
  return { id: idOf(reply, index, 'msg'), type: 'message', role: 'assistant', content, status };
}

const textPart = (text: string): Schema => ({ type: 'output_text', text, annotations: [], logprobs: null });

function wireOf(question: Schema, parts: readonly Part[]): Wire {
  const {
    instructions = null,
    metadata = null,
    tools = [],
    tool_choice = 'auto',
    reasoning = null,
  } = question;
  const { text = null, user = null, temperature = 1, top_p = 1, parallel_tool_calls = true } = question;
  const responseOf = (reply: Reply, created_at: number, status: string | null): Schema => {
    const isCut = reply.finish === 'length';
    const { prompt, completion, cached } = reply.usage;
    const items = parts.map((part, index) =>
      itemOf(reply, part, index, isCut && index === parts.length - 1 ? 'incomplete' : 'completed'),
    );
    return {
      ...{ id: reply.id, created_at },
      incomplete_details: status === null && isCut ? { reason: 'max_output_tokens' } : null,
      ...{
        instructions,
        metadata,
        model: reply.model,
        object: 'response',
        output: status === null ? items : [],
      },
      ...{ parallel_tool_calls, temperature, tool_choice, tools, top_p, background: false },
      ...{ max_output_tokens: question.max_output_tokens ?? null, max_tool_calls: null },
      ...{ previous_response_id: null, prompt: null, reasoning, service_tier: 'auto' },
      ...{
        status: status ?? (isCut ? 'incomplete' : 'completed'),
        text,
        top_logprobs: null,
        truncation: 'disabled',
      },
      usage:
        status !== null
          ? null
          : {
              ...{ input_tokens: prompt, input_tokens_details: { cached_tokens: cached } },
              ...{ output_tokens: completion, output_tokens_details: { reasoning_tokens: 0 } },
              total_tokens: prompt + completion,
            },
      ...{ user, system_fingerprint: 'fw-simulated' },
    };
  };
  return {
    whole: (reply, now) => JSON.stringify(responseOf(reply, now, null)),
    script(reply, now) {
      let sequence_number = 0;
      const event = (type: string, more: object): string =>
        eventOf({ type, sequence_number: sequence_number++, ...more } as { type: string });
      const at = (part: Part, output_index: number): Schema => ({
        output_index,
        item_id: itemOf(reply, part, output_index, '').id,
        ...(part.kind !== 'tool' && { content_index: 0 }),
      });
      const names = { text: 'output_text', reasoning: 'reasoning_text', tool: 'function_call_arguments' };
      const partEvents = { text: 'content_part', reasoning: 'reasoning_part' };
      const inside = ({ kind, text }: Part): Schema =>
        kind === 'text' ? textPart(text) : { type: 'reasoning_text', text };
      return partsScript(
        parts,
        {
          begin(part, output_index) {
            const none = { ...part, text: '' };
            const item = itemOf(reply, none, output_index, 'in_progress');
            const added = event('response.output_item.added', { output_index, item });
            if (part.kind === 'tool') return added;
            return (
              added +
              event(`response.${partEvents[part.kind]}.added`, {
                ...at(part, output_index),
                part: inside(none),
              })
            );
          },
          piece: (part, index, delta) =>
            event(`response.${names[part.kind]}.delta`, {
              ...at(part, index),
              delta,
              ...(part.kind === 'text' && { logprobs: [] }),
            }),
          end(part, output_index) {
            const said =
              part.kind === 'tool' ? { arguments: part.text, name: part.name } : { text: part.text };
            const done = event(`response.${names[part.kind]}.done`, {
              ...at(part, output_index),
              ...said,
              ...(part.kind === 'text' && { logprobs: [] }),
            });
            const ended =
              part.kind === 'tool'
                ? ''
                : event(`response.${partEvents[part.kind]}.done`, {
                    ...at(part, output_index),
                    part: inside(part),
                  });
            const item = itemOf(reply, part, output_index, 'completed');
            return done + ended + event('response.output_item.done', { output_index, item });
          },
        },
        () =>
          event('response.created', { response: responseOf(reply, now, 'in_progress') }) +
          event('response.in_progress', { response: responseOf(reply, now, 'in_progress') }),
        // as vLLM: also where it is incomplete
        () => event('response.completed', { response: responseOf(reply, now, null) }),
      );
    },
  };
}
