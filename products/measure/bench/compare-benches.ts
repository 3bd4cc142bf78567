/**
 * bench compare: two benchmarks side by side, and which differences are more than noise.
 *
 *   fw bench compare before.json after.json
 */

import { writePage } from '../../../engine/core/files/ndjson-out.ts';
import { dataError, EXIT, usageError } from '../../../engine/core/item/failure.ts';
import { aligned, counted, cut, number } from '../../../engine/core/item/wording.ts';
import { visible } from '../../../engine/core/json/visible.ts';
import { command } from '../../../engine/flow/command.ts';
import { loadWords, readResults } from './bench-result.ts';
import { differenceOfMeans, mean } from './bench-statistics.ts';
import type { BenchResult } from './json.ts';

export default command({
  name: 'bench compare',
  summary: 'Compare two files of fw bench --json, and show which differences are more than noise.',
  positional: 'A.json B.json',
  examples: [
    'fw bench compare before.json after.json',
    "fw bench compare before.json after.json --json | jq '.comparisons[].differences[]'",
  ],
  options: { json: { type: 'boolean', description: 'Write the figures as JSON.' } },

  async run({ json }, paths) {
    const [a, b] = paths;
    if (a === undefined || b === undefined || paths.length > 2)
      throw usageError(
        `expected two files of fw bench --json, found ${paths.length}: fw bench compare A.json B.json`,
      );
    const compared = compareBenches(readResults(a), readResults(b));
    if (compared.comparisons.length === 0)
      throw dataError(
        `expected a load that both have, found in ${a}: ${compared.onlyA.join('; ')}; in ${b}: ${compared.onlyB.join('; ')}`,
      );
    await writePage(
      json ? `${JSON.stringify({ compare: 1, a, b, ...compared }, null, 1)}\n` : comparePage(compared, a, b),
    );
    return EXIT.ok;
  },
});

// Two benchmarks side by side, load by load: which differences are more than noise. A run is one sample, since its requests
// share batches; so means over runs are compared where both sides have two or more, and else means over windows of the run.

export interface Difference {
  /** `request_throughput`, `mean_ttft_ms`, … */
  key: string;
  /** null: nobody measured it */
  a: number | null;
  b: number | null;
  /** b / a - 1; null where a is 0, or one of them is unknown */
  change: number | null;
  /** its 95 % interval; null where there is none */
  interval: readonly [low: number, high: number] | null;
  /** what was held against each other: means of runs, of windows of a run, or the intervals of a percentile */
  of: 'runs' | 'windows' | 'intervals' | null;
  verdict: 'better' | 'worse' | 'no difference' | 'unknown';
  /** of `unknown`: why; else null */
  why: string | null;
}

export interface Comparison {
  load: string;
  servers: number;
  differences: Difference[];
  /** why the two may not be compared, or only so far */
  notes: string[];
}

export interface Compared {
  comparisons: Comparison[];
  /** loads that one side alone has */
  onlyA: string[];
  onlyB: string[];
}

interface Compare {
  key: string;
  better: 'more' | 'less';
  of(run: BenchResult): number | null;
  window: 'ttft' | 'tpot' | 'e2el' | 'requests' | 'tokens' | null;
}

const COMPARED: readonly Compare[] = [
  { key: 'request_throughput', better: 'more', of: run => run.request_throughput, window: 'requests' },
  { key: 'output_throughput', better: 'more', of: run => run.output_throughput, window: 'tokens' },
  { key: 'mean_ttft_ms', better: 'less', of: run => run.mean_ttft_ms, window: 'ttft' },
  { key: 'p99_ttft_ms', better: 'less', of: run => run.p99_ttft_ms, window: null },
  { key: 'mean_tpot_ms', better: 'less', of: run => run.mean_tpot_ms, window: 'tpot' },
  { key: 'mean_itl_ms', better: 'less', of: run => run.mean_itl_ms, window: null },
  { key: 'mean_e2el_ms', better: 'less', of: run => run.mean_e2el_ms, window: 'e2el' },
  { key: 'p99_e2el_ms', better: 'less', of: run => run.p99_e2el_ms, window: null },
];

const keyOf = ({ fw: { load, endpoints } }: BenchResult): string =>
  `${loadWords(load)}, ${endpoints.length} ${endpoints.length === 1 ? 'server' : 'servers'}`;

