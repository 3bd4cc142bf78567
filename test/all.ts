/**
 * Which part of the tests runs: `make test` the quick one, `make test-all` (ALL=1) everything. The only place that tells
 * them apart; test/README.md lists what is quick and what is not.
 */
import { test } from 'vitest';

export const ALL = process.env.ALL === '1';

/** How many cases of a kind run; a variable of the environment that names a number goes before both. */
export function runs(quick: number, all: number, variable = 'RUNS'): number {
  return Number(process.env[variable] || (ALL ? all : quick));
}

/** Of a table every n-th row, from the first on; all of it in `make test-all`. */
export function every<T>(n: number, rows: readonly T[]): T[] {
  return rows.filter((_, at) => ALL || at % n === 0);
}

/** A test that `make test` leaves out, and counts as skipped. */
export const slow = test.runIf(ALL);
