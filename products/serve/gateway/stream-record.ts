/**
 * What a stream told, for the record: its events put together to one completion, as the model would have said it at once.
 * The client has the events themselves.
 */
import { createHash } from 'node:crypto';
import { repetitionIn } from '../../../engine/answers/text-faults.ts';
import { readUsage } from '../../../engine/asking/endpoints/completion.ts';
import type { Answer } from '../../../engine/core/item/call.ts';
import type { Usage, WholeAnswer } from '../../../engine/core/item/item.ts';
import { isObject, type JsonObject } from '../../../engine/core/json/pointer.ts';
import { objectIn } from '../http-body.ts';

/** Choices of one answer that are kept apart, and calls of tools in all of them. */
const MOST_CHOICES = 128;
const MOST_TOOLS = 1_024;
/** UTF-16 units of an id, a role, the name of a tool and a reason to end: one of them may be as long as an event. */
const LONGEST_WORD = 256;
/** UTF-16 units of an answer that are kept; the rest is hashed and counted. */
const MOST_KEPT = 1024 * 1024;
/** As many characters of an end are looked at for repetition, each time that so many have come. */
const END = 8_000;
const LOOK_EVERY = 500;

interface Choice {
  role?: string | undefined;
  content: string;
  reasoning: string;
  tools: Map<number, { id?: string | undefined; name?: string | undefined; arguments: string }>;
  finish: string | null;
}

export interface Runaway {
  /** the same words again and again at the end */
  repeats: boolean;
  /** so much white space in a row */
  blanks: number;
}

export class StreamRecord {
  /** an error that the server sent in place of an event, in its words */
  error: string | null = null;
  /** it said `[DONE]` */
  isDone = false;
  /** why the stream is to be cut off; null where it is not */
  runaway: string | null = null;
  readonly #limits: Runaway | null;
  readonly #prompt: number;
  readonly #choices = new Map<number, Choice>();
  readonly #whole = createHash('sha256');
  /** what the first event says of the answer */
  #first: JsonObject = {};
  #usage: Usage | null = null;
  /** events with any content; calls of tools that are kept */
  #events = 0;
  #tools = 0;
  /** UTF-16 units that have come, and those that are kept; bytes that have come */
  #units = 0;
  #kept = 0;
  #bytes = 0;
  /** the last that came, and the units at which it was looked at */
  #end = '';
  #looked = 0;

  /** `prompt`: its tokens where the server does not say */
  constructor(limits: Runaway | null, prompt = 0) {
    this.#limits = limits;
    this.#prompt = prompt;
  }

  /** whether any content has come */
  get hasBegun(): boolean {
    return this.#events > 0;
  }
  /** Tokens until now; null before any content. Where the server does not say, each event is taken for a token, and the prompt is estimated. */
  get used(): Usage | null {
    return this.#usage ?? (this.#events > 0 ? { prompt: this.#prompt, completion: this.#events } : null);
  }
  /** the server said that the answer is complete, or why it ends here */
  get isFinished(): boolean {
    return this.#choices.size > 0 && [...this.#choices.values()].every(({ finish }) => finish !== null);
  }

  /** Takes the data of one event. */
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
    const before = this.#units;
    for (const part of Array.isArray(event.choices) ? event.choices.filter(isObject) : []) this.#addTo(part);
    if (this.#units > before) this.#events++;
  }

  /** `cut`: the answer ended so, and not as the model said */
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
    return {
      text,
      ...(this.#units > this.#kept && { whole: this.#wholeAnswer() }),
      finish: cut === undefined ? (choices[0]?.finish_reason ?? 'none') : 'length',
      // `usage` in the text is null where the server does not say
      usage: this.used ?? { prompt: this.#prompt, completion: 0 },
      replayed: false,
    };
  }

  /** Of what was too long to be kept. */
  #wholeAnswer(): WholeAnswer {
    const sha256 = this.#whole.digest('hex').slice(0, 16);
    return { characters: this.#units, bytes: this.#bytes, sha256 };
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
    this.#units += piece.length;
    this.#bytes += Buffer.byteLength(piece);
    this.#whole.update(piece);
    if (this.#kept + piece.length <= MOST_KEPT) {
      choice[which] += piece;
      this.#kept += piece.length;
    }
    if (this.#limits === null || this.runaway !== null || this.#choices.size > 1) return;
    this.#end = (this.#end + piece).slice(-END);
    if (this.#units - this.#looked < LOOK_EVERY) return;
    this.#looked = this.#units;
    this.runaway = runawayIn(this.#end, this.#limits);
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
      this.#units += piece.length;
      if (this.#kept + piece.length > MOST_KEPT) continue;
      tool.arguments += piece;
      this.#kept += piece.length;
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

const word = (value: unknown): string | undefined =>
  typeof value === 'string' ? value.slice(0, LONGEST_WORD) : undefined;

/** Why an end like this is no answer any more; null where it is. */
function runawayIn(end: string, { repeats, blanks }: Runaway): string | null {
  const trimmed = end.trimEnd();
  if (blanks > 0 && end.length - trimmed.length >= blanks)
    return `white space without an end, ${end.length - trimmed.length} characters of it`;
  const loop = repeats ? repetitionIn(end) : null;
  return loop && `the same ${loop.unit.length} characters ${loop.times} times`;
}
