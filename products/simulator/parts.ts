/**
 * Answers in parts, of /v1/responses and /v1/messages: reasoning, where it is asked for, then a call of a tool or a text. A
 * tool is called where the request insists on it, and otherwise until the last message is the result of one, so that the
 * loop of an agent ends.
 */
import { isObject, type JsonObject as Schema } from '../../engine/core/json/pointer.ts';
import { type ChatSettings, conversationOf, NOTHING_SAID, type Reply, type Script, say } from './chat.ts';
import { text } from './filler-words.ts';
import { SchemaError } from './node.ts';
import { mostTokens } from './question.ts';
import { PURPOSE, pick } from './random.ts';
import { badRequest } from './refusal.ts';
import { type Message, promptTokensOf, tokensOf, tokenTexts } from './tokens.ts';

export interface Part {
  kind: 'reasoning' | 'text' | 'tool';
  /** of a tool its arguments, as JSON */
  text: string;
  /** of a tool */
  name: string;
}

export interface Tool {
  name: string;
  schema: unknown;
}

/** What a request in parts asks, in the words of a chat. */
export interface Asked {
  /** sampling, form and length, by their names in a chat */
  question: Schema;
  messages: readonly Message[];
  tools: readonly Tool[];
  /** `must`: a tool is called; a name: this one is */
  choice: 'none' | 'auto' | 'must' | { name: string };
  /** the last message is the result of a tool */
  isResult: boolean;
  reasons: boolean;
}

export type Said = Pick<Reply, keyof typeof NOTHING_SAID | 'text' | 'prompts' | 'usage'> & {
  parts: readonly Part[];
  isTool: boolean;
};

const LONGEST_REASONING = 160;

/** `request` is the hash of the body. @throws Refusal */
export function saidInParts(asked: Asked, request: Buffer, settings: ChatSettings): Said {
  const { question, messages, reasons } = asked;
  const prompt = promptTokensOf(messages) + tokensOf(asked.tools.map(tool => JSON.stringify(tool)).join(''));
  const most = mostTokens(question, prompt, settings.maxModelLength);
  const random = settings.draws(request, PURPOSE.reasoning);
  const thought = reasons ? text(random, 20, LONGEST_REASONING).slice(0, 4 * most) : '';
  const parts: Part[] = thought === '' ? [] : [{ kind: 'reasoning', text: thought, name: '' }];
  const left = most - tokensOf(thought);
  const tool = toolOf(asked, random);
  const usage = (completion: number): Reply['usage'] => ({
    prompt,
    completion: tokensOf(thought) + completion,
    cached: 0,
  });
  const about = { prompts: [messages], text: '' };
  if (left <= 0)
    return {
      ...NOTHING_SAID,
      ...about,
      parts,
      isTool: false,
      finish: 'length',
      stream: question.stream === true,
      usage: usage(0),
    };
  if (tool !== null) {
    const called = JSON.stringify(argumentsOf(tool, random, settings));
    const isWhole = tokensOf(called) <= left;
    const made = isWhole ? called : called.slice(0, 4 * left);
    parts.push({ kind: 'tool', text: made, name: tool.name });
    return {
      ...{ ...NOTHING_SAID, ...about, parts, isTool: isWhole, finish: isWhole ? 'stop' : 'length' },
      ...{ stream: question.stream === true, usage: usage(tokensOf(made)) },
    };
  }
  const conversation = conversationOf(messages);
  const said = say(question, { conversation, most: left, top: undefined }, request, settings);
  if (said.text !== '') parts.push({ kind: 'text', text: said.text, name: '' });
  return { ...said, prompts: [messages], parts, isTool: false, usage: usage(said.usage.completion) };
}

function toolOf({ tools, choice, isResult }: Asked, random: () => number): Tool | null {
  if (typeof choice === 'object') {
    const named = tools.find(({ name }) => name === choice.name);
    if (named === undefined)
      throw badRequest(`tool_choice: expected the name of a tool, got ${JSON.stringify(choice.name)}.`);
    return named;
  }
  if (choice === 'none' || (choice === 'auto' && isResult)) return null;
  if (tools.length > 0) return pick(random, tools);
  if (choice === 'must') throw badRequest('tool_choice: expected tools to choose from, found none.');
  return null;
}

function argumentsOf({ name, schema }: Tool, random: () => number, { schemaOf }: ChatSettings): unknown {
  try {
    return schemaOf(isObject(schema) ? { type: 'object', ...schema } : { type: 'object' }).answer(
      random,
      new Map(),
    );
  } catch (error) {
    throw error instanceof SchemaError ? badRequest(`tools: ${name}: ${error.message}`) : error;
  }
}

/** Writes the events of one part; each of them is whole events. */
export interface PartEvents {
  begin(part: Part, index: number): string;
  piece(part: Part, index: number, text: string): string;
  end(part: Part, index: number): string;
}

/** `first` and `last`: the events around those of the parts. */
export function partsScript(
  parts: readonly Part[],
  events: PartEvents,
  first: () => string,
  last: () => string,
): Script {
  const pieces = parts.flatMap((part, index) =>
    tokenTexts(part.text).map((piece, at, all) => ({
      part,
      index,
      piece,
      isFirst: at === 0,
      isLast: at === all.length - 1,
    })),
  );
  let at = -1;
  const upTo = (share: number): string => {
    let said = '';
    if (at < 0) {
      at = 0;
      said += first();
    }
    // a share of tokens is a quotient of whole numbers, which may be a little less than it
    for (const end = Math.floor(share * pieces.length + 1e-6); at < end; at++) {
      const { part, index, piece, isFirst, isLast } = pieces[at]!;
      if (isFirst) said += events.begin(part, index);
      said += events.piece(part, index, piece);
      if (isLast) said += events.end(part, index);
    }
    return said;
  };
  return { upTo, rest: () => upTo(1) + last() };
}

/** One event of a stream whose data says what it is. */
export const eventOf = (data: { type: string; [more: string]: unknown }): string =>
  `event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`;
