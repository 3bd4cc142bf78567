/**
 * Limits that the pool finds, against the best of a sweep of limits set by hand, in virtual time: the same numbers on
 * every machine. All of it takes most of an hour; CHAINS=1000 takes a few minutes.
 *
 *   make bench-limits
 */
import { runChains } from './limits/run.ts';
import type { Beyond, Limited } from './limits/server.ts';
import { median } from './measure.ts';
import { type Figure, table, writeFigures } from './page.ts';

/** A run of few chains is over before the limits of a large server are found. */
const CHAINS = (process.env.CHAINS ?? '1000,25000').split(',').map(Number);
const CHAINS_OF_LARGE = 25_000;
const LARGE = 256;
const PLACES = [8, 64, 256, 1_024, 2_000];
const RANDOM = [0, 0.01, 0.05];
const BEYOND: [Beyond, string][] = [
  ['queue', 'waits'],
  ['share', 'slows all, the sum stays'],
  ['refuse', 'is refused'],
  [0.5, 'slows all, the sum falls'],
];

/** Seconds with the best limit of a sweep: the places themselves, and the powers of two around them. */
async function bestOf(server: Limited, chains: number): Promise<number> {
  const power = 2 ** Math.floor(Math.log2(server.places));
  let best = Number.POSITIVE_INFINITY;
  for (const limit of new Set([power / 2, power, server.places, 2 * power]))
    best = Math.min(best, (await runChains({ server, chains, limit })).makespan);
  return best;
}

const shares = new Map<number, number[]>();
const percent = (value: number): string => `${(100 * value).toFixed(1)} %`;
const rows = [
  ['chains', 'places', 'a call beyond them', ...RANDOM.map(share => `${100 * share} % random 429`)],
];
for (const chains of CHAINS)
  for (const places of PLACES) {
    if (places > LARGE && chains < CHAINS_OF_LARGE) continue;
    for (const [beyond, name] of BEYOND) {
      const cells: string[] = [];
      for (const random of RANDOM) {
        const best = await bestOf({ places, beyond, random, metrics: false }, chains);
        const found: string[] = [];
        for (const metrics of [false, true]) {
          const own = await runChains({ server: { places, beyond, random, metrics }, chains });
          if (own.failed > 0) throw new Error(`${own.failed} chains failed`);
          found.push(percent(best / own.makespan));
          shares.set(chains, [...(shares.get(chains) ?? []), best / own.makespan]);
        }
        cells.push(found.join(' · '));
      }
      rows.push([chains.toLocaleString('en'), places.toLocaleString('en'), name, ...cells]);
      console.error(rows.at(-1)?.join(' | '));
    }
  }

const figures = [...shares].map(
  ([chains, all]): Figure => [
    `limits, ${chains.toLocaleString('en')} chains: share of the best set by hand`,
    `${percent(median(all))} in the median, ${percent(Math.min(...all))} at least`,
  ],
);
writeFigures('limits', figures, [
  '## Limits that are found, in virtual time',
  '',
  'Chains of four calls on one server that takes so many calls at once and answers after 0.2 s ± 20 %, nothing set by hand.',
  `\`CHAINS=${CHAINS} make bench-limits\`.`,
  'Each share is the makespan with the best limit of a sweep (the places, and the powers of two around them), by the own one: without `/metrics` · with them.',
  '',
  ...table(rows),
]);
