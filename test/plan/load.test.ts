/** fw plan --rate and --concurrency: loads in virtual time, held to what can be worked out by hand. */
import { expect, test } from 'vitest';
import { loadsJson, planLoads, renderLoads } from '../../products/plan/load/load-plan.ts';
import { promptLike } from '../../products/plan/load/prompts.ts';
import { runLoad } from '../../products/plan/load/virtual-load.ts';
import { presetGiven } from '../../products/simulator/preset-options.ts';
import { presetNamed } from '../../products/simulator/presets.ts';
import { stepMs } from '../../products/simulator/steptime.ts';
import { fw } from '../here.ts';

const preset = presetNamed('8b-h100');

test('one request at a time takes what its steps take', () => {
  const { rows } = planLoads(preset, {
    concurrency: '1',
    'input-tokens': 320,
    'output-tokens': 50,
    requests: 20,
  });
  const { ttft, tpot, itl, e2el, requests, peak, cached } = rows[0]!.figures;
  const first = stepMs(preset.step, 1, 320, 320, 320 * 320);
  expect(ttft.mean).toBeCloseTo(first, 6);
  expect(tpot.p50).toBeCloseTo((e2el.mean - ttft.mean) / 49, 6);
  expect(itl.mean).toBeCloseTo(tpot.mean, 6);
  expect([requests, peak, cached]).toEqual([20, 1, 0]);
});

test('a rate is kept, an overload is not, and what is in time is counted', () => {
  const asked = { 'input-tokens': 512, 'output-tokens': 64, duration: '30s', goodput: ['ttft:200'] };
  const { rows } = planLoads(preset, { ...asked, rate: '5,200' });
  const [calm, full] = rows.map(({ figures }) => figures);
  expect(calm!.requests / calm!.duration).toBeCloseTo(5, 0);
  expect(calm!.good).toBe(calm!.requests);
  expect(full!.requests / full!.duration).toBeLessThan(150);
  expect(full!.good).toBeLessThan(full!.requests / 2);
  expect(full!.e2el.p99).toBeGreaterThan(full!.e2el.p50);
  const two = planLoads(preset, { ...asked, rate: '200', endpoints: 2 }).rows[0]!.figures;
  expect(two.duration).toBeLessThan(0.7 * full!.duration);
});

test('what a group shares, and what a user has said before, is in the prefix cache', () => {
  const asked = { rate: '4', 'input-tokens': 800, 'prefix-tokens': 640, 'output-tokens': 32, requests: 200 };
  const shared = planLoads(preset, { ...asked, groups: 2 }).rows[0]!.figures;
  expect(shared.cached).toBeCloseTo(0.8 * (198 / 200), 1);
  const talks = planLoads(preset, { ...asked, users: 10, turns: 5 }).rows[0]!.figures;
  // of five turns prompts of 800, 992, … 1,568 tokens
  expect(talks.inputTokens / talks.requests).toBeCloseTo(1_184, -1);
  expect(talks.cached).toBeGreaterThan(0.7);
  const alone = planLoads(preset, { ...asked, 'prefix-tokens': 0 }).rows[0]!.figures;
  expect(alone.ttft.mean).toBeGreaterThan(shared.ttft.mean);
  expect(alone.cached).toBe(0);
});

test('blocks are the same where they are shared, and nowhere else', () => {
  const seen = new Set<string>();
  const of = (group: number, own: number) => promptLike({ tokens: 320, shared: 160, group, own }).blocks;
  for (let group = 0; group < 20; group++)
    for (let own = 0; own < 50; own++) {
      const blocks = of(group, own);
      for (let at = 0; at < blocks.length; at += 2) seen.add(`${blocks[at]} ${blocks[at + 1]}`);
    }
  expect(seen.size).toBe(20 * 10 + 50 * 10);
  expect([...of(3, 1).slice(0, 20)]).toEqual([...of(3, 2).slice(0, 20)]);
});

