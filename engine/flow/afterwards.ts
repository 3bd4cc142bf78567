/**
 * A flow in two halves: all of what comes is taken first, and what leaves then comes from elsewhere. For lines that are
 * done by other machines, in an order of their own.
 */
import _ from 'highland';
import type { ByteInput } from '../core/files/input-files.ts';
import { type LineOptions, readItems } from '../core/files/ndjson-in.ts';
import type { Item } from '../core/item/item.ts';
import type { Items, Through } from './stage.ts';

/** `take` is told each item; `then` at the end of them, and gives the lines that leave. Both may throw, which ends the stream. */
export function afterwards(
  take: (item: Item) => void,
  then: () => ByteInput | Promise<ByteInput>,
  reading: Pick<LineOptions, 'stage' | 'maxLine' | 'stopped'>,
): Through {
  return items =>
    _<Items>(push => {
      const leave = (lines: Items): void => {
        push(null, lines);
        push(null, _.nil);
      };
      const fail = (error: unknown): void => {
        push(error as Error);
        push(null, _.nil);
      };
      items
        .consume<never>((error, item, _push, more) => {
          if (error) return fail(error);
          try {
            if (!_.isNil(item)) {
              take(item as Item);
              return more();
            }
            Promise.resolve(then()).then(input => leave(readItems([input], reading)), fail);
          } catch (thrown) {
            fail(thrown);
          }
        })
        .resume();
    }).sequence() as unknown as Items;
}
