/**
 * The stage that stands for stages which workers run: it takes all items, plans them as shards, and gives out what comes
 * back, a shard at a time, in the order in which shards are done.
 */
import type { ByteInput } from '../../engine/core/files/input-files.ts';
import { letGo, originOf } from '../../engine/core/files/origin.ts';
import { type Item, saysEnd } from '../../engine/core/item/item.ts';
import { afterwards } from '../../engine/flow/afterwards.ts';
import { COMMON } from '../../engine/flow/join.ts';
import { type Stage, stage } from '../../engine/flow/stage.ts';
import type { Desk } from './desk.ts';
import { newPlanner } from './shard-plan.ts';
import type { PlannedWork, Work } from './shard-work.ts';

export interface ShardingOptions {
  desk: Desk;
  /** the work, and its folder, given the SHA-256 of its lines: the same lines go on where they were */
  workOf(sha256: string): Work & { folder: string };
  /** a path on the disk of that folder, for the lines until all are here */
  spool: string;
  /** What is to be known of the lines once all have come, and before they are given out. */
  settle?(): Promise<void>;
  /** told once the work is open */
  onOpen?(work: PlannedWork): void;
}

export const NAME = 'sharding';

/** bytes: an answer makes a line longer than the input may have, and what workers hand in was bounded when it came */
const WHOLE = Number.MAX_SAFE_INTEGER;

export function sharding({ desk, workOf, spool, settle, onOpen }: ShardingOptions): Stage {
  return stage({
    name: NAME,
    summary: 'Let workers ask.',
    asks: 'always',
    options: { 'max-line': COMMON['max-line'] },
    async through(_options, tools) {
      const { signal, account } = tools;
      await tools.pool({ stage: NAME, agents: {}, options: {} });
      const planner = newPlanner(spool);
      let own: (Work & { folder: string }) | undefined;
      /** that the input is not whole is no work: it is passed on behind the others */
      const ends: Buffer[] = [];

      function take(item: Item): void {
        if (saysEnd(item)) ends.push(bytesOf(item));
        else planner.add(bytesOf(item));
        letGo(item);
      }

      async function opened(): Promise<ByteInput> {
        await settle?.().catch(error => {
          if (!signal.aborted) throw error;
        });
        if (signal.aborted) {
          planner.drop(); // a plan is always of the whole
          return inputOf(async () => null);
        }
        const plan = planner.finish(sha256 => {
          own = workOf(sha256);
          return own.folder;
        });
        const work = desk.open(own as Work, plan);
        account.workloads.push(work.workload);
        onOpen?.(work);
        signal.addEventListener('abort', () => work.close(), { once: true });
        return inputOf(async () => {
          const lines = await work.next();
          if (lines !== null) return lines;
          // what is only stopped goes on another time: workers keep what they have, and may still hand it in
          if (signal.aborted) return null;
          desk.drop(work.id);
          return ends.shift() ?? null;
        });
      }
      return afterwards(take, opened, { stage: NAME, maxLine: WHOLE, stopped: () => false });
    },
  });
}

/** As it would go through a pipe. */
function bytesOf(item: Item): Buffer {
  const origin = originOf(item);
  if (origin === undefined) return Buffer.from(`${JSON.stringify(item)}\n`);
  const { block, from, to } = origin;
  const bytes = block.subarray(from, to);
  return bytes.at(-1) === 0x0a ? bytes : Buffer.concat([bytes, Buffer.from('\n')]);
}

function inputOf(next: () => Promise<Buffer | null>): ByteInput {
  return {
    name: 'the workers',
    regular: true,
    async read(rest) {
      const block = await next();
      if (block === null || rest === null || rest.length === 0) return block;
      return Buffer.concat([rest, block]);
    },
    close() {},
  };
}
