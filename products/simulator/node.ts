/**
 * What a compiled schema is made of. A node knows how to make a value, and its height: the least depth that any value
 * of it needs. Heights keep recursive schemas finite: below DEEP every choice takes the lowest way out.
 */
import { pick, type Random } from './random.ts';

/** What a client asked for cannot be made: a 400, with this message. */
export class SchemaError extends Error {
  override name = 'SchemaError';
}

export interface Draw {
  random: Random;
  wishes: ReadonlyMap<string, unknown>;
  /** values made so far */
  made: number;
}

/** What is known of the values of a node before one is made. */
export interface Spread {
  /** the chance of each value that is listed in the schema */
  chances: ReadonlyMap<unknown, number>;
  /** of numbers within given bounds: both ends, and the step between two values */
  range?: { low: number; high: number; step: number };
}

const NOTHING_KNOWN: Spread = { chances: new Map() };

export interface Node {
  /** of the node as known so far; Infinity until measured, and for good where no instance exists */
  height: number;
  measure: () => number;
  make: (draw: Draw, depth: number) => unknown;
  /** the wish as this node would say it, or undefined where it cannot */
  fit: (wish: unknown) => unknown;
  /** once heights are measured; none: nothing is known */
  spread?: () => Spread;
}

export const spreadOf = (node: Node): Spread => node.spread?.() ?? NOTHING_KNOWN;

/** From here on optional properties and items are left out; the schema may force an instance to go deeper. */
const DEEP = 6;
const MANY_VALUES = 2_000;
const MOST_VALUES = 50_000;

/** What any of the options would make. */
export function choiceNode(options: Node[]): Node {
  return {
    height: 0,
    measure: () => Math.min(Number.POSITIVE_INFINITY, ...options.map(option => option.height)),
    make(draw, level) {
      const lowest = Math.min(...options.map(option => option.height));
      const limit = isDeep(draw, level) ? lowest : Number.MAX_VALUE;
      return makeOf(
        pick(
          draw.random,
          options.filter(option => option.height <= limit),
        ),
        draw,
        level,
      );
    },
    fit(wish) {
      for (const option of options) {
        const value = option.fit(wish);
        if (value !== undefined) return value;
      }
      return undefined;
    },
    spread() {
      const possible = options.filter(({ height }) => height < Number.POSITIVE_INFINITY);
      const chances = new Map<unknown, number>();
      let range: Spread['range'];
      for (const { spread } of possible) {
        const one = spread?.() ?? NOTHING_KNOWN;
        range ??= one.range;
        for (const [value, chance] of one.chances)
          chances.set(value, (chances.get(value) ?? 0) + chance / possible.length);
      }
      return { chances, ...(range && { range }) };
    },
  };
}

/** Heights only fall, and each round settles those of the next depth: a shortest-path relaxation. */
export function measureAll(nodes: readonly Node[]): void {
  for (let changed = true; changed; ) {
    changed = false;
    for (const node of nodes) {
      const height = node.measure();
      if (height < node.height) {
        node.height = height;
        changed = true;
      }
    }
  }
}

export function makeOf(node: Node, draw: Draw, level: number): unknown {
  if (++draw.made > MOST_VALUES)
    throw new SchemaError(`The schema asks for more than ${MOST_VALUES} values.`);
  return node.make(draw, level);
}

export const isDeep = (draw: Draw, level: number) => level >= DEEP || draw.made > MANY_VALUES;
