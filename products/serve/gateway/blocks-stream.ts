/** What a stream of `/v1/messages` told, for the record: its blocks put together to one message, as it would have come whole. */
import { readUsage } from '../../../engine/asking/endpoints/completion.ts';
import type { Answer } from '../../../engine/core/item/call.ts';
import type { Usage } from '../../../engine/core/item/item.ts';
import { isObject, type JsonObject } from '../../../engine/core/json/pointer.ts';
import { objectIn } from '../http-body.ts';
import { type KeptText, word } from './kept-text.ts';
import type { StreamReading } from './stream-record.ts';

/** Blocks of one answer that are kept apart. */
const MOST_BLOCKS = 1_024;
/** Where a delta has its text, and in which kind of block. */
const FIELDS: ReadonlyMap<unknown, { field: string; block: string }> = new Map([
  ['text_delta', { field: 'text', block: 'text' }],
  ['thinking_delta', { field: 'thinking', block: 'thinking' }],
  ['signature_delta', { field: 'signature', block: 'thinking' }],
  ['input_json_delta', { field: 'partial_json', block: 'tool_use' }],
]);

const COUNTS = [
  'input_tokens',
  'output_tokens',
  'cache_creation_input_tokens',
  'cache_read_input_tokens',
] as const;

interface Block {
  /** as it was begun */
  head: JsonObject;
  /** what came of each field */
  said: Record<string, string>;
}

export class BlocksStream implements StreamReading {
  error: string | null = null;
  readonly text: KeptText;
  readonly #blocks = new Map<number, Block>();
  #first: JsonObject = {};
  /** what was counted, and whether that is all of it */
  #usage: JsonObject = {};
  #isCounted = false;
  #stop: JsonObject = { stop_reason: null, stop_sequence: null };
  #isStopped = false;
  /** the block that has not ended */
  #open: number | null = null;

  constructor(text: KeptText) {
    this.text = text;
  }

  get isDone(): boolean {
    return this.#isStopped || this.error !== null;
  }
  get isFinished(): boolean {
    return this.#isStopped || this.#stop.stop_reason !== null;
  }
  get used(): Usage | null {
    const told = readUsage(this.#usage);
    if (this.#isCounted) return told;
    const { guess } = this.text;
    return guess && { ...told, prompt: told.prompt || guess.prompt, completion: guess.completion };
  }

  event(data: string): void {
    const event = objectIn(data);
    if (event === null) return;
    const { type, message, delta, usage, index, error } = event;
    if (type === 'error' || error) this.error ??= JSON.stringify(error || event).slice(0, 500);
    if (type === 'message_start' && isObject(message)) {
      const { id, role, model, usage: counted } = message;
      this.#first = { id: word(id), role: word(role), model: word(model) };
      this.#count(counted);
    } else if (type === 'content_block_start') this.#begin(index, event.content_block);
    else if (type === 'content_block_delta' && isObject(delta)) this.#add(index, delta);
    else if (type === 'content_block_stop') this.#open = null;
    else if (type === 'message_delta') {
      const { stop_reason, stop_sequence } = isObject(delta) ? delta : ({} as JsonObject);
      const reason = word(stop_reason);
      if (reason !== undefined)
        this.#stop = { stop_reason: reason, stop_sequence: word(stop_sequence) ?? null };
      this.#count(usage);
      this.#isCounted ||= isObject(usage);
    } else if (type === 'message_stop') this.#isStopped = true;
  }

  answer(cut?: string): Answer {
    const whole = this.text.rest();
    const stop = cut === undefined ? this.#stop : { stop_reason: 'max_tokens', stop_sequence: null };
    const text = JSON.stringify({
      ...this.#first,
      type: 'message',
      content: [...this.#blocks].sort(([a], [b]) => a - b).map(([, block]) => blockOf(block)),
      ...stop,
      usage: this.#isCounted ? this.#usage : null,
      events: this.text.events,
      ...(cut !== undefined && { cut }),
    });
    return {
      text,
      ...(whole && { whole }),
      finish: (stop.stop_reason as string | null) ?? 'none',
      usage: this.used ?? this.text.leastUsed,
      replayed: false,
    };
  }

  cutOff(cut: string): string {
    const delta = { stop_reason: 'max_tokens', stop_sequence: null };
    const usage = { output_tokens: this.text.events };
    const last = [
      ...(this.#open === null ? [] : [{ type: 'content_block_stop', index: this.#open }]),
      { type: 'message_delta', delta, usage },
      { type: 'message_stop' },
    ];
    return `: cut off: ${cut}\n\n${last.map(one => `event: ${one.type}\ndata: ${JSON.stringify(one)}\n\n`).join('')}`;
  }

  brokenOff(error: string): string {
    return `event: error\ndata: ${error}\n\n`;
  }

  /** Counts come in two events; the later one may leave out what the first has said. */
  #count(usage: unknown): void {
    if (!isObject(usage)) return;
    for (const name of COUNTS) if (typeof usage[name] === 'number') this.#usage[name] = usage[name];
  }

  #begin(index: unknown, head: unknown): void {
    if (typeof index !== 'number' || !isObject(head)) return;
    this.#open = index;
    if (this.#blocks.size >= MOST_BLOCKS) return;
    const isKept = this.text.holds(JSON.stringify(head).length);
    this.#blocks.set(index, { head: isKept ? head : { type: word(head.type) }, said: {} });
  }

  #add(index: unknown, delta: JsonObject): void {
    const { field = '', block: type = '' } = FIELDS.get(delta.type) ?? {};
    const piece = delta[field];
    if (typeof piece !== 'string' || piece === '') return;
    const isText = field === 'text' || field === 'thinking';
    if (field !== 'signature') this.text.events++;
    const isKept = isText ? this.text.text(piece, true) : this.text.takes(piece);
    const at = typeof index === 'number' ? index : 0;
    const block = this.#blocks.get(at) ?? { head: { type }, said: {} };
    if (this.#blocks.size < MOST_BLOCKS) this.#blocks.set(at, block);
    if (isKept) block.said[field] = (block.said[field] ?? '') + piece;
  }
}

/** A block as it would have come whole; arguments that are no JSON stay the text that they are. */
function blockOf({ head, said: { partial_json, ...texts } }: Block): JsonObject {
  const block: JsonObject = { ...head };
  for (const [field, text] of Object.entries(texts))
    block[field] = (typeof head[field] === 'string' ? head[field] : '') + text;
  if (partial_json !== undefined) block.input = objectIn(partial_json) ?? partial_json;
  return block;
}
