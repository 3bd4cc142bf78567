/**
 * Lines of an OpenAI batch file as items: `{custom_id, method, url, body}` becomes `{id, request: {method, url, body}}`.
 * All other keys of a line are kept as its columns.
 */

import { changed, openAgain } from '../core/files/line-places.ts';
import type { MadeOf } from '../core/files/origin.ts';
import type { Item } from '../core/item/item.ts';
import { isObject, type JsonObject } from '../core/json/pointer.ts';
import { show } from '../core/json/show.ts';
import { RowSplitter } from './row-bytes.ts';
import { lineCutter } from './row-ends.ts';
import { type Decoder, type DecoderOptions, parsedObject, type Row } from './rows.ts';

const KEYS: ReadonlySet<string> = new Set(['custom_id', 'method', 'url', 'body']);

export function requestDecoder({
  maxLine,
  excess = () => null,
}: Pick<DecoderOptions, 'maxLine' | 'excess'>): Decoder {
  const pieces = new RowSplitter(lineCutter(), maxLine);
  return {
    pieces,
    row({ block, from, to, line, trouble }) {
      if (trouble) return { line, columns: [], trouble };
      const much = excess(block.subarray(from, to));
      if (much !== null)
        return { line, columns: [], trouble: { code: 'not-a-request', message: `expected JSON ${much}` } };
      const text = block.toString('utf8', from, to);
      if (text.trim() === '') return null;
      return { line, columns: [], at: pieces.base + from, length: to - from, ...requestIn(text) };
    },
    // a file without a request asks for nothing
    end() {},
  };
}

/** Makes the items of a batch file again, each of its line. */
export function requestsAgain(path: string): MadeOf['file'] {
  const file = openAgain(path);
  return {
    again({ at, length, row }): Item {
      const { block, from } = file.windowOn(at, length);
      const { item } = requestIn(block.toString('utf8', from, from + length));
      if (item === undefined) throw changed(path);
      const { id, ...rest } = item;
      return { id, row, ...rest };
    },
  };
}

function requestIn(text: string): Pick<Row, 'item' | 'text' | 'id' | 'trouble'> {
  const parsed = parsedObject(text);
  if ('trouble' in parsed) return parsed;
  const { value } = parsed;
  const { custom_id: id, method, url, body } = value;
  const wrong = wrongIn(value);
  if (wrong !== null) {
    const known = typeof id === 'string' && id !== '' ? { id } : {};
    return { ...known, trouble: { code: 'not-a-request', ...wrong, more: { text } } };
  }
  const request = { method, url, body } as NonNullable<Item['request']>;
  const others = Object.entries(value).filter(([key]) => !KEYS.has(key));
  if (others.length === 0) return { item: { id: id as string, request }, text };
  const input = Object.fromEntries(
    others.map(([key, other]) => [key, typeof other === 'string' ? other : JSON.stringify(other)]),
  );
  return { item: { id: id as string, input, request }, text };
}

function wrongIn(line: JsonObject): { key: string; message: string } | null {
  const expected = (key: string, what: string): { key: string; message: string } => {
    const found = line[key] === undefined ? 'none' : show(line[key]);
    return { key, message: `expected ${key}, ${what}, found ${found}` };
  };
  const { custom_id: id, method, url, body } = line;
  if (typeof id !== 'string' || id === '') return expected('custom_id', 'a text');
  if (typeof method !== 'string') return expected('method', 'which is "POST"');
  if (typeof url !== 'string') return expected('url', 'such as "/v1/chat/completions"');
  return isObject(body) ? null : expected('body', 'an object');
}
