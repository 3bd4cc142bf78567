/**
 * Whether the report's intervals and tests keep their word: `make calibration`, some minutes. Studies that are made up
 * (bench/studies.ts) go through the code of `fw report` and `fw compare` from the observation on. Prints the tables of
 * docs/report.md. STUDIES is the share of the studies that run, 1 by default; ONLY is part of a design's name.
 */
import type { Share } from '../products/kit/statistics.ts';
import { createTally, DESIGNS, measure, type Tally } from './tally.ts';

const share = Number(process.env.STUDIES || 1);
const only = process.env.ONLY ?? '';

const began = Date.now();
const seconds = (since: number): string => ((Date.now() - since) / 1000).toFixed(0);
const done: { name: string; count: number; tally: Tally }[] = [];
for (const [name, { design, studies }] of Object.entries(DESIGNS)) {
  if (!name.includes(only)) continue;
  const start = Date.now();
  const tally = createTally();
  const count = Math.max(1, Math.round(studies * share));
  for (let seed = 1; seed <= count; seed++) measure(design, seed, tally);
  done.push({ name, count, tally });
  console.error(`${name}: ${count} studies, ${seconds(start)} s`);
}
print('% rejected', ({ rejections }) => rejections);
print('% that hold the truth', ({ coverage }) => coverage);
console.error(`${seconds(began)} s`);

/** A row for each test or interval, a column for each design. */
function print(title: string, of: (tally: Tally) => Map<string, Share>): void {
  const rows = [...new Set(done.flatMap(({ tally }) => [...of(tally).keys()]))];
  console.log(`\n| ${title} | ${done.map(({ name }) => name).join(' | ')} |`);
  console.log(`| --- |${done.map(() => ' ---: |').join('')}`);
  console.log(`| studies | ${done.map(({ count }) => count).join(' | ')} |`);
  for (const row of rows) {
    const cells = done.map(({ tally }) => {
      const found = of(tally).get(row);
      return found ? ((100 * found.hits) / found.n).toFixed(1) : '';
    });
    console.log(`| ${row} | ${cells.join(' | ')} |`);
  }
}
