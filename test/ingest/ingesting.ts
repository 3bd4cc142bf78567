/** Runs the stage over bytes in memory, cut into blocks of any size, as a pipe would bring them. */

import type { ByteInput } from '../../engine/core/files/input-files.ts';
import { newAccount } from '../../engine/core/item/account.ts';
import type { Item } from '../../engine/core/item/item.ts';
import { resolveOptions, type Values } from '../../engine/flow/options.ts';
import type { Items, Tools } from '../../engine/flow/stage.ts';
import ingest from '../../stages/ingest.ts';

export interface Blocks extends ByteInput {
  reads: number;
  closed: boolean;
}

/** `sizes` are used one after the other, again and again; without them all bytes come at once. */
export function blocks(content: string | Buffer, sizes: readonly number[] = [], name = 'stdin'): Blocks {
  const bytes = Buffer.from(content);
  let at = 0;
  return {
    name,
    regular: true,
    reads: 0,
    closed: false,
    async read(rest) {
      if (at >= bytes.length) return null;
      const size = sizes.length > 0 ? sizes[this.reads % sizes.length]! : bytes.length;
      this.reads += 1;
      const block = bytes.subarray(at, at + size);
      at += size;
      return rest === null ? Buffer.from(block) : Buffer.concat([rest, block]);
    },
    close() {
      this.closed = true;
    },
  };
}

export interface Running {
  items: Items;
  stop(): void;
}

export async function open(
  inputs: readonly ByteInput[],
  given: Values = {},
  base = '.',
  warn: (message: string) => void = () => {},
): Promise<Running> {
  const { options, tools, stop } = prepared(given, base, warn);
  const source = await ingest.source!(options, tools);
  return { items: source(inputs), stop };
}

function prepared(given: Values, base: string, warn: (message: string) => void) {
  const { 'max-line': maxLine, ...own } = given;
  const options = resolveOptions(ingest.options, own, (name, message) => {
    throw new Error(`--${name}: ${message}`);
  });
  const stopping = new AbortController();
  const tools: Tools = {
    base,
    files: [],
    signal: stopping.signal,
    asking: stopping.signal,
    account: newAccount('ingest'),
    started: new Date(0),
    warn,
    pool: () => Promise.reject(new Error('ingest asks nothing')),
  };
  const withCommon = { ...options, ...(maxLine !== undefined && { 'max-line': maxLine }) };
  return { options: withCommon as never, tools, stop: () => stopping.abort() };
}

/** The output of the stage where nothing comes behind it. */
export async function writtenBy(inputs: readonly ByteInput[], given: Values = {}): Promise<string> {
  const { options, tools } = prepared(given, '.', () => {});
  const written = await ingest.written!(options, tools);
  let text = '';
  for await (const batch of written!(inputs)) {
    text +=
      'bytes' in batch ? batch.bytes.toString() : batch.map(item => `${JSON.stringify(item)}\n`).join('');
  }
  return text;
}

/** All items; rejects with the Fatal that ended the run. */
export async function run(inputs: readonly ByteInput[], given: Values = {}, base?: string): Promise<Item[]> {
  const { items } = await open(inputs, given, base);
  return items.collect().toPromise(Promise) as unknown as Promise<Item[]>;
}

export function ingested(content: string | Buffer, given: Values = {}): Promise<Item[]> {
  return run([blocks(content)], given);
}
