/** fw plan --compare: cards side by side, for a number of prompts and for a rate. */
import { expect, test } from 'vitest';
import { type Comparing, compareCards } from '../../products/plan/load/compare-cards.ts';
import { comparePage } from '../../products/plan/load/compare-page.ts';
import { renderCompared } from '../../products/plan/load/compare-words.ts';
import { planLoads } from '../../products/plan/load/load-plan.ts';
import { presetGiven } from '../../products/simulator/preset-options.ts';
import { fw } from '../here.ts';

const bulk = (more: Partial<Comparing> = {}): Comparing => ({
  cards: 'h100-80g,2xa100-80g,l4',
  tp: '1,2',
  // of the cards below; a price of another is refused
  prices: more.cards === undefined ? ['h100-80g=3,a100-80g=1.5'] : undefined,
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

/** What a long load of the same concurrency gives: Little's law holds in it. */
test.each([
  ['Qwen/Qwen3-8B', 'h200', 1, 500, 1_000],
  ['meta-llama/Llama-3.1-8B-Instruct', 'h100-80g', 1, 1_500, 2_000],
  ['meta-llama/Llama-3.1-70B-Instruct', 'h100-80g', 4, 1_500, 300],
  ['meta-llama/Llama-3.1-70B-Instruct', 'a100-80g', 2, 1_500, 300],
  ['Qwen/Qwen2.5-14B-Instruct', 'l40s', 1, 500, 100],
  ['google/gemma-2-9b-it', 'a100-40g', 1, 300, 800],
])('%s on %s, tp %i, %i in and %i out: a job is as quick as the load of its concurrency', (...row) => {
  const [model, gpu, tp, input, output] = row;
  const given = { 'model-config': model, 'input-tokens': input, 'output-tokens': output };
  const compared = compareCards({
    ...bulk({ cards: gpu, tp: String(tp) }),
    ...{ items: 200_000, given },
  });
  const { rate, concurrency, figures } = compared.choices[0]!;
  const { preset } = presetGiven({ 'model-config': model, gpu, tp: String(tp) })!;
  const load = planLoads(preset, { ...given, concurrency: String(concurrency), requests: 20_000 });
  const long = load.rows[0]!.figures;
  expect(rate / (long.requests / long.duration)).toBeGreaterThan(0.98);
  expect(rate / (long.requests / long.duration)).toBeLessThan(1.02);
  const little = (1_000 * concurrency!) / (figures.ttft.mean + (output - 1) * figures.tpot.mean);
  expect(rate / little).toBeLessThan(1.01);
});

test('a small job takes as long as its requests, and a deadline that none keeps is told', () => {
  const ask = (items: number, within?: string) =>
    compareCards(bulk({ cards: 'h100-80g', tp: '1', items, within }));
  const alone = ask(1).choices[0]!;
  expect(alone.time! * 1_000).toBeCloseTo(alone.figures.e2el.p50, 6);
  const ten = ask(10).choices[0]!;
  expect([ten.concurrency, ten.figures.requests]).toEqual([10, 10]);
  expect(ten.time!).toBeGreaterThan(alone.time!);
  expect(ask(1_000_000).choices[0]!.time!).toBeGreaterThan(99 * ask(10_000).choices[0]!.time!);
  const late = ask(10, '1ms');
  expect(late.choices).toEqual([]);
  expect(late.not[0]!.why).toMatch(/a request alone takes .* s, longer than --within allows/);
});

test('where nothing fits, what would is said, and the exit code is 1', async () => {
  const { code, stdout } = await fw(
    'fw plan --compare l4,a10 --items 10 --model-config meta-llama/Llama-3.1-405B-Instruct',
  );
  expect(code).toBe(1);
  expect(stdout).toMatch(/none of these cards can do it:\nl4 with --tp 1: .* GiB too few; .* would fit/);
  expect(stdout).not.toContain('quicker');
});

test('what is said to hold a rate holds it with other arrivals too', () => {
  const model = { 'model-config': 'Qwen/Qwen2.5-14B-Instruct', 'input-tokens': 1_500, 'output-tokens': 300 };
  const given = { ...model, rate: '12', goodput: ['ttft:500,tpot:40'] };
  const { servers } = compareCards(bulk({ cards: 'h100-80g', tp: '1', items: undefined, given })).choices[0]!;
  const { preset } = presetGiven({ 'model-config': model['model-config'], gpu: 'h100-80g' })!;
  let [good, all] = [0, 0];
  for (let seed = 101; seed < 106; seed++) {
    const { figures } = planLoads(preset, { ...given, endpoints: servers, duration: '4m', seed }).rows[0]!;
    [good, all] = [good + figures.good, all + figures.requests];
  }
  expect(good / all).toBeGreaterThanOrEqual(0.99);
});

test.each([
  ['--items 10', 'expected --model-config'],
  ['--items 10 --within 0h', '--within: expected a duration above 0'],
  ['--rate 10 --within 2h --goodput ttft:500', 'expected --items with --within'],
  ['--items 10 --rate 10', 'found both'],
  ['--items 10 --price l4=2', '--price: expected a card of --compare, one of h100-80g, found "l4"'],
  ['--items 10 --price h100-80g=2,h100-80g=3', 'found two'],
  ['--items 10 --gpu l4', 'expected --compare without --gpu'],
  ['--items 10 --endpoints 2', 'expected --compare without --endpoints'],
  ['--items 10 --concurrency 2', 'expected --compare without --concurrency'],
  ['--items 10 --tp 16', '--tp: expected a whole number from 1 to 8, the cards of a machine'],
  [
    '--model-config Qwen/Qwen3-8B --items 10 --input-tokens 50000',
    'at most 40,960 tokens, the context of Qwen/Qwen3-8B, found 50,000 and 128',
  ],
  ['--model-config Qwen/Qwen3-8B', 'expected --items'],
  ['--model-config Qwen/Qwen3-8B --rate 3', 'expected --goodput'],
  ['--model-config Qwen/Qwen3-8B --items 3 --tp 1,x', '--tp: expected'],
  ['--model-config Qwen/Qwen3-8B --items 3 --price h100', '--price: expected CARD=PRICE'],
])('fw plan --compare h100-80g %s is refused', async (options, message) => {
  const { code, stderr } = await fw(`fw plan --compare h100-80g ${options}`);
  expect([code, stderr]).toEqual([64, expect.stringContaining(message)]);
});

test('a card that is named twice is refused', async () => {
  const { code, stderr } = await fw('fw plan --compare l4,2xl4 --items 3 --model-config Qwen/Qwen3-8B');
  expect([code, stderr]).toEqual([64, expect.stringContaining('found l4 twice')]);
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

test('a card whose KV cache is too small for a request is said, and the others are compared', () => {
  const given = {
    'model-config': 'meta-llama/Llama-3.1-8B-Instruct',
    'input-tokens': 60_000,
    'output-tokens': 10,
  };
  const cards = 'h100-80g,a10';
  for (const asked of [{ items: 4 }, { items: undefined, rate: '0.1' }]) {
    const more = asked.rate === undefined ? {} : { rate: asked.rate, goodput: ['ttft:60000'] };
    const { choices, not } = compareCards(
      bulk({ cards, tp: '1', items: asked.items, given: { ...given, ...more } }),
    );
    expect(choices.map(({ card }) => card)).toEqual(['h100-80g']);
    expect(not).toMatchObject([{ card: 'a10', why: expect.stringContaining('KV cache holds') }]);
  }
});

test('what cannot be read is no card that does not fit, whatever words its name has', () => {
  const of = (model: string, tp: string) =>
    compareCards(bulk({ tp, given: { 'model-config': model, 'input-tokens': 500, 'output-tokens': 100 } }));
  expect(() => of('./too few KV heads.json', '1')).toThrow(/too few KV heads\.json/);
  // 40 attention heads, and 8 KV heads
  const { choices, not } = of('Qwen/Qwen2.5-14B-Instruct', '3');
  expect([choices, not.map(({ why }) => why)]).toEqual([
    [],
    Array.from({ length: 3 }, () => expect.stringContaining('attention heads, found 3')),
  ]);
});
