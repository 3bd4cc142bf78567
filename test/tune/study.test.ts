/** Whole studies, whose servers are engines in virtual time: what is found, how many starts it takes, and what is not claimed. */
import { beforeAll, describe, expect, test } from 'vitest';
import type { Lengths } from '../../products/measure/tune/rank.ts';
import { rank } from '../../products/measure/tune/rank.ts';
import { tune } from '../../products/measure/tune/tune.ts';
import { gridOf, type Study, settingKey } from '../../products/measure/tune/tune-file.ts';
import { presetFrom, presetNamed } from '../../products/simulator/presets.ts';
import { ALL, every, runs } from '../all.ts';
import { virtualWorld } from './virtual.ts';

const preset = presetNamed('3b-a6000');
const study = (more: Partial<Study> = {}): Study => ({
  path: 'tune.yaml',
  serve: '',
  endpoint: 'http://127.0.0.1:1/v1',
  model: undefined,
  space: { max_num_seqs: [16, 32, 64, 128, 256, 512], max_num_batched_tokens: [512, 1024, 2048, 8192] },
  present: { max_num_seqs: 16, max_num_batched_tokens: 512 },
  load: { input_tokens: 300, output_tokens: 24 },
  slo: [{ name: 'e2el_p99', metric: 'e2el', percentile: 99, ms: 2_500 }],
  goal: 'requests',
  price: undefined,
  gpus: 1,
  preset: '3b-a6000',
  readyMs: 1,
  blockMs: 30_000,
  seed: 7,
  ...more,
});
const lengths = (of: Study): Lengths[] => [
  { prompt: of.load.input_tokens as number, shared: 0, output: of.load.output_tokens as number },
];

/** The preset with its constants wrong by these factors. */
const off = (weights: number, token: number, kv: number) =>
  presetFrom(
    {
      ...preset.file,
      weights_ms: preset.file.weights_ms * weights,
      ms_per_token: preset.file.ms_per_token * token,
      kv_us_per_1k_tokens: preset.file.kv_us_per_1k_tokens * kv,
    },
    'test',
  );

describe.runIf(ALL)('24 settings, a bound on the p99 of E2EL, a preset that is a fifth off', () => {
  const of = study();
  let truth: Map<string, number>;
  let best: number;
  beforeAll(() => {
    const ranked = rank({ ...of, seed: 99 }, preset, lengths(of), gridOf(of.space));
    truth = new Map(ranked.map(({ setting, rate }) => [settingKey(setting), rate ?? 0]));
    best = Math.max(...truth.values());
  });
  const wrong = [
    [1.2, 0.8, 1.2],
    [1.2, 1.2, 1.2],
    [0.8, 1.2, 0.8],
    [0.8, 0.8, 0.8],
  ] as const;

  test.each(wrong)('W × %d, c × %d, κ × %d: within 2 % of the best, in eight starts', async (...factors) => {
    const made = virtualWorld({ preset, study: of, noise: { block: 0.005, start: 0.002 }, seed: 3 });
    const { entries, confirmation, best: found } = await tune(made.world, off(...factors), null);
    expect(truth.get(settingKey(found?.setting as never))).toBeGreaterThanOrEqual(0.98 * best);
    expect(entries.length).toBeLessThanOrEqual(8);
    expect(made.starts.filter(({ phase }) => phase === 'race').length).toBeLessThanOrEqual(8);
    expect(confirmation?.verdict).toBe('better');
    const gain = best / (truth.get(settingKey(of.present)) as number) - 1;
    expect(confirmation?.gain?.low).toBeLessThan(gain + 0.02);
    expect(confirmation?.gain?.high).toBeGreaterThan(gain - 0.02);
  });
});

describe('the same bound, by whoever stands where', () => {
  const values = { max_num_seqs: [128], max_num_batched_tokens: [1024, 2048] };

  test('a present setting that looks better than it is, by the arrivals of its race, is found out', async () => {
    const of = study({ space: values, present: { max_num_seqs: 128, max_num_batched_tokens: 2048 } });
    const { confirmation } = await tune(virtualWorld({ preset, study: of }).world, preset, null);
    expect(confirmation?.verdict).toBe('better');
    expect(confirmation?.rate).toBeGreaterThan(confirmation?.present_rate as number);
    expect(confirmation).toMatchObject({ best_kept: true, present_kept: true });
  });

  test('of two settings that are one to the engine nothing is claimed', async () => {
    const of = study({
      space: { max_num_seqs: [128], max_num_batched_tokens: [1024], swap_space: [4, 8] },
      present: { max_num_seqs: 128, max_num_batched_tokens: 1024, swap_space: 4 },
    });
    for (const seed of every(3, [1, 2, 3])) {
      const made = virtualWorld({ preset, study: of, noise: { block: 0.01, start: 0.01 }, seed });
      const { best, present, confirmation } = await tune(made.world, preset, null);
      expect(best === present || confirmation?.verdict === 'no difference').toBe(true);
    }
  });
});

