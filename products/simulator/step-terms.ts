/**
 * The time of a step, and the room for the KV cache, from the facts of a model and of a card: what is read, what is
 * computed, what is exchanged, each over what the data sheet says and by how much of that others have measured. No
 * constant here was fitted to runs of a whole server; step-constants.ts has each with its source.
 */

import type { Card } from './cards.ts';
import {
  defaultLimits,
  doesNotFit,
  isEven,
  kvBytesPerLayer,
  LEAST_TOKENS,
  type Machine,
  memoryOf,
} from './kv-room.ts';
import { type ModelFacts, type Parameters, parametersOf } from './model-facts.ts';
import { type PresetFile, USUAL_UTILIZATION } from './presets.ts';
import { DoesNotFit } from './sequence.ts';
import { CONSTANTS } from './step-constants.ts';
import type { Storage } from './weight-storage.ts';

/**
 * The worst mean E2E of nine measured stages, none of which was near saturation (docs/simulator.md); there it is that of the
 * other presets.
 */
const ERROR = { mid_load: 0.14, near_saturation: 0.25 };

export interface Term {
  name: string;
  value: number;
  unit: string;
  formula: string;
}

export interface Made {
  file: PresetFile;
  terms: Term[];
}

/** @throws RangeError where the model cannot be split so, or does not fit: by how much, and what would */
export function presetOfFacts(model: ModelFacts, machine: Machine): Made {
  expectSplit(model, machine.tp);
  const limits = defaultLimits(machine.card);
  const memory = memoryOf(model, machine, limits.maxNumBatchedTokens);
  if (memory.kvTokens < LEAST_TOKENS) throw new DoesNotFit(doesNotFit(model, machine, memory));
  const step = stepOf(model, machine);
  const { card, tp } = machine;
  const name = [model.name, card.name, tp > 1 ? `tp${tp}` : ''].filter(part => part !== '').join('-');
  const digits = (value: number): number => Number(value.toPrecision(6));
  const cards = tp > 1 ? `${tp} × ${card.gpu} (${card.link.kind})` : card.gpu;
  return {
    terms: step.terms,
    file: {
      name: plainName(name),
      model: model.name.slice(0, 200),
      gpu: `${cards}, ${model.stored.words}${machine.kvBytes === 1 ? ', FP8 KV cache' : ''}`,
      weights_ms: digits(step.weights),
      ms_per_token: digits(step.perToken),
      kv_us_per_1k_tokens: digits(Math.max(1e-6, step.perKvToken * 1e6)),
      attention_ns_per_product: digits(step.perAttention * 1e6),
      step_ms: digits(CONSTANTS.stepMs.value + step.kernels),
      sequence_ms: CONSTANTS.sequenceMs.value,
      ...(model.experts && {
        experts_ms: digits(step.experts),
        experts_share: model.experts.perToken / model.experts.count,
      }),
      ...(step.reduce && {
        reduce: step.reduce.map(way => ({ step_ms: digits(way.step), ms_per_token: digits(way.perToken) })),
      }),
      ...(model.window && {
        window: { tokens: model.window.tokens, kv_us_per_1k_tokens: digits(step.perWindowToken * 1e6) },
      }),
      kv_tokens: memory.kvTokens,
      ...(machine.utilization !== USUAL_UTILIZATION && { gpu_memory_utilization: machine.utilization }),
      ...(model.context !== null && { max_model_len: model.context }),
      kv_bytes_per_token: Math.round(memory.bytesPerToken),
      gpu_memory_gib: card.memory_mib / 1024,
      max_num_seqs: limits.maxNumSeqs,
      max_num_batched_tokens: limits.maxNumBatchedTokens,
      request_ms: CONSTANTS.requestMs.value,
      async_scheduling: true,
      gpus: tp,
      basis: '[derived] From the facts of the model and the card; fw plan --explain shows each term.',
      source: card.source,
      error: ERROR,
    },
  };
}

