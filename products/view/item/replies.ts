/** What a server answered to a raw request: the texts of chat and completions, numbers of embeddings; anything else as JSON. */
import { answersIn } from '../../../engine/answers/answers-of-line.ts';
import { answerText } from '../../../engine/core/item/response.ts';
import { counted, cut, number } from '../../../engine/core/item/wording.ts';
import { isObject, type JsonObject, join } from '../../../engine/core/json/pointer.ts';
import { type Html, html, joined, NONE } from '../../kit/html.ts';
import { contentOf, reasoningOf } from './messages.ts';
import { valueTree } from './value-tree.ts';
import { facts, folded, jsonText, type Writer } from './writer.ts';

const isSaid = (summary: unknown): boolean => Array.isArray(summary) && summary.length > 0;

const MOST_CHOICES = 32;
/** An answer that is longer is not looked through for values. */
const LONGEST_JSON = 256 * 1024;

/** `at`: JSON Pointer of the body in its line. */
export function replyParts(body: unknown, at: string, writer: Writer): Html {
  if (!isObject(body)) return writer.block(typeof body === 'string' ? body : jsonText(body));
  const { choices, data, output, content, model, usage } = body;
  const named = typeof model === 'string' ? html`model ${writer.text(model, 200)}` : null;
  const head = facts([named, ...usageFacts(usage)]);
  return joined([head, answerParts({ choices, data, output: output ?? content }, body, at, writer)]);
}

function answerParts(
  { choices, data, output }: { choices: unknown; data: unknown; output: unknown },
  body: JsonObject,
  at: string,
  writer: Writer,
): Html {
  const most = { most: MOST_CHOICES, what: 'answer' };
  if (Array.isArray(choices) && choices.length > 0) {
    const single = choices.length === 1 ? jsonAnswer(answerText(body)) : undefined;
    return joined([
      ...writer.list(
        choices,
        (choice, nth) => choiceParts(choice, choices.length > 1 ? nth + 1 : null, writer),
        most,
      ),
      single === undefined
        ? NONE
        : html`<h3>Its values</h3>${valueTree(single, { at: join(at, 'choices'), columns: 'out.' }, writer)}`,
    ]);
  }
  if (Array.isArray(data) && data.length > 0)
    return joined(writer.list(data, one => writer.block(vectorText(one)), most));
  if (Array.isArray(output) && output.length > 0) return outputParts(output, writer);
  return writer.block(jsonText(body));
}

/** The object that an answer is, where it is one. */
export function jsonAnswer(text: unknown): JsonObject | undefined {
  if (typeof text !== 'string' || text.length > LONGEST_JSON || !text.trimStart().startsWith('{'))
    return undefined;
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function choiceParts(choice: unknown, nth: number | null, writer: Writer): Html {
  if (!isObject(choice)) return writer.block(jsonText(choice));
  const { message, text, finish_reason: finish, reasoning } = choice;
  const { role: _role, ...said } = isObject(message) ? message : { role: '', content: text };
  const ended =
    typeof finish === 'string' ? html`ended by ${writer.value('finish', cut(finish, 100))}` : null;
  return html`<div class="message assistant"><p class="role">${nth === null ? 'answer' : `answer ${nth}`}</p>${facts([ended])}${reasoningOf(reasoning, writer)}${contentOf(said, writer)}</div>`;
}

/** The items of an answer of /v1/responses, the blocks of one of /v1/messages. */
function outputParts(output: readonly unknown[], writer: Writer): Html {
  return joined(
    writer.list(
      output,
      part => {
        if (!isObject(part)) return writer.block(jsonText(part));
        const { type, content, summary } = part;
        if (type === 'reasoning') return reasoningOf(isSaid(summary) ? summary : content, writer);
        if (type === 'thinking') return reasoningOf(part.thinking, writer);
        if (type === 'text') return contentOf({ content: [part] }, writer);
        if (type !== 'message') return writer.block(jsonText(part));
        return html`<div class="message assistant"><p class="role">answer</p>${contentOf({ content }, writer)}</div>`;
      },
      { most: MOST_CHOICES, what: 'part' },
    ),
  );
}

function vectorText(one: unknown): string {
  const { embedding } = isObject(one) ? one : {};
  if (!Array.isArray(embedding)) return jsonText(one);
  return `${number(embedding.length)} numbers: ${embedding.slice(0, 8).map(String).join(', ')}, …`;
}

/** `812 tokens in, 148 out`, by the names of OpenAI or by ours. */
export function usageFacts(usage: unknown): string[] {
  if (!isObject(usage)) return [];
  const { prompt_tokens, completion_tokens, input_tokens, output_tokens, prompt, completion } = usage;
  const one = (value: unknown, words: string): string[] =>
    typeof value === 'number' ? [`${counted(value, 'token')} ${words}`] : [];
  return [
    ...one(prompt_tokens ?? input_tokens ?? prompt, 'in'),
    ...one(completion_tokens ?? output_tokens ?? completion, 'out'),
    ...one(usage.cached, 'cached'),
  ];
}

/** The tokens of all answers of an item; null where nobody counted any. */
export function tokensIn(line: JsonObject): { prompt: number; completion: number } | null {
  const sum = { prompt: 0, completion: 0 };
  for (const { usage } of answersIn(line)) {
    sum.prompt += usage?.prompt ?? 0;
    sum.completion += usage?.completion ?? 0;
  }
  return sum.prompt + sum.completion === 0 ? null : sum;
}

/** JSON that is looked at when it is wanted. */
export const foldedJson = (title: string, value: unknown, writer: Writer): Html =>
  folded(title, writer.block(jsonText(value)));