describe('without bounds', () => {
  const of = study({
    slo: [],
    goal: 'tokens',
    space: { max_num_seqs: [64, 65, 66, 67] },
    present: { max_num_seqs: 64 },
    preset: undefined,
  });

  test('equal settings: a gain is claimed no more often than its interval allows', async () => {
    let claimed = 0;
    const times = runs(50, 400);
    for (let seed = 1; seed <= times; seed++) {
      const { world } = virtualWorld({
        preset,
        study: of,
        noise: { block: 0.02, start: 0.01 },
        seed,
        throughput: () => 50,
      });
      const { confirmation } = await tune(world, null, null);
      if (confirmation?.verdict === 'better') claimed++;
    }
    // half of 5 %, since only gains are claimed; four deviations above it
    expect(claimed / times).toBeLessThan(0.025 + 4 * Math.sqrt((0.025 * 0.975) / times));
  });

  test('a setting that is a tenth better is found, with its gain', async () => {
    const { world } = virtualWorld({
      preset,
      study: of,
      noise: { block: 0.01, start: 0.005 },
      seed: 5,
      throughput: ({ max_num_seqs: seqs }) => (seqs === 66 ? 55 : 50),
    });
    const { best, confirmation } = await tune(world, null, null);
    expect(best?.setting).toEqual({ max_num_seqs: 66 });
    expect(confirmation?.verdict).toBe('better');
    expect(confirmation?.gain?.value).toBeCloseTo(0.1, 1);
    expect(confirmation?.best).toHaveLength(3);
  });

  test('the best and the present one are confirmed in turn, and one that fails then gives way to the next', async () => {
    const made = virtualWorld({
      preset,
      study: of,
      seed: 5,
      throughput: ({ max_num_seqs: seqs }) => ({ 66: 55, 65: 53 })[seqs as number] ?? 50,
      fails: ({ max_num_seqs: seqs }, { phase, run }) =>
        seqs === 66 && phase === 'confirm' && run === 2
          ? { kind: 'out-of-memory', message: 'it ended with code 1', lines: [] }
          : undefined,
    });
    const { best, entries } = await tune(made.world, null, null);
    expect(best?.setting).toEqual({ max_num_seqs: 65 });
    expect(entries.find(({ setting }) => setting.max_num_seqs === 66)?.state).toBe('failed');
    const confirmed = made.starts
      .filter(({ phase }) => phase === 'confirm')
      .map(({ setting }) => setting.max_num_seqs);
    expect(confirmed).toEqual([66, 64, 65, 65, 64, 65, 64]);
  });

  test('a present setting that does not start: the best is named all the same', async () => {
    const { world } = virtualWorld({
      preset,
      study: of,
      throughput: () => 50,
      fails: ({ max_num_seqs: seqs }) =>
        seqs === 64 ? { kind: 'does-not-start', message: 'it ended with code 1', lines: [] } : undefined,
    });
    const { present, confirmation } = await tune(world, null, null);
    expect(present.failure?.kind).toBe('does-not-start');
    expect(confirmation?.verdict).toBe('present fails');
    expect(confirmation?.gain).toBeNull();
  });

  test('memory: as few starts as a bisection needs', async () => {
    const shares = [0.7, 0.75, 0.8, 0.85, 0.9, 0.92, 0.94, 0.96];
    const made = virtualWorld({
      preset,
      study: { ...of, space: { gpu_memory_utilization: shares }, present: { gpu_memory_utilization: 0.9 } },
      throughput: () => 50,
      fails: ({ gpu_memory_utilization: share }) =>
        (share as number) > 0.93 ? { kind: 'out-of-memory', message: 'it ended', lines: [] } : undefined,
    });
    const { memory } = await tune(made.world, null, null);
    expect(memory?.found).toBe(0.92);
    expect(memory?.tried).toHaveLength(3);
  });
});
