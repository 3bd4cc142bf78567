/**
 * When an answer is ready. All timing of the simulator is behind `timingOf`: the delay is drawn for each request,
 * because a server that answers everything after the same delay makes all calls of a client fall due together.
 */
import type { Random } from './random.ts';

/** Milliseconds: the whole of a request, from its arrival to its last token. */
export interface Latency {
  low: number;
  high: number;
}

/** Milliseconds after arrival. */
export interface Timing {
  firstToken: number;
  lastToken: number;
}

/** Reads `40ms`, `1.5s` or `20ms-80ms`. @throws RangeError */
export function latencyFrom(text: string): Latency {
  const [low, high = low, ...rest] = text.split('-').map(millisecondsFrom);
  if (low === undefined || high === undefined || high < low || rest.length > 0) {
    throw new RangeError(
      `expected a time such as 40ms or 1.5s, or a range such as 20ms-80ms, found "${text}"`,
    );
  }
  return { low, high };
}

function millisecondsFrom(text: string): number | undefined {
  const match = /^(\d{1,6}(?:\.\d{1,3})?)(ms|s)$/.exec(text.trim());
  return match ? Number(match[1]) * (match[2] === 's' ? 1_000 : 1) : undefined;
}

/** The first token of a streamed answer comes after a quarter of the time, as if prefill had taken it. */
export function timingOf({ low, high }: Latency, random: Random): Timing {
  const lastToken = Math.round(low + (high - low) * random());
  return { firstToken: Math.round(lastToken / 4), lastToken };
}
