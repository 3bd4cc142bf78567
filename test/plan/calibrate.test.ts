/** Calibration finds the constants of a server: in virtual time to a hair, on a real port as well as a clock allows. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { systemClock, TIMING } from '../../engine/asking/endpoints/pool-clock.ts';
import { calibrate } from '../../products/plan/calibrate/calibrate.ts';
import { leastSquares } from '../../products/plan/calibrate/least-squares.ts';
import { promptOfWords } from '../../products/plan/calibrate/loads.ts';
import { type PresetFile, presetFrom, presetNamed } from '../../products/simulator/presets.ts';
import { startSimulator } from '../../products/simulator/simulator.ts';
import { virtualClock } from '../../products/simulator/virtual-clock.ts';
import { virtualServers } from '../../products/simulator/virtual-servers.ts';
import { every, slow } from '../all.ts';
import { folder, shell } from '../fw.ts';
import { serve } from '../pool/serving.ts';

const FITTED = ['weights_ms', 'ms_per_token', 'kv_us_per_1k_tokens'] as const;

/** How far each constant is from the true one, as a share of it. */
const offs = (found: PresetFile, truth: PresetFile) =>
  FITTED.map(name => Math.abs(found[name] / truth[name] - 1));

test.each(
  every(3, [
    ['3b-a6000', '8b-a100-80g'],
    ['8b-a40', '3b-a100-80g'],
    ['3b-h100', '8b-h100'],
  ] as const),
)('in virtual time: a server of %s, begun from %s', async (truth, from) => {
  const clock = virtualClock();
  const preset = presetNamed(truth);
  const { servers, openWire } = virtualServers(clock, { preset, count: 1, seed: 7 });
  const said: string[] = [];
  const found = await clock.until(
    calibrate({
      url: servers[0]?.url as string,
      key: undefined,
      // as if the server had told its KV cache, which a virtual one does not
      base: presetFrom({ ...presetNamed(from).file, kv_tokens: preset.limits.kvTokens }, from),
      model: undefined,
      clock,
      timing: TIMING,
      openWire,
      say: message => said.push(message),
    }),
  );
  expect(Math.max(...offs(found.file, preset.file)), JSON.stringify(found.file)).toBeLessThan(0.03);
  expect(clock.now()).toBeLessThan(115_000);
  expect(found.file.calibrated).toEqual({ date: '1970-01-01', server: servers[0]?.url });
  expect(presetFrom(found.file, 'found').name).toBe(`${from}-calibrated`);
  expect(said[0]).toContain(`at most ${preset.limits.maxNumSeqs} sequences (as the preset has it)`);
});

slow(
  'on a real port, as a command: its limits are those of the server, and the file is a preset to plan with',
  async () => {
    // its steps are long beside what a busy machine adds to them, and its KV cache is soon full; how near a fit comes is
    // for the virtual clock above
    const truth: PresetFile = {
      ...presetNamed('3b-a6000').file,
      kv_us_per_1k_tokens: 700,
      kv_tokens: 32_768,
      max_num_seqs: 64,
    };
    const server = await startSimulator({ preset: presetFrom(truth, 'truth'), maxModelLength: 4_096 });
    const out = join(folder(), 'mine.json');
    try {
      const ran = await shell(`fw plan --calibrate ${server.url} --preset 8b-a40 --out ${out}`);
      expect(ran.code, ran.stderr).toBe(0);
      expect(ran.stdout).toContain('reading the weights, ms');
      expect(ran.stderr).toContain('a KV cache of 32768 tokens,');
    } finally {
      await server.close();
    }
    const found = JSON.parse(readFileSync(out, 'utf8')) as PresetFile;
    // a server does not say how many sequences it takes: that is the preset's
    const { maxNumSeqs } = presetNamed('8b-a40').limits;
    expect(presetFrom(found, 'found').limits).toEqual({ ...presetFrom(truth, 'truth').limits, maxNumSeqs });
    expect(found).toMatchObject({ model: 'simulated-3b', kv_tokens: 32_768, source: 'fw plan --calibrate' });
    const planned = await shell(
      `fw plan pipelines/fairwatch/chain.yaml fixtures/applications-60.csv --items 3 --preset ${out}`,
    );
    expect(planned.stdout).toContain(`calibrated on ${found.calibrated?.date} with ${server.url}`);
  },
);