/** Groups of runs by load and number of servers, in the order of the first. */
function grouped(runs: readonly BenchResult[]): Map<string, BenchResult[]> {
  const groups = new Map<string, BenchResult[]>();
  for (const run of runs) groups.set(keyOf(run), [...(groups.get(keyOf(run)) ?? []), run]);
  return groups;
}

export function compareBenches(a: readonly BenchResult[], b: readonly BenchResult[]): Compared {
  const [first, second] = [grouped(a), grouped(b)];
  const comparisons = [...first].flatMap(([key, runs]) => {
    const others = second.get(key);
    return others === undefined ? [] : [compared(runs, others)];
  });
  return {
    comparisons,
    onlyA: [...first.keys()].filter(key => !second.has(key)),
    onlyB: [...second.keys()].filter(key => !first.has(key)),
  };
}

function compared(a: readonly BenchResult[], b: readonly BenchResult[]): Comparison {
  const [one] = a as [BenchResult];
  const [other] = b as [BenchResult];
  return {
    load: loadWords(one.fw.load),
    servers: one.fw.endpoints.length,
    differences: COMPARED.map(each => differenceOf(each, a, b)),
    notes: notesOf(a, b, one, other),
  };
}

function differenceOf(
  { key, better, of, window }: Compare,
  a: readonly BenchResult[],
  b: readonly BenchResult[],
): Difference {
  const [ofA, ofB] = [a.map(of), b.map(of)];
  const [meanA, meanB] = [meanOf(ofA), meanOf(ofB)];
  const unknown = {
    key,
    a: meanA,
    b: meanB,
    change: null,
    interval: null,
    of: null,
    verdict: 'unknown',
  } as const;
  if (meanA === null || meanB === null) {
    const where = meanA !== null ? 'B' : meanB !== null ? 'A' : 'either';
    return { ...unknown, why: `not measured in ${where}` };
  }
  if (window === 'tokens' && [...a, ...b].some(isUncounted))
    return { ...unknown, why: 'answers without usage' };
  const areRuns = a.length >= 2 && b.length >= 2;
  const windowsOf = (runs: readonly BenchResult[]): number[] =>
    window === null ? [] : runs.flatMap(({ fw: { windows } }) => windows?.[window] ?? []);
  const [samplesA, samplesB] = areRuns ? [ofA as number[], ofB as number[]] : [windowsOf(a), windowsOf(b)];
  const difference = differenceOfMeans(samplesA, samplesB);
  const change = meanA > 0 ? meanB / meanA - 1 : null;
  const told = { key, a: meanA, b: meanB, change, interval: null, why: null };
  const judged = (grows: boolean, falls: boolean): Difference['verdict'] =>
    !(grows || falls) ? 'no difference' : (better === 'more') === grows ? 'better' : 'worse';
  if (difference !== null) {
    const { low, high } = difference;
    const base = mean(samplesA);
    const interval = base > 0 ? ([low / base, high / base] as const) : null;
    return { ...told, interval, of: areRuns ? 'runs' : 'windows', verdict: judged(low > 0, high < 0) };
  }
  // two intervals that do not touch differ for sure; those that do may differ all the same
  const [endsA, endsB] = [a, b].map(runs => (runs.length === 1 ? runs[0]?.fw.intervals[key] : null));
  const [lowA, highA] = endsA ?? [];
  const [lowB, highB] = endsB ?? [];
  if ([lowA, highA, lowB, highB].some(end => typeof end !== 'number'))
    return { ...told, of: null, verdict: 'unknown', why: 'too few samples; --repeat 3' };
  const verdict = judged((lowB as number) > (highA as number), (highB as number) < (lowA as number));
  return { ...told, of: 'intervals', verdict };
}

/** Null where one of the runs does not have it: the others are not the whole. */
const meanOf = (values: readonly (number | null)[]): number | null =>
  values.some(value => value === null) ? null : mean(values as number[]);

/** Of more answers than this share nobody knows the tokens: a rate of tokens is then too low. */
const UNCOUNTED = 0.01;

const isUncounted = ({ completed, fw: { workload } }: BenchResult): boolean =>
  (workload.uncounted ?? 0) > UNCOUNTED * completed;

/** By so much two workloads may differ, and still count as one. */
const SAME_LENGTH = 0.02;

