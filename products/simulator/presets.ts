/**
 * Models on GPUs, as data: the constants of their step time, what their servers allow, and where each figure is from.
 * A preset is a file of presets/ and a line below; one that was calibrated is a file of the user's. Also --preset, which
 * names one, and the flags of its server.
 */
import { library } from '../../engine/core/config/package.ts';
import { readSmallFile } from '../../engine/core/config/yaml.ts';
import { badOptions, dataError, usageError } from '../../engine/core/item/failure.ts';
import type { OptionSchemas, OptionsOf } from '../../engine/flow/options.ts';
import schema from '../../schemas/preset.schema.json' with { type: 'json' };
import llama3bA100 from './presets/3b-a100-80g.json' with { type: 'json' };
import llama3bA6000 from './presets/3b-a6000.json' with { type: 'json' };
import llama3bH100 from './presets/3b-h100.json' with { type: 'json' };
import llama3bAda from './presets/3b-rtx6000ada.json' with { type: 'json' };
import llama8bA40 from './presets/8b-a40.json' with { type: 'json' };
import llama8bA100Small from './presets/8b-a100-40g.json' with { type: 'json' };
import llama8bA100 from './presets/8b-a100-80g.json' with { type: 'json' };
import llama8bA6000 from './presets/8b-a6000.json' with { type: 'json' };
import llama8bH100 from './presets/8b-h100.json' with { type: 'json' };
import llama8bAda from './presets/8b-rtx6000ada.json' with { type: 'json' };
import qwen3bA100 from './presets/qwen2.5-3b-a100-80g.json' with { type: 'json' };
import qwen3bH100 from './presets/qwen2.5-3b-h100.json' with { type: 'json' };
import qwen3bAda from './presets/qwen2.5-3b-rtx6000ada.json' with { type: 'json' };
import qwen7bA6000 from './presets/qwen2.5-7b-a6000.json' with { type: 'json' };
import type { Limits } from './scheduler.ts';
import { DoesNotFit } from './sequence.ts';
import { computedIn, MOST_DRAFTED, speculating } from './speculation.ts';
import type { StepTimes } from './steptime.ts';

/** A preset file, as preset.schema.json describes it. */
export interface PresetFile {
  name: string;
  model: string;
  gpu: string;
  weights_ms: number;
  ms_per_token: number;
  kv_us_per_1k_tokens: number;
  attention_ns_per_product?: number;
  step_ms?: number;
  sequence_ms?: number;
  kv_tokens: number;
  kv_bytes_per_token?: number;
  gpu_memory_gib?: number;
  max_num_seqs: number;
  max_num_batched_tokens: number;
  basis: string;
  source: string;
  error: { mid_load: number; near_saturation: number };
  calibrated?: { date: string; server: string };
  experts_ms?: number;
  experts_share?: number;
  reduce?: readonly { step_ms: number; ms_per_token: number }[];
  window?: { tokens: number; kv_us_per_1k_tokens: number };
  request_ms?: number;
  async_scheduling?: boolean;
  gpus?: number;
  max_model_len?: number;
  gpu_memory_utilization?: number;
}

export interface Preset {
  name: string;
  step: StepTimes;
  limits: Limits;
  /** what passes before the engine knows of a request, in ms: HTTP, templates, tokenizing */
  requestMs: number;
  /** vLLM's async scheduling: a step is planned while the one before it runs, so that who comes now waits for both */
  plansAhead: boolean;
  /** cards of a server */
  gpus: number;
  /** how far a simulated figure may be from a measured one, as a share; to be said with every such figure */
  error: { midLoad: number; nearSaturation: number };
  /** what it was made from */
  file: PresetFile;
}

export const PRESETS: readonly PresetFile[] = [
  llama3bA100,
  llama3bA6000,
  llama3bH100,
  llama3bAda,
  llama8bA100Small,
  llama8bA100,
  llama8bA40,
  llama8bA6000,
  llama8bH100,
  llama8bAda,
  qwen3bA100,
  qwen3bH100,
  qwen3bAda,
  qwen7bA6000,
];

/** The names, for pages of help and messages. */
export const PRESET_NAMES = PRESETS.map(({ name }) => name).join(', ');

/** @throws RangeError that lists the names, where none is so named */
export function presetNamed(name: string): Preset {
  const file = PRESETS.find(preset => preset.name === name);
  if (file) return presetFrom(file, name);
  throw new RangeError(`expected a preset among ${PRESET_NAMES}, found "${name}"`);
}

