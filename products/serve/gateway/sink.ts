/**
 * A stream on its way to a client: chunks go on as they came, byte for byte, held back where the client reads slowly.
 * What they tell is read beside that, for the record and for the limits.
 */
import type { ServerResponse } from 'node:http';
import { eventSplitter } from '../../../engine/asking/endpoints/sse.ts';
import { createPieces } from '../../../engine/core/files/pieces.ts';
import type { Answer, Flow, ReplySink } from '../../../engine/core/item/call.ts';
import type { Dialect } from '../../../engine/core/item/dialects.ts';
import type { Usage } from '../../../engine/core/item/item.ts';
import { BlocksStream } from './blocks-stream.ts';
import { ItemsStream } from './items-stream.ts';
import { KeptText, type Runaway } from './kept-text.ts';
import { type StreamReading, StreamRecord } from './stream-record.ts';

export interface SinkOptions {
  raw: ServerResponse;
  /** headers of the answer */
  headers: Readonly<Record<string, string>>;
  runaway: Runaway | null;
  /** how its stream is read */
  stream: Dialect['stream'];
  /** tokens that its prompt is taken to have where the server does not say */
  prompt: number;
  /** told once, where the stream is a runaway: the call is to be cancelled */
  onCut(why: string): void;
}

/**
 * What a client is told of an answer, by what its server says of it. A server's own words go into no header: it may put
 * beside a known type one that a browser would render, or characters that no header may have.
 */
const TYPES: ReadonlyMap<string, string> = new Map([
  ['text/event-stream', 'text/event-stream; charset=utf-8'],
  ['application/json', 'application/json; charset=utf-8'],
]);
const EVENTS = 'text/event-stream';
const typeIn = (header: unknown): string => /^[a-z/-]*/.exec(String(header ?? '').toLowerCase())?.[0] ?? '';
/** Bytes of an answer without events that are kept. */
const MOST_OTHER = 1024 * 1024;

export class Sink implements ReplySink {
  firstAt: number | null = null;
  onFirst?: () => void;
  isHeld = false;
  readonly #options: SinkOptions;
  readonly #record: StreamReading;
  readonly #events: ReturnType<typeof eventSplitter>;
  /** of an answer without events */
  readonly #other = createPieces();
  #isEvents = false;
  /** an event that is too long to be read: the rest of the stream is not read either, and goes on to the client */
  #isUnread = false;
  #cut: string | undefined;
  #last: Buffer = Buffer.alloc(0);
  #flow: Flow | null = null;

  constructor(options: SinkOptions) {
    this.#options = options;
    const Reading =
      options.stream === 'items' ? ItemsStream : options.stream === 'blocks' ? BlocksStream : StreamRecord;
    this.#record = new Reading(new KeptText(options.runaway, options.prompt));
    this.#events = eventSplitter(data => this.#record.event(data));
  }

  get used(): Usage | null {
    return this.#record.used;
  }

  get enough(): boolean {
    return this.#cut !== undefined;
  }

  head(of: Parameters<ReplySink['head']>[0], flow: Flow): void {
    const { raw, headers } = this.#options;
    this.#flow = flow;
    const type = typeIn(of['content-type']);
    this.#isEvents = type === EVENTS;
    raw.writeHead(200, {
      ...headers,
      'content-type': TYPES.get(type) ?? 'application/octet-stream',
      'cache-control': 'no-store',
      'x-accel-buffering': 'no',
    });
    raw.on('drain', this.#resume);
  }

  data(chunk: Buffer): void {
    if (this.#cut !== undefined) return;
    this.#last = chunk;
    if (!this.#options.raw.write(chunk)) {
      this.isHeld = true;
      this.#flow?.pause();
    }
    if (this.#isEvents && !this.#isUnread) this.#read(chunk);
    else if (!this.#isEvents && this.#other.bytes < MOST_OTHER) this.#other.add(chunk);
  }

  end(): Answer | string {
    this.#options.raw.off('drain', this.#resume);
    if (!this.#isEvents) {
      const usage = { prompt: 0, completion: 0 };
      return { text: this.#other.take().toString(), finish: 'stop', usage, replayed: false };
    }
    if (this.#cut === undefined && !this.#isUnread) {
      this.#events.end();
      const { error, isFinished } = this.#record;
      if (error !== null) return `the stream ended with an error: ${error}`;
      if (!isFinished) return 'the stream ended before the model said that it had finished';
    }
    try {
      return this.#record.answer(this.#cut);
    } catch {
      return 'the stream nests too deep to be put on record';
    }
  }

  /** What the client of a stream that is cut off is told last. */
  get cutOff(): string {
    return this.#record.cutOff(this.#cut ?? '');
  }

  /** What the client of a stream that failed is told last; nothing where it has all of its answer. */
  lastOf(error: string): string {
    if (this.#record.isDone) return '';
    // cut in the middle of an event, which the error must not become a part of
    const end = this.#last.subarray(-3).toString('latin1');
    return `${/\n\r?\n$/.test(end) ? '' : '\n\n'}${this.#record.brokenOff(error)}`;
  }

  readonly #resume = (): void => {
    this.isHeld = false;
    this.#flow?.resume();
  };

  #read(chunk: Buffer): void {
    try {
      this.#events.feed(chunk);
    } catch {
      this.#isUnread = true;
    }
    const { events, runaway } = this.#record.text;
    if (this.firstAt === null && events > 0) {
      this.firstAt = performance.now();
      this.onFirst?.();
    }
    if (runaway === null) return;
    this.#cut = runaway;
    this.#options.onCut(runaway);
  }
}
