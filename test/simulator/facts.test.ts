/** Presets made of the facts of a model and a card: the facts, what is wrong with others, and the terms of a step. */
import { readFileSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { CARD_NAMES } from '../../products/simulator/cards.ts';
import { Engine } from '../../products/simulator/engine.ts';
import models from '../../products/simulator/facts/models.json' with { type: 'json' };
import { allParameters, factsOf, KNOWN_MODELS, parametersOf } from '../../products/simulator/model-facts.ts';
import { presetGiven } from '../../products/simulator/preset-options.ts';
import { presetFrom, presetNamed, withFlags } from '../../products/simulator/presets.ts';
import { lcg } from '../../products/simulator/random.ts';
import { CONSTANTS } from '../../products/simulator/step-constants.ts';
import {
  decodeMs,
  decodeStepsBy,
  expertsMs,
  paddedTokens,
  scaledTimes,
  stepMs,
} from '../../products/simulator/steptime.ts';
import { folder, ROOT } from '../fw.ts';
import { fw } from '../here.ts';
import { drain, promptLike } from './closed-loop.ts';

const LLAMA = 'meta-llama/Llama-3.1-70B-Instruct';
const llama = models.find(({ id }) => id === LLAMA)!.config;

describe('facts of models', () => {
  test.each(models)('$id has as many weights as its card says', ({ id, config, parameters_b: billions }) => {
    expect(allParameters(factsOf(config, id)) / 1e9 / billions).toBeCloseTo(1, 2);
  });

  test('there are thirty of them, each with its source', () => {
    expect(KNOWN_MODELS.length).toBeGreaterThanOrEqual(20);
    expect(models.filter(({ source }) => source === '')).toEqual([]);
  });

  const scout = models.find(({ id }) => id.startsWith('RedHatAI'))!;

  test('a mixture, latent attention, windows and what is left in 16 bits are read', () => {
    const facts = factsOf(scout.config, scout.id);
    expect(facts.experts).toEqual({ layers: 48, count: 16, perToken: 1, width: 8192, shared: 8192 });
    expect(facts.stored.attention.bytes).toBe(2);
    expect(facts.stored.experts.bytes).toBe(1);
    expect(facts.window).toEqual({ tokens: 8192, layers: 36 });
    const deepseek = models.find(({ id }) => id.endsWith('DeepSeek-V3'))!;
    const { latent, dense } = factsOf(deepseek.config, deepseek.id);
    expect(latent?.kvRank).toBe(512);
    expect(dense.layers).toBe(3);
    expect(parametersOf(factsOf(deepseek.config, deepseek.id)).experts / 1e9).toBeGreaterThan(600);
  });

  const gqa = { num_key_value_heads: 8, head_dim: 128, torch_dtype: 'bfloat16' };
  test.each([
    [
      'GLM-4.5, without the layer that drafts',
      352.8,
      {
        ...{
          ...gqa,
          model_type: 'glm4_moe',
          num_hidden_layers: 92,
          hidden_size: 5120,
          num_attention_heads: 96,
        },
        ...{
          intermediate_size: 12288,
          moe_intermediate_size: 1536,
          n_routed_experts: 160,
          n_shared_experts: 1,
        },
        ...{ num_experts_per_tok: 8, first_k_dense_replace: 3, vocab_size: 151552 },
      },
    ],
    [
      'MiniMax-M2',
      229,
      {
        ...{
          ...gqa,
          model_type: 'minimax_m2',
          num_hidden_layers: 62,
          hidden_size: 3072,
          num_attention_heads: 48,
        },
        ...{ intermediate_size: 1536, num_local_experts: 256, num_experts_per_tok: 8, vocab_size: 200064 },
      },
    ],
    [
      'Command R7B',
      8.03,
      {
        ...{
          ...gqa,
          model_type: 'cohere2',
          num_hidden_layers: 32,
          hidden_size: 4096,
          num_attention_heads: 32,
        },
        ...{ intermediate_size: 14336, vocab_size: 256000, sliding_window: 4096 },
      },
    ],
    [
      'Gemma 3 4B, whose config leaves out what its class has',
      3.88,
      {
        model_type: 'gemma3',
        torch_dtype: 'bfloat16',
        text_config: {
          ...{
            model_type: 'gemma3_text',
            num_hidden_layers: 34,
            hidden_size: 2560,
            intermediate_size: 10240,
          },
          sliding_window: 1024,
        },
      },
    ],
  ])('%s has %s billion weights', (_, billions, config) => {
    expect(allParameters(factsOf(config, 'it')) / 1e9 / billions).toBeCloseTo(1, 2);
  });

  test('windows of Cohere and the context of Command R are read as vLLM does', () => {
    const command = {
      ...llama,
      model_type: 'cohere',
      max_position_embeddings: 8192,
      model_max_length: 131072,
    };
    expect(factsOf(command, 'it').context).toBe(131072);
    const windowed = { ...llama, model_type: 'cohere2', num_hidden_layers: 32, sliding_window: 4096 };
    expect(factsOf(windowed, 'it').window).toEqual({ tokens: 4096, layers: 24 });
  });

  test.each(['nemotron_h', 'jamba', 'falcon_h1', 'qwen3_next', 'dbrx', 'mllama_text_model'])(
    '%s, whose layers are others, is refused by its model_type',
    type => expect(() => factsOf({ ...llama, model_type: type }, 'it')).toThrow(`found "${type}"`),
  );

  test.each([
    [{}, /expected a model_type whose layers are known .* found none/],
    [[], /expected an object/],
    [{ ...llama, model_type: 'mamba' }, /found "mamba"/],
    [{ ...llama, num_hidden_layers: undefined }, /expected num_hidden_layers, .* found none/],
    [{ ...llama, hidden_size: '8192' }, /expected hidden_size, .* found "8192"/],
    [{ ...llama, hidden_size: 1e12 }, /expected hidden_size/],
    [{ ...llama, num_key_value_heads: 7 }, /to be a multiple of num_key_value_heads \(7\)/],
    [{ ...llama, layer_types: ['banana'] }, /expected layer_types, .* found "banana"/],
    [{ ...llama, layer_types: ['full_attention', 'linear_attention'] }, /found "linear_attention"/],
    [{ ...llama, layer_types: 7 }, /expected layer_types, a list .* found 7/],
    [{ ...llama, max_position_embeddings: 'long' }, /expected max_position_embeddings/],
    [{ ...llama, vocab_size: -1 }, /expected vocab_size/],
    [{ ...llama, torch_dtype: 'int3' }, /expected torch_dtype/],
    [{ ...llama, quantization_config: { quant_method: 'magic' } }, /quant_method .* found "magic"/],
    [{ ...llama, quantization_config: { quant_method: 'gptq', bits: 3 } }, /4 or 8 bits, found 3/],
    [
      { ...llama, quantization_config: { quant_method: 'compressed-tensors', config_groups: 7 } },
      /found none/,
    ],
    [
      { ...llama, num_local_experts: 8, num_experts_per_tok: 9 },
      /num_experts_per_tok, a whole number from 1 to 8, found 9/,
    ],
  ])('a broken config is refused, %#', (config, message) => {
    expect(() => factsOf(config, 'my.json')).toThrow(message);
    expect(() => factsOf(config, 'my.json')).toThrow(/^my\.json: /);
  });
});

describe('presets from facts', () => {
  test.each(CARD_NAMES)('%s serves a small model', gpu => {
    const { preset } = presetGiven({ 'model-config': 'Qwen/Qwen2.5-3B-Instruct', gpu })!;
    expect(preset.limits.kvTokens).toBeGreaterThan(10_000);
    expect(presetFrom(JSON.parse(JSON.stringify(preset.file)), 'it')).toEqual(preset);
  });

  test('what does not fit says by how much, and what would', () => {
    expect(() => presetGiven({ 'model-config': LLAMA, gpu: 'h100-80g' })).toThrow(
      /expected 13\d\.\d GiB a card .*, found 71\.7 of 79\.6 at 0\.9: 6\d\.\d GiB too few; --tp 4 would fit|--tp 2/,
    );
    expect(() => presetGiven({ 'model-config': LLAMA, gpu: 'l4' })).toThrow(/would fit/);
    expect(() => presetGiven({ 'model-config': LLAMA, gpu: 'h100-80g', tp: '3' })).toThrow(
      /divides its 64 attention heads/,
    );
  });

  test('a split that vLLM refuses is refused, and more cards than a machine has', () => {
    const on = (id: string, tp: string) => presetGiven({ 'model-config': id, gpu: 'h200', tp });
    // 8 KV heads of 40, 4 of 28, and 10 of 40
    expect(() => on('Qwen/Qwen2.5-14B-Instruct', '5')).toThrow(/divides its 8 KV heads or is a multiple/);
    expect(() => on('Qwen/Qwen2.5-7B-Instruct', '7')).toThrow(/divides its 4 KV heads/);
    expect(() => on('microsoft/phi-4', '4')).toThrow(/divides its 10 KV heads/);
    expect(() => on(LLAMA, '16')).toThrow(/from 1 to 8, the cards of a machine, found "16": several/);
    expect(on('Qwen/Qwen2.5-3B-Instruct', '4')!.preset.gpus).toBe(4);
    // latent attention has no KV heads to split
    expect(on('deepseek-ai/DeepSeek-V2-Lite-Chat', '8')!.preset.gpus).toBe(8);
  });

  test('FP8 with a scale for each block is not split within one', () => {
    const path = join(folder(), 'config.json');
    const config = {
      ...{ ...llama, num_local_experts: 128, num_experts_per_tok: 8, intermediate_size: 1536 },
      ...{ model_type: 'qwen3_moe', num_hidden_layers: 20, hidden_size: 4096 },
      quantization_config: { quant_method: 'fp8', weight_block_size: [128, 128] },
    };
    writeFileSync(path, JSON.stringify(config));
    const on = (tp: string) => presetGiven({ 'model-config': path, gpu: 'h200', tp });
    expect(() => on('8')).toThrow(/a multiple of 128 .* layer of 1536, found 8/);
    expect(on('4')!.preset.gpus).toBe(4);
  });

  test('the share of the memory decides whether a model fits, and how many tokens then', () => {
    const at = (utilization: number | undefined) =>
      presetGiven({
        ...{ 'model-config': 'Qwen/Qwen2.5-32B-Instruct', gpu: 'h100-80g' },
        'gpu-memory-utilization': utilization,
      })!.preset;
    expect(() => at(0.8)).toThrow(/at 0\.8: .* GiB too few/);
    const [usual, more] = [at(undefined), at(0.98)];
    expect(more.limits.kvTokens).toBeCloseTo(
      withFlags(usual, { gpuMemoryUtilization: 0.98 }).limits.kvTokens,
      -1,
    );
    expect(withFlags(more, { gpuMemoryUtilization: 0.98 }).limits).toEqual(more.limits);
    expect(withFlags(more, { gpuMemoryUtilization: 0.9 }).limits.kvTokens).toBeCloseTo(
      usual.limits.kvTokens,
      -1,
    );
  });

  test('the formula of attention gives the value beside it', () => {
    const { terms } = presetGiven({ 'model-config': LLAMA, gpu: 'h100-80g', tp: '4' })!;
    const { formula, value } = terms.find(({ name }) => name === 'attention of prompts')!;
    const [, over, under] = /^(.*) \/ \((.*) × peak\)$/.exec(formula)!;
    const [factors, tp] = over!.split(' / ');
    const product = factors!.split(' × ').reduce((so, part) => so * Number.parseInt(part, 10), 1);
    expect(value).toBeCloseTo((1e9 * product) / Number(tp) / (Number(under) * 989.5e12), 9);
  });

  test('--explain shows the server of its flags', async () => {
    const asked = 'fw plan --explain --model-config Qwen/Qwen3-8B --gpu h100-80g';
    const { stdout } = await fw(
      `${asked} --max-num-seqs 64 --max-num-batched-tokens 4096 --gpu-memory-utilization 0.5`,
    );
    expect(stdout).toContain('--max-num-seqs 64 --max-num-batched-tokens 4096; ');
    const tokens = (text: string) => Number(/; ([0-9,]+) tokens fit/.exec(text)![1]!.replaceAll(',', ''));
    expect(tokens(stdout)).toBeLessThan(0.5 * tokens((await fw(asked)).stdout));
  });

  test('FP8 halves the weights, and the KV cache where it is asked for', () => {
    const of = (more: object) =>
      presetGiven({ 'model-config': LLAMA, gpu: 'h100-80g', tp: '4', ...more })!.preset;
    expect(of({ quantization: 'fp8' }).step.weights / of({}).step.weights).toBeCloseTo(0.51, 1);
    expect(of({ 'kv-cache-dtype': 'fp8' }).step.perKvToken / of({}).step.perKvToken).toBeCloseTo(0.5);
    // an A100 computes in 16 bits whatever its weights are stored in
    const a100 = presetGiven({
      'model-config': LLAMA,
      gpu: 'a100-80g',
      tp: '4',
      quantization: 'fp8',
    })!.preset;
    expect(a100.step.perToken / of({ quantization: 'fp8' }).step.perToken).toBeCloseTo(1979 / 312, 1);
  });

  test('options that do not go together are refused, each with the one that is missing', () => {
    expect(() => presetGiven({ gpu: 'h100-80g' })).toThrow(/expected --model-config with --gpu/);
    expect(() => presetGiven({ 'model-config': LLAMA })).toThrow(/expected --gpu with --model-config/);
    expect(() => presetGiven({ 'model-config': LLAMA, gpu: 'tpu' })).toThrow(/expected a card among/);
    expect(() => presetGiven({ 'model-config': 'nobody/Knows-7B', gpu: 'l4' })).toThrow(/or a known model/);
    expect(() => presetGiven({ 'model-config': LLAMA, gpu: 'l4', preset: '8b-h100' })).toThrow(/found both/);
    expect(presetGiven({})).toBeUndefined();
  });

  test('a config.json is a file', async () => {
    const path = join(folder(), 'config.json');
    writeFileSync(path, JSON.stringify(llama));
    const { preset } = presetGiven({ 'model-config': path, gpu: 'h100-80g', tp: '4' })!;
    expect(preset.step).toEqual(
      presetGiven({ 'model-config': LLAMA, gpu: 'h100-80g', tp: '4' })!.preset.step,
    );
    expect(preset.file.model).toBe(basename(dirname(path)));
    writeFileSync(path, JSON.stringify({ ...llama, _name_or_path: 'mine/Own-70B' }));
    const own = presetGiven({ 'model-config': path, gpu: 'h100-80g', tp: '4' })!.preset;
    expect([own.name, own.file.model]).toEqual(['own-70b-h100-80g-tp4', 'mine/Own-70B']);
    writeFileSync(path, '{');
    expect(() => presetGiven({ 'model-config': path, gpu: 'l4' })).toThrow(/expected JSON/);
  });
});

test.each([
  [undefined, 131_072],
  [{ rope_type: 'llama3', factor: 8, original_max_position_embeddings: 8_192 }, 131_072],
  [{ rope_type: 'yarn', factor: 4, original_max_position_embeddings: 32_768 }, 131_072],
  [{ type: 'linear', factor: 2 }, 262_144],
])('the context is as long as vLLM takes it, %#', (rope_scaling, context) => {
  expect(factsOf({ ...llama, max_position_embeddings: 131_072, rope_scaling }, 'it').context).toBe(context);
});

test('fw simulate: a context that is longer than that of the model is refused', async () => {
  const { code, stderr } = await fw(
    'fw simulate --port 0 --model-config meta-llama/Llama-2-7b-hf --gpu h100-80g --max-model-len 8192',
  );
  expect([code, stderr]).toEqual([64, expect.stringContaining('--max-model-len: expected at most 4096')]);
});

describe('the step', () => {
  const given = (id: string) => presetGiven({ 'model-config': id, gpu: 'h100-80g', tp: '8' })!.preset;
  const all = ['google/gemma-2-9b-it', 'openai/gpt-oss-120b', LLAMA].map(id => [id, given(id).step] as const);

  test.each(all)('%s: stretches are sums of steps, and steps are found in them', (_, times) => {
    const seed = 11;
    const random = lcg(seed);
    for (let round = 0; round < 50; round++) {
      const sequences = 1 + Math.floor(random() * 40);
      let kv = sequences * Math.floor(random() * 6_000);
      const steps = 1 + Math.floor(random() * 300);
      const [tokens, growth] = round % 2 === 0 ? [sequences, sequences] : [4 * sequences, 2.5 * sequences];
      const first = { sequences, tokens, kv, growth };
      let sum = 0;
      for (let step = 0; step < steps; step++, kv += growth) sum += stepMs(times, sequences, tokens, kv, 0);
      expect(decodeMs(times, first, steps) / sum, `seed ${seed}, round ${round}`).toBeCloseTo(1, 9);
      const within = decodeMs(times, first, steps) - 1e-6;
      expect(decodeStepsBy(times, first, within), `seed ${seed}, round ${round}`).toBe(steps);
    }
  });

  test('few tokens touch few experts, many touch all', () => {
    const times = { ...presetNamed('8b-h100').step, experts: { all: 16, share: 1 / 16 } };
    expect(expertsMs(times, 1)).toBeCloseTo(1);
    expect(expertsMs(times, 16)).toBeCloseTo(16 * (1 - (15 / 16) ** 16));
    expect(expertsMs(times, 10_000)).toBeCloseTo(16);
    // the rows that a CUDA graph has more pass the router too
    expect(expertsMs(times, 11)).toBe(expertsMs(times, 16));
    expect([1, 2, 3, 5, 8, 9, 249, 257, 511, 513].map(paddedTokens)).toEqual([
      1, 2, 4, 8, 8, 16, 256, 272, 512, 513,
    ]);
  });

  test('twice as slow is twice as long, whatever a step is made of', () => {
    for (const [, times] of all)
      expect(stepMs(scaledTimes(times, 2), 9, 300, 70_000, 1_000)).toBeCloseTo(
        2 * stepMs(times, 9, 300, 70_000, 1_000),
      );
  });
});

describe('async scheduling', () => {
  const base = presetNamed('8b-h100');

  /** When the second of two requests has its first token, where it comes at `at`. */
  function firstOfSecond(plansAhead: boolean, requestMs: number, at: number): number {
    const engine = new Engine({ ...base, plansAhead, requestMs });
    let first = Number.NaN;
    const firstToken = (now: number): void => {
      first = now;
    };
    engine.add({ prompt: promptLike(16, 1), output: 200, done: () => {} }, 0);
    engine.advance(at);
    engine.add({ prompt: promptLike(16, 2), output: 5, done: () => {}, firstToken }, at);
    drain(engine);
    return first;
  }

  test('who comes waits for the running step and for the one that is planned', () => {
    const step = stepMs(base.step, 1, 1, 40, 0);
    expect(firstOfSecond(true, 0, 100) - firstOfSecond(false, 0, 100)).toBeCloseTo(step, 1);
  });

  test('what passes before the engine is waited for, and nobody is lost who leaves then', () => {
    const alone = (requestMs: number): number => {
      const engine = new Engine({ ...base, requestMs });
      const told = engine.add({ prompt: promptLike(16, 1), output: 3, done: () => {} }, 0);
      drain(engine);
      return told.firstToken;
    };
    expect(alone(50) - alone(0)).toBeCloseTo(50, 6);
    const engine = new Engine({ ...base, requestMs: 50, plansAhead: true });
    let done = 0;
    const ask = (at: number) =>
      engine.add({ prompt: promptLike(16, at), output: 30, done: () => void done++ }, at);
    const gone = ask(0);
    engine.remove(gone, 0);
    ask(1);
    ask(2);
    drain(engine);
    expect(done).toBe(2);
    expect(engine.state(1e9).running + engine.state(1e9).waiting).toBe(0);
  });

  test('any load: each request ends once, and stretches end when others come', () => {
    const seed = 5;
    const random = lcg(seed);
    const engine = new Engine({ ...base, requestMs: 3, plansAhead: true });
    let [now, done, left] = [0, 0, 0];
    const handles = [];
    for (let number = 0; number < 400; number++) {
      now += random() * 30;
      engine.advance(now);
      handles.push(
        engine.add(
          {
            prompt: promptLike(1 + Math.floor(random() * 3_000), number),
            output: 1 + Math.floor(random() * 90),
            done: () => void done++,
          },
          now,
        ),
      );
      if (random() < 0.1) {
        const one = handles[Math.floor(random() * handles.length)]!;
        if (Number.isNaN(one.firstToken)) {
          engine.remove(one, now);
          left++;
        }
      }
    }
    drain(engine);
    expect(done, `seed ${seed}`).toBeGreaterThanOrEqual(400 - left);
    expect(engine.state(now).running + engine.state(now).waiting, `seed ${seed}`).toBe(0);
  });
});

test('the page has every constant, card and model', () => {
  const page = readFileSync(join(ROOT, 'docs/simulator.md'), 'utf8');
  for (const { what, value, source } of Object.values(CONSTANTS))
    expect(page).toContain(`| ${what} | ${value} | ${source} |`);
  for (const name of CARD_NAMES) expect(page).toContain(`| \`${name}\` | `);
  for (const id of KNOWN_MODELS) expect(page).toContain(`\`${id}\``);
});
