/**
 * A source that is judged as a whole before the first of its items is passed on: whoever pays for answers wants to know of a
 * broken line before, and not behind a thousand that were asked.
 */
import type { ByteInput } from '../core/files/input-files.ts';
import type { Batch } from '../core/files/ndjson-out.ts';
import { twice } from '../core/files/put-aside.ts';
import { dataError } from '../core/item/failure.ts';
import type { Item } from '../core/item/item.ts';
import { counted, shown } from '../core/item/wording.ts';
import { type TableOptions, tableBatches } from './read-table.ts';

/** Lines that a message names. */
const NAMED = 10;

/** The items of `inputs`, once none of them has failed; else exit 65, with what is wrong. `judge` makes them the first time. */
export async function* checkedBatches(
  inputs: readonly ByteInput[],
  reading: TableOptions,
  judge: TableOptions['itemsOf'],
): AsyncGenerator<Batch, undefined> {
  const pairs = inputs.map(twice);
  const named: string[] = [];
  let wrong = 0;
  const firsts = pairs.map(({ first }) => first);
  for await (const batch of tableBatches(firsts, { ...reading, itemsOf: judge })) {
    for (const { failure } of batch as readonly Item[]) {
      if (failure === undefined) continue;
      wrong += 1;
      if (named.length < NAMED) named.push(shown(failure.message));
    }
    await new Promise(setImmediate); // signals have their turn
  }
  if (reading.signal.aborted) return;
  if (wrong > 0) {
    const more = wrong > named.length ? [`and ${wrong - named.length} more`] : [];
    throw dataError(
      `expected a request a line, found ${counted(wrong, 'line')} that cannot be one; nothing was asked:\n  ` +
        `${[...named, ...more].join('\n  ')}\nmend them, or give --skip-invalid, which makes each a failed line`,
    );
  }
  yield* tableBatches(
    pairs.map(({ again }) => again()),
    reading,
  );
}
