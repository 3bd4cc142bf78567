/** Two runs over the same items, matched by id: what changed, by how much, and whether it is within a margin. */
import { shellWord } from '../../engine/core/item/wording.ts';
import { clusteredShare, clustersOf, kolmogorovSmirnov, LEAST, partsOf } from '../kit/agreement.ts';
import { addTable, agreementOf, clusteredKappa, emptyTable, type TwoByTwo } from '../kit/kappa.ts';
import { distanceSwap, type TwoSamples } from '../kit/permute.ts';
import type { Interval } from '../kit/statistics.ts';
import type { AgentSums } from './answer-counts.ts';
import { differenceOf, equivalenceOf } from './changed.ts';
import { type Collected, rungsIn, type Seen } from './collect.ts';
import { correctTogether, type Test } from './family.ts';
import { mostOf } from './values.ts';

/** One run beside the others: how good, how many. */
export interface RunRow {
  name: string;
  /** the command that shows its lines; null of standard input */
  view: string | null;
  seen: number;
  trusted: number;
  rungs: { [rung: string]: number };
  left: { [code: string]: number };
  /** what stands where an outcome should, the most frequent first */
  noOutcomes: { [value: string]: number };
  askedAgain: number;
  approved: number;
  rate: Interval | null;
  /** null: nobody counted any; `uncounted`: answers without usage, which are in no sum */
  tokens: { prompt: number | null; completion: number | null; uncounted: number };
  /** from its ledger: tries, and the seconds and tokens of all of them */
  ledger: {
    calls: number;
    tries: number;
    seconds: number;
    /** tokens; null: nobody counted any */
    in: number | null;
    out: number | null;
    /** from the first try to the last, without the time between two runs; the same added up over its endpoints */
    hours: number;
    endpointHours: number;
    /** endpointHours × the price of an hour; null where none was named */
    cost: number | null;
  } | null;
}

export type Comparison = ReturnType<typeof compare>;

/** Values that are listed. */
const LISTED = 100;
/** Items that are named. */
const MOST_DIFFERENT = 10;

export function runRow(
  name: string,
  { fate, rungs, seen, agents, noOutcomes }: Collected,
  ledger: RunRow['ledger'],
): RunRow {
  const trusted = seen.filter(({ state }) => state >= 0);
  const approved = trusted.filter(({ state }) => state === 1).length;
  const sums = [...agents.values()];
  const of = (each: (sums: AgentSums) => number): number => sums.reduce((all, one) => all + each(one), 0);
  const isCounted = of(({ prompt }) => prompt) > 0;
  return {
    name,
    view: viewOf(name),
    seen: fate.seen,
    trusted: trusted.length,
    rungs: Object.fromEntries(rungsIn(rungs)),
    left: Object.fromEntries(fate.left),
    noOutcomes: Object.fromEntries(mostOf(noOutcomes, LISTED)),
    askedAgain: fate.askedAgain,
    approved,
    rate: clusteredShare(
      partsOf(
        clustersOf(
          trusted,
          () => 0,
          ({ state }) => state === 1,
        ),
        0,
      ),
    ),
    tokens: {
      prompt: isCounted ? of(({ prompt }) => prompt) : null,
      completion: isCounted ? of(({ completion }) => completion) : null,
      uncounted: of(({ uncounted }) => uncounted),
    },
    ledger,
  };
}

/** `fw view` of a run, or of two beside each other. */
function viewOf(...runs: readonly [string] | readonly [string, string]): string | null {
  return runs.includes('-') ? null : `fw view ${runs.map(shellWord).join(' --beside ')}`;
}

interface Pair {
  first: Seen;
  second: Seen;
}

/** Each of `others` against `first`; p values corrected together, over all of them. */
export function compareAll(
  first: { name: string; collected: Collected },
  others: readonly { name: string; collected: Collected }[],
  margin: number | undefined,
): Comparison[] {
  const comparisons = others.map(other => compare(first, other, margin));
  const tests = comparisons.flatMap((row): Test[] => [
    { section: 'groups', what: row.runs[1], p: row.p, row },
    ...row.numbers
      .filter(() => row.clusters >= LEAST)
      .map(({ name, ks }): Test => ({ section: 'numbers', what: name, p: ks.p, row: ks })),
  ]);
  correctTogether(tests);
  return comparisons;
}

