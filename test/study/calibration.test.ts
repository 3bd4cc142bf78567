/** A slice of `make calibration`: made-up studies without any effect, with seeds that are always the same. */
import { expect } from 'vitest';
import { createTally, DESIGNS, measure } from '../../bench/tally.ts';
import { slow } from '../all.ts';

slow.each([
  ['40 × 3 × 6', 40],
  ['3 samples', 20],
  ['5 cells', 40],
])('%s, %i studies without an effect', (name, count) => {
  const { design } = DESIGNS[name] ?? expect.fail(name);
  const { rejections, coverage } = createTally();
  for (let seed = 1; seed <= count; seed++) measure(design, seed, { rejections, coverage });
  const most = (n: number): number => Math.ceil(n * 0.05 + 3.3 * Math.sqrt(n * 0.0475));
  expect(rejections.size).toBeGreaterThan(6);
  // at 5 % one sees more in fewer than one of 1,000 such runs
  for (const [what, { n, hits }] of rejections)
    expect(hits, `${what}: ${hits} of ${n}`).toBeLessThanOrEqual(most(n));
  expect(coverage.size).toBeGreaterThan(12);
  for (const [what, { n, hits }] of coverage)
    expect(n - hits, `${what}: ${hits} of ${n}`).toBeLessThanOrEqual(most(n));
});
