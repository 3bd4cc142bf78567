/**
 * How property tests run: the seed is printed, and SEED=… repeats a run. Without RUNS the promises of the stages
 * (stages.test.ts) get 400 cases each and the properties of single functions 200; `make test-all` gives them 100,000 and
 * 2,000, `make fuzz` more.
 */
import fc from 'fast-check';
import { runs as runsOf } from '../all.ts';

export const seed = Number(process.env.SEED ?? Date.now() % 0x7fffffff);
export const runs = runsOf(200, 2_000);
export const promiseRuns = runsOf(400, 100_000);
console.log(`integrity properties: SEED=${seed} RUNS=${promiseRuns}, of single functions ${runs}`);

export function holds<T>(arbitrary: fc.Arbitrary<T>, predicate: (value: T) => void): void {
  // a property that returns something would be judged by it
  const property = fc.property(arbitrary, value => {
    predicate(value);
  });
  fc.assert(property, { seed, numRuns: runs });
}

/** The same for what stages do, `promiseRuns` times. */
export async function promises<T>(
  arbitrary: fc.Arbitrary<T>,
  predicate: (value: T) => Promise<void>,
): Promise<void> {
  await fc.assert(fc.asyncProperty(arbitrary, predicate), { seed, numRuns: promiseRuns });
}

/** Text as a model might mangle it: pieces of JSON, prose and mischief in any order. */
export const mangled: fc.Arbitrary<string> = fc
  .array(
    fc.oneof(
      { weight: 6, arbitrary: fc.constantFrom(...'{}[]:,"\'\\\n/*# `<>'.split('')) },
      {
        weight: 6,
        arbitrary: fc.constantFrom(
          '"a"',
          '"a":',
          '{"a":1}',
          "'b'",
          '“b”',
          '„c“:',
          'c:',
          'True',
          'None',
          'null',
          '-0',
          '1e400',
          '12',
          '```',
          '```json\n',
          '<think>',
          '</think>',
          '//',
          '/*',
          '*/',
          '\\u12',
          '\\u0041',
          '\\O',
          '\\"',
          '\\frac',
          ',}',
          '"__proto__":',
          '\ud800',
          '\u0000',
        ),
      },
      { weight: 2, arbitrary: fc.string({ unit: 'binary', maxLength: 8 }) },
    ),
    { maxLength: 40 },
  )
  .map(parts => parts.join(''));