function compare(
  first: { name: string; collected: Collected },
  second: { name: string; collected: Collected },
  margin: number | undefined,
) {
  const decided = ({ seen }: Collected): Seen[] => seen.filter(({ state }) => state >= 0);
  const byId = new Map(decided(first.collected).map(record => [record.id, record]));
  const all = decided(second.collected);
  const pairs = all.flatMap((record): Pair[] => {
    const other = byId.get(record.id);
    return other === undefined ? [] : [{ first: other, second: record }];
  });
  const clusters = new Map<number, TwoByTwo>();
  for (const { first: a, second: b } of pairs) {
    const own = clusters.get(a.cluster) ?? emptyTable();
    clusters.set(a.cluster, own);
    own[a.state as 0 | 1][b.state as 0 | 1] += 1;
  }
  const tables = [...clusters.values()];
  const table = emptyTable();
  for (const each of tables) addTable(table, each);
  const n = pairs.length;
  const numbers = numberPairs(first.collected, second.collected, pairs);
  return {
    runs: [first.name, second.name] as [string, string],
    /** the command that shows both, those that differ first; null of standard input */
    view: viewOf(first.name, second.name),
    /** ids decided in both; below, those that are in one alone, or left out of the rates there */
    matched: n,
    /** applications, or cells of twins, that these are of */
    clusters: clusters.size,
    unit: first.collected.asked.twins.length > 0 ? ('cells of twins' as const) : ('applications' as const),
    onlyFirst: byId.size - n,
    onlySecond: all.length - n,
    /** with the same decision and the same numbers */
    identical: pairs.filter(
      (pair, at) => pair.first.state === pair.second.state && numbers.every(({ of }) => isSame(of[at])),
    ).length,
    /** [no, yes] of the first by [no, yes] of the second */
    table,
    agreement: agreementOf(tables),
    kappa: clusteredKappa(tables),
    /** approval of the second less that of the first; p by the runs swapped in each cluster, McNemar's where each is one id */
    ...differenceOf(table, tables, n),
    /** corrected over all tests of the comparison */
    holm: 1,
    equivalence: margin === undefined || n === 0 ? null : equivalenceOf(table, tables, margin),
    numbers: numbers.flatMap(({ name, of }) => numberRow(name, of, pairs)),
    different: mostDifferent(pairs, numbers),
  };
}

interface Numbers {
  name: string;
  /** of each pair; null where one of the two has none */
  of: ([number, number] | null)[];
  /** of both runs together, to weigh differences by */
  spread: number;
}

const isSame = (pair: [number, number] | null | undefined): boolean => !pair || pair[0] === pair[1];

function numberPairs(a: Collected, b: Collected, pairs: readonly Pair[]): Numbers[] {
  return a.numbers.list.flatMap((name, at) => {
    const other = b.numbers.list.indexOf(name);
    if (other < 0) return [];
    const of = pairs.map(({ first, second }): [number, number] | null => {
      const [x, y] = [first.numbers[at], second.numbers[other]];
      return x === undefined || y === undefined ? null : [x, y];
    });
    const all = of.flatMap(pair => pair ?? []);
    const mean = all.reduce((sum, each) => sum + each, 0) / (all.length || 1);
    const spread = Math.sqrt(all.reduce((sum, each) => sum + (each - mean) ** 2, 0) / (all.length || 1));
    return [{ name, of, spread: spread || 1 }];
  });
}

function numberRow(name: string, of: readonly ([number, number] | null)[], pairs: readonly Pair[]) {
  const known = of.filter(pair => pair !== null);
  const side = (nth: 0 | 1): Float64Array => Float64Array.from(known, pair => pair[nth]).sort();
  const [one, other] = [side(0), side(1)];
  if (kolmogorovSmirnov(one, other) === null) return [];
  const clusters = new Map<number, [number[], number[]]>();
  for (const [at, pair] of of.entries()) {
    if (pair === null) continue;
    const { cluster } = (pairs[at] as Pair).first;
    const own = clusters.get(cluster) ?? [[], []];
    clusters.set(cluster, own);
    for (const nth of [0, 1] as const) own[nth].push(pair[nth]);
  }
  const swapped = distanceSwap([...clusters.values()] satisfies TwoSamples[]);
  if (swapped === null) return [];
  /** `holm` corrected over all tests, null of few clusters */
  const ks = { ...swapped, holm: null as number | null };
  const mean = (sample: Float64Array): number => sample.reduce((sum, each) => sum + each, 0) / sample.length;
  const means: [number, number] = [mean(one), mean(other)];
  return [{ name, n: known.length, means, meanDifference: means[1] - means[0], ks }];
}

function mostDifferent(pairs: readonly Pair[], numbers: readonly Numbers[]) {
  const scored = pairs.map(({ first, second }, at) => {
    const apart = numbers.reduce((sum, { of, spread }) => {
      const pair = of[at];
      return sum + (pair ? Math.abs(pair[0] - pair[1]) / spread : 0);
    }, 0);
    return { at, score: (first.state === second.state ? 0 : 1000) + apart };
  });
  const word = (state: number): string => (state === 1 ? 'approved' : 'not approved');
  return scored
    .filter(({ score }) => score > 0)
    .sort((a, b) => b.score - a.score || a.at - b.at)
    .slice(0, MOST_DIFFERENT)
    .map(({ at }) => {
      const { first, second } = pairs[at] as Pair;
      const apart = numbers.flatMap(({ name, of }) => {
        const pair = of[at];
        return pair ? [[name, pair] as const] : [];
      });
      return {
        id: first.id,
        decisions: [word(first.state), word(second.state)] as [string, string],
        numbers: Object.fromEntries(apart),
      };
    });
}
