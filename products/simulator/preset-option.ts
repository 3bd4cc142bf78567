/** --preset: a model on a GPU, by the name of a preset or as a file of one's own; and the flags of its server. */

import { readSmallFile } from '../../engine/core/config/yaml.ts';
import { dataError, usageError } from '../../engine/core/item/failure.ts';
import type { OptionSchemas, OptionsOf } from '../../engine/flow/options.ts';
import { PRESETS, type Preset, presetFrom, presetNamed, withFlags } from './presets.ts';

/** The names, for pages of help and messages. */
export const PRESET_NAMES = PRESETS.map(({ name }) => name).join(', ');

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
    description: 'Sequences of a batch. Needs --preset, which says the default.',
  },
  'max-num-batched-tokens': {
    type: 'integer',
    minimum: 1,
    maximum: 1_048_576,
    description: 'Tokens of a step. Needs --preset, which says the default.',
  },
  'gpu-memory-utilization': {
    type: 'number',
    minimum: 0.01,
    maximum: 1,
    description:
      "Share of the GPU's memory that the server takes, which decides how many tokens the KV cache holds. Needs --preset. Default: 0.9.",
  },
} as const satisfies OptionSchemas;

/** The server of the preset with these flags. Exit 64 where it would not start. */
export function withServerOptions(preset: Preset, options: OptionsOf<typeof SERVER_OPTIONS>): Preset {
  try {
    return withFlags(preset, {
      maxNumSeqs: options['max-num-seqs'],
      maxNumBatchedTokens: options['max-num-batched-tokens'],
      gpuMemoryUtilization: options['gpu-memory-utilization'],
    });
  } catch (error) {
    throw error instanceof RangeError ? usageError(error.message) : error;
  }
}
