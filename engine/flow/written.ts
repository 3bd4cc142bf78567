/** A source that is the only stage of its process: the lines of most of its items are written without an object. */

import type { ByteInput } from '../core/files/input-files.ts';
import type { Output } from '../core/files/ndjson-out.ts';
import { count } from '../core/item/account.ts';
import { divertFailures, type Placed } from './join.ts';

/**
 * Opens a source that is the only stage and writes its lines itself, for no object is needed of an item that nobody looks
 * at; null where the row is another one. What is returned runs it.
 */
export async function openWritten([placed, ...others]: readonly Placed[]): Promise<
  ((inputs: readonly ByteInput[], output: Required<Output>) => Promise<void>) | null
> {
  if (placed?.stage.written === undefined || others.length > 0) return null;
  const { stage, options, tools } = placed;
  const { account } = tools;
  const written = await stage.written?.(options, tools);
  if (!written) return null;
  const divert = await divertFailures(placed, account, new Map());
  return async (inputs, output) => {
    for await (const batch of written(inputs)) {
      let open = true;
      if ('bytes' in batch) {
        account.read += batch.count;
        account.rungs.clean += batch.count;
        open = output.pass(batch.bytes);
      } else {
        account.read += batch.length;
        for (const item of batch) {
          const after = divert === null ? item : divert(item);
          if (after === null) continue;
          count(account, after);
          open = output.write(after);
        }
      }
      // signals and timers have their turn between two batches
      await new Promise<void>(resolve => (open ? setImmediate(resolve) : output.ready(resolve)));
    }
  };
}
