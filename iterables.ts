/** Lines that come from and go to the program that runs a row, and not files: iterables, streams and functions. */
import type { ByteInput } from './engine/core/files/input-files.ts';
import type { OnBroken, Output } from './engine/core/files/ndjson-out.ts';
import { letGo } from './engine/core/files/origin.ts';
import { ioError } from './engine/core/item/failure.ts';
import type { Item } from './engine/core/item/item.ts';

/** An object is a line; text and bytes are read as those of a file are, however they are cut. */
export type Chunks = Iterable<object | string> | AsyncIterable<object | string>;

/** Bytes that are gathered from what gives them at once. */
const BLOCK = 64 * 1024;

/** `signal` ends the reading, and a wait for the next chunk too. `failed` hears what the iterable throws. */
export function inputOf(chunks: Chunks, signal: AbortSignal, failed: (error: unknown) => void): ByteInput {
  const parts = typeof chunks === 'string' || chunks instanceof Uint8Array ? [chunks] : chunks;
  const isAtOnce = Symbol.iterator in parts;
  const iterator = isAtOnce ? parts[Symbol.iterator]() : parts[Symbol.asyncIterator]();
  const stopped = new Promise<{ done: true; value: undefined }>(resolve => {
    signal.addEventListener('abort', () => resolve({ done: true, value: undefined }), { once: true });
  });
  const next = async (isWhole: boolean): Promise<Buffer | null> => {
    // a line that has begun is read to its end
    const { done, value } = await (isWhole ? Promise.race([iterator.next(), stopped]) : iterator.next());
    return done ? null : bytesOf(value);
  };
  return {
    name: 'the input',
    regular: true,
    async read(rest) {
      const blocks = rest === null ? [] : [rest];
      try {
        for (let length = 0; length === 0 || (isAtOnce && length < BLOCK); ) {
          const block = await next(rest === null || rest.length === 0);
          if (block === null) {
            if (length > 0) break;
            return null;
          }
          blocks.push(block);
          length += block.length;
        }
      } catch (error) {
        failed(error);
        throw ioError('expected the input to give a line, found that it threw');
      }
      return Buffer.concat(blocks);
    },
    close() {
      Promise.resolve(iterator.return?.()).catch(() => {}); // nobody asks it for anything any more
    },
  };
}

function bytesOf(chunk: object | string): Buffer {
  if (typeof chunk === 'string') return Buffer.from(chunk);
  if (chunk instanceof Uint8Array) return Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
  return Buffer.from(`${JSON.stringify(chunk)}\n`);
}

/** An output that hands each line to a function, and waits for it; what it throws ends the run, and is `failed` on. */
export function toEach(
  take: (line: Item) => void | Promise<void>,
  failed: (error: unknown) => void,
): (onBroken: OnBroken) => Output {
  return onBroken => {
    let taking: Promise<void> = Promise.resolve();
    const fail = (error: unknown): void => {
      failed(error);
      onBroken(ioError('expected the output to take a line, found that it threw'));
    };
    return {
      write(line) {
        letGo(line);
        try {
          const taken = take(line);
          if (!(taken instanceof Promise)) return true;
          taking = taken.catch(fail);
          return false;
        } catch (error) {
          fail(error);
          return true;
        }
      },
      ready: act => void taking.then(act),
      end: () => taking,
    };
  };
}

/** What `begin` hands to its function, one at a time: the next is taken when it is asked for. `leave` is called where nobody asks on. */
export async function* handedOut<T, R>(
  begin: (take: (value: T) => Promise<void>) => Promise<R>,
  leave: () => void,
): AsyncGenerator<T, R> {
  let waiting: { value: T; taken: () => void } | null = null;
  let wake = (): void => {};
  let isOver = false;
  let hasLeft = false;
  const ended = begin(
    value =>
      new Promise(taken => {
        if (hasLeft) return taken();
        waiting = { value, taken };
        wake();
      }),
  ).finally(() => {
    isOver = true;
    wake();
  });
  ended.catch(() => {}); // it is thrown below, to who asks on
  try {
    for (;;) {
      if (waiting === null && !isOver) {
        await new Promise<void>(resolve => {
          wake = resolve;
        });
      }
      if (waiting === null) return await ended;
      const { value, taken } = waiting as { value: T; taken: () => void };
      waiting = null;
      yield value;
      taken();
    }
  } finally {
    hasLeft = true;
    (waiting as { taken(): void } | null)?.taken();
    if (!isOver) leave();
    await ended.catch(() => {});
  }
}