const plainName = (name: string): string =>
  name
    .toLowerCase()
    .replace(/^.*\//, '')
    .replace(/[^a-z0-9.-]/g, '-')
    .replace(/^[^a-z0-9]+/, '')
    .slice(0, 100) || 'model';

function expectSplit(model: ModelFacts, tp: number): void {
  const { heads, kvHeads, name, stored, experts, dense } = model;
  if (heads % tp !== 0) {
    throw new DoesNotFit(
      `${name}: expected --tp that divides its ${heads} attention heads, found ${tp}: vLLM would not start either`,
    );
  }
  if (!isEven(model, tp)) {
    throw new DoesNotFit(
      `${name}: expected --tp that divides its ${kvHeads} KV heads or is a multiple of them, found ${tp}: vLLM would not start either`,
    );
  }
  const { block = 1 } = stored;
  for (const width of [experts?.width ?? 0, dense.width])
    if ((width / tp) % block !== 0) {
      throw new DoesNotFit(
        `${name}: expected --tp that leaves each card a multiple of ${block} (quantization_config.weight_block_size) of a feed-forward layer of ${width}, found ${tp}: vLLM would not start either`,
      );
    }
}

interface Timed {
  weights: number;
  experts: number;
  perToken: number;
  kernels: number;
  perKvToken: number;
  perWindowToken: number;
  perAttention: number;
  reduce: { step: number; perToken: number }[] | null;
  terms: Term[];
}

function stepOf(model: ModelFacts, machine: Machine): Timed {
  const { card, tp, kvBytes } = machine;
  const bandwidth = card.bandwidth_gb_s * 1e6; // bytes a ms
  const parts = parametersOf(model);
  const reading = (bytes: number): number => bytes / tp / (CONSTANTS.bandwidth.value * bandwidth);
  const { stored, experts, window, layers } = model;
  const weights = reading(
    parts.attention * stored.attention.bytes +
      parts.forward * stored.forward.bytes +
      parts.head * stored.head.bytes,
  );
  const expertsMs = reading(parts.experts * stored.experts.bytes);
  const perToken = computeMs(model, parts, card) / tp;
  const kernels = (kernelsOf(model) * CONSTANTS.kernelUs.value) / 1000;
  const perLayer = kvTokenMs(model, machine);
  const windowed = window?.layers ?? 0;
  // QKᵀ and the product with V, 2 operations a weight each
  const attentionSize = model.latent
    ? model.latent.nope + model.latent.rope + model.latent.value
    : 2 * model.headSize;
  const peak16 = card.peak_tflops.bits16 * 1e9; // operations a ms
  const perAttention = (layers * 2 * model.heads * attentionSize) / tp / (CONSTANTS.attention.value * peak16);
  const reduce = tp === 1 ? null : reduceWays(model, machine);
  const gb = (bytes: number): string => (bytes / tp / 1e9).toFixed(2);
  const terms: Term[] = [
    {
      name: 'weights',
      value: weights,
      unit: 'ms a step',
      formula: `${gb(parts.attention * stored.attention.bytes + parts.forward * stored.forward.bytes + parts.head * stored.head.bytes)} GB a card / (${CONSTANTS.bandwidth.value} × ${card.bandwidth_gb_s} GB/s)`,
    },
    ...(experts
      ? [
          {
            name: 'experts',
            value: expertsMs,
            unit: 'ms for all of them',
            formula: `${gb(parts.experts * stored.experts.bytes)} GB a card, of which n tokens, padded to a CUDA graph, touch 1 − (1 − ${experts.perToken}/${experts.count})ⁿ`,
          },
        ]
      : []),
    {
      name: 'computing',
      value: perToken * 1000,
      unit: 'µs a token',
      formula: `2 × ${(activeOf(model, parts) / 1e9).toFixed(2)} G weights of a token / ${tp} / (${CONSTANTS.compute.value} × peak)`,
    },
    {
      name: 'kernels',
      value: kernels,
      unit: 'ms a step',
      formula: `${kernelsOf(model)} kernels × ${CONSTANTS.kernelUs.value} µs`,
    },
    {
      name: 'KV cache',
      value: perLayer * (layers - windowed) * 1e6,
      unit: 'µs for 1,000 tokens of context',
      formula: `${Math.round(kvBytesPerLayer(model, tp, kvBytes) * layers)} bytes a token and card / (${CONSTANTS.kv.value} × ${card.bandwidth_gb_s} GB/s)${window ? `; ${windowed} of ${layers} layers read at most ${window.tokens} tokens` : ''}`,
    },
    {
      name: 'attention of prompts',
      value: perAttention * 1e6,
      unit: 'ns for a token and a token of its context',
      formula: `2 × ${layers} layers × ${model.heads} heads × ${attentionSize} / ${tp} / (${CONSTANTS.attention.value} × peak)`,
    },
    ...(reduce
      ? [
          {
            name: 'all-reduces',
            value: Math.min(...reduce.map(way => way.step + way.perToken * 16)),
            unit: 'ms for 16 tokens',
            formula: `${2 * layers} of them over ${card.link.kind}, ${card.link.gb_s} GB/s: ${reduce.map(way => `${way.step.toFixed(2)} ms + ${(1000 * way.perToken).toFixed(1)} µs a token`).join(', or ')}`,
          },
        ]
      : []),
    {
      name: 'sampling and CPU',
      value: CONSTANTS.stepMs.value,
      unit: `ms a step, and ${CONSTANTS.sequenceMs.value} ms a sequence`,
      formula: 'inferred',
    },
  ];
  return {
    weights,
    experts: expertsMs,
    perToken,
    kernels,
    perKvToken: perLayer * (layers - windowed),
    perWindowToken: perLayer * windowed,
    perAttention,
    reduce,
    terms,
  };
}

/** Weights that a token is multiplied with, without the LM head, which few tokens of a prompt pass. */
function activeOf(model: ModelFacts, { attention, forward, experts }: Parameters): number {
  return attention + forward + (model.experts ? (experts * model.experts.perToken) / model.experts.count : 0);
}

function computeMs(
  model: ModelFacts,
  { attention, forward, experts }: Parameters,
  { peak_tflops: peak }: Card,
): number {
  const { stored } = model;
  const share = model.experts ? model.experts.perToken / model.experts.count : 0;
  const on = (weights: number, storage: Storage): number =>
    (2 * weights) / (CONSTANTS.compute.value * (peak[storage.on] ?? peak.bits16) * 1e9);
  return on(attention, stored.attention) + on(forward, stored.forward) + on(experts * share, stored.experts);
}

/** Reading what a layer keeps of a token, or computing with it: latent attention is shared by all heads, and computes more. */
function kvTokenMs(model: ModelFacts, { card, tp, kvBytes }: Machine): number {
  const { latent, heads, headSize } = model;
  const reading = kvBytesPerLayer(model, tp, kvBytes) / (CONSTANTS.kv.value * card.bandwidth_gb_s * 1e6);
  const each = latent ? 2 * latent.kvRank + latent.rope : 2 * headSize;
  const computing = (2 * (heads / tp) * each) / (CONSTANTS.attention.value * card.peak_tflops.bits16 * 1e9);
  return Math.max(reading, latent ? computing : 0);
}

/**
 * Kernels that vLLM runs of a step. A layer has norm, QKV, rotation, KV write, attention, output, norm (the residual is
 * added in the norm), and up, activation, down. Experts have router, top-k, sorting, up, activation, down and sum instead;
 * shared ones their three and a sum. What is computed in 8 bits has its input quantized before each product.
 */
export function kernelsOf({ layers, dense, experts, latent, stored }: ModelFacts): number {
  const quantized = ({ on }: Storage): number => (on === 'bits16' ? 0 : 2);
  const attention = layers * (7 + (latent ? 4 : 0) + quantized(stored.attention));
  const forward = dense.layers * (3 + quantized(stored.forward));
  if (experts === null) return attention + forward;
  const shared = experts.shared > 0 ? 4 + quantized(stored.forward) : 0;
  return attention + forward + experts.layers * (7 + quantized(stored.experts) + shared);
}

/** Two all-reduces a layer, of a row of the hidden size in 16 bits for each token. */
function reduceWays(
  { layers, hidden }: ModelFacts,
  { card, tp }: Machine,
): { step: number; perToken: number }[] {
  const { oneShotUs, oneShotLink, ringUs, ringLink } = CONSTANTS;
  const link = card.link.gb_s * 1e6; // bytes a ms
  const way = (us: number, bytesOver: number) => ({
    step: (2 * layers * us) / 1000,
    perToken: 2 * layers * 2 * hidden * bytesOver,
  });
  const ring = way(ringUs.value, (2 * (tp - 1)) / tp / (ringLink.value * link));
  // over PCIe vLLM leaves it to NCCL
  return card.link.kind === 'NVLink'
    ? [way(oneShotUs.value, (tp - 1) / (oneShotLink.value * link)), ring]
    : [ring];
}
