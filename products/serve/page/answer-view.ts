/** What a line of a batch says, for people: the answer as text, what it cost, what was changed in it. */
import { answersIn, markedRepairs } from '../../../engine/answers/answers-of-line.ts';
import { changesOf } from '../../../engine/audit/history.ts';
import { finishIn } from '../../../engine/core/item/dialects.ts';
import { failureOf } from '../../../engine/core/item/item.ts';
import { answerText } from '../../../engine/core/item/response.ts';
import { cut, number } from '../../../engine/core/item/wording.ts';
import { isObject, type JsonObject } from '../../../engine/core/json/pointer.ts';
import { objectIn } from '../http-body.ts';
import type { LineAt } from './file-part.ts';

export interface Result {
  custom_id: string;
  /** `HTTP 200`, or the code of an error */
  status: string;
  isGood: boolean;
  /** the model, tokens, why it ended */
  facts: string[];
  /** one of each choice */
  answers: string[];
  /** as fw explain says them; empty where the answer is as the model said it */
  changes: string[];
}

/** Characters of an answer that a page has. */
const LONGEST = 20_000;
const MOST_CHOICES = 8;
const MOST_CHANGES = 200;

/** Any line: what it cannot read it shows as it is. */
export function resultOf({ text, length }: LineAt): Result {
  const nothing = { custom_id: '', status: '', isGood: true, facts: [], changes: [] };
  if (text === null)
    return { ...nothing, answers: [`This line has ${number(length)} bytes. The file has all of it.`] };
  const line = objectIn(text);
  if (line === null) return { ...nothing, answers: [shortened(text)] };
  const { custom_id, id, response, error } = line;
  const { status_code, body } = isObject(response) ? response : {};
  const failure = failureOf(line);
  const name = typeof custom_id === 'string' ? custom_id : typeof id === 'string' ? id : '';
  const status = typeof status_code === 'number' ? `HTTP ${status_code}` : '';
  return {
    custom_id: cut(name, 300),
    status: isObject(error) ? wordOf(error.code) || status : status,
    isGood: failure === undefined,
    facts: isObject(body) ? factsOf(body) : [],
    answers: failure === undefined ? answersOf(line, body) : [shortened(failure.message || text)],
    changes: changesIn(line),
  };
}

const wordOf = (value: unknown): string => (typeof value === 'string' ? value : '');

function factsOf(body: JsonObject): string[] {
  const { model, usage } = body;
  const facts = [cut(wordOf(model), 100)];
  if (isObject(usage)) {
    const asked = usage.prompt_tokens ?? usage.input_tokens;
    const said = usage.completion_tokens ?? usage.output_tokens;
    if (Number.isInteger(asked)) facts.push(`${number(asked as number)} tokens in`);
    if (Number.isInteger(said)) facts.push(`${number(said as number)} out`);
  }
  const finish = cut(finishIn(body) ?? '', 50);
  return [...facts, finish && `ended by ${finish}`].filter(fact => fact !== '');
}

/** Texts of chat, completions, responses and messages, lengths of embeddings; anything else as JSON. */
function answersOf(line: JsonObject, body: unknown): string[] {
  const { choices, data } = isObject(body) ? body : {};
  if (Array.isArray(choices) && choices.length > 0)
    return choices.slice(0, MOST_CHOICES).map(choice => shortened(textOf(choice)));
  if (Array.isArray(data) && data.length > 0)
    return data.slice(0, MOST_CHOICES).map(one => shortened(vectorOf(one)));
  const said = answerText(body);
  if (typeof said === 'string' && said !== '') return [shortened(said)];
  return [shortened(jsonOf(body ?? line))];
}

function textOf(choice: unknown): string {
  if (!isObject(choice)) return jsonOf(choice);
  if (typeof choice.text === 'string') return choice.text;
  const { content, refusal, tool_calls } = isObject(choice.message) ? choice.message : {};
  if (typeof content === 'string' && content !== '') return content;
  if (typeof refusal === 'string') return refusal;
  return jsonOf(tool_calls ?? choice);
}

function vectorOf(one: unknown): string {
  const { embedding } = isObject(one) ? one : {};
  if (!Array.isArray(embedding)) return jsonOf(one);
  return `${number(embedding.length)} numbers: ${embedding.slice(0, 8).map(String).join(', ')}, …`;
}

/** A value that nests too deep to be written has no text. */
function jsonOf(value: unknown): string {
  try {
    return JSON.stringify(value, null, 2) ?? '';
  } catch {
    return 'It nests too deep to be shown. The file has it.';
  }
}

function shortened(text: string): string {
  if (text.length <= LONGEST) return text;
  return `${text.slice(0, LONGEST)}\n… and ${number(text.length - LONGEST)} more characters, which the file has`;
}

/** Lines of requests are never changed; items of other pipelines may be, and say so themselves. */
function changesIn(line: JsonObject): string[] {
  const all = [...markedRepairs(line), ...answersIn(line).flatMap(({ repairs }) => repairs)];
  const words = changesOf(all.slice(0, MOST_CHANGES), { indent: '' });
  return all.length > MOST_CHANGES ? [...words, `… and ${number(all.length - MOST_CHANGES)} more`] : words;
}
