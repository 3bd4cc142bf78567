/** A limit of a minute, and what is said where there is nothing left of one: 429 and headers, as OpenAI has them. */
import { type ApiError, comeAgain } from './errors.ts';

export const MINUTE = 60_000;

/** Holds what a minute may have, and fills evenly. */
export interface Bucket {
  left: number;
  /** ms since 1970 */
  at: number;
}

/** A clock that is set back takes nothing from it. */
export function filledBy(bucket: Bucket | null, limit: number, at: number): Bucket {
  if (bucket === null) return { left: limit, at };
  bucket.left = Math.min(limit, bucket.left + (Math.max(0, at - bucket.at) / MINUTE) * limit);
  bucket.at = at;
  return bucket;
}

export function tooManyRequests(rpm: number, left: number, headers?: Record<string, string>): ApiError {
  const wait = Math.ceil(((1 - left) / rpm) * 60);
  return tooMany(`this key may ask ${rpm} times a minute`, 'requests', wait, headers);
}

export function tooMany(what: string, type: string, seconds: number, headers = {}): ApiError {
  const message = `Rate limit reached: ${what}.`;
  return comeAgain(429, message, 'rate_limit_exceeded', Math.max(1, seconds), { type, headers });
}

/** As OpenAI writes it: 17ms, 1.5s, 6m0s, 23h59m59s. */
export function timeText(ms: number): string {
  if (ms < 1000) return `${Math.max(0, Math.ceil(ms))}ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${Number(seconds.toFixed(3))}s`;
  const [h, m, s] = [Math.floor(seconds / 3600), Math.floor((seconds % 3600) / 60), Math.floor(seconds % 60)];
  return `${h > 0 ? `${h}h` : ''}${m}m${s}s`;
}
