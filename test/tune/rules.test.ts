/** The rules of a study, without a server: which rates are asked, when a setting is known, what is foretold and chosen. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { sharesWithin } from '../../products/measure/tune/measure-setting.ts';
import { keptBy, type Point } from '../../products/measure/tune/point.ts';
import { lastKept, ruling, rungOf, search } from '../../products/measure/tune/race.ts';
import {
  chosen,
  closedRun,
  openRun,
  rank,
  rankOne,
  scaled,
  throughputOf,
} from '../../products/measure/tune/rank.ts';
import { commandOf, gridOf, readStudy, studyKey } from '../../products/measure/tune/tune-file.ts';
import { presetFrom, presetNamed } from '../../products/simulator/presets.ts';
import { folder } from '../fw.ts';

describe('the highest rate', () => {
  /** asks as `search` wants, and counts */
  function asked(
    most: number,
    above: number | null,
    highest: number,
  ): { found: number | null; points: number[] } {
    const searching = search(most, above);
    const points: number[] = [];
    let step = searching.next();
    while (!step.done) {
      points.push(step.value);
      step = searching.next(step.value <= highest);
    }
    return { found: step.value, points };
  }

  test('is found exactly, wherever it is, and never beyond what a server takes', () => {
    for (let highest = 20; highest <= 240; highest++) {
      const { found, points } = asked(200, null, highest);
      expect(found).toBe(Math.min(200, highest));
      expect(Math.max(...points)).toBeLessThanOrEqual(200);
      expect(new Set(points).size).toBe(points.length);
    }
  });

  test('between half and all of what a server takes needs six points', () => {
    for (let highest = 166; highest <= 200; highest++)
      expect(asked(200, null, highest).points.length).toBeLessThanOrEqual(6);
  });

  test('of a setting that does not keep the next rung above the best one costs one point', () => {
    expect(asked(200, 180, 180)).toEqual({ found: null, points: [181] });
    expect(asked(200, 200, 300)).toEqual({ found: null, points: [] });
    expect(asked(200, 180, 190).found).toBe(190);
  });

  test('is none where nothing is kept', () => {
    expect(asked(200, null, -1_000).found).toBeNull();
  });

  test('rungs are 2 % apart, and a rate is on its rung', () => {
    for (const rung of [-200, -1, 0, 1, 80, 300]) {
      expect(rungOf.rate(rung + 1) / rungOf.rate(rung)).toBeCloseTo(1.02, 3);
      expect(rungOf.below(rungOf.rate(rung))).toBe(rung);
    }
    expect(lastKept(100, rung => rung <= 77)).toBe(77);
  });
});

describe('a setting in the race', () => {
  const best = { value: 100, low: 98, high: 102 };
  test('needs three blocks', () => expect(ruling([10, 10], best)).toBe('more'));
  test('is behind where its upper bound lies below the lower bound of the best', () =>
    expect(ruling([80, 82, 81], best)).toBe('behind'));
  test('is ahead where its lower bound lies above', () =>
    expect(ruling([120, 121, 119], best)).toBe('ahead'));
  test('goes on while the two overlap', () => expect(ruling([90, 105, 100], best)).toBe('more'));
  test('is known where the interval is narrow, or after eight blocks', () => {
    expect(ruling([100, 100.1, 99.9], best)).toBe('known');
    expect(ruling([90, 110, 95, 105, 90, 110, 95, 105], best)).toBe('known');
  });
});

const point = (good: number, of: number): Point =>
  ({ within: { e2el_p99: { good, of } } }) as unknown as Point;
const BOUND = [{ name: 'e2el_p99', metric: 'e2el', percentile: 99, ms: 100 }] as const;

