/**
 * The one place that says which model on which card is meant: a preset by name or file, or the facts of a model and a
 * card, from which one is made.
 */
import { basename, dirname, resolve } from 'node:path';
import { readSmallFile } from '../../engine/core/config/yaml.ts';
import { badOptions, dataError, usageError } from '../../engine/core/item/failure.ts';
import { didYouMean } from '../../engine/core/item/wording.ts';
import type { OptionSchemas, OptionsOf } from '../../engine/flow/options.ts';
import { CARD_NAMES, cardNamed, MACHINE_CARDS } from './cards.ts';
import { factsOf, KNOWN_MODELS, knownConfig, type ModelFacts } from './model-facts.ts';
import {
  PRESET_NAMES,
  type Preset,
  presetFrom,
  readPreset,
  type SERVER_OPTIONS,
  USUAL_UTILIZATION,
} from './presets.ts';
import { type Made, presetOfFacts, type Term } from './step-terms.ts';
import { DTYPES, QUANTIZATIONS } from './weight-storage.ts';

export const MACHINE_OPTIONS = {
  'model-config': {
    type: 'string',
    description:
      'Instead of --preset, with --gpu: the config.json of a model, or the name of a known one, e.g. meta-llama/Llama-3.1-70B-Instruct.',
  },
  gpu: {
    type: 'string',
    description: `Card that --model-config runs on: ${CARD_NAMES.join(', ')}.`,
  },
  tp: {
    type: 'string',
    description: 'Cards that the model is split over (vLLM --tensor-parallel-size). Default: 1.',
  },
  quantization: {
    type: 'string',
    enum: QUANTIZATIONS,
    description: 'How weights are stored, where the config does not say it or the server is told otherwise.',
  },
  'kv-cache-dtype': {
    type: 'string',
    enum: ['auto', 'fp8'],
    description: 'Type of the KV cache (vLLM --kv-cache-dtype). Default: auto, 16 bits.',
  },
  dtype: {
    type: 'string',
    enum: DTYPES,
    description: 'Type of weights and activations (vLLM --dtype). Default: what the config says.',
  },
} as const satisfies OptionSchemas;

export const PRESET_OPTIONS = {
  preset: {
    type: 'string',
    file: 'read',
    description: `Model and GPU to simulate: a preset file, or one of ${PRESET_NAMES}. Or --model-config and --gpu.`,
  },
  ...MACHINE_OPTIONS,
} as const satisfies OptionSchemas;

/** With the share of the memory that decides whether a model fits; what else a server has changes a preset later. */
export type PresetGiven = Partial<OptionsOf<typeof PRESET_OPTIONS>> &
  Partial<Pick<OptionsOf<typeof SERVER_OPTIONS>, 'gpu-memory-utilization'>>;

/** A preset, and what it was made of where it was made of facts. */
export interface Told {
  preset: Preset;
  terms: Term[];
  model: ModelFacts | null;
}

const ALONE = ['gpu', 'tp', 'quantization', 'kv-cache-dtype', 'dtype'] as const;

/** Undefined where no option names one. Exit 64 or 65 where what they name is none, or does not fit. */
export function presetGiven(given: PresetGiven): Told | undefined {
  const { preset, 'model-config': config, gpu } = given;
  if (config === undefined) {
    const flag = ALONE.find(name => given[name] !== undefined);
    if (flag !== undefined)
      throw usageError(`expected --model-config with --${flag}, found none: a preset has its card already`);
    return preset === undefined ? undefined : { preset: readPreset(preset), terms: [], model: null };
  }
  if (preset !== undefined) throw usageError('expected --preset or --model-config, found both');
  if (gpu === undefined)
    throw usageError(`expected --gpu with --model-config, found none: one of ${CARD_NAMES.join(', ')}`);
  const model = readModel(config, given);
  const made = presetOn(model, gpu, given);
  return { preset: presetFrom(made.file, made.file.name), terms: made.terms, model };
}

/** The facts of a model by its name or its file. Exit 64 or 65 where they are none. */
export function readModel(
  text: string,
  { quantization, dtype }: Pick<PresetGiven, 'quantization' | 'dtype'>,
): ModelFacts {
  const known = knownConfig(text);
  if (known === undefined && !/\.json$|^[./]/.test(text)) {
    throw usageError(
      `--model-config: expected a config.json file, or a known model such as ${KNOWN_MODELS[3]}, found "${text}"${didYouMean(text, KNOWN_MODELS)}; docs/simulator.md lists them`,
    );
  }
  try {
    const config = known ?? JSON.parse(readSmallFile(text, 'the config.json of a model'));
    const facts = factsOf(config, text, quantization, dtype);
    return { ...facts, name: known === undefined ? nameOf(config, text) : text };
  } catch (error) {
    if (error instanceof SyntaxError) throw dataError(`${text}: expected JSON, found: ${error.message}`);
    throw error instanceof RangeError ? dataError(error.message) : error;
  }
}

/** Of a file that is called config.json, as all are, the folder says which. */
function nameOf(config: { _name_or_path?: unknown }, path: string): string {
  const { _name_or_path: own } = config;
  if (typeof own === 'string' && /[a-z0-9]/i.test(own)) return own.slice(0, 200);
  const file = basename(path, '.json');
  return (file === 'config' ? basename(dirname(resolve(path))) : file).slice(0, 200) || path;
}

/** Cards that a model is split over. @throws RangeError */
export function splitOf(text: string): number {
  if (/^\d{1,2}$/.test(text) && Number(text) >= 1 && Number(text) <= MACHINE_CARDS) return Number(text);
  throw new RangeError(
    `--tp: expected a whole number from 1 to ${MACHINE_CARDS}, the cards of a machine, found "${text.slice(0, 80)}": several machines are not known`,
  );
}

/** Exit 64 on an unknown card, or where the model does not fit: its cause is then a DoesNotFit. */
export function presetOn(
  model: ModelFacts,
  gpu: string,
  {
    tp = '1',
    'kv-cache-dtype': kv,
    'gpu-memory-utilization': utilization = USUAL_UTILIZATION,
  }: Pick<PresetGiven, 'tp' | 'kv-cache-dtype' | 'gpu-memory-utilization'>,
): Made {
  try {
    return presetOfFacts(model, {
      card: cardNamed(gpu),
      tp: splitOf(tp),
      kvBytes: kv === 'fp8' ? 1 : 2,
      utilization,
    });
  } catch (error) {
    throw error instanceof RangeError ? badOptions(error) : error;
  }
}
