/** A run whose asking stages are done by workers: what comes out is what one process would give, whatever happened before. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import type { Item } from '../../engine/core/item/item.ts';
import { run, type Stopper } from '../../engine/running/run.ts';
import { createDesk, type Desk } from '../../products/workers/desk.ts';
import type { Pointer } from '../../products/workers/protocol.ts';
import { linesOf, type Plan, readPlan } from '../../products/workers/shard-plan.ts';
import type { PlannedWork } from '../../products/workers/shard-work.ts';
import { remotePool, sharding } from '../../products/workers/sharding.ts';
import { folder } from '../fw.ts';

interface Asked {
  dir: string;
  input: string;
  /** answers a part; null leaves it unanswered */
  work?(lines: string[]): string[] | null;
  stop?(stop: (by: Stopper) => void): void;
}

/** One run with one worker in this process. */
async function sharded({ dir, input, work = lines => lines, stop }: Asked) {
  const file = join(dir, 'in.ndjson');
  writeFileSync(file, input);
  const jobs: Pointer[] = [];
  const queue = {
    add: async (_name: string, offers: { pointer: Pointer }[]) =>
      void jobs.push(...offers.map(({ pointer }) => pointer)),
    waiting: async () => new Set<string>(),
    onReady() {},
    isUp: true,
    close: async () => {},
  };
  const desk: Desk = createDesk({ queue, id: 'test', lease: 2_000, say() {} });
  onTestFinished(() => desk.close());
  let open: PlannedWork | null = null;
  const stage = sharding({
    desk,
    spool: join(dir, 'spool'),
    workOf: sha256 => ({
      id: sha256.slice(0, 16),
      folder: join(dir, 'work'),
      task: { label: 'test', row: [], files: null, models: [], owner: '', weight: 1 },
      files: null,
    }),
    onOpen: work => {
      open = work;
    },
  });
  const working = setInterval(() => {
    const name = jobs.shift();
    if (name === undefined) return;
    const lines = desk.take(name, 'w').lines.toString().trimEnd().split('\n');
    const answers = work(lines);
    if (answers === null) return;
    const asked = {
      calls: lines.length,
      retries: 0,
      replayed: 0,
      promptTokens: 1,
      completionTokens: 1,
      cachedTokens: 0,
    };
    const answered = lines.map((_, at) => at);
    desk.put(
      name,
      { worker: 'w', answered, asked, model: 'm', seconds: 1 },
      Buffer.from(`${answers.join('\n')}\n`),
    );
  }, 1);
  const out: string[] = [];
  const said: string[] = [];
  const ended = await run({
    label: 'test',
    row: [{ stage, options: { 'max-line': 1 << 20 } }],
    files: [file],
    base: dir,
    toNext: false,
    openPool: async () => remotePool(desk, () => open),
    output: () => ({
      write(item: Item) {
        out.push(JSON.stringify(item));
        return true;
      },
      ready: act => act(),
      end: async () => {},
    }),
    say: text => said.push(text),
    stoppable(act) {
      stop?.(act);
      return () => {};
    },
  }).finally(() => clearInterval(working));
  return { ...ended, out, said };
}

const lines = (count: number): string[] =>
  Array.from({ length: count }, (_, at) => JSON.stringify({ id: `i${at}`, prompt: `${at}` }));

test('each line comes back once, with the account of a run that asked itself', async () => {
  const dir = folder();
  const { out, exit, account, said } = await sharded({ dir, input: `${lines(450).join('\n')}\n` });
  expect([...out].sort()).toEqual(lines(450).sort());
  expect(exit).toBe(0);
  expect(account).toMatchObject({ read: 450, asked: { calls: 450, promptTokens: 3 } });
  expect(said.join('\n')).toContain('in 450 = 450 clean');
});

test('an answer may be longer than a line of the input', async () => {
  const answer = 'x'.repeat(2 << 20);
  const { out, account } = await sharded({
    dir: folder(),
    input: '{"id":"a","prompt":"x"}\n',
    work: () => [JSON.stringify({ id: 'a', answer })],
  });
  expect(out).toEqual([JSON.stringify({ id: 'a', answer })]);
  expect(account.rungs).toMatchObject({ clean: 1, failed: 0 });
});

test('no lines are no work, and lines that nobody can read go the way of all others', async () => {
  const dir = folder();
  expect(await sharded({ dir: folder(), input: '' })).toMatchObject({ exit: 0, out: [] });
  const { out, account } = await sharded({ dir, input: '{"id":"a","prompt":"x"}\nnone\n' });
  expect(out).toHaveLength(2);
  expect(account.rungs).toMatchObject({ clean: 1, failed: 1 });
});

test('a run that was stopped goes on with what came back, and asks no line twice', async () => {
  const dir = folder();
  let given = 0;
  let stop = (_by: Stopper): void => {};
  const input = `${lines(600).join('\n')}\n`;
  const first = await sharded({
    dir,
    input,
    work(some) {
      given += some.length;
      if (given > 200) {
        stop({ name: 'SIGTERM', exit: 143 });
        return null;
      }
      return some;
    },
    stop: act => {
      stop = act;
    },
  });
  expect(first).toMatchObject({ exit: 143 });
  expect(first.out).toHaveLength(200);
  const again: string[] = [];
  const second = await sharded({
    dir,
    input,
    work(some) {
      again.push(...some);
      return some;
    },
  });
  expect([...second.out].sort()).toEqual(lines(600).sort());
  expect(again).toHaveLength(400);
});

test('another input in the same place is refused, and a changed spool is found', async () => {
  const dir = folder();
  await sharded({ dir, input: `${lines(3).join('\n')}\n` });
  const other = await sharded({ dir, input: `${lines(4).join('\n')}\n` });
  expect(other).toMatchObject({ exit: 65, out: [] });
  expect(other.said.join()).toContain('found others: the input has changed');
  expect(existsSync(join(dir, 'spool'))).toBe(false);
  const path = join(dir, 'work', 'lines.jsonl');
  writeFileSync(path, readFileSync(path, 'utf8').replace('"2"', '"9"'));
  expect(() => linesOf(readPlan(join(dir, 'work')) as Plan, 0)).toThrow('the file has changed');
});
