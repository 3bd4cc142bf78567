/**
 * A stream on its way to a client: chunks go on as they came, byte for byte, held back where the client reads slowly.
 * What they tell is read beside that, for the record and for the limits.
 */
import type { ServerResponse } from 'node:http';
import { eventSplitter } from '../../../engine/asking/endpoints/sse.ts';
import { createPieces } from '../../../engine/core/files/pieces.ts';
import type { Flow, ReplySink } from '../../../engine/core/item/call.ts';
import { createTold, type Runaway } from './stream-record.ts';

export interface Sink extends ReplySink {
  /** What the client of a stream that failed is told last. Nothing where it had `[DONE]`: it has all of its answer. */
  lastOf(error: string): string;
}

export interface SinkOptions {
  raw: ServerResponse;
  /** headers of the answer */
  headers: Readonly<Record<string, string>>;
  runaway: Runaway | null;
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

export function createSink({ raw, headers, runaway, onCut }: SinkOptions): Sink {
  const told = createTold(runaway);
  const events = eventSplitter(told.event);
  let firstAt: number | null = null;
  let cut: string | undefined;
  let isEvents = false;
  /** an event that is too long to be read: the rest of the stream is not read either, and goes on to the client */
  let isUnread = false;
  const other = createPieces();
  let last: Buffer = Buffer.alloc(0);
  let flow: Flow | null = null;
  let isHeld = false;
  const resume = (): void => {
    isHeld = false;
    flow?.resume();
  };

  function read(chunk: Buffer): void {
    try {
      events.feed(chunk);
    } catch {
      isUnread = true;
    }
    if (firstAt === null && told.hasBegun) firstAt = performance.now();
    if (told.runaway === null) return;
    cut = told.runaway;
    onCut(cut);
  }

  return {
    get firstAt() {
      return firstAt;
    },
    get enough() {
      return cut !== undefined;
    },
    get isHeld() {
      return isHeld;
    },
    head(of, held) {
      flow = held;
      const type = typeIn(of['content-type']);
      isEvents = type === EVENTS;
      raw.writeHead(200, {
        ...headers,
        'content-type': TYPES.get(type) ?? 'application/octet-stream',
        'cache-control': 'no-store',
        'x-accel-buffering': 'no',
      });
      raw.on('drain', resume);
    },
    data(chunk) {
      if (cut !== undefined) return;
      last = chunk;
      if (!raw.write(chunk)) {
        isHeld = true;
        flow?.pause();
      }
      if (isEvents && !isUnread) read(chunk);
      else if (!isEvents && other.bytes < MOST_OTHER) other.add(chunk);
    },
    lastOf(error) {
      if (told.isDone) return '';
      // cut in the middle of an event, which the error must not become a part of
      const end = last.subarray(-3).toString('latin1');
      return `${/\n\r?\n$/.test(end) ? '' : '\n\n'}data: ${error}\n\n`;
    },
    end() {
      raw.off('drain', resume);
      if (!isEvents)
        return {
          text: other.take().toString(),
          finish: 'stop',
          usage: { prompt: 0, completion: 0 },
          replayed: false,
        };
      if (cut === undefined && !isUnread) {
        events.end();
        if (told.error !== null) return `the stream ended with an error: ${told.error}`;
        if (!told.isFinished) return 'the stream ended before the model said that it had finished';
      }
      return told.answer(cut);
    },
  };
}
