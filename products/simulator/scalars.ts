/**
 * The leaves of a compiled schema: fixed values, numbers and strings, each with how it is drawn and how it takes a wish.
 */
import type { JsonObject as Schema } from '../../engine/core/json/pointer.ts';
import { FORMATS, fitLength, LONGEST_TEXT, text } from './filler-words.ts';
import { type Node, SchemaError } from './node.ts';
import { textOfPattern } from './pattern-text.ts';
import { pick } from './random.ts';

/** One of the given values; of none, where the list is empty. */
export function valueNode(values: readonly unknown[]): Node {
  return {
    height: values.length === 0 ? Number.POSITIVE_INFINITY : 0,
    measure: () => (values.length === 0 ? Number.POSITIVE_INFINITY : 0),
    make: draw => pick(draw.random, values),
    fit: wish => (values.includes(wish) ? wish : undefined),
    spread() {
      const chances = new Map<unknown, number>();
      for (const value of values) chances.set(value, (chances.get(value) ?? 0) + 1 / values.length);
      return { chances };
    },
  };
}

/** Where a schema leaves an end open, values stay within this distance of the other end, or of 0. */
const SPAN = 100;
const WIDEST = 1e9;

/** A number within the bounds, of two decimals where the range has room for them. */
export function numberNode(schema: Schema, integer: boolean): Node {
  const step = stepOf(schema, integer);
  const least = Math.max(given(schema.minimum, -Infinity), given(schema.exclusiveMinimum, -Infinity));
  const most = Math.min(given(schema.maximum, Infinity), given(schema.exclusiveMaximum, Infinity));
  const start = least > -Infinity ? least : Math.min(0, most < 0 ? most - SPAN : most);
  const end = most < Infinity ? most : start + SPAN;
  // beyond this the count of steps is no longer exact
  const from = end - start > WIDEST ? Math.max(start, Math.min(-WIDEST / 2, end - WIDEST)) : start;
  const to = Math.min(end, from + WIDEST);
  // in whole steps; an end that is excluded is one step away
  let low = Math.ceil(from / step - 1e-9);
  let high = Math.floor(to / step + 1e-9);
  if (low * step <= given(schema.exclusiveMinimum, -Infinity)) low++;
  if (high * step >= given(schema.exclusiveMaximum, Infinity)) high--;
  const valueAt = (steps: number) => Number((steps * step).toPrecision(12));
  // a range that no step falls into, such as 0.001 to 0.002, is drawn from as it is
  const narrow = low > high && !integer && schema.multipleOf === undefined && to > from;
  const height = low <= high || narrow ? 0 : Number.POSITIVE_INFINITY;
  return {
    height,
    measure: () => height,
    make: ({ random }) => {
      if (narrow) return from + (to - from) * (0.25 + random() / 2);
      for (let tries = 1; ; tries++) {
        const value = valueAt(low + Math.floor(random() * (high - low + 1)));
        // 0.3 is no multiple of 0.1 to a validator that divides doubles
        if (schema.multipleOf === undefined || Number.isInteger(value / step) || tries === 20) return value;
      }
    },
    fit: wish =>
      typeof wish !== 'number' || narrow || height > 0
        ? undefined
        : valueAt(Math.min(high, Math.max(low, Math.round(wish / step)))),
    ...(least > -Infinity && most < Infinity && low < high
      ? { spread: () => ({ chances: new Map(), range: { low: valueAt(low), high: valueAt(high), step } }) }
      : {}),
  };
}

function stepOf(schema: Schema, integer: boolean): number {
  const multiple = given(schema.multipleOf, 0);
  if (multiple > 0) return integer && multiple < 1 ? 1 : multiple;
  return integer ? 1 : 0.01;
}

function given(value: unknown, otherwise: number): number {
  return typeof value === 'number' && Number.isFinite(value) ? value : otherwise;
}

/** undefined where the pattern is none, or beyond what texts are made for: the final check of the answer tells. */
function patternOf(pattern: string) {
  try {
    const expression = new RegExp(pattern, 'u');
    return { test: (made: string) => expression.test(made), make: textOfPattern(pattern) };
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof SchemaError) return undefined;
    throw error;
  }
}

export function stringNode(schema: Schema): Node {
  const min = given(schema.minLength, 0);
  const max = given(schema.maxLength, Math.max(LONGEST_TEXT, min));
  const format = typeof schema.format === 'string' ? FORMATS.get(schema.format) : undefined;
  const height = min <= max && min <= LONGEST_TEXT ? 0 : Number.POSITIVE_INFINITY;
  const pattern = typeof schema.pattern === 'string' ? patternOf(schema.pattern) : undefined;
  return {
    height,
    measure: () => height,
    make({ random }) {
      const made = format?.(random) ?? text(random, min, max);
      // most patterns ask for something in the text, such as a letter, and the text reads better
      return pattern === undefined || pattern.test(made) ? made : pattern.make(random);
    },
    fit: wish =>
      typeof wish !== 'string' || format
        ? undefined
        : fitLength(wish, min, max, () => 'The same holds here.'),
  };
}
