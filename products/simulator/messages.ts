/** POST /v1/messages and /v1/messages/count_tokens without the wire, Anthropic's API as vLLM serves it. */
import { isObject, type JsonObject as Schema } from '../../engine/core/json/pointer.ts';
import { type ChatSettings, NOTHING_SAID, type Reply, type Wire } from './chat.ts';
import { type Asked, eventOf, type Part, partsScript, saidInParts, type Tool } from './parts.ts';
import { messagesOf, modelAsked, parseObject } from './question.ts';
import { badRequest } from './refusal.ts';
import { checkFields } from './request-fields.ts';
import { type Message, promptTokensOf, tokensOf } from './tokens.ts';

/** Fields of a message that mean the same in a chat. */
const SAME = ['temperature', 'top_p', 'top_k', 'stream', 'max_tokens', 'chat_template_kwargs'] as const;

/** `request` is the hash of `body`. @throws Refusal */
export function messageOf(body: string, request: Buffer, settings: ChatSettings): Reply {
  const question = parseObject(body);
  const model = modelAsked(question, settings.model);
  const most = question.max_tokens;
  if (!Number.isInteger(most) || (most as number) <= 0)
    throw badRequest(`max_tokens: Field required: expected a positive number, got ${JSON.stringify(most)}.`);
  const asked = askedIn(question);
  checkFields(asked.question, 'chat');
  const said = saidInParts(asked, request, settings);
  const reply = {
    kind: 'message' as const,
    id: `chatcmpl-${request.toString('hex', 0, 16)}`,
    model,
    ...said,
  };
  return { ...reply, wire: wireOf(said.parts, said.isTool) };
}

/** @throws Refusal */
export function countOf(body: string, request: Buffer, settings: ChatSettings): Reply {
  const question = parseObject(body);
  const model = modelAsked(question, settings.model);
  const { messages, tools } = askedIn(question);
  const input_tokens = promptTokensOf(messages) + tokensOf(tools.map(tool => JSON.stringify(tool)).join(''));
  const counted = { input_tokens, context_management: { original_input_tokens: input_tokens } };
  return {
    ...{ ...NOTHING_SAID, kind: 'count', id: `count-${request.toString('hex', 0, 16)}`, model },
    ...{ prompts: [messages], text: '', usage: { prompt: input_tokens, completion: 0, cached: 0 } },
    wire: {
      whole: () => JSON.stringify(counted),
      script: () => ({ upTo: () => '', rest: () => JSON.stringify(counted) }),
    },
  };
}

function askedIn(question: Schema): Asked {
  const { messages: turns, tools, tool_choice: choice, stop_sequences, thinking, output_config } = question;
  const messages = blockMessages(question);
  const chat: Schema = {};
  for (const name of SAME) if (question[name] !== undefined) chat[name] = question[name];
  if (stop_sequences !== undefined && stop_sequences !== null) chat.stop = stop_sequences;
  if (isObject(output_config) && isObject(output_config.format))
    chat.response_format = { type: 'json_schema', json_schema: { schema: output_config.format.schema } };
  const { type, name } = isObject(choice) ? choice : {};
  const last = Array.isArray(turns) ? turns.at(-1) : undefined;
  const blocks = isObject(last) && Array.isArray(last.content) ? last.content : [];
  return {
    question: chat,
    messages,
    tools: (Array.isArray(tools) ? tools : []).map(toolIn),
    choice:
      type === 'tool' ? { name: String(name) } : type === 'any' ? 'must' : type === 'none' ? 'none' : 'auto',
    isResult: blocks.some(block => isObject(block) && block.type === 'tool_result'),
    reasons: isObject(thinking) && thinking.type === 'enabled',
  };
}

function toolIn(tool: unknown): Tool {
  if (isObject(tool) && typeof tool.name === 'string') return { name: tool.name, schema: tool.input_schema };
  throw badRequest('tools: expected objects with a name and an input_schema.');
}

