/** How long a try waits that follows a failed one. */

/** Exponential with jitter between half and whole, so that calls which failed together do not return together. */
export function backoff(tries: number, base: number, cap: number, random: () => number): number {
  const full = Math.min(cap, base * 2 ** (tries - 1));
  return full * (0.5 + random() / 2);
}

/** Retry-After (RFC 9110 10.2.3: seconds or an HTTP date) in milliseconds, at most `cap`; undefined if unreadable. */
export function readRetryAfter(value: string | undefined, date: number, cap: number): number | undefined {
  if (value === undefined || value.length > 64) return undefined;
  const ms = /^\s*\d{1,12}(\.\d{1,6})?\s*$/.test(value) ? Number(value) * 1000 : Date.parse(value) - date;
  return Number.isNaN(ms) ? undefined : Math.min(cap, Math.max(0, ms));
}
