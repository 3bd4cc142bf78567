/**
 * How long a step of the engine takes: every running sequence moves on in one pass over the weights.
 *
 *   T = t0 + t_seq·B + √(W² + (c·n)²) + κ·KV + α·Σ(q·ctx)        milliseconds
 *
 * B sequences, n tokens (one for each that decodes, and the chunks of prompts), KV tokens of context over all of them,
 * q tokens of a chunk that ends at context ctx. The root is a roofline with a rounded knee: reading the weights and
 * computing overlap, so that the slower of the two decides. It was fitted on the measured per-operation tables of
 * vidur (data/profiling/compute); docs/simulator.md has sources, fits and errors.
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
  return (
    times.t0 +
    times.perSequence * sequences +
    Math.sqrt(times.weights * times.weights + compute * compute) +
    times.perKvToken * kv +
    times.perAttention * attention
  );
}

/** `steps` steps in which the same sequences decode, so that the context of `kv` in the first grows by one each. */
export function decodeMs(times: StepTimes, sequences: number, kv: number, steps: number): number {
  const grown = (sequences * steps * (steps - 1)) / 2;
  return steps * stepMs(times, sequences, sequences, 0, 0) + times.perKvToken * (steps * kv + grown);
}

/** The fewest such steps, at least one, that last `ms` or longer: the number of the one that is running then. */
export function decodeStepsBy(times: StepTimes, sequences: number, kv: number, ms: number): number {
  // decodeMs is a·steps² + b·steps, solved in the form that loses no digits
  const a = (times.perKvToken * sequences) / 2;
  const b = decodeMs(times, sequences, kv, 1) - a;
  let steps = Math.max(1, Math.ceil((2 * ms) / (b + Math.sqrt(b * b + 4 * a * ms))));
  while (steps > 1 && decodeMs(times, sequences, kv, steps - 1) >= ms) steps--;
  while (decodeMs(times, sequences, kv, steps) < ms) steps++;
  return steps;
}
