/**
 * Numbers, booleans and words of an enum as texts spell them: each only where there is one reading of it. Texts are
 * short: see LONGEST_TEXT of coerce.ts.
 */

import { isKept } from '../core/json/lossless.ts';

/** Changes to values, each by its rule; a step that needed one is `coerced`. */
export const COERCIONS = {
  'number-in-text': 'A number in quotes becomes that number: "8.5" is 8.5.',
  percent: 'A percentage becomes the one number of it that the schema allows: "8.5%" is 8.5, or 0.085.',
  fraction: 'A share becomes the one number of it that the schema allows: "85/100" is 85, or 0.85.',
  money: 'Currency signs and thousands separators are left out: "$1,200" is 1200.',
  'boolean-in-text': 'A boolean in quotes becomes that boolean: "true" is true.',
  'enum-form':
    'Another case, spacing or past form of exactly one allowed value becomes it: "Approved" is approve.',
  'flat-to-nested': 'Keys that belong into a missing required object are moved there.',
  'weights-to-sum': 'Numbers that must sum to a total (x-fw-sum) are scaled in proportion.',
} as const;
export type CoercionRule = keyof typeof COERCIONS;

const DIGITS = '\\d+(?:\\.\\d+)?';
const GROUPED = '\\d{1,3}(?:,\\d{3})+(?:\\.\\d+)?';
const AMOUNT = new RegExp(`^(-?)([$€£¥]?)\\s*(${GROUPED}|${DIGITS})$`);
/** A mark that groups thousands in one country and begins decimals in another. */
const ONE_COMMA = /^\d{1,3},\d{3}$/;
const THREE_DECIMALS = /^\d{1,3}\.\d{3}$/;
const PERCENT = new RegExp(`^(-?${DIGITS})\\s*(?:%|percent)$`, 'i');
const SHARE = new RegExp(`^(${DIGITS})\\s*(?:/|out of)\\s*(${DIGITS})$`, 'i');

/** A number that a text spells, where there is one reading of it that the schema allows (`fits`). */
export function numberIn(
  text: string,
  fits: (reading: number) => boolean,
): { rule: CoercionRule; to: number } | undefined {
  const said = text.trim();
  const amount = AMOUNT.exec(said);
  if (amount) {
    const [, sign, currency, digits] = amount as unknown as [string, string, string, string];
    const isPlain = currency === '' && !digits.includes(',');
    // dollars, pounds and yen are written with a comma between thousands; euros either way
    if (ONE_COMMA.test(digits) && !'$£¥'.includes(currency || '€')) return undefined;
    if (!isPlain && THREE_DECIMALS.test(digits)) return undefined;
    const to = numberOf(sign + digits.replaceAll(',', ''));
    return to === undefined ? undefined : { rule: isPlain ? 'number-in-text' : 'money', to };
  }
  const percent = PERCENT.exec(said)?.[1];
  if (percent !== undefined) {
    const asIs = numberOf(percent);
    const asShare = numberOf(`${trimZeros(percent)}e-2`);
    const to = theOneOf([asIs, asShare], fits);
    // beyond 100 % a share is a number that got lost in a scale of percents
    return to === undefined || (to !== asIs && Math.abs(to) > 1) ? undefined : { rule: 'percent', to };
  }
  const share = SHARE.exec(said);
  if (share === null) return undefined;
  const [part, whole] = [Number(share[1]), Number(share[2])];
  if (!(part <= whole && whole > 0)) return undefined;
  // 8/10 may be 8 points, 0.8 or 80 percent. Points are of a scale that begins with 0 or 1 and has all ten of them; a
  // percentage that nobody called one is a reading to beware of, and none to take.
  const points = fits(whole) ? numberOf(share[1]) : undefined;
  const ratio = rounded(part / whole);
  const to = theOneOf([points, ratio, rounded((100 * part) / whole)], fits);
  const isOnScale = to === points && (fits(0) || fits(1));
  if (to === undefined || !(to === ratio || isOnScale)) return undefined;
  return { rule: 'fraction', to };
}

/** The one among the readings that fits; undefined where none does, or several that differ. */
function theOneOf(
  readings: readonly (number | undefined)[],
  fits: (reading: number) => boolean,
): number | undefined {
  const fitting = new Set(readings.filter(reading => reading !== undefined && fits(reading)));
  return fitting.size === 1 ? [...fitting][0] : undefined;
}

/** The number of a decimal text; undefined where a double does not keep it. */
function numberOf(digits = ''): number | undefined {
  const token = trimZeros(digits);
  const number = Number(token);
  return isKept(token) && Number.isFinite(number) ? number : undefined;
}

function rounded(ratio: number): number {
  return Number(ratio.toPrecision(12));
}

/** A boolean that a text spells. */
export function booleanIn(text: string): { rule: CoercionRule; to: boolean } | undefined {
  const said = text.trim().toLowerCase();
  return said === 'true' || said === 'false' ? { rule: 'boolean-in-text', to: said === 'true' } : undefined;
}

/** `007` is 7; JSON and `isKept` know no leading zeros. */
function trimZeros(digits: string): string {
  return digits.replace(/^(-?)0+(?=\d)/, '$1');
}

/** The one allowed value that the text is a form of. */
export function enumForm(
  text: string,
  allowed: readonly unknown[],
): { rule: CoercionRule; to: string } | undefined {
  const said = normal(text);
  const words = allowed.filter((value): value is string => typeof value === 'string');
  const same = words.filter(word => normal(word) === said);
  const found = same.length > 0 ? same : words.filter(word => pastOf(normal(word)) === said);
  return found.length === 1 ? { rule: 'enum-form', to: found[0]! } : undefined;
}

/** One kind of separator between words or behind a number. Elsewhere a hyphen is a minus, a range or a grade: A-. */
const SEPARATOR = /(?<=\p{L})(?:\s+|_+|-)(?=[\p{L}\p{N}])|(?<=\p{N})(?:\s+|_+|-)(?=\p{L})/gu;

function normal(text: string): string {
  return text.trim().replace(/\.$/, '').toLowerCase().replace(SEPARATOR, '_');
}

/**
 * What a text may say in place of a verb: approved for approve, denied for deny. Only this form: with more of them, and
 * both ways, a word becomes another one (party is no partial, fine no final). Short words are left out: feed is no fee.
 */
function pastOf(word: string): string | undefined {
  if (!/^[a-z]{4,}$/.test(word)) return undefined;
  if (word.endsWith('e')) return `${word}d`;
  return /[^aeiou]y$/.test(word) ? `${word.slice(0, -1)}ied` : `${word}ed`;
}
