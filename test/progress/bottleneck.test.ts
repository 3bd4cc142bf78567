/**
 * A bottleneck is named where its change brings a tenth at least, and not where it brings less: each change is made, on
 * simulated engines in virtual time.
 */
import { expect, test } from 'vitest';
import { presetNamed } from '../../products/simulator/presets.ts';
import type { Limits } from '../../products/simulator/scheduler.ts';
import { slow } from '../all.ts';
import { type Watched, watch } from './watched.ts';

const limitsOf = ({ preset, limits }: Watched): Limits => ({ ...presetNamed(preset).limits, ...limits });

/** A load whose servers run so many sequences at a time. */
function withSeqs(load: Watched, maxNumSeqs: number): Watched {
  const maxNumBatchedTokens = Math.max(limitsOf(load).maxNumBatchedTokens, maxNumSeqs);
  return { ...load, limits: { ...load.limits, maxNumSeqs, maxNumBatchedTokens } };
}

/** What the bottleneck of that name says would help; `limit` is what the pool had found, or was told. */
const CHANGES: Record<string, (load: Watched, limit: number) => Watched> = {
  slots: load => withSeqs(load, 2 * limitsOf(load).maxNumSeqs),
  pinned: (load, limit) => ({ ...load, limit: 2 * limit }),
  kv: load => ({ ...load, limits: { ...load.limits, kvTokens: 2 * limitsOf(load).kvTokens } }),
  prompts: load => ({ ...load, prompt: load.prompt / 2, shared: (load.shared ?? 0) / 2 }),
  'in-flight': load => ({ ...load, inFlight: 2 * (load.inFlight as number) }),
};
/** Shorter prompts nearly always help, so that they are named where they are most of the work. */
const ALWAYS_HELPS = 'prompts';
const TENTH = 1.1;

async function judged(load: Watched, expected: string, others: readonly string[]): Promise<void> {
  const { seconds, found, stats } = await watch(load);
  expect(found.limit, found.text).toBe(expected);
  const limit = stats.endpoints[0]?.limit as number;
  const gainOf = async (name: string): Promise<number> =>
    seconds / (await watch((CHANGES[name] as (typeof CHANGES)[string])(load, limit))).seconds;
  if (expected in CHANGES)
    expect(await gainOf(expected), `${expected} brings a tenth`).toBeGreaterThan(TENTH);
  for (const name of others)
    if (name !== expected && name !== ALWAYS_HELPS)
      expect(await gainOf(name), `${name}, which is not named`).toBeLessThan(1.15);
}

const A6000 = '3b-a6000';
const A100 = '8b-a100-80g';
const H100 = '8b-h100';

test.each<[string, Watched, string[]]>([
  ['slots', { preset: A6000, calls: 192, prompt: 100, writes: 150, limits: { maxNumSeqs: 16 } }, []],
  ['pinned', { preset: A6000, calls: 192, prompt: 100, writes: 150, limit: 16 }, ['slots']],
  ['prompts', { preset: A6000, calls: 768, prompt: 1000, writes: 60, limits: { maxNumSeqs: 64 } }, ['slots']],
  ['kv', { preset: A6000, calls: 150, prompt: 400, writes: 200, limits: { kvTokens: 12_000 } }, ['slots']],
  ['in-flight', { preset: A6000, calls: 200, prompt: 100, writes: 150, inFlight: 8 }, ['slots']],
])('%s: %j', (expected, load, others) => judged(load, expected, others));

const RUN = { calls: 1_152 };
const ALL_CASES: [string, Watched][] = [A6000, A100].flatMap((preset): [string, Watched][] => [
  ['slots', { preset, calls: 192, prompt: 600, writes: 100, limits: { maxNumSeqs: 16 } }],
  ['slots', { preset, calls: 192, prompt: 1_000, writes: 60, limits: { maxNumSeqs: 16 } }],
  ['slots', withSeqs({ preset, ...RUN, prompt: 100, writes: 150 }, 96)],
  ['prompts', withSeqs({ preset, ...RUN, prompt: 600, writes: 100 }, 96)],
  ['prompts', withSeqs({ preset, ...RUN, prompt: 1_000, writes: 60 }, 96)],
  ['pinned', { preset, calls: 192, prompt: 1_000, writes: 60, limit: 16 }],
  ['pinned', { preset, ...RUN, prompt: 100, writes: 150, limit: 96 }],
  ['prompts', { preset, ...RUN, prompt: 600, writes: 100, limit: 96 }],
  ['kv', { preset, calls: 600, prompt: 100, writes: 300, limits: { kvTokens: 20_000 } }],
  ['prompts', { preset, calls: 1_200, prompt: 1_000, writes: 100, limits: { kvTokens: 60_000 } }],
  ['prompts', { preset, calls: 600, prompt: 1_200, writes: 40, shared: 1_100, group: 10, shuffled: true }],
]);
ALL_CASES.push(
  ['slots', { preset: H100, calls: 1_500, prompt: 200, writes: 150, limits: { maxNumSeqs: 128 } }],
  ['prompts', { preset: H100, calls: 3_000, prompt: 250, writes: 100 }],
  ['prompts', { preset: H100, calls: 3_000, prompt: 250, writes: 100, limits: { maxNumSeqs: 4_096 } }],
  ['slots', { preset: A6000, calls: 300, prompt: 300, writes: 150, silent: true, limits: { maxNumSeqs: 8 } }],
  ['prompts', { preset: A6000, calls: 600, prompt: 1_500, writes: 20, silent: true }],
);

// of each kind the changes that are not named are made on one kind of server
slow.each(ALL_CASES)('%s: %j', (expected, load) =>
  judged(load, expected, load.preset === A100 ? [] : ['slots', 'pinned', 'kv']),
);

slow('prompts that begin alike take less where they are next to each other, as the words say', async () => {
  const load = { preset: '8b-a100-40g', calls: 600, prompt: 1_200, writes: 40, shared: 1_100, group: 10 };
  const shuffled = await watch({ ...load, shuffled: true, limits: { kvTokens: 80_000 } });
  expect(shuffled.found.text).toContain('where prompts begin alike, such next to each other');
  const sorted = await watch({ ...load, limits: { kvTokens: 80_000 } });
  expect(shuffled.seconds / sorted.seconds).toBeGreaterThan(TENTH);
});
