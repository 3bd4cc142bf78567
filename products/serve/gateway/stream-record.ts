/**
 * What a stream told, for the record: its events put together to one completion, as the model would have said it at once.
 * The client has the events themselves.
 */
import { readUsage } from '../../../engine/asking/endpoints/completion.ts';
import type { Answer } from '../../../engine/core/item/call.ts';
import type { Usage } from '../../../engine/core/item/item.ts';
import { gaveUp } from '../../../engine/core/item/response.ts';
import { isObject, type JsonObject } from '../../../engine/core/json/pointer.ts';
import { objectIn } from '../http-body.ts';
import { type KeptText, word } from './kept-text.ts';

/** Choices of one answer that are kept apart, and calls of tools in all of them. */
const MOST_CHOICES = 128;
const MOST_TOOLS = 1_024;

interface Tool {
  /** undefined where the server says none */
  index: number | undefined;
  id?: string | undefined;
  type?: string | undefined;
  name?: string | undefined;
  arguments: string;
}

interface Choice {
  role?: string | undefined;
  content: string;
  reasoning: string;
  refusal: string;
  tools: Tool[];
  /** of its tokens, as they came; null where there was no room for all of them */
  logprobs: unknown[] | null;
  finish: string | null;
}

/** What the stream of a dialect told, and how one of it ends that was broken off or cut off. */
export interface StreamReading {
  /** an error that the server sent in place of an event, in its words */
  readonly error: string | null;
  /** whether the client has all of its answer */
  readonly isDone: boolean;
  /** the content that has come, and why the stream is to be cut off */
  readonly text: KeptText;
  /** Tokens until now; null before any content. Where the server does not say, each event is taken for a token, and the prompt is estimated. */
  readonly used: Usage | null;
  /** the server said that the answer is complete, or why it ends here */
  readonly isFinished: boolean;
  /** Takes the data of one event. */
  event(data: string): void;
  /** `cut`: the answer ended so, and not as the model said */
  answer(cut?: string): Answer;
  /** What a client gets last of an answer that is cut off, and why. */
  cutOff(cut: string): string;
  /** What a client gets last of an answer that broke off; `error` is a body of an error. */
  brokenOff(error: string): string;
}

/** Of chat and completions. */
export class StreamRecord implements StreamReading {
  /** an error that the server sent in place of an event, in its words */
  error: string | null = null;
  /** it said `[DONE]` */
  isDone = false;
  readonly text: KeptText;
  readonly #choices = new Map<number, Choice>();
  /** what the first event says of the answer */
  #first: JsonObject = {};
  #usage: Usage | null = null;
  /** calls of tools that are kept */
  #tools = 0;

  constructor(text: KeptText) {
    this.text = text;
  }

  get used(): Usage | null {
    return this.#usage ?? this.text.guess;
  }
  get isFinished(): boolean {
    return this.#choices.size > 0 && [...this.#choices.values()].every(({ finish }) => finish !== null);
  }

