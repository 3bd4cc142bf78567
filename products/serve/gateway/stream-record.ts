/**
 * What a stream told, for the record: its events put together to one completion, as the model would have said it at once.
 * The client has the events themselves.
 */
import { readUsage } from '../../../engine/asking/endpoints/completion.ts';
import type { Answer } from '../../../engine/core/item/call.ts';
import type { Usage } from '../../../engine/core/item/item.ts';
import { isObject, type JsonObject } from '../../../engine/core/json/pointer.ts';
import { objectIn } from '../http-body.ts';
import { KeptText, type Runaway, word } from './kept-text.ts';

/** Choices of one answer that are kept apart, and calls of tools in all of them. */
const MOST_CHOICES = 128;
const MOST_TOOLS = 1_024;

interface Choice {
  role?: string | undefined;
  content: string;
  reasoning: string;
  tools: Map<number, { id?: string | undefined; name?: string | undefined; arguments: string }>;
  finish: string | null;
}

/** What the stream of a dialect told, and how one of it ends that was broken off or cut off. */
export interface StreamReading {
  /** an error that the server sent in place of an event, in its words */
  readonly error: string | null;
  /** whether the client has all of its answer */
  readonly isDone: boolean;
  /** why the stream is to be cut off; null where it is not */
  readonly runaway: string | null;
  /** whether any content has come */
  readonly hasBegun: boolean;
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
  readonly #text: KeptText;
  readonly #prompt: number;
  readonly #choices = new Map<number, Choice>();
  /** what the first event says of the answer */
  #first: JsonObject = {};
  #usage: Usage | null = null;
  /** events with any content; calls of tools that are kept */
  #events = 0;
  #tools = 0;

  /** `prompt`: its tokens where the server does not say */
  constructor(limits: Runaway | null, prompt = 0) {
    this.#text = new KeptText(limits);
    this.#prompt = prompt;
  }

  get runaway(): string | null {
    return this.#text.runaway;
  }
  get hasBegun(): boolean {
    return this.#events > 0;
  }
  get used(): Usage | null {
    return this.#usage ?? (this.#events > 0 ? { prompt: this.#prompt, completion: this.#events } : null);
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
    if (event.error) this.error ??= JSON.stringify(event.error).slice(0, 500);
    if (this.#first.id === undefined) this.#first = { id: word(event.id), model: word(event.model) };
    if (isObject(event.usage)) this.#usage = readUsage(event.usage);
    const before = this.#text.units;
    for (const part of Array.isArray(event.choices) ? event.choices.filter(isObject) : []) this.#addTo(part);
    if (this.#text.units > before) this.#events++;
  }

  answer(cut?: string): Answer {
    const usage = this.#usage;
    const events = this.#events;
    const choices = [...this.#choices].map(([index, choice]) => wholeOf(index, choice, cut));
    const text = JSON.stringify({
      ...this.#first,
      object: 'stream',
      choices,
      usage,
      events,
      ...(cut !== undefined && { cut }),
    });
    const whole = this.#text.rest();
    return {
      text,
      ...(whole && { whole }),
      finish: cut === undefined ? (choices[0]?.finish_reason ?? 'none') : 'length',
      // `usage` in the text is null where the server does not say
      usage: this.used ?? { prompt: this.#prompt, completion: 0 },
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
    this.#add(choice, 'content', delta.content ?? part.text);
    this.#add(choice, 'reasoning', delta.reasoning_content ?? delta.reasoning);
    this.#addTools(choice, delta.tool_calls);
    choice.finish = word(part.finish_reason) ?? choice.finish;
  }

  #add(choice: Choice, which: 'content' | 'reasoning', piece: unknown): void {
    if (typeof piece !== 'string' || piece === '') return;
    if (this.#text.text(piece, this.#choices.size === 1)) choice[which] += piece;
  }

  #addTools(choice: Choice, calls: unknown): void {
    for (const call of Array.isArray(calls) ? calls.filter(isObject) : []) {
      const index = typeof call.index === 'number' ? call.index : 0;
      const tool = choice.tools.get(index) ?? { arguments: '' };
      if (!choice.tools.has(index) && this.#tools < MOST_TOOLS) {
        choice.tools.set(index, tool);
        this.#tools += 1;
      }
      tool.id ??= word(call.id);
      const made = isObject(call.function) ? call.function : {};
      tool.name ??= word(made.name);
      const piece = typeof made.arguments === 'string' ? made.arguments : '';
      if (this.#text.takes(piece)) tool.arguments += piece;
    }
  }
}

const newChoice = (): Choice => ({ content: '', reasoning: '', tools: new Map(), finish: null });

/** A choice as the model would have said it at once. */
function wholeOf(
  index: number,
  { role, content, reasoning, tools, finish }: Choice,
  cut: string | undefined,
) {
  return {
    index,
    message: {
      ...(role !== undefined && { role }),
      content,
      ...(reasoning !== '' && { reasoning }),
      ...(tools.size > 0 && {
        tool_calls: [...tools].map(([at, { id, name, arguments: text }]) => ({
          index: at,
          id,
          function: { name, arguments: text },
        })),
      }),
    },
    finish_reason: cut === undefined ? finish : 'length',
  };
}