test('ten minutes at 20 requests a second are 12,000 requests', () => {
  const figures = planLoads(preset, {
    rate: '20',
    duration: '10m',
    'input-tokens': 600,
    'output-tokens': 250,
  }).rows[0]!.figures;
  expect(figures.requests).toBe(12_000);
  expect(figures.outputTokens).toBe(3_000_000);
});

test('the same load gives the same figures, and a page and JSON with the keys of fw bench', () => {
  const once = planLoads(preset, { rate: '3', concurrency: '2', requests: 30, goodput: ['e2el:5000'] });
  expect(planLoads(preset, { rate: '3', concurrency: '2', requests: 30, goodput: ['e2el:5000'] })).toEqual(
    once,
  );
  expect(renderLoads(once)).toMatch(
    /3 requests\/s: 30 requests[\s\S]*goodput[\s\S]*E2EL ms[\s\S]*2 in flight: 30 requests/,
  );
  const [row] = loadsJson(once);
  expect(row).toMatchObject({ request_rate: 3, completed: 30, max_concurrency: null });
  expect(row).toHaveProperty('median_itl_ms');
});

test('a prompt that never fits, and options that make no load, are refused', async () => {
  expect(() => planLoads(preset, { rate: '1', 'input-tokens': 900_000 })).toThrow(/the KV cache holds/);
  expect(() => planLoads(preset, { rate: 'x' })).toThrow(/--rate: expected numbers above 0/);
  expect(() => planLoads(preset, { rate: '1', turns: 2 })).toThrow(/expected --users with --turns/);
  expect(() => planLoads(preset, { rate: '1', 'prefix-tokens': 500 })).toThrow(
    /--prefix-tokens: expected at most/,
  );
  expect(() => planLoads(preset, { rate: '90000', duration: '1h' })).toThrow(/a shorter --duration/);
  const whole = { concurrency: '1.5' };
  expect(() => planLoads(preset, whole)).toThrow(/--concurrency: expected whole numbers .* found "1.5"/);
  expect(() => planLoads(preset, { rate: '1,,2' })).toThrow(/--rate: expected numbers above 0 .* found ""/);
  expect(() => planLoads(preset, { rate: '1', duration: '0s' })).toThrow(/--duration: expected a duration/);
  expect(() => planLoads(preset, { rate: '1', 'input-tokens': 1_000_000 })).toThrow(
    /^expected a prompt of at most [0-9]+ tokens, found 1000000: more than the KV cache holds$/,
  );
  const { code, stderr } = await fw('fw plan --rate 2 a.yaml --preset 8b-h100');
  expect([code, stderr]).toEqual([64, expect.stringContaining('found both')]);
});

test('a prompt and its answer are within the context of the model', () => {
  const llama = presetGiven({ 'model-config': 'meta-llama/Llama-2-7b-hf', gpu: 'h100-80g' })!.preset;
  const asked = { concurrency: '1', requests: 1, 'output-tokens': 96 };
  expect(planLoads(llama, { ...asked, 'input-tokens': 4_000 }).rows[0]!.figures.requests).toBe(1);
  expect(() => planLoads(llama, { ...asked, 'input-tokens': 4_001 })).toThrow(
    /at most 4,096 tokens, the context of meta-llama\/Llama-2-7b-hf, found 4,001 and 96/,
  );
  expect(() => planLoads(llama, { ...asked, 'input-tokens': 2_000, users: 1, turns: 3 })).toThrow(
    /found 6,192 and 96: fewer --turns/,
  );
});

test('a server that knew the prompts before has them in its cache', () => {
  const prompt = promptLike({ tokens: 640, shared: 0, group: 0, own: 1 });
  const when = { due: Float64Array.from([0, 500]) };
  const of = (warm: (typeof prompt)[]) =>
    runLoad({ preset, servers: 1, asking: () => ({ prompt, output: 4 }), when, warm }).cached;
  expect(of([prompt])).toBeCloseTo(624 / 640);
  expect(of([])).toBeCloseTo(312 / 640);
});
