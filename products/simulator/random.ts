/**
 * Every draw of the simulator. A draw depends on the seed, the bytes of the request and a purpose, never on a clock,
 * on the order of arrival or on what else is in flight; so the same request gets the same answer from every simulator
 * of the same seed.
 */
import { createHash } from 'node:crypto';

/** The next number in [0, 1). */
export type Random = () => number;

/** One purpose a stream of numbers, so that a fault more or less never shifts the answer. */
export const PURPOSE = {
  answer: 1,
  answerFault: 2,
  transportFault: 3,
  delay: 4,
  swap: 5,
  bias: 6,
  logprobs: 7,
  reasoning: 8,
} as const;
export type Purpose = (typeof PURPOSE)[keyof typeof PURPOSE];

/** Draws for a request: `salt` tells apart what shares seed, request and purpose, such as arrivals. */
export type Draws = (request: Uint8Array, purpose: Purpose, salt?: number) => Random;

export function sha256(bytes: Uint8Array | string): Buffer {
  return createHash('sha256').update(bytes).digest();
}

export function drawsOf(seed: number): Draws {
  const key = sha256(`seed ${seed}`);
  const word = (request: Uint8Array, at: number) =>
    (key.readInt32LE(at) ^
      (request[at]! | (request[at + 1]! << 8) | (request[at + 2]! << 16) | (request[at + 3]! << 24))) |
    0;
  return (request, purpose, salt = 0) => {
    const random = sfc32(
      word(request, 0) ^ Math.imul(purpose, 0x9e3779b9),
      word(request, 4) ^ Math.imul(salt, 0x85ebca6b),
      word(request, 8),
      word(request, 12),
    );
    // the words of two purposes differ in a few bits only; the generator needs some rounds to spread them
    for (let round = 0; round < 15; round++) random();
    return random;
  };
}

/** A small number that stands for a name, to salt draws with. */
export function saltOf(name: string): number {
  return sha256(name).readInt32LE(0);
}

export function pick<T>(random: Random, values: readonly T[]): T {
  return values[Math.floor(random() * values.length)]!;
}

/** About standard normal: the sum of three uniform numbers, scaled to variance 1; never beyond ±3. */
export function normal(random: Random): number {
  return (random() + random() + random() - 1.5) * 2;
}

/** sfc32 of Chris Doty-Humphrey's PractRand: 128 bits of state, fast, and the same on every engine. */
function sfc32(a: number, b: number, c: number, counter: number): Random {
  return () => {
    const sum = (a + b + counter) | 0;
    counter = (counter + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = (((c << 21) | (c >>> 11)) + sum) | 0;
    return (sum >>> 0) / 4294967296;
  };
}

/** A linear congruential generator (Numerical Recipes): for what wants a few draws, the same each time. */
export function lcg(seed: number): Random {
  let word = seed >>> 0;
  return () => {
    word = (Math.imul(word, 1_664_525) + 1_013_904_223) >>> 0;
    return word / 2 ** 32;
  };
}
