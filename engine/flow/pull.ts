/** Items that are made when the flow asks for them, for who has no lines to read. */
import _ from 'highland';
import type { Item } from '../core/item/item.ts';
import type { Items } from './stage.ts';

/** `next` is asked for one item after the other; null is the end. */
export function given(next: () => Item | null): Items {
  return _<Item>((push, more) => {
    const item = next();
    if (item === null) return push(null, _.nil);
    push(null, item);
    more();
  });
}
