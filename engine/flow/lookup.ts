/** Lines of a regular file by a name of theirs: where the last one of each name stands, some 40 bytes a name. */
import { createIdTable } from './idset.ts';
import type { JsonObject } from './item.ts';
import { openLines, type Place } from './scan.ts';

/** The line of a name; undefined where there is none. */
export type Lookup = (name: string) => JsonObject | undefined;

export async function openLookup(
  path: string,
  nameOf: (line: JsonObject) => string | null,
  reading: { stage: string; maxLine: number },
): Promise<Lookup> {
  const file = openLines(path, reading);
  const numbers = createIdTable();
  const places: Place[] = [];
  for (const line of file.scan()) {
    if (line === null) {
      await new Promise(setImmediate); // signals have their turn
      continue;
    }
    const name = nameOf(file.item(line));
    const { offset, length, number } = line;
    if (name !== null) places[numbers.numberOf(name, places.length)] = { offset, length, number };
  }
  return name => (numbers.has(name) ? file.read(places[numbers.numberOf(name, 0)] as Place) : undefined);
}