/** A preset of a file's content; `where` names it in messages. @throws RangeError where it is none */
export function presetFrom(value: unknown, where: string): Preset {
  const ajv = new (library('ajv').Ajv2020)({ validateSchema: false });
  if (!ajv.validate(schema, value)) {
    throw new RangeError(
      `${where}: expected a preset, found: ${ajv.errorsText(ajv.errors, { dataVar: 'it' })}`,
    );
  }
  const file = value as PresetFile;
  if (file.max_num_batched_tokens < file.max_num_seqs) {
    throw new RangeError(
      `${where}: expected max_num_batched_tokens of at least max_num_seqs (${file.max_num_seqs}), found ${file.max_num_batched_tokens}: vLLM would not start either`,
    );
  }
  return {
    name: file.name,
    step: {
      t0: file.step_ms ?? 0.5,
      perSequence: file.sequence_ms ?? 0.008,
      weights: file.weights_ms,
      perToken: file.ms_per_token,
      perKvToken: file.kv_us_per_1k_tokens / 1e6,
      perAttention: (file.attention_ns_per_product ?? 0) / 1e6,
      ...partsOf(file),
    },
    requestMs: file.request_ms ?? 0,
    plansAhead: file.async_scheduling === true,
    gpus: file.gpus ?? 1,
    limits: {
      maxNumSeqs: file.max_num_seqs,
      maxNumBatchedTokens: file.max_num_batched_tokens,
      kvTokens: file.kv_tokens,
    },
    error: { midLoad: file.error.mid_load, nearSaturation: file.error.near_saturation },
    file,
  };
}

/** The terms that only some models and machines have. */
function partsOf({ experts_ms: all, experts_share: share, reduce, window }: PresetFile): Partial<StepTimes> {
  return {
    ...(all !== undefined && share !== undefined && { experts: { all, share } }),
    ...(reduce && { reduce: reduce.map(way => ({ step: way.step_ms, perToken: way.ms_per_token })) }),
    ...(window && { window: { tokens: window.tokens, perKvToken: window.kv_us_per_1k_tokens / 1e6 } }),
  };
}

/** What vLLM is started with, beside the model: flags that a tuner changes. */
export interface ServerFlags {
  maxNumSeqs?: number | undefined;
  maxNumBatchedTokens?: number | undefined;
  /** share of the memory that weights, activations and KV cache may take together; 0.9 is vLLM's default */
  gpuMemoryUtilization?: number | undefined;
  /** tokens drafted for a sequence and step, the share of them that is accepted, and ms of a step that drafting takes */
  speculative?: { tokens: number; acceptance: number; draftMs: number } | undefined;
}

/** The share of the memory for which presets say how many tokens the KV cache holds, where they do not say another. */
export const USUAL_UTILIZATION = 0.9;

/**
 * The server of a preset with other flags. Weights and activations take the same memory whatever the flags say, so the KV
 * cache gains or loses the whole difference: (share - 0.9) x memory / bytes of a token.
 * @throws RangeError where vLLM would not start: no room for the cache, or fewer batched tokens than sequences
 */
export function withFlags(preset: Preset, flags: ServerFlags): Preset {
  const { file, limits } = preset;
  const { maxNumSeqs = limits.maxNumSeqs, maxNumBatchedTokens = limits.maxNumBatchedTokens } = flags;
  const { speculative } = flags;
  const speculation = speculative && speculating(speculative.tokens, speculative.acceptance);
  const least = maxNumSeqs * computedIn(speculation);
  if (speculation && maxNumBatchedTokens < least) {
    throw new DoesNotFit(
      `expected --max-num-batched-tokens of at least --max-num-seqs × (1 + --speculative-tokens), ${least}, found ${maxNumBatchedTokens}: here all sequences that run are in each step; fewer sequences or drafted tokens do`,
    );
  }
  if (maxNumBatchedTokens < maxNumSeqs) {
    throw new RangeError(
      `expected --max-num-batched-tokens of at least --max-num-seqs (${maxNumSeqs}), found ${maxNumBatchedTokens}: vLLM would not start either`,
    );
  }
  const { step } = preset;
  return {
    ...preset,
    step: speculative ? { ...step, drafting: speculative.draftMs } : step,
    limits: { maxNumSeqs, maxNumBatchedTokens, kvTokens: kvTokensAt(flags, file), speculation },
  };
}

