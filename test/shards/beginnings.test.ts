/** Lines that begin alike are in one shard, and the plan of the same lines is the same one. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { newPlanner, type Plan } from '../../products/workers/shard-plan.ts';
import { folder } from '../fw.ts';

const documents = Array.from(
  { length: 50 },
  (_document, at) => `Document ${at}. ${'It says this. '.repeat(100)}`,
);
const lines = [1, 2, 3, 4, 5, 6, 7, 8].flatMap(question =>
  documents.map((document, at) => ({ id: `${at}-${question}`, text: `${document}${question}` })),
);

function planOf(dir: string, all: readonly { id: string; text: string }[], withTexts: boolean): Plan {
  const planner = newPlanner(join(dir, 'lines.unfinished'), { lines: 40, bytes: 1 << 20 });
  for (const { id, text } of all)
    planner.add(Buffer.from(`${JSON.stringify({ id, text })}\n`), withTexts ? [text] : undefined);
  return planner.finish(sha256 => join(dir, sha256.slice(0, 16)));
}

function idsOf({ folder: dir, shards }: Plan): string[][] {
  const bytes = readFileSync(join(dir, 'lines.jsonl'));
  return shards.map(({ from, bytes: length }) =>
    bytes
      .subarray(from, from + length)
      .toString()
      .trimEnd()
      .split('\n')
      .map(line => (JSON.parse(line) as { id: string }).id),
  );
}

test('lines that begin alike are in one shard, each line once', () => {
  const plan = planOf(folder(), lines, true);
  const shards = idsOf(plan);
  expect(shards.flat().sort()).toEqual(lines.map(({ id }) => id).sort());
  for (let at = 0; at < documents.length; at++)
    expect(shards.filter(ids => ids.some(id => id.startsWith(`${at}-`)))).toHaveLength(1);
});

test('a plan that is there stays, in the order that it has: the same lines have the same name', () => {
  const dir = folder();
  const before = planOf(dir, lines, false); // as it was made before lines were arranged
  const after = planOf(dir, lines, true);
  expect(after).toEqual({ ...before, isNew: undefined });
  expect(idsOf(after).flat()).toEqual(lines.map(({ id }) => id));
});
