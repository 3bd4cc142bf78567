/** fw plan --compare: cards side by side, for a number of prompts and for a rate. */
import { expect, test } from 'vitest';
import { type Comparing, compareCards, renderCompared } from '../../products/plan/load/compare-cards.ts';
import { comparePage } from '../../products/plan/load/compare-page.ts';
import { fw } from '../here.ts';

const bulk = (more: Partial<Comparing> = {}): Comparing => ({
  cards: 'h100-80g,2xa100-80g,l4',
  tp: '1,2',
  prices: ['h100-80g=3,a100-80g=1.5'],
  within: undefined,
  items: 20_000,
  given: { 'model-config': 'Qwen/Qwen2.5-14B-Instruct', 'input-tokens': 500, 'output-tokens': 100 },
  ...more,
});

test('how many, how long and at what cost follow from what a server does', () => {
  const { choices, not } = compareCards(bulk());
  expect(choices.map(({ card, tp }) => `${card} ${tp}`).sort()).toEqual([
    'a100-80g 1',
    'a100-80g 2',
    'h100-80g 1',
    'h100-80g 2',
    'l4 2',
  ]);
  expect(not).toMatchObject([{ card: 'l4', tp: 1, why: expect.stringMatching(/GiB too few; --tp 2/) }]);
  for (const { time, rate, servers, tp, gpuHours, cost, card } of choices) {
    expect(time).toBeCloseTo(20_000 / (rate * servers));
    expect(gpuHours).toBeCloseTo((servers * tp * time!) / 3600);
    if (card === 'l4') expect(cost).toBeNull();
    else expect(cost).toBeCloseTo(gpuHours * (card === 'h100-80g' ? 3 : 1.5));
  }
  // two cards there are: two servers of one, or one of two
  expect(
    choices
      .filter(({ card }) => card === 'a100-80g')
      .map(({ servers }) => servers)
      .sort(),
  ).toEqual([1, 2]);
  expect(choices.some(({ isBest }) => isBest)).toBe(true);
  const page = renderCompared({ choices, not }, bulk());
  expect(page).toContain('nothing was measured');
  expect(page).toMatch(/l4 with --tp 1: .* GiB too few/);
});

test('the page has each choice, and no script', () => {
  const compared = compareCards(bulk());
  const html = comparePage(compared, bulk());
  for (const { card, tp } of compared.choices) expect(html).toContain(`${card}, tp ${tp}`);
  expect(html).toContain('nothing beats these');
  expect(html).not.toContain('<script');
  expect(comparePage({ choices: [], not: [] }, bulk())).toContain('No card of these can do it');
});

test('a deadline decides how many cards', () => {
  const { choices } = compareCards(bulk({ cards: 'h100-80g', tp: '1', within: '5m', items: 100_000 }));
  const [one] = choices;
  expect(one!.servers).toBe(Math.ceil(100_000 / (one!.rate * 300)));
  expect(one!.time).toBeLessThanOrEqual(300);
});

test('a rate takes as many cards as keep the bounds', () => {
  const given = { ...bulk().given, rate: '30', goodput: ['ttft:1000', 'tpot:60'] };
  const { choices } = compareCards(bulk({ cards: 'h100-80g', tp: '1', items: undefined, given }));
  const [one] = choices;
  expect(one!.rate * one!.servers).toBeGreaterThanOrEqual(30);
  expect(one!.rate * (one!.servers - 1)).toBeLessThan(30);
  expect(one!.figures.good / one!.figures.requests).toBeGreaterThanOrEqual(0.99);
  const none = compareCards(
    bulk({ cards: 'h100-80g', tp: '1', items: undefined, given: { ...given, goodput: ['ttft:1'] } }),
  );
  expect(none.not).toMatchObject([{ why: expect.stringContaining('no load keeps the bounds') }]);
});

test.each([
  ['--items 10', 'expected --model-config'],
  ['--model-config Qwen/Qwen3-8B', 'expected --items'],
  ['--model-config Qwen/Qwen3-8B --rate 3', 'expected --goodput'],
  ['--model-config Qwen/Qwen3-8B --items 3 --tp 1,x', '--tp: expected'],
  ['--model-config Qwen/Qwen3-8B --items 3 --price h100', '--price: expected CARD=PRICE'],
])('fw plan --compare h100-80g %s is refused', async (options, message) => {
  const { code, stderr } = await fw(`fw plan --compare h100-80g ${options}`);
  expect([code, stderr]).toEqual([64, expect.stringContaining(message)]);
});

test.each([
  ['a.yaml --preset 8b-h100 --price h100=1', 'expected --compare with --price'],
  [
    'a.yaml --preset 8b-h100 --input-tokens 5',
    'expected --rate, --concurrency or --compare with --input-tokens',
  ],
  ['a.yaml --preset 8b-h100 --rate 2', 'or a pipeline, found both'],
  ['--preset 8b-h100 --tp 2', 'expected --model-config with --tp'],
])('fw plan %s: what would do nothing is refused', async (options, message) => {
  const { code, stderr } = await fw(`fw plan ${options}`);
  expect([code, stderr]).toEqual([64, expect.stringContaining(message)]);
});