test('a bound is kept by the share of its percentile, failures among the rest; few requests are not sure', () => {
  expect(keptBy([point(400, 400)], BOUND)).toEqual({ kept: true, sure: true });
  expect(keptBy([point(380, 400)], BOUND)).toEqual({ kept: false, sure: true });
  expect(keptBy([point(397, 400)], BOUND)).toEqual({ kept: true, sure: false });
  expect(keptBy([point(395, 400)], BOUND)).toEqual({ kept: false, sure: false });
  expect(keptBy([point(395, 400), point(400, 400)], BOUND).kept).toBe(true);
  expect(keptBy([point(0, 0)], BOUND).kept).toBe(false);
  expect(keptBy([point(0, 400)], []).kept).toBe(true);
});

test('an answer counts in a block by the share that came in it', () => {
  const columns: { [name: string]: number[] } = {
    sent: [0, 0, 0, 0],
    ttft: [100, 100, Number.NaN, 600],
    e2el: [200, 500, 300, 800],
  };
  const samples = { of: (name: string) => Float64Array.from(columns[name] as number[]) };
  expect([...sharesWithin(samples as never, 150, 350)]).toEqual([0.5, 0.5, 1, 0]);
});

describe('the space in virtual time', () => {
  const preset = presetNamed('3b-a6000');
  const lengths = [{ prompt: 300, shared: 0, output: 24 }];
  const study = {
    load: { input_tokens: 300, output_tokens: 24 },
    slo: [{ name: 'e2el_p99', metric: 'e2el', percentile: 99, ms: 2_500 }],
    goal: 'requests',
    price: undefined,
    gpus: 1,
    seed: 7,
  } as const;
  const grid = gridOf({ max_num_seqs: [16, 128, 512], max_num_batched_tokens: [1024, 8192] });

  test('foretells what the engine does, and ranks by the goal', () => {
    const ranked = rank(study, preset, lengths, grid);
    expect(ranked[0]?.setting).toEqual({ max_num_seqs: 128, max_num_batched_tokens: 1024 });
    expect(ranked.at(-1)?.setting.max_num_seqs).toBe(16);
    for (const { rate, capacity } of ranked) expect(rate).toBeLessThanOrEqual(capacity);
    // without bounds the largest batch is as good as any
    const free = rank({ ...study, slo: [], goal: 'tokens' }, preset, lengths, grid);
    expect(free[0]?.setting.max_num_batched_tokens).toBe(8192);
    expect(free[0]?.value).toBeCloseTo(24 * (free[0]?.capacity as number), -1);
  });

  test('one request at a time takes what the formula says', () => {
    const { ended } = closedRun(preset, lengths, { clients: 1, requests: 8 });
    const { step } = preset;
    const decode =
      step.t0 + step.perSequence + Math.hypot(step.weights, step.perToken) + step.perKvToken * 312;
    expect((ended[0]?.end as number) - (ended[0]?.first as number)).toBeCloseTo(23 * decode, 0);
    expect(throughputOf({ ended }).requests).toBeCloseTo(1000 / (ended[0]?.end as number), 1);
  });

  test('a rate below what the server takes is answered at that rate', () => {
    const { ended } = openRun(preset, lengths, { rate: 10, count: 600, seed: 3 });
    expect(ended).toHaveLength(600);
    expect(Math.max(...ended.map(({ end }) => end)) / 1000).toBeCloseTo(60, -1);
  });

  test('a server that would not start says why, and is not started', () => {
    const small = { ...lengths[0], prompt: 400_000 } as (typeof lengths)[number];
    const one = rankOne(study, preset, [small], { max_num_seqs: 16 });
    expect(one.refused).toContain('KV cache');
    expect(chosen([one], { max_num_seqs: 4 })).toEqual([{ max_num_seqs: 4 }]);
  });

  test('times that are a fifth off are scaled away by what the present setting did', () => {
    const off = presetFrom(
      {
        ...preset.file,
        weights_ms: preset.file.weights_ms * 1.2,
        ms_per_token: preset.file.ms_per_token * 1.2,
      },
      'test',
    );
    const setting = { max_num_seqs: 16, max_num_batched_tokens: 1024 };
    const [is, told] = [preset, off].map(each => rankOne(study, each, lengths, setting).capacity) as [
      number,
      number,
    ];
    const after = rankOne(study, scaled(off, told / is), lengths, setting).capacity;
    expect(told / is).toBeLessThan(0.9);
    expect(after / is).toBeCloseTo(1, 2);
  });

  test('at most eight settings are started, the present one first', () => {
    const large = gridOf({
      max_num_seqs: [64, 128, 256, 512],
      max_num_batched_tokens: [1024, 2048, 4096, 8192],
    });
    const picked = chosen(rank({ ...study, slo: [] }, preset, lengths, large), large[3] as never);
    expect(picked).toHaveLength(8);
    expect(picked[0]).toEqual(large[3]);
    expect(new Set(picked.map(each => JSON.stringify(each))).size).toBe(8);
  });
});

