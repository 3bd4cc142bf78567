/** How the runs on record ended, as `fw ledger ls` tells it: by the last line of their files, else by their locks. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { isEnd, isSealed } from '../../engine/asking/ledger/ledger-format.ts';
import { binFolder, folder } from '../fw.ts';
import { fw } from '../here.ts';
import { servers } from '../pipe/servers.ts';
import { until } from '../pool/serving.ts';

const ITEMS = Array.from({ length: 3 }, (_, at) => `{"id":"i${at}","prompt":"Application Data: {}"}\n`).join(
  '',
);

/** The files of runs in a ledger that have a header, the oldest first. */
function filesIn(ledger: string): string[] {
  return (readdirSync(ledger, { recursive: true }) as string[])
    .filter(name => name.endsWith('.ndjson'))
    .sort()
    .map(name => join(ledger, name))
    .filter(path => statSync(path).size > 0);
}

async function statesOf(cwd: string): Promise<string[]> {
  const { code, stdout } = await fw('fw ledger ls', { cwd });
  expect(code).toBe(0);
  const [head = '', ...rows] = stdout.trimEnd().split('\n');
  const from = head.indexOf('state');
  return rows.map(row => row.slice(from, head.indexOf('file')).trim());
}

/** A run that hangs at its first call. */
async function begun(cwd: string, flags: string) {
  const there = filesIn(join(cwd, 'ledger')).length;
  const child = spawn(
    join(binFolder, 'fw'),
    ['chain', '--ledger', 'ledger', '--grace', '0s', 'items.jsonl', ...flags.split(' ')],
    { cwd, stdio: 'ignore' },
  );
  await until(() => filesIn(join(cwd, 'ledger')).length > there);
  return {
    async stop(signal: NodeJS.Signals) {
      child.kill(signal);
      await once(child, 'exit');
    },
  };
}

test('ended, stopped, running, killed, and what is no longer known', async () => {
  const fast = await servers(1);
  const uneven = await servers(1, { latency: '1ms-400ms' });
  const slow = await servers(1, { latency: '600s' });
  const cwd = folder();
  writeFileSync(join(cwd, 'items.jsonl'), ITEMS);
  const ended = await fw(`fw chain --ordered --ledger ledger ${fast.flags} < items.jsonl`, { cwd });
  expect(ended.code).toBe(0);
  expect(await statesOf(cwd)).toEqual(['ended']);

  const seed = `--seed 5 ${slow.flags}`;
  const stopped = await begun(cwd, seed);
  expect(await statesOf(cwd)).toEqual(['ended', 'running']);
  await stopped.stop('SIGTERM');
  expect(await statesOf(cwd)).toEqual(['ended', 'stopped']);

  const killed = await begun(cwd, seed);
  await killed.stop('SIGKILL');
  expect(await statesOf(cwd)).toEqual(['ended', 'stopped', 'killed']);

  // the next run of the same kind removes the lock
  const next = await begun(cwd, seed);
  await next.stop('SIGTERM');
  expect(await statesOf(cwd)).toEqual(['ended', 'stopped', 'no end on record', 'stopped']);

  // the output is full with its first line, while other items are asked
  const full = await fw(
    `for n in {1..40}; do sed "s/i0/i$n/;1q" items.jsonl; done | fw chain --ledger ledger ${uneven.flags} > /dev/full`,
    { cwd },
  );
  expect(full.code).toBe(74);
  expect((await statesOf(cwd)).at(-1)).toBe('broken off');

  // the end is the last line of its run, and no run that asks nothing makes a file for it
  const files = filesIn(join(cwd, 'ledger'));
  for (const path of files) {
    const lines = readFileSync(path, 'utf8')
      .trimEnd()
      .split('\n')
      .map(Buffer.from as (line: string) => Buffer);
    const ends = lines.filter(isEnd);
    expect(ends.length).toBeLessThanOrEqual(1);
    expect(ends.every(isSealed)).toBe(true);
    if (ends.length > 0) expect(isEnd(lines.at(-1) as Buffer)).toBe(true);
  }
  const again = await fw(`fw chain --ordered --ledger ledger ${fast.flags} < items.jsonl`, { cwd });
  expect(again.stdout).toBe(ended.stdout);
  expect(filesIn(join(cwd, 'ledger'))).toEqual(files);
  const checked = await fw('fw ledger check --read-data', { cwd });
  expect([checked.code, checked.stdout]).toEqual([0, expect.not.stringContaining('expected')]);
  const repaired = await fw('fw ledger repair --out new; fw ledger ls --ledger new', { cwd });
  expect(repaired.stdout).toMatch(/ stopped .*\n.* stopped .*\n.* broken off /s);
});
