/** Inputs made of given chunks, and the lines that are read from them. */
import type { ByteInput } from '../../engine/core/files/input-files.ts';
import { readItems } from '../../engine/core/files/ndjson-in.ts';
import { originOf, textOf } from '../../engine/core/files/origin.ts';
import type { Item } from '../../engine/core/item/item.ts';

/** `text` in chunks of these lengths, over and over, as a pipe may give it. */
export function chunked(text: string | Buffer, lengths: readonly number[]): ByteInput {
  const bytes = Buffer.from(text);
  let at = 0;
  let turn = 0;
  return {
    name: 'test',
    regular: true,
    read(rest) {
      if (at >= bytes.length) return null;
      const length = lengths[turn++ % lengths.length] as number;
      const chunk = bytes.subarray(at, at + length);
      at += length;
      return Buffer.concat(rest === null ? [chunk] : [rest, chunk]);
    },
    close() {},
  };
}

export interface Read {
  items: Item[];
  /** the bytes as which each line would leave untouched; null for one that has none */
  texts: (string | null)[];
}

export function readAll(
  inputs: readonly ByteInput[],
  more: { documents?: boolean; maxLine?: number } = {},
): Promise<Read> {
  const options = { stage: 'test', maxLine: 1 << 20, stopped: () => false, ...more };
  return new Promise((resolve, reject) => {
    const texts: (string | null)[] = [];
    readItems(inputs, options)
      .map(item => {
        const origin = originOf(item);
        texts.push(origin === undefined ? null : textOf(origin));
        return item;
      })
      .stopOnError(reject)
      .toArray(items => resolve({ items, texts }));
  });
}
