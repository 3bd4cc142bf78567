/** Durations as people write them, and the delay of a server without an engine: drawn anew for each request, because a
 * server that answers everything after the same delay makes all calls of a client fall due together. */

/** Milliseconds: the whole of a request, from its arrival to its last token. */
export interface Latency {
  low: number;
  high: number;
}

const UNITS: { [unit: string]: number } = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 };
/** Timers cannot be set for longer than 2^31 ms. */
const MAX_TIMER_MS = 24 * 24 * 3_600_000;

/** `250ms`, `1.5s`, `10m` or `2h` in milliseconds. @throws RangeError */
export function durationFrom(text: string): number {
  const match = /^(\d{1,9}(?:\.\d{1,3})?)(ms|s|m|h)$/.exec(text.trim());
  const duration = match ? Number(match[1]) * UNITS[match[2]!]! : Number.NaN;
  if (duration <= MAX_TIMER_MS) return duration;
  throw new RangeError(`expected a time such as 40ms, 1.5s or 10m, found "${text}"`);
}

/** Reads `40ms`, `1.5s` or `20ms-80ms`. @throws RangeError */
export function latencyFrom(text: string): Latency {
  const wrong = () =>
    new RangeError(`expected a time such as 40ms or 1.5s, or a range such as 20ms-80ms, found "${text}"`);
  const parts = text.split('-');
  if (parts.length > 2) throw wrong();
  let times: number[];
  try {
    times = parts.map(durationFrom);
  } catch {
    throw wrong();
  }
  const [low = 0, high = low] = times;
  if (high < low) throw wrong();
  return { low, high };
}
