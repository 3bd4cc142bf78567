/**
 * How long a step of the engine takes: every running sequence moves on in one pass over the weights.
 *
 *   T = t0 + t_seq·B + √((W + E(n))² + (c·n)²) + κ·KV + α·Σ(q·ctx) + R(n)        milliseconds
 *
 * B sequences, n tokens (one for each that decodes and its drafts, and the chunks of prompts), KV tokens of context over all of them,
 * q tokens of a chunk that ends at context ctx. The root is a roofline with a rounded knee: reading the weights and
 * computing overlap, so that the slower of the two decides. It was fitted on the measured per-operation tables of
 * vidur (data/profiling/compute); docs/simulator.md has sources, fits and errors. E(n) is reading those experts that n
 * tokens touch, those of a padded batch among them, R(n) what several cards exchange; what is made from the facts of a model and a card is in step-terms.ts.
 */

/** The constants of one model on one GPU, in milliseconds. */
export interface StepTimes {
  /** CPU of each step: scheduling, sampling, detokenizing */
  t0: number;
  /** CPU of each sequence in a step */
  perSequence: number;
  /** W: reading all weights once, the LM head included */
  weights: number;
  /** c: computing one token; prefill runs at 1000/c tokens a second */
  perToken: number;
  /** κ: reading the KV cache of one token */
  perKvToken: number;
  /** α: the quadratic part of prefill attention, for each q·ctx */
  perAttention: number;
  /** E: reading all routed experts, of which a token touches this share */
  experts?: { all: number; share: number };
  /** R: the all-reduces of a step; the quicker of two ways, of which one has less to begin with and the other less a token */
  reduce?: readonly Exchange[];
  /** layers that read no more than so many tokens of each sequence, on top of κ */
  window?: { tokens: number; perKvToken: number };
}

export interface Exchange {
  step: number;
  perToken: number;
}

/** One step. `attention` is Σ(q·ctx) over the chunks of prompts in it. */
export function stepMs(
  times: StepTimes,
  sequences: number,
  tokens: number,
  kv: number,
  attention: number,
): number {
  const compute = times.perToken * tokens;
  const weights = times.weights + expertsMs(times, tokens);
  return (
    times.t0 +
    times.perSequence * sequences +
    Math.sqrt(weights * weights + compute * compute) +
    times.perKvToken * kv +
    times.perAttention * attention +
    reduceMs(times, tokens) +
    (times.window ? times.window.perKvToken * Math.min(kv, sequences * times.window.tokens) : 0)
  );
}

/** Of E experts of which each token is sent to k, n tokens touch E·(1 − (1 − k/E)ⁿ) where all are as likely. */
export function expertsMs({ experts }: StepTimes, tokens: number): number {
  return experts ? experts.all * (1 - (1 - experts.share) ** paddedTokens(tokens)) : 0;
}

/**
 * Tokens of the CUDA graph that vLLM runs for so many: it captures 1, 2, 4, the multiples of 8 and from 256 on those of 16, up
 * to 512 (vllm/config/vllm.py, docs/design/cuda_graphs.md). The rows that nobody asked for pass the router, and experts are
 * read for them (vLLM pull requests 38128 and 46428; sglang 25852 names the cost). Later versions skip them
 * (VLLM_MOE_SKIP_PADDING, of mid-2026).
 */
export function paddedTokens(tokens: number): number {
  if (tokens > 512) return tokens;
  if (tokens <= 2) return tokens;
  if (tokens <= 4) return 4;
  const wide = tokens > 256 ? 16 : 8;
  return wide * Math.ceil(tokens / wide);
}

export function reduceMs({ reduce }: StepTimes, tokens: number): number {
  return reduce ? Math.min(...reduce.map(({ step, perToken }) => step + perToken * tokens)) : 0;
}

/** The same step on a machine that takes `factor` times as long for everything. */
export function scaledTimes(times: StepTimes, factor: number): StepTimes {
  const { experts, reduce, window } = times;
  return {
    t0: times.t0 * factor,
    perSequence: times.perSequence * factor,
    weights: times.weights * factor,
    perToken: times.perToken * factor,
    perKvToken: times.perKvToken * factor,
    perAttention: times.perAttention * factor,
    ...(experts && { experts: { ...experts, all: experts.all * factor } }),
    ...(reduce && {
      reduce: reduce.map(way => ({ step: way.step * factor, perToken: way.perToken * factor })),
    }),
    ...(window && { window: { ...window, perKvToken: window.perKvToken * factor } }),
  };
}

/** The first of a row of steps in which the same sequences decode, so that their context grows by `growth` tokens in each. */
export interface DecodeStep {
  sequences: number;
  tokens: number;
  kv: number;
  growth: number;
}

export function decodeMs(times: StepTimes, first: DecodeStep, steps: number): number {
  const { sequences, tokens, kv, growth } = first;
  return (
    steps * stepMs(times, sequences, tokens, 0, 0) +
    times.perKvToken * grownKv(growth, kv, steps) +
    (times.window
      ? times.window.perKvToken * windowKv(times.window.tokens * sequences, growth, kv, steps)
      : 0)
  );
}

/** The context that so many steps read. */
const grownKv = (growth: number, kv: number, steps: number) =>
  steps * kv + (growth * steps * (steps - 1)) / 2;

/** The same where no more than `most` is read in a step. */
function windowKv(most: number, growth: number, kv: number, steps: number): number {
  const growing = Math.min(steps, Math.max(0, Math.ceil((most - kv) / growth)));
  return grownKv(growth, kv, growing) + (steps - growing) * most;
}

/** The fewest such steps, at least one, that last `ms` or longer: the number of the one that is running then. */
export function decodeStepsBy(times: StepTimes, first: DecodeStep, ms: number): number {
  // decodeMs is a·steps² + b·steps, solved in the form that loses no digits; with a window it only begins like that
  const a = (times.perKvToken * first.growth) / 2;
  const b = decodeMs(times, first, 1) - a;
  let steps = Math.max(1, Math.ceil((2 * ms) / (b + Math.sqrt(b * b + 4 * a * ms))));
  if (times.window) return firstStepBy(times, first, ms);
  while (steps > 1 && decodeMs(times, first, steps - 1) >= ms) steps--;
  while (decodeMs(times, first, steps) < ms) steps++;
  return steps;
}

/** Between powers of two, then by halves: each step lasts longer than nothing. */
function firstStepBy(times: StepTimes, first: DecodeStep, ms: number): number {
  let high = 1;
  while (decodeMs(times, first, high) < ms) high *= 2;
  let low = high / 2;
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (decodeMs(times, first, middle) < ms) low = middle;
    else high = middle;
  }
  return high;
}