  event(data: string): void {
    if (data === '[DONE]') {
      this.isDone = true;
      return;
    }
    const event = objectIn(data);
    if (event === null) return;
    // vLLM up to 0.9 writes an error without `error` around it
    const wrong = event.object === 'error' ? event : event.error;
    if (wrong) this.error ??= JSON.stringify(wrong).slice(0, 500);
    if (this.#first.id === undefined) this.#first = { id: word(event.id), model: word(event.model) };
    if (isObject(event.usage)) this.#usage = readUsage(event.usage);
    const before = this.text.units;
    for (const part of Array.isArray(event.choices) ? event.choices.filter(isObject) : []) this.#addTo(part);
    if (this.text.units > before) this.text.events++;
  }

  answer(cut?: string): Answer {
    const usage = this.#usage;
    const { events } = this.text;
    const choices = [...this.#choices].map(([index, choice]) => wholeOf(index, choice, cut));
    const text = JSON.stringify({
      ...this.#first,
      object: 'stream',
      choices,
      usage,
      events,
      ...(cut !== undefined && { cut }),
    });
    const whole = this.text.rest();
    return {
      text,
      ...(whole && { whole }),
      finish: cut === undefined ? (choices[0]?.finish_reason ?? 'none') : 'length',
      // `usage` in the text is null where the server does not say
      usage: this.#usage ?? this.text.leastUsed,
      replayed: false,
    };
  }

  cutOff(cut: string): string {
    const { id, model } = this.#first;
    const choices = [{ index: 0, delta: {}, finish_reason: 'length' }];
    const last = JSON.stringify({ id, object: 'chat.completion.chunk', created: 0, model, choices });
    return `: cut off: ${cut}\n\ndata: ${last}\n\ndata: [DONE]\n\n`;
  }

  brokenOff(error: string): string {
    return `data: ${error}\n\n`;
  }

  /** What an event says of one choice. */
  #addTo(part: JsonObject): void {
    const index = typeof part.index === 'number' ? part.index : 0;
    const choice = this.#choices.get(index) ?? newChoice();
    if (this.#choices.size < MOST_CHOICES) this.#choices.set(index, choice);
    const delta = isObject(part.delta) ? part.delta : {};
    choice.role = word(delta.role) ?? choice.role;
    const { content, reasoning, reasoning_content: older, refusal, tool_calls: calls } = delta;
    for (const piece of piecesIn(content ?? part.text)) this.#add(choice, 'content', piece);
    this.#add(choice, 'reasoning', reasoning ?? older);
    this.#add(choice, 'refusal', refusal);
    this.#addTools(choice, calls);
    this.#addLogprobs(choice, part.logprobs);
    choice.finish = word(part.finish_reason) ?? choice.finish;
    if (part.error) this.error ??= JSON.stringify(part.error).slice(0, 500);
    if (gaveUp(part)) this.error ??= `finish_reason ${part.finish_reason}`;
  }

  #add(choice: Choice, which: 'content' | 'reasoning' | 'refusal', piece: unknown): void {
    if (typeof piece !== 'string' || piece === '') return;
    if (this.text.text(piece, this.#choices.size === 1)) choice[which] += piece;
  }

  #addTools(choice: Choice, calls: unknown): void {
    for (const call of Array.isArray(calls) ? calls.filter(isObject) : []) {
      const { index, id, type, function: given } = call;
      const made = isObject(given) ? given : {};
      const name = word(made.name) || undefined;
      const tool = this.#toolOf(
        choice,
        typeof index === 'number' ? index : undefined,
        name === undefined ? undefined : word(id),
      );
      tool.id ??= word(id);
      tool.type ??= word(type);
      tool.name ??= name;
      const piece = typeof made.arguments === 'string' ? made.arguments : '';
      if (this.text.takes(piece)) tool.arguments += piece;
    }
  }

  /**
   * The call that a piece belongs to. Servers differ: OpenAI says an index; some say none, or 0 for all of them, and a name
   * and an id with which the next one begins; vLLM up to 0.8 has a new id in each piece, and the name in the first.
   * `begun`: the id that comes with a name.
   */
  #toolOf(choice: Choice, index: number | undefined, begun: string | undefined): Tool {
    const { tools } = choice;
    const of = index === undefined ? tools.at(-1) : tools.findLast(one => one.index === index);
    if (of !== undefined && (begun === undefined || of.id === undefined || of.id === begun)) return of;
    const tool: Tool = { index, arguments: '' };
    if (this.#tools < MOST_TOOLS) {
      tools.push(tool);
      this.#tools += 1;
    }
    return tool;
  }

  /** Of chat, token by token; those of completions are lists side by side, which only the client gets. */
  #addLogprobs(choice: Choice, logprobs: unknown): void {
    if (choice.logprobs === null || !isObject(logprobs) || !Array.isArray(logprobs.content)) return;
    for (const one of logprobs.content) {
      if (!this.text.holds(JSON.stringify(one).length)) {
        choice.logprobs = null;
        return;
      }
      choice.logprobs.push(one);
    }
  }
}

/** A content in pieces: a text, or a list of parts that are texts. */
function piecesIn(content: unknown): unknown[] {
  return Array.isArray(content) ? content.filter(isObject).map(({ text }) => text) : [content];
}

const newChoice = (): Choice => ({
  ...{ content: '', reasoning: '', refusal: '' },
  ...{ tools: [], logprobs: [], finish: null },
});

/** A choice as the model would have said it at once. */
function wholeOf(
  index: number,
  { role, content, reasoning, refusal, tools, logprobs, finish }: Choice,
  cut: string | undefined,
) {
  return {
    index,
    message: {
      ...(role !== undefined && { role }),
      content,
      ...(reasoning !== '' && { reasoning }),
      ...(refusal !== '' && { refusal }),
      ...(tools.length > 0 && {
        tool_calls: tools.map(({ id, type, name, arguments: text }, at) => ({
          ...{ index: at, id, type },
          function: { name, arguments: text },
        })),
      }),
    },
    ...(logprobs !== null && logprobs.length > 0 && { logprobs: { content: logprobs } }),
    finish_reason: cut === undefined ? finish : 'length',
  };
}
