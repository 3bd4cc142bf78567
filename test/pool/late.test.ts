/** A process that is late itself has limits that are as good as the best that a person would set, in virtual time. */
import { expect, test } from 'vitest';
import { type Busy, runLate } from '../../bench/limits/late.ts';
import { every, runs } from '../all.ts';

const ROWS: Busy[] = ['always', 'stopped', 'by turns', 'never'];
const FIXED = [256, 64, 16, 512];
const SEEDS = [2, 5];
/** ms that an answer takes of the client: of two servers of 40 ms, a hundred calls are all that it can do */
const COST = 0.4;
const late = { cost: COST, warm: runs(1, 5, 'WARM'), seconds: runs(2, 8, 'SECONDS') };

// of the busy ones every second or third start left limits of 12 to 28 for good, since first answers were taken for slow ones
test.each(every(2, ROWS))('a client that is busy: %s', async busy => {
  for (const seed of SEEDS) {
    const learned = await runLate({ ...late, busy, seed });
    expect(Math.min(...learned.limits)).toBeGreaterThanOrEqual(32);
    const rates = [];
    for (const limit of every(9, FIXED)) rates.push((await runLate({ ...late, busy, seed, limit })).rate);
    expect(learned.rate).toBeGreaterThanOrEqual(0.9 * Math.max(...rates));
  }
});
