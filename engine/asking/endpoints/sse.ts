/**
 * Server-sent events (WHATWG HTML, 9.2) out of the chunks of a socket: an event may come in many chunks, a chunk may hold
 * many events, and a character of UTF-8 may be cut in two. Each byte is copied at most twice, however small the chunks.
 */
import { createPieces } from '../../core/files/pieces.ts';
import { TooLong } from './endpoint-words.ts';

/** Bytes of one event. A chunk of a completion has some hundred; one with log probabilities some ten thousand. */
export const LARGEST_EVENT = 1024 * 1024;

const LF = 10;
const CR = 13;
const COLON = 58;
const DATA = Buffer.from('data');
const BOM = Buffer.from('\ufeff');

/** Gets the data of an event. Comments and other fields (`event:`, `id:`, `retry:`) are passed over. */
export type TakeEvent = (data: string) => void;

export interface EventSplitter {
  /** Calls `take` for each event that ends in this chunk. @throws TooLong on an event beyond LARGEST_EVENT */
  feed(chunk: Buffer): void;
  /** The stream is over: what has no blank line behind it counts too, since some servers leave that out. */
  end(): void;
}

export function eventSplitter(take: TakeEvent): EventSplitter {
  /** the beginning of a line that has not ended */
  const held = createPieces();
  let data: string | null = null;
  /** no line has ended: a byte order mark before it is no part of it */
  let isFirst = true;

  function line(bytes: Buffer, begin: number, until: number): void {
    const hasMark = isFirst && until - begin >= 3 && BOM.compare(bytes, begin, begin + 3) === 0;
    const from = hasMark ? begin + 3 : begin;
    isFirst = false;
    const to = until > from && bytes[until - 1] === CR ? until - 1 : until;
    if (to === from) {
      const event = data;
      data = null;
      if (event !== null) take(event);
      return;
    }
    const isData = to - from >= DATA.length && bytes.compare(DATA, 0, DATA.length, from, from + 4) === 0;
    if (!isData || (to - from > 4 && bytes[from + 4] !== COLON)) return;
    const value = Math.min(to, bytes[from + 5] === 32 ? from + 6 : from + 5);
    const text = bytes.toString('utf8', value, to);
    data = data === null ? text : `${data}\n${text}`;
    if (data.length > LARGEST_EVENT) throw new TooLong(`an event larger than ${LARGEST_EVENT} bytes`);
  }

  return {
    feed(chunk) {
      const last = chunk.lastIndexOf(LF);
      if (last < 0) {
        held.add(chunk);
        if (held.bytes > LARGEST_EVENT) throw new TooLong(`an event larger than ${LARGEST_EVENT} bytes`);
        return;
      }
      held.add(chunk);
      const bytes = held.take();
      const whole = bytes.length - chunk.length + last + 1;
      let from = 0;
      for (let at = bytes.indexOf(LF); at >= 0 && at < whole; at = bytes.indexOf(LF, from)) {
        line(bytes, from, at);
        from = at + 1;
      }
      held.add(bytes.subarray(whole));
    },
    end() {
      const bytes = held.take();
      if (bytes.length > 0) line(bytes, 0, bytes.length);
      if (data !== null) take(data);
      data = null;
    },
  };
}
