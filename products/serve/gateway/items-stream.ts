/**
 * What a stream of `/v1/responses` told: its last event has the whole response, which is the record. Of one that has none
 * (broken off, cut off, or too long to be read) the record is put together of its deltas, item by item.
 */
import { readUsage } from '../../../engine/asking/endpoints/completion.ts';
import type { Answer } from '../../../engine/core/item/call.ts';
import { finishIn } from '../../../engine/core/item/dialects.ts';
import type { Usage } from '../../../engine/core/item/item.ts';
import { isObject, type JsonObject } from '../../../engine/core/json/pointer.ts';
import { objectIn } from '../http-body.ts';
import { type KeptText, word } from './kept-text.ts';
import type { StreamReading } from './stream-record.ts';

/** Items of one answer that are kept apart, and parts of all of them. */
const MOST_ITEMS = 1_024;
const ENDS: ReadonlySet<unknown> = new Set(['response.completed', 'response.incomplete', 'response.failed']);
const DELTA = /^response\.([a-z_]+)\.delta$/;
/** What parts of an item are texts in a list of it; all else is its arguments. */
const LISTED: ReadonlyMap<string, 'content' | 'summary'> = new Map([
  ['output_text', 'content'],
  ['refusal', 'content'],
  ['reasoning_text', 'content'],
  ['reasoning_summary_text', 'summary'],
]);

interface OutputItem {
  /** as it was begun */
  head: JsonObject;
  parts: Map<string, { kind: string; text: string }>;
}

export class ItemsStream implements StreamReading {
  error: string | null = null;
  readonly text: KeptText;
  readonly #items = new Map<number | string, OutputItem>();
  #first: JsonObject = {};
  /** the response as its last event has it */
  #last: JsonObject | null = null;
  #usage: Usage | null = null;
  #parts = 0;
  #sequence = 0;

  constructor(text: KeptText) {
    this.text = text;
  }

  get isDone(): boolean {
    return this.#last !== null || this.error !== null;
  }
  get isFinished(): boolean {
    return this.#last !== null;
  }
  get used(): Usage | null {
    return this.#usage ?? this.text.guess;
  }

  event(data: string): void {
    const event = objectIn(data);
    if (event === null) return;
    const { type, response, error, sequence_number: sequence } = event;
    if (Number.isSafeInteger(sequence)) this.#sequence = sequence as number;
    if (type === 'error' || error) this.error ??= JSON.stringify(error || event).slice(0, 500);
    if (isObject(response)) this.#took(type, response);
    if (type === 'response.output_item.added') this.#begin(event);
    else if (typeof event.delta === 'string') this.#add(event, event.delta);
  }

  #took(type: unknown, response: JsonObject): void {
    const { id, model, usage, error } = response;
    if (this.#first.id === undefined) this.#first = { id: word(id), model: word(model) };
    if (isObject(usage)) this.#usage = readUsage(usage);
    if (!ENDS.has(type)) return;
    JSON.stringify(response); // what nests too deep to be written throws here, where the sink stops reading
    this.#last = response;
    if (type === 'response.failed') this.error ??= JSON.stringify(error ?? 'response.failed').slice(0, 500);
  }

  answer(cut?: string): Answer {
    const whole = this.#last === null ? this.text.rest() : null;
    const said = cut === undefined ? this.#last : null;
    const text = JSON.stringify({
      ...(said ?? this.#joined(cut)),
      events: this.text.events,
      ...(cut !== undefined && { cut }),
    });
    return {
      text,
      ...(whole && { whole }),
      finish: cut === undefined ? (word(said && finishIn(said)) ?? 'none') : 'max_output_tokens',
      usage: this.#usage ?? this.text.leastUsed,
      replayed: false,
    };
  }

  cutOff(cut: string): string {
    const response = { ...this.#joined(cut), created_at: 0, error: null };
    const last = { type: 'response.incomplete', sequence_number: this.#sequence + 1, response };
    return `: cut off: ${cut}\n\nevent: response.incomplete\ndata: ${JSON.stringify(last)}\n\n`;
  }

  /** What is wrong is said beside the event and in it: OpenAI's clients throw what an event has as `error`. */
  brokenOff(error: string): string {
    const said = objectIn(error)?.error;
    const { message = 'The answer broke off.', code = null, param = null } = isObject(said) ? said : {};
    const sequence_number = this.#sequence + 1;
    const last = { type: 'error', sequence_number, code, message, param, error: said ?? { message } };
    return `event: error\ndata: ${JSON.stringify(last)}\n\n`;
  }

  #begin({ output_index, item }: JsonObject): void {
    if (!isObject(item) || this.#items.size >= MOST_ITEMS) return;
    const index = indexOf(output_index, item.id);
    const isKept = this.text.holds(JSON.stringify(item).length);
    this.#items.set(index, { head: isKept ? item : { type: word(item.type) }, parts: new Map() });
  }

  #add({ type, output_index, item_id, content_index, summary_index }: JsonObject, piece: string): void {
    const kind = DELTA.exec(String(type))?.[1];
    if (kind === undefined || piece === '') return;
    this.text.events++;
    const isText = LISTED.has(kind);
    const isKept = isText ? this.text.text(piece, true) : this.text.takes(piece);
    if (!isKept) return;
    const index = indexOf(output_index, item_id);
    const item = this.#items.get(index) ?? { head: {}, parts: new Map() };
    if (this.#items.size < MOST_ITEMS) this.#items.set(index, item);
    const key = `${kind} ${content_index ?? summary_index ?? 0}`.slice(0, 100);
    const part = item.parts.get(key) ?? { kind, text: '' };
    part.text += piece;
    if (item.parts.has(key) || this.#parts >= MOST_ITEMS) return;
    item.parts.set(key, part);
    this.#parts += 1;
  }

  /** As far as it came. */
  #joined(cut: string | undefined): JsonObject {
    return {
      ...this.#first,
      ...{ object: 'response', status: 'incomplete' },
      incomplete_details: cut === undefined ? null : { reason: 'max_output_tokens' },
      output: [...this.#items]
        .sort(([a], [b]) => (typeof a === 'number' && typeof b === 'number' ? a - b : 0))
        .map(([, item]) => itemOf(item)),
      usage: null,
    };
  }
}

/** What an item is known by: llama.cpp gives it an id alone. */
const indexOf = (index: unknown, id: unknown): number | string =>
  typeof index === 'number' ? index : (word(id) ?? 0);

function itemOf({ head, parts }: OutputItem): JsonObject {
  const item: JsonObject = { ...head };
  for (const { kind, text } of parts.values()) {
    const list = LISTED.get(kind);
    if (list === undefined) item[kind.endsWith('_input') ? 'input' : 'arguments'] = text;
    else {
      const before = Array.isArray(item[list]) ? (item[list] as unknown[]) : [];
      item[list] = [...before, kind === 'refusal' ? { type: kind, refusal: text } : { type: kind, text }];
    }
  }
  return { type: 'message', role: 'assistant', ...item };
}
