/** Speculative decoding as an acceptance rate: what the flags come to in a plan, and what a server says on a port. */
import { readFileSync } from 'node:fs';
import { afterEach, expect, test } from 'vitest';
import { planLoads } from '../../products/plan/load/load-plan.ts';
import { presetNamed, withFlags } from '../../products/simulator/presets.ts';
import { type Simulator, startSimulator } from '../../products/simulator/simulator.ts';
import { madeIn, speculating } from '../../products/simulator/speculation.ts';
import { stepMs } from '../../products/simulator/steptime.ts';
import { fw } from '../here.ts';

const running: Simulator[] = [];
afterEach(async () => {
  await Promise.all(running.splice(0).map(simulator => simulator.close()));
});

const base = presetNamed('8b-h100');
const drafting = withFlags(base, { speculative: { tokens: 3, acceptance: 0.5, draftMs: 1 } });

test.each([
  [1, 0, 1],
  [3, 0.5, 2.5],
  [3, 0.6, 2.8],
  [15, 1, 16],
])('of %i drafted tokens a share of %f is accepted: %f tokens a step', (drafted, acceptance, made) => {
  expect(Math.abs(madeIn(speculating(drafted, acceptance)) / made - 1)).toBeLessThan(0.02);
});

test('one request at a time: a step computes its drafts too, and makes what is accepted', () => {
  const load = { concurrency: '1', 'input-tokens': 320, 'output-tokens': 51, requests: 5 };
  const { ttft, tpot, itl, e2el } = planLoads(drafting, load).rows[0]!.figures;
  expect(ttft.mean).toBeCloseTo(1 + stepMs(base.step, 1, 320, 320, 320 * 320), 6);
  // 50 tokens after the first are 20 steps
  const step = 1 + stepMs(base.step, 1, 4, 345, 0);
  expect(itl.mean / step).toBeCloseTo(1, 2);
  expect(tpot.mean / (step / 2.5)).toBeCloseTo(1, 2);
  expect(e2el.mean).toBeCloseTo(ttft.mean + 20 * itl.mean, 6);
});

test('drafts are worth most to few: the more sequences compute, the less reading weights is shared', () => {
  const gain = (concurrency: string): number => {
    const load = { concurrency, 'input-tokens': 200, 'output-tokens': 64, requests: 600 };
    const [without, withDrafts] = [base, drafting].map(preset => planLoads(preset, load).rows[0]!.figures);
    return without!.duration / withDrafts!.duration;
  };
  const [few, many] = [gain('1'), gain('200')];
  expect(few).toBeGreaterThan(1.8);
  expect(many).toBeLessThan(0.7 * few);
});

test('the page shows this table', () => {
  const page = readFileSync('docs/simulator.md', 'utf8');
  const rows = [...page.matchAll(/^\| (\d+) \| ([\d.]+) ms \| ([\d.]+) ms \|$/gm)].map(
    ([, ...cells]) => cells,
  );
  expect(rows).toHaveLength(4);
  const a6000 = presetNamed('8b-a6000');
  const drafts = withFlags(a6000, { speculative: { tokens: 3, acceptance: 0.6, draftMs: 3 } });
  for (const [concurrency, ...told] of rows) {
    const load = { concurrency, 'input-tokens': 700, 'output-tokens': 250, requests: 4_000 };
    const found = [a6000, drafts].map(preset =>
      planLoads(preset, load).rows[0]!.figures.tpot.mean.toFixed(1),
    );
    expect(found, concurrency).toEqual(told);
  }
});

test('on a port: the tokens of a step are one event, the metrics count drafts, a whole answer is the same', async () => {
  const speculative = { tokens: 7, acceptance: 0.5, draftMs: 0 };
  const fast = withFlags(presetNamed('3b-h100'), { speculative });
  const [plain, drafts] = await Promise.all(
    [presetNamed('3b-h100'), fast].map(preset => startSimulator({ port: 0, seed: 7, preset })),
  );
  running.push(plain!, drafts!);
  const ask = async ({ url }: Simulator, body: object): Promise<string> => {
    const messages = [{ role: 'user', content: 'Say something.' }];
    const all = { messages, max_tokens: 46, min_tokens: 46, ignore_eos: true, ...body };
    const headers = { 'content-type': 'application/json' };
    return (
      await fetch(`${url}/chat/completions`, { method: 'POST', headers, body: JSON.stringify(all) })
    ).text();
  };
  const [whole, same] = [await ask(drafts!, {}), await ask(plain!, {})].map(text => JSON.parse(text));
  expect(whole.choices[0].message.content).toBe(same.choices[0].message.content);
  const stream = await ask(drafts!, { stream: true, logprobs: true });
  const said = stream
    .split('\n\n')
    .filter(event => event.startsWith('data: {'))
    .map(event => JSON.parse(event.slice(6)).choices[0])
    .filter(({ delta }) => delta.content);
  for (const { delta, logprobs } of said)
    expect(logprobs.content.map(({ token }: { token: string }) => token).join('')).toBe(delta.content);
  // the first token, and ten steps of 4.5
  expect(said).toHaveLength(11);
  expect(said.map(({ logprobs }) => logprobs.content.length)).toEqual([1, 4, 5, 4, 5, 4, 5, 4, 5, 4, 5]);
  const metrics = await (await fetch(drafts!.url.replace('/v1', '/metrics'))).text();
  const metric = (name: string) =>
    Number(new RegExp(`^vllm:spec_decode_num_${name}_total.* (\\d+)$`, 'm').exec(metrics)![1]);
  expect([metric('drafts'), metric('draft_tokens'), metric('accepted_tokens')]).toEqual([20, 140, 70]);
  expect(metrics).toMatch(/^vllm:generation_tokens_total.* 92$/m);
  expect(await (await fetch(plain!.url.replace('/v1', '/metrics'))).text()).not.toContain('spec_decode');
});

test.each([
  ['--speculative-tokens 3', 'expected --acceptance-rate with --speculative-tokens'],
  ['--acceptance-rate 0.5', 'expected --speculative-tokens with --acceptance-rate'],
  ['--draft-ms 1', 'expected --speculative-tokens with --draft-ms'],
  ['--speculative-tokens 16 --acceptance-rate 1', 'speculative-tokens'],
  [
    '--speculative-tokens 8 --acceptance-rate 1',
    'at least --max-num-seqs × (1 + --speculative-tokens), 9216, found 8192',
  ],
])('%s alone, or too many, is refused', async (flags, message) => {
  const { code, stderr } = await fw(`fw plan --explain --preset 8b-h100 ${flags}`);
  expect(code).toBe(64);
  expect(stderr).toContain(message);
});

test('--explain says what a step computes and makes', async () => {
  const { stdout } = await fw(
    'fw plan --explain --preset 8b-h100 --speculative-tokens 3 --acceptance-rate 0.5 --draft-ms 1',
  );
  expect(stdout).toContain('a step checks 3 drafted tokens a sequence and makes 2.5 tokens');
  const [, step, token] = /^1 × 1,000 tokens +([\d.]+) ms +([\d.]+) ms$/m.exec(stdout)!;
  expect(Number(step)).toBeCloseTo(1 + stepMs(base.step, 1, 4, 1_000, 0), 2);
  expect(Number(token)).toBeCloseTo(Number(step) / 2.5, 1);
});