function kvTokensAt({ gpuMemoryUtilization: share }: ServerFlags, file: PresetFile): number {
  const { name, kv_tokens: usual, kv_bytes_per_token: bytes, gpu_memory_gib: memory } = file;
  const of = file.gpu_memory_utilization ?? USUAL_UTILIZATION;
  if (share === undefined || share === of) return usual;
  if (bytes === undefined || memory === undefined) {
    throw new RangeError(
      `--gpu-memory-utilization: expected kv_bytes_per_token and gpu_memory_gib in the preset ${name}, found none`,
    );
  }
  const tokens = Math.floor(usual + ((share - of) * memory * 2 ** 30) / bytes);
  if (tokens <= 0) {
    throw new RangeError(
      `expected memory for the KV cache, found none left at --gpu-memory-utilization ${share}: raise it. vLLM would not start either`,
    );
  }
  return tokens;
}

/** A preset by name, or the file of one. Exit 64 on an unknown name, 65 on a file that is none. */
export function readPreset(text: string): Preset {
  if (!/[/\\]|\.json$/.test(text)) {
    try {
      return presetNamed(text);
    } catch (error) {
      throw usageError(`--preset: ${(error as Error).message}`);
    }
  }
  try {
    return presetFrom(JSON.parse(readSmallFile(text, 'a preset')), text);
  } catch (error) {
    if (error instanceof SyntaxError) throw dataError(`${text}: expected JSON, found: ${error.message}`);
    throw error instanceof RangeError ? dataError(error.message) : error;
  }
}

/** Flags of vLLM in place of what the preset says. */
export const SERVER_OPTIONS = {
  'max-num-seqs': {
    type: 'integer',
    minimum: 1,
    maximum: 65_536,
    description: 'Maximum sequences per batch (vLLM --max-num-seqs). Default: from --preset.',
  },
  'max-num-batched-tokens': {
    type: 'integer',
    minimum: 1,
    maximum: 1_048_576,
    description: 'Maximum tokens per step (vLLM --max-num-batched-tokens). Default: from --preset.',
  },
  'gpu-memory-utilization': {
    type: 'number',
    minimum: 0.01,
    maximum: 1,
    description:
      "Share of the GPU's memory for the server, which sets the size of the KV cache. Needs --preset. Default: 0.9.",
  },
  'speculative-tokens': {
    type: 'integer',
    minimum: 1,
    maximum: MOST_DRAFTED,
    description:
      'Speculative decoding: tokens drafted for each sequence and step (num_speculative_tokens of vLLM). Default: none.',
  },
  'acceptance-rate': {
    type: 'number',
    minimum: 0,
    maximum: 1,
    description: 'Share of drafted tokens that is accepted, as the log and /metrics of a server say it.',
  },
  'draft-ms': {
    type: 'number',
    minimum: 0,
    maximum: 1000,
    description: 'Milliseconds that drafting adds to a step. Default: 0, as of n-grams.',
  },
} as const satisfies OptionSchemas;

/** The server of the preset with these flags. Exit 64 where it would not start; its cause is a DoesNotFit where drafts do not fit. */
export function withServerOptions(preset: Preset, options: OptionsOf<typeof SERVER_OPTIONS>): Preset {
  const speculative = speculativeOf(options);
  try {
    return withFlags(preset, {
      maxNumSeqs: options['max-num-seqs'],
      maxNumBatchedTokens: options['max-num-batched-tokens'],
      gpuMemoryUtilization: options['gpu-memory-utilization'],
      speculative,
    });
  } catch (error) {
    throw error instanceof RangeError ? badOptions(error) : error;
  }
}

function speculativeOf({
  'speculative-tokens': tokens,
  'acceptance-rate': acceptance,
  'draft-ms': draftMs,
}: OptionsOf<typeof SERVER_OPTIONS>): ServerFlags['speculative'] {
  if (tokens === undefined) {
    const flag =
      acceptance !== undefined ? 'acceptance-rate' : draftMs !== undefined ? 'draft-ms' : undefined;
    if (flag !== undefined) throw usageError(`expected --speculative-tokens with --${flag}, found none`);
    return undefined;
  }
  if (acceptance === undefined)
    throw usageError(
      'expected --acceptance-rate with --speculative-tokens, found none: accepted tokens over drafted ones, 0 to 1',
    );
  return { tokens, acceptance, draftMs: draftMs ?? 0 };
}