describe('tune.yaml', () => {
  const GOOD = `serve: vllm serve m --max-num-seqs {max_num_seqs} --x $HOME \${home}
endpoint: http://127.0.0.1:8005/v1
space: { max_num_seqs: [64, 128] }
present: { max_num_seqs: 64 }
load: { input_tokens: 40, output_tokens: 8 }
`;
  const written = (text: string): string => {
    const path = join(folder(), 'tune.yaml');
    writeFileSync(path, text);
    return path;
  };

  test('is read, and its command line is filled', () => {
    const study = readStudy(written(GOOD));
    expect(commandOf(study, { max_num_seqs: 128 })).toBe(
      `vllm serve m --max-num-seqs 128 --x $HOME \${home}`,
    );
    expect(study).toMatchObject({ goal: 'tokens', readyMs: 600_000, blockMs: 30_000, seed: 7, slo: [] });
  });

  test.each([
    [
      'a name that serve does not have',
      GOOD.replace('space: { ', 'space: { swap_space: [1], '),
      /:3:\d+: space: expected \{swap_space\} in serve/,
    ],
    [
      'a place that has no value',
      GOOD.replace('{max_num_seqs}', '{max_num_seqs} {max_len}'),
      /:1:\d+: serve: expected a value of \{max_len\}/,
    ],
    ['no present value', GOOD.replace('{ max_num_seqs: 64 }', '{ max_len: 4 }'), /:\d+:\d+: .*present/],
    ['a value that a shell would read', GOOD.replace('[64, 128]', '["64; rm -rf x"]'), /:3:/],
    [
      'a share as a number of sequences',
      GOOD.replace('[64, 128]', '[0.5]'),
      /space\.max_num_seqs: expected a whole number above 0, found/,
    ],
    [
      'nothing to ask',
      GOOD.replace('input_tokens: 40, ', ''),
      /:5:\d+: load: expected file, or input_tokens and output_tokens/,
    ],
    ['a goal without its bounds', `${GOOD}goal: goodput\n`, /:6:\d+: goal: expected bounds in slo/],
    ['a cost without a price', `${GOOD}goal: cost\n`, /:6:\d+: goal: expected price/],
    ['a bound that is none', `${GOOD}slo: { itl_p99: 3 }\n`, /:6:/],
    ['a key that is none', `${GOOD}slow: { itl_p99: 3 }\n`, /:6:1: expected the keys .*found 'slow'/],
    ['a block of no time', `${GOOD}block: 10ms\n`, /:6:\d+: block: expected a second or more/],
  ])('%s is refused with line and column', (_, text, message) => {
    expect(() => readStudy(written(text))).toThrow(message);
  });

  test('two studies are one where what is measured is the same', () => {
    const one = studyKey(readStudy(written(GOOD)));
    expect(studyKey(readStudy(written(GOOD.replace('[64, 128]', '[64, 128, 256]'))))).toBe(one);
    expect(studyKey(readStudy(written(GOOD.replace('input_tokens: 40', 'input_tokens: 41'))))).not.toBe(one);
    expect(studyKey(readStudy(written(GOOD.replace('vllm serve m', 'vllm serve n'))))).not.toBe(one);
  });
});
