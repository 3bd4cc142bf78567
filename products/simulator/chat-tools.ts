/**
 * A chat that has tools, or asks a model to reason: its answer comes in parts, which are written as vLLM writes a chat with
 * `--enable-auto-tool-choice` and a reasoning parser. Every other chat is chat.ts's.
 */
import { isObject, type JsonObject as Schema } from '../../engine/core/json/pointer.ts';
import { type ChatSettings, idOf, messagesOf, priorityOf, type Reply, replyTo, type Wire } from './chat.ts';
import { type Asked, type Part, partsScript, saidInParts, type Tool } from './parts.ts';
import { modelAsked, parseObject, usageWanted } from './question.ts';
import { badRequest } from './refusal.ts';
import { checkFields } from './request-fields.ts';

/** `request` is the hash of `body`. @throws Refusal */
export function chatOf(body: string, request: Buffer, settings: ChatSettings): Reply {
  // most chats have neither, and are not to be parsed twice
  if (!body.includes('"tools"') && !body.includes('"reasoning_effort"'))
    return replyTo(body, request, settings);
  const question = parseObject(body);
  const { tools, tool_choice: choice, reasoning_effort: effort, ...rest } = question;
  const reasons = typeof effort === 'string' && effort !== 'none';
  const hasTools = Array.isArray(tools) && tools.length > 0;
  if (!hasTools && !reasons) return replyTo(body, request, settings);
  const model = modelAsked(question, settings.model);
  checkFields(hasTools ? rest : question, 'chat', settings.byPriority);
  if (question.logprobs === true)
    throw badRequest('logprobs: the simulator gives none of an answer with tools or reasoning.');
  const messages = messagesOf(question.messages);
  const asked: Asked = {
    question: rest,
    messages,
    tools: hasTools ? tools.map(toolIn) : [],
    choice: choiceOf(choice),
    isResult: messages.at(-1)?.role === 'tool',
    reasons,
  };
  const said = saidInParts(asked, request, settings);
  const { atEnd: includeUsage, inEach: usageInEach } = usageWanted(question);
  const ending = { ...said, includeUsage, usageInEach, priority: priorityOf(question) };
  const wire = wireOf(said.parts, { isNamed: isObject(choice), isTool: said.isTool });
  return { kind: 'chat', id: `chatcmpl-${idOf(question, request)}`, model, ...ending, wire };
}

function toolIn(tool: unknown): Tool {
  const made = isObject(tool) && tool.type === 'function' ? tool.function : undefined;
  if (isObject(made) && typeof made.name === 'string') return { name: made.name, schema: made.parameters };
  throw badRequest('tools: Input should be {"type": "function", "function": {"name": …}}.');
}

function choiceOf(choice: unknown): Asked['choice'] {
  if (choice === undefined || choice === null || choice === 'auto') return 'auto';
  if (choice === 'none') return 'none';
  if (choice === 'required') return 'must';
  if (isObject(choice) && isObject(choice.function) && typeof choice.function.name === 'string')
    return { name: choice.function.name };
  throw badRequest('tool_choice: Input should be "none", "auto", "required" or a named function.');
}

/** vLLM says `stop` of a call that was asked for by its name. */
function wireOf(parts: readonly Part[], { isNamed, isTool }: { isNamed: boolean; isTool: boolean }): Wire {
  const finishOf = ({ finish }: Reply): string => (isTool && !isNamed ? 'tool_calls' : finish);
  const textOf = (kind: Part['kind']): string | null => parts.find(part => part.kind === kind)?.text ?? null;
  const about = ({ id, model }: Reply, object: string, created: number): Schema => ({
    ...{ id, object, created, model, system_fingerprint: 'fw-simulated' },
  });
  return {
    whole(reply, now) {
      const calls = parts.filter(({ kind }) => kind === 'tool');
      const message = {
        role: 'assistant',
        content: textOf('text') ?? (isTool ? null : ''),
        ...{ refusal: null, reasoning: textOf('reasoning') },
        tool_calls: calls.map(part => ({ ...callOf(reply, part), function: madeOf(part, part.text) })),
      };
      const choice = { index: 0, message, logprobs: null, finish_reason: finishOf(reply), stop_reason: null };
      return JSON.stringify({
        ...about(reply, 'chat.completion', now),
        choices: [choice],
        usage: usageOf(reply, 1),
      });
    },
    script(reply, now) {
      const head = about(reply, 'chat.completion.chunk', now);
      let written = 0;
      const event = (delta: Schema, finish: string | null = null): string => {
        const choices = [{ index: 0, delta, logprobs: null, finish_reason: finish }];
        const usage = reply.usageInEach && { usage: usageOf(reply, finish === null ? 0 : 1, written) };
        return `data: ${JSON.stringify({ ...head, choices, ...usage })}\n\n`;
      };
      return partsScript(
        parts,
        {
          begin: part =>
            part.kind === 'tool'
              ? event({ tool_calls: [{ ...callOf(reply, part), index: 0, function: madeOf(part, '') }] })
              : '',
          piece(part, _index, text) {
            written += 1;
            if (part.kind === 'tool')
              return event({ tool_calls: [{ index: 0, function: { arguments: text } }] });
            return event(part.kind === 'text' ? { content: text } : { reasoning: text });
          },
          end: () => '',
        },
        () => event({ role: 'assistant', content: '' }),
        () => {
          const used = reply.includeUsage && { ...head, choices: [], usage: usageOf(reply, 1) };
          return `${event({}, finishOf(reply))}${used ? `data: ${JSON.stringify(used)}\n\n` : ''}data: [DONE]\n\n`;
        },
      );
    },
  };
}

const callOf = ({ id }: Reply, { name }: Part): Schema => ({
  id: `chatcmpl-tool-${id.slice(-16)}-${name}`,
  type: 'function',
});

const madeOf = ({ name }: Part, text: string): Schema => ({ name, arguments: text });

/** `whole`: 1 for all of it, else as many tokens as were `written`. */
function usageOf({ usage: { prompt, completion, cached } }: Reply, whole: number, written = 0): Schema {
  const completion_tokens = whole === 1 ? completion : Math.min(written, completion);
  return {
    ...{ prompt_tokens: prompt, total_tokens: prompt + completion_tokens, completion_tokens },
    prompt_tokens_details: { cached_tokens: cached },
  };
}
