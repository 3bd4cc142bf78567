/**
 * What a model takes of a card's memory, and how many tokens of KV cache are left room for.
 */
import { CARDS, type Card, MACHINE_CARDS } from './cards.ts';
import { type ModelFacts, parametersOf } from './model-facts.ts';
import type { Storage } from './weight-storage.ts';

const MIB = 2 ** 20;
const GIB = 2 ** 30;
/** CUDA itself, its graphs and the buffers of NCCL: what vLLM's log says of them is 0.5 to 2 GiB. */
const RUNTIME_GIB = 1;

export interface Machine {
  card: Card;
  /** cards that a model is split over */
  tp: number;
  /** bytes of a number in the KV cache */
  kvBytes: 1 | 2;
  /** share of the memory that a server takes; 0.9 is vLLM's default */
  utilization: number;
}

/** vLLM's defaults for a server on the card (vllm/engine/arg_utils.py). */
export function defaultLimits({ name, memory_mib }: Card): {
  maxNumSeqs: number;
  maxNumBatchedTokens: number;
} {
  const isLarge = memory_mib >= 70 * 1024 && !name.startsWith('a100');
  return isLarge
    ? { maxNumSeqs: 1024, maxNumBatchedTokens: 8192 }
    : { maxNumSeqs: 256, maxNumBatchedTokens: 2048 };
}

/** Fewer than that are no context for a server. */
export const LEAST_TOKENS = 1024;

export interface Memory {
  weights: number;
  activations: number;
  room: number;
  bytesPerToken: number;
  kvTokens: number;
}

/** In bytes on one card. */
export function memoryOf(
  model: ModelFacts,
  { card, tp, kvBytes, utilization }: Machine,
  batched: number,
): Memory {
  const weights = weightBytes(model, tp);
  const width = Math.max(model.dense.width, model.experts ? model.experts.width * model.experts.perToken : 0);
  const activations =
    batched * 2 * (4 * model.hidden + (2 * width) / tp) + 256 * model.vocabulary * 4 * 2 + RUNTIME_GIB * GIB;
  const bytesPerToken = kvBytesPerLayer(model, tp, kvBytes) * model.layers;
  const room = utilization * card.memory_mib * MIB - weights - activations;
  return { weights, activations, room, bytesPerToken, kvTokens: Math.floor(room / bytesPerToken) };
}

/** All of them, of which a step reads what it touches. */
function weightBytes(model: ModelFacts, tp: number): number {
  const { attention, forward, experts, head, embedding } = parametersOf(model);
  const { stored } = model;
  const all =
    attention * stored.attention.bytes +
    forward * stored.forward.bytes +
    experts * stored.experts.bytes +
    (head + embedding) * stored.head.bytes;
  return all / tp;
}

/** Heads are split, and repeated where there are fewer than cards; what latent attention keeps, each card has. */
export function kvBytesPerLayer(
  { latent, kvHeads, headSize }: ModelFacts,
  tp: number,
  bytes: number,
): number {
  return latent ? (latent.kvRank + latent.rope) * bytes : 2 * Math.ceil(kvHeads / tp) * headSize * bytes;
}

/** vLLM splits attention heads evenly; KV heads too, or repeats them evenly where there are fewer than cards. */
export const isEven = ({ heads, kvHeads, latent }: ModelFacts, tp: number): boolean =>
  heads % tp === 0 && (latent !== null || kvHeads % tp === 0 || tp % kvHeads === 0);

export function doesNotFit(
  model: ModelFacts,
  machine: Machine,
  { weights, activations, room, bytesPerToken }: Memory,
): string {
  const { card, tp, utilization } = machine;
  const gib = (bytes: number): string => (bytes / GIB).toFixed(1);
  const missing = LEAST_TOKENS * bytesPerToken - room;
  const fits = (on: Card, count: number): boolean =>
    isEven(model, count) &&
    memoryOf(model, { ...machine, card: on, tp: count }, defaultLimits(on).maxNumBatchedTokens).kvTokens >=
      LEAST_TOKENS;
  const fitting = SPLITS.find(count => count > tp && fits(card, count));
  const larger = [...CARDS]
    .sort((a, b) => a.memory_mib - b.memory_mib)
    .map(one => ({ one, split: SPLITS.find(count => count >= tp && fits(one, count)) }))
    .find(({ one, split }) => one.memory_mib > card.memory_mib && split !== undefined);
  const quantized: ModelFacts = {
    ...model,
    stored: { ...model.stored, attention: HALF, forward: HALF, experts: HALF },
  };
  const byFp8 =
    model.stored.forward.bytes === 2 && memoryOf(quantized, machine, 2048).kvTokens >= LEAST_TOKENS;
  const ways = [
    ...(fitting === undefined ? [] : [`--tp ${fitting}`]),
    ...(byFp8 ? ['--quantization fp8'] : []),
    ...(fitting === undefined && !byFp8 && larger ? [`${larger.one.name} with --tp ${larger.split}`] : []),
  ];
  return `${model.name} on ${tp > 1 ? `${tp} × ` : ''}${card.name}: expected ${gib(weights + activations + LEAST_TOKENS * bytesPerToken)} GiB a card (weights ${gib(weights)}, activations ${gib(activations)}, a KV cache of ${LEAST_TOKENS} tokens), found ${gib(utilization * card.memory_mib * MIB)} of ${gib(card.memory_mib * MIB)} at ${utilization}: ${gib(missing)} GiB too few; ${ways.length > 0 ? `${ways.join(', or ')} would fit` : `no split over up to ${MACHINE_CARDS} cards of a machine would fit, and several machines are not known: take fewer bits a weight`}`;
}

/** Ways to split over the cards of a machine. */
const SPLITS = [1, 2, 4, 8].filter(count => count <= MACHINE_CARDS);
const HALF: Storage = { bytes: 1, on: 'fp8' };
