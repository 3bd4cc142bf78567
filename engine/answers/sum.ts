/**
 * The annotation `"x-fw-sum": { "of": ["a_weight", "b_weight"], "is": 1 }` on an object: these numbers sum to `is`, or miss
 * it by `within` at most. JSON Schema has no word for it. Judged only where all of them are numbers: the other keywords
 * say what is missing.
 */
import type { JsonObject } from '../core/json/pointer.ts';

export interface SumRule {
  of: string[];
  is: number;
  within?: number;
}

export const sumRule = {
  type: 'object',
  required: ['of', 'is'],
  additionalProperties: false,
  properties: {
    of: { type: 'array', minItems: 1, maxItems: 64, items: { type: 'string' } },
    is: { type: 'number', exclusiveMinimum: 0, maximum: 1_000_000 },
    within: { type: 'number', minimum: 0, maximum: 1_000_000 },
  },
};

/** What adding in floating point may miss. */
export const TOLERANCE = 1e-6;
/** By which part of the total numbers may miss it and still be meant to sum to it: 0.33 three times is rounding. */
const ROUNDING = 0.01;
/** Parts of one that scaled numbers are rounded to: six decimals. */
const UNITS = 1_000_000;

function numbersOf({ of }: SumRule, data: JsonObject): number[] | undefined {
  const numbers = of.map(key => (Object.hasOwn(data, key) ? data[key] : undefined));
  return numbers.every(number => typeof number === 'number') ? (numbers as number[]) : undefined;
}

export function total(rule: SumRule, data: JsonObject): number | undefined {
  return numbersOf(rule, data)?.reduce((sum, number) => sum + number, 0);
}

export function isOffTheSum(rule: SumRule, data: JsonObject): boolean {
  const sum = total(rule, data);
  return sum !== undefined && Math.abs(sum - rule.is) > (rule.within ?? 0) + TOLERANCE;
}

/**
 * The numbers in proportion, so that they sum to `is` exactly in units of 1e-6; the rest of the rounding goes to the
 * largest remainders (Hamilton). Undefined where they are too far off to have been meant so, or one is negative.
 */
export function scaled(rule: SumRule, data: JsonObject): Map<string, number> | undefined {
  const numbers = numbersOf(rule, data);
  if (!numbers || numbers.some(number => number < 0)) return undefined;
  const sum = numbers.reduce((a, b) => a + b, 0);
  if (!(Math.abs(sum - rule.is) <= rule.is * ROUNDING + TOLERANCE)) return undefined;
  const whole = Math.round(rule.is * UNITS);
  const exact = numbers.map(number => (number / sum) * whole);
  const units = exact.map(Math.floor);
  const rest = whole - units.reduce((a, b) => a + b, 0);
  const byRemainder = exact
    .map((value, index) => ({ index, remainder: value - Math.floor(value) }))
    .sort((a, b) => b.remainder - a.remainder || a.index - b.index);
  for (const { index } of byRemainder.slice(0, rest)) units[index]!++;
  return new Map(rule.of.map((key, index) => [key, units[index]! / UNITS]));
}