function notesOf(
  a: readonly BenchResult[],
  b: readonly BenchResult[],
  one: BenchResult,
  other: BenchResult,
): string[] {
  const notes: string[] = [];
  const [wa, wb] = [one.fw.workload, other.fw.workload];
  if (wa.source !== wb.source) notes.push(`other requests were asked: ${wa.source}; ${wb.source}`);
  for (const [name, words] of [
    ['input_tokens', 'prompts'],
    ['output_tokens', 'answers'],
  ] as const) {
    const [la, lb] = [wa[name]?.mean ?? null, wb[name]?.mean ?? null];
    if (la !== null && lb !== null && la > 0 && Math.abs(lb / la - 1) > SAME_LENGTH)
      notes.push(`${words} had ${la.toFixed(1)} and ${lb.toFixed(1)} tokens on average`);
  }
  if (one.model_id !== other.model_id) notes.push(`the models are ${one.model_id} and ${other.model_id}`);
  for (const [name, runs] of [
    ['A', a],
    ['B', b],
  ] as const) {
    if (runs.some(({ fw }) => fw.verdict === 'client-limited'))
      notes.push(`${name} was client-limited: its figures are those of the client`);
    const uncounted = runs.reduce((sum, { fw }) => sum + (fw.workload.uncounted ?? 0), 0);
    if (uncounted > 0)
      notes.push(
        `${uncounted} answers of ${name} came without usage: their tokens are unknown, so tokens/s is too low and not compared`,
      );
    const failed = runs.reduce((sum, run) => sum + run.failed + run.fw.incomplete, 0);
    if (failed > 0)
      notes.push(`${failed} requests of ${name} failed or were not finished: they are in no latency`);
  }
  return notes;
}

const WORDS: Readonly<Record<string, string>> = {
  request_throughput: 'requests/s',
  output_throughput: 'tokens/s out',
  mean_ttft_ms: 'mean TTFT ms',
  p99_ttft_ms: 'p99 TTFT ms',
  mean_tpot_ms: 'mean TPOT ms',
  mean_itl_ms: 'mean ITL ms',
  mean_e2el_ms: 'mean E2EL ms',
  p99_e2el_ms: 'p99 E2EL ms',
};

const OF = {
  runs: 'means of runs',
  windows: 'windows of a run',
  intervals: 'intervals of the percentile',
} as const;

/** `a` and `b` are the names of the two. */
function comparePage({ comparisons, onlyA, onlyB }: Compared, a: string, b: string): string {
  const [nameA, nameB] = [a, b].map(name => visible(cut(name, 100)));
  const lines = [`A ${nameA}`, `B ${nameB}`];
  for (const { load, servers, differences, notes } of comparisons) {
    lines.push('', `${load} on ${counted(servers, 'server')}`);
    const head = ['', 'A', 'B', 'B against A', '95 %', '', 'by'];
    const rows = differences.map(each => [
      `  ${WORDS[each.key] ?? each.key}`,
      figure(each.a),
      figure(each.b),
      each.change === null ? '–' : percent(each.change),
      each.interval === null ? '–' : `${percent(each.interval[0])} to ${percent(each.interval[1])}`,
      verdictOf(each),
      each.of === null ? '' : OF[each.of],
    ]);
    lines.push(...aligned([head, ...rows], [1, 2, 3, 4]));
    for (const note of notes) lines.push(`  note: ${visible(cut(note, 300))}`);
  }
  for (const [name, only] of [
    ['A', onlyA],
    ['B', onlyB],
  ] as const)
    if (only.length > 0) lines.push('', `in ${name} alone: ${only.join('; ')}`);
  return `${lines.join('\n')}\n`;
}

function verdictOf({ verdict, of, why }: Difference): string {
  if (why !== null) return `${verdict}: ${why}`;
  return verdict === 'no difference' && of === 'intervals' ? 'no difference shown' : verdict;
}

function figure(value: number | null): string {
  if (value === null) return '–';
  return value >= 1000 ? number(Math.round(value)) : value.toFixed(2);
}

function percent(share: number): string {
  const text = (100 * share).toFixed(1);
  return `${Number(text) > 0 ? '+' : ''}${Number(text) === 0 ? '0.0' : text.replace('-', '\u2212')} %`;
}
