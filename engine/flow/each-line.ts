/** A flow whose every item is worked on, and whose end is told. */
import _ from 'highland';
import type { Item } from '../core/item/item.ts';
import type { Through } from './stage.ts';

/** `end` is called after the last item; what it throws ends the run, as what `work` throws. */
export function throughout(work: (item: Item) => Item, end: () => void): Through {
  return items =>
    items.consume<Item>((error, item, push, next) => {
      if (error) push(error);
      else if (!_.isNil(item)) push(null, work(item));
      else {
        try {
          end();
        } catch (failure) {
          push(failure as Error);
        }
        return push(null, _.nil);
      }
      next();
    });
}
