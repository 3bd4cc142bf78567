/** When requests are due in an open loop: all times before the first is sent, from a seed, so that a run can be repeated. */
import { seeded } from './permute.ts';

export interface Arrivals {
  /** requests a second; Infinity: all at once */
  rate: number;
  /** of a ramp: the rate at its beginning, which grows evenly in time to `rate` */
  from?: number;
  /** shape of the gamma distribution of the gaps: 1 is Poisson, less comes in bursts, Infinity is constant */
  burstiness: number;
  count: number;
  seed: number;
}

/**
 * Milliseconds from the start, ascending. The gaps, that before the first among them, are Gamma(b, 1 / (rate b)), and all
 * are stretched so that the last request is due at count / rate: as vllm bench serve does, so that two runs of one rate
 * have that rate, and not the one that was drawn. Of a ramp the last one is due at its end, 2 count / (from + rate).
 */
export function dueTimes({ rate, from = rate, burstiness, count, seed }: Arrivals): Float64Array {
  const due = new Float64Array(count);
  if (rate === Number.POSITIVE_INFINITY) return due;
  const random = seeded(seed);
  let at = 0;
  for (let i = 0; i < count; i++) {
    at += burstiness === Number.POSITIVE_INFINITY ? 1 : gamma(burstiness, random);
    due[i] = at;
  }
  // arrivals of rate 1 in their own time; what has come by a time t of a ramp is from t + (rate - from) t² / 2T
  const end = (2 * count) / (from + rate);
  const curve = (rate - from) / end / 2;
  for (let i = 0; i < count; i++) {
    const share = ((due[i] as number) / at) * count;
    due[i] = (1000 * 2 * share) / (from + Math.sqrt(from * from + 4 * curve * share));
  }
  return due;
}

/** Marsaglia and Tsang (2000); below 1 by the power of a uniform number, as they say. Scale 1. */
function gamma(shape: number, random: () => number): number {
  if (shape < 1) return gamma(shape + 1, random) * (1 - random()) ** (1 / shape);
  if (shape === 1) return -Math.log(1 - random());
  const d = shape - 1 / 3;
  const c = 1 / Math.sqrt(9 * d);
  for (;;) {
    // Box and Muller
    const x = Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
    const v = (1 + c * x) ** 3;
    if (v > 0 && Math.log(1 - random()) < 0.5 * x * x + d - d * v + d * Math.log(v)) return d * v;
  }
}
