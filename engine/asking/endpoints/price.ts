/**
 * What a server costs. `2.5` is an hour of it; `0.15/0.6` a million tokens of prompts and of answers; `0.15/0.075/0.6` the
 * same with those between that came from its prefix cache. In whatever currency: nobody here asks which.
 *
 * Money is counted in whole numbers of 10^-15 of its unit. A price has at most nine decimals and is of a million tokens, so
 * each sum is exact, and a million of them drift nowhere.
 */
import type { Usage } from '../../core/item/item.ts';

export interface Price {
  /** as it was written */
  text: string;
  /** of an hour, in 10^-9; null: it is paid by the token */
  hour: bigint | null;
  /** of a million tokens, in 10^-9 */
  in: bigint;
  cached: bigint;
  out: bigint;
}

export const PRICE_FORM =
  'the price of an hour, such as 2.5, or of a million tokens in and out, such as 0.15/0.6 (in/cached/out: 0.15/0.075/0.6)';

const NANO = 10n ** 9n;
const DECIMALS = 15;
const UNIT = 10n ** BigInt(DECIMALS);
const MS_PER_HOUR = 3_600_000n;

/** Null for what is no price. */
export function priceOf(text: string): Price | null {
  const parts = text.length > 62 ? [] : text.split('/').map(nanoOf);
  if (parts.length === 0 || parts.length > 3 || parts.includes(null)) return null;
  const [first, ...more] = parts as [bigint, ...bigint[]];
  const out = more.at(-1);
  if (out === undefined) return { text, hour: first, in: 0n, cached: 0n, out: 0n };
  return { text, hour: null, in: first, cached: more.length > 1 ? (more[0] as bigint) : first, out };
}

/** `12.5` in 10^-9; null for what is no such number. */
function nanoOf(text: string): bigint | null {
  const [, whole, part = ''] = /^(\d{1,9})(?:\.(\d{1,9}))?$/.exec(text) ?? [];
  return whole === undefined ? null : BigInt(whole) * NANO + BigInt(part.padEnd(9, '0'));
}

/** An amount of money, as it is counted here; null for what is none. */
export function moneyOf(text: string): bigint | null {
  const nano = nanoOf(text);
  return nano === null ? null : (nano * UNIT) / NANO;
}

/** Whether nothing is paid for it. */
export const isFree = (price: Price | null): boolean =>
  price === null || (price.hour ?? price.in + price.cached + price.out) === 0n;

/** What tokens cost; those from the cache are some of the prompt's. */
export function tokenCost(price: Price, { prompt, completion, cached = 0 }: Usage): bigint {
  const read = whole(prompt);
  const known = whole(Math.min(prompt, cached));
  return (read - known) * price.in + known * price.cached + whole(completion) * price.out;
}

/** What so many ms of a server cost that is paid by the hour. */
export function timeCost({ hour }: Price, ms: number): bigint {
  return ((hour ?? 0n) * whole(ms) * (UNIT / NANO)) / MS_PER_HOUR;
}

/** Counts come from servers and files, which may say anything. */
const whole = (value: number): bigint => BigInt(Number.isFinite(value) ? Math.max(0, Math.round(value)) : 0);

/** `5.00`, `0.0123`: with so many decimals, rounded. */
export function moneyText(money: bigint, decimals: number): string {
  const step = 10n ** BigInt(DECIMALS - decimals);
  const digits = String((money + step / 2n) / step).padStart(decimals + 1, '0');
  return `${digits.slice(0, -decimals)}.${digits.slice(-decimals)}`;
}

/** For messages: two decimals at least, and all that say something, up to six. */
export function moneyWords(money: bigint): string {
  return moneyText(money, 6).replace(/0{1,4}$/, '');
}