test('a server that is not there ends it with 69, one that serves another model with 64', async () => {
  const gone = await shell('fw plan --calibrate http://127.0.0.1:9/v1 --preset 3b-a6000');
  expect(gone.code).toBe(69);
  const server = await startSimulator();
  try {
    const other = await shell(`fw plan --calibrate ${server.url} --preset 3b-a6000 --model another`);
    expect(other.code).toBe(64);
    expect(other.stderr).toContain('expected another at');
  } finally {
    await server.close();
  }
});

/** A server that answers at once, and says of its tokens and its limits what it likes. */
function liar(usage: unknown, more: { body?: string; metrics?: string; model?: string } = {}) {
  const { body, metrics = '', model = 'm' } = more;
  const choices = [{ index: 0, message: { content: 'x' }, finish_reason: 'length' }];
  return serve(ask => ask.send(200, body ?? { choices, usage }), { metrics: () => metrics, models: [model] });
}

const calibrated = (url: string) =>
  calibrate({
    url,
    key: undefined,
    base: presetNamed('3b-a6000'),
    model: undefined,
    clock: systemClock,
    timing: TIMING,
    say: () => {},
  });

test.each([
  [{ prompt_tokens: 9e15, completion_tokens: 1 }, 'counts 9000000000000000 tokens in a prompt of'],
  [{ prompt_tokens: 300, completion_tokens: 9e15 }, 'an answer of 9000000000000000 tokens where 1 were'],
  [{ prompt_tokens: 0, completion_tokens: 0 }, 'does not say its tokens'],
  [{ prompt_tokens: -5, completion_tokens: 1 }, 'does not say its tokens'],
  [{ prompt_tokens: '300', completion_tokens: '1' }, 'does not say its tokens'],
  [null, 'does not say its tokens'],
])('tokens of %j are none to go by', async (usage, words) => {
  const { url } = await liar(usage);
  await expect(calibrated(url)).rejects.toMatchObject({ exit: 69, message: expect.stringContaining(words) });
});

test('what is no answer is said as what it is', async () => {
  const { url } = await liar(null, { body: '<html>please log in</html>' });
  await expect(calibrated(url)).rejects.toThrow('a body that is not JSON: "an HTML page"');
});

slow('times that no formula follows make no preset', async () => {
  const { url } = await liar({ prompt_tokens: 300, completion_tokens: 1 });
  await expect(calibrated(url)).rejects.toMatchObject({
    exit: 65,
    message: expect.stringContaining('expected times that the formula'),
  });
});

test('limits that no server can have end it, and say so', async () => {
  const metrics = 'vllm:cache_config_info{num_gpu_blocks="99999999",block_size="16"} 1\n';
  const { url } = await liar({ prompt_tokens: 300, completion_tokens: 1 }, { metrics });
  await expect(calibrated(url)).rejects.toMatchObject({
    exit: 65,
    message: expect.stringContaining('the limits that the server tells'),
  });
});

test('least squares finds the parameters of a curve', () => {
  fc.assert(
    fc.property(
      fc.tuple(fc.double({ min: 0.1, max: 10, noNaN: true }), fc.double({ min: 0.1, max: 10, noNaN: true })),
      ([a, b]) => {
        const points = [1, 2, 5, 10, 40];
        const found = leastSquares(
          ([x = 0, y = 0]) =>
            points.map(at => Math.log((Math.exp(x) + Math.exp(y) * at * at) / (a + b * at * at))),
          [0, 0],
        ).map(Math.exp);
        expect(found[0]).toBeCloseTo(a, 3);
        expect(found[1]).toBeCloseTo(b, 3);
      },
    ),
  );
});

test('prompts of a load have their length and do not begin alike', () => {
  let word = 1;
  const random = () => {
    word = (Math.imul(word, 1_664_525) + 1_013_904_223) >>> 0;
    return word / 2 ** 32;
  };
  const prompts = Array.from({ length: 200 }, () => promptOfWords(400, random));
  for (const prompt of prompts) expect(Math.abs(prompt.length - 400)).toBeLessThan(10);
  expect(new Set(prompts.map(prompt => prompt.slice(0, 60))).size).toBe(200);
});
