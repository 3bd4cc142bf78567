/** Memory of blocks is used again: whatever a stage keeps, drops or changes, every byte is that of its own line. */
import { openSync, readFileSync, writeFileSync } from 'node:fs';
import { join as pathOf } from 'node:path';
import _ from 'highland';
import { expect, test } from 'vitest';
import { inputsOf } from '../../engine/core/files/input-files.ts';
import { toFile } from '../../engine/core/files/ndjson-out.ts';
import { type Lease, letGo, originOf, remember } from '../../engine/core/files/origin.ts';
import { newAccount } from '../../engine/core/item/account.ts';
import type { Item } from '../../engine/core/item/item.ts';
import { drain, join } from '../../engine/flow/join.ts';
import { type Stage, stage, type Tools } from '../../engine/flow/stage.ts';
import { folder } from '../fw.ts';

const at = folder();
const LINES = 4000;
/** 10 MiB in lines of many lengths, some longer than a block's spare room. */
const lines = Array.from(
  { length: LINES },
  (_line, n) =>
    `{"id": "${n}", "prompt":"${'ab\\u00e9 '.repeat((n * 7919) % (n % 500 === 0 ? 40_000 : 700))}"}\n`,
);
const input = pathOf(at, 'in.ndjson');
writeFileSync(input, lines.join(''));

/** The lines that left, as they stand in the file. */
async function run(placed: Stage): Promise<string> {
  const account = newAccount('test');
  const never = new AbortController().signal;
  const tools: Tools = {
    base: at,
    files: [input],
    signal: never,
    asking: never,
    account,
    started: new Date(0),
    warn: () => {},
    pool: () => Promise.reject(new Error('nothing is asked here')),
  };
  const out = pathOf(at, 'out.ndjson');
  const output = toFile(openSync(out, 'w'), out, error => {
    throw error;
  });
  const row = [{ stage: placed, options: { 'max-line': 1 << 23 }, tools }];
  await drain(await join(row, inputsOf([input])), output, account);
  await output.end();
  return readFileSync(out, 'utf8');
}

const each = (work: (item: Item) => Item): Stage =>
  stage({ name: 'test', summary: '', options: {}, each: () => work });

test('untouched lines leave as they came, beside changed ones', async () => {
  const changes = (n: number): boolean => n % 97 === 0;
  const out = await run(each(item => (changes(Number(item.id)) ? { ...item, row: 1 } : item)));
  const due = lines.map((line, n) =>
    changes(n) ? `${JSON.stringify({ ...JSON.parse(line), row: 1 })}\n` : line,
  );
  expect(out).toBe(due.join(''));
});

test('a stage may hold lines back for as long as it likes', async () => {
  const holds = (item: Item): boolean => Number(item.id) % 300 === 7;
  const holding = stage({
    name: 'test',
    summary: '',
    options: {},
    through: () => items => {
      const held: Item[] = [];
      return items.consume<Item>((error, item, push, next) => {
        if (error) push(error);
        else if (_.isNil(item)) {
          for (const one of held) push(null, one);
          return push(null, _.nil);
        } else if (holds(item)) held.push(item);
        else push(null, item);
        next();
      });
    },
  });
  const isHeld = (line: string): boolean => holds(JSON.parse(line));
  expect(await run(holding)).toBe([...lines.filter(line => !isHeld(line)), ...lines.filter(isHeld)].join(''));
});

test('who comes for the bytes of a line that was let go gets an error, never other bytes', async () => {
  const line = { id: 'a' };
  const lease: Lease = { holders: 0, over: false };
  const origin = { block: Buffer.from('{}'), from: 0, to: 2, number: 1, lease };
  remember(line, origin);
  letGo(line);
  letGo(line);
  expect(lease.holders).toBe(0);
  expect(originOf(line)?.to).toBe(2); // its block was not used again yet
  lease.over = true;
  expect(() => originOf(line)).toThrow('let go');

  let kept: Item | null = null;
  const late = each(item => {
    kept ??= item;
    return Number(item.id) === LINES - 1 ? kept : { ...item };
  });
  await expect(run(late)).rejects.toThrow('let go');
});