/** What a model is shown, of the body of a message. @throws Refusal */
export function blockMessages({ system, messages }: Schema): Message[] {
  const turns = messagesIn(messages);
  if (system === undefined || system === null) return turns;
  return [...messagesOf([{ role: 'system', content: system }]), ...turns];
}

function messagesIn(turns: unknown): Message[] {
  if (!Array.isArray(turns)) return messagesOf(turns);
  return messagesOf(
    turns.map(turn =>
      isObject(turn) && Array.isArray(turn.content) ? { ...turn, content: turn.content.map(blockIn) } : turn,
    ),
  );
}

/** What was called, and what came of it, is part of what a model is shown. */
function blockIn(block: unknown): unknown {
  if (!isObject(block)) return block;
  const { type, name, input, content } = block;
  if (type === 'tool_use') return { type: 'text', text: `${name}(${JSON.stringify(input)})` };
  if (type === 'tool_result')
    return { type: 'text', text: typeof content === 'string' ? content : JSON.stringify(content ?? '') };
  return type === 'thinking' || type === 'redacted_thinking' ? { type: 'text', text: '' } : block;
}

function blockOf({ id }: Reply, { kind, text, name }: Part, index: number): Schema {
  if (kind === 'text') return { type: 'text', text };
  if (kind === 'reasoning') return { type: 'thinking', thinking: text, signature: signatureOf(id) };
  // a call that was cut off has arguments that nobody can read: vLLM fails there, and this says so by an empty one
  return { type: 'tool_use', id: `toolu_${id.slice(-24)}_${index}`, name, input: argumentsIn(text) };
}

const signatureOf = (id: string): string => Buffer.from(id).toString('hex').slice(0, 32);

function argumentsIn(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return {};
  }
}

function wireOf(parts: readonly Part[], isTool: boolean): Wire {
  const stopOf = ({ finish, stopReason }: Reply): Schema => ({
    stop_reason:
      finish === 'length'
        ? 'max_tokens'
        : isTool
          ? 'tool_use'
          : stopReason === null
            ? 'end_turn'
            : 'stop_sequence',
    stop_sequence: typeof stopReason === 'string' ? stopReason : null,
  });
  const usageOf = ({ prompt, completion }: Reply['usage']): Schema => ({
    input_tokens: prompt,
    output_tokens: completion,
  });
  const head = ({ id, model }: Reply): Schema => ({ id, type: 'message', role: 'assistant', model });
  return {
    whole: reply =>
      JSON.stringify({
        ...head(reply),
        content: parts.map((part, index) => blockOf(reply, part, index)),
        ...stopOf(reply),
        usage: usageOf(reply.usage),
      }),
    script(reply) {
      const deltas = {
        text: (text: string) => ({ type: 'text_delta', text }),
        reasoning: (thinking: string) => ({ type: 'thinking_delta', thinking }),
        tool: (partial_json: string) => ({ type: 'input_json_delta', partial_json }),
      };
      const delta = (index: number, said: object): string =>
        eventOf({ type: 'content_block_delta', index, delta: said });
      const event = (type: string, more: object = {}): string => eventOf({ type, ...more });
      return partsScript(
        parts,
        {
          begin: (part, index) =>
            event('content_block_start', {
              index,
              content_block: {
                ...blockOf(reply, { ...part, text: '' }, index),
                ...(part.kind === 'reasoning' && { signature: '' }),
              },
            }),
          piece: (part, index, text) => delta(index, deltas[part.kind](text)),
          end: (part, index) =>
            (part.kind === 'reasoning'
              ? delta(index, { type: 'signature_delta', signature: signatureOf(reply.id) })
              : '') + event('content_block_stop', { index }),
        },
        () =>
          event('message_start', {
            message: {
              ...{ ...head(reply), content: [], stop_reason: null, stop_sequence: null },
              usage: usageOf({ ...reply.usage, completion: 0 }),
            },
          }),
        () =>
          event('message_delta', { delta: stopOf(reply), usage: usageOf(reply.usage) }) +
          event('message_stop'),
      );
    },
  };
}
