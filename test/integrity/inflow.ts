/** Runs stages over bytes in memory, cut into blocks as a pipe would cut them, and gives back the lines that leave. */
import { mkdtempSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { ByteInput } from '../../engine/core/files/input-files.ts';
import { originOf } from '../../engine/core/files/origin.ts';
import { newAccount } from '../../engine/core/item/account.ts';
import type { Item } from '../../engine/core/item/item.ts';
import { COMMON, join } from '../../engine/flow/join.ts';
import { resolveOptions, type Values } from '../../engine/flow/options.ts';
import type { Stage, Tools } from '../../engine/flow/stage.ts';
import { binFolder } from '../fw.ts';

export interface Left {
  /** the lines as the output writes them, without their newlines */
  lines: Buffer[];
  /** lines that came in, by the account */
  read: number;
}

/** Rejects with whatever a stage throws: only an item's own failure is data. `sizes` of blocks are used in turn. */
export async function pass(
  bytes: Buffer,
  stage: Stage,
  given: Values = {},
  sizes: readonly number[] = [bytes.length],
): Promise<Left> {
  const account = newAccount(stage.name);
  const options = resolveOptions({ ...COMMON, ...stage.options }, given, (name, message) => {
    throw new Error(`--${name}: ${message}`);
  });
  const never = new AbortController().signal;
  const tools: Tools = {
    base: '.',
    files: [],
    signal: never,
    asking: never,
    account,
    started: new Date(0),
    warn: () => {},
    pool: () => Promise.reject(new Error('a text stage asks nothing')),
  };
  const items = await join([{ stage, options, tools }], [blocks(bytes, sizes)]);
  const left = (await items.collect().toPromise(Promise)) as unknown as Item[];
  return { lines: left.map(bytesOf), read: account.read };
}

function bytesOf(item: Item): Buffer {
  const origin = originOf(item);
  if (origin === undefined) return Buffer.from(JSON.stringify(item));
  const { block, from, to } = origin;
  return Buffer.from(block.subarray(from, block[to - 1] === 10 ? to - 1 : to));
}

function blocks(bytes: Buffer, sizes: readonly number[]): ByteInput {
  let at = 0;
  let reads = 0;
  return {
    name: 'stdin',
    regular: true,
    read(rest) {
      if (at >= bytes.length) return null;
      const size = sizes[reads++ % sizes.length]!;
      const block = bytes.subarray(at, at + size);
      at += size;
      return Buffer.concat([rest ?? Buffer.alloc(0), block]);
    },
    close() {},
  };
}

/** A folder of agents with these schemas, by their keys; it is there as long as the tests run, as helpers of several files have theirs. */
export function agentsFolder(schemas: { [key: string]: unknown }): string {
  const at = mkdtempSync(path.join(binFolder, 'agents-'));
  for (const [key, schema] of Object.entries(schemas)) {
    writeFileSync(path.join(at, `${key}.schema.json`), JSON.stringify(schema));
    const agent = {
      ...{ key, short: key, display: key, role: 'agent', persona: 'You judge.' },
      ...{ schema: `${key}.schema.json`, sampling: { temperature: 0, max_tokens: 100 } },
    };
    writeFileSync(path.join(at, `${key}.yaml`), JSON.stringify(agent));
  }
  return at;
}
