/** Two runs over the same items, matched by id: what changed, by how much, and whether it is within a margin. */
import { kappa, kolmogorovSmirnov } from './agreement.ts';
import { clusteredFigures, clustersOf } from './clusters.ts';
import { type Collected, rungsIn, type Seen } from './collect.ts';
import {
  holm,
  type Interval,
  mcnemar,
  pairedDifference,
  pairedError,
  type Share,
  tost,
  wilson,
} from './statistics.ts';

/** One run beside the others: how good, how many. */
export interface RunRow {
  name: string;
  seen: number;
  trusted: number;
  rungs: { [rung: string]: number };
  left: { [code: string]: number };
  askedAgain: number;
  approved: number;
  rate: Interval | null;
  tokens: { prompt: number; completion: number };
  /** from its ledger: tries, and the seconds and tokens of all of them */
  ledger: {
    calls: number;
    tries: number;
    seconds: number;
    in: number;
    out: number;
    /** from the first try to the last, without the time between two runs; the same added up over its endpoints */
    hours: number;
    endpointHours: number;
    /** endpointHours × the price of an hour; null where none was named */
    cost: number | null;
  } | null;
}

export interface Comparison {
  /** of the first run, and of this one */
  runs: [string, string];
  /** ids decided in both; ids that are in one alone, or left out of the rates there */
  matched: number;
  onlyFirst: number;
  onlySecond: number;
  /** matched ids with the same decision and the same numbers */
  identical: number;
  /** [no, yes] of the first by [no, yes] of the second */
  table: [[number, number], [number, number]];
  agreement: Interval | null;
  kappa: Interval | null;
  /** approval of the second less that of the first, over matched ids */
  difference: Interval | null;
  /** exact McNemar; where an application is there in several orders, the cluster-robust p */
  p: number;
  holm: number;
  /** two one-sided tests; equivalent where p is below 0.05. Null without a margin, or without a matched id */
  equivalence: { margin: number; p: number; equivalent: boolean } | null;
  numbers: {
    name: string;
    n: number;
    means: [number, number];
    /** mean of the paired differences, second less first */
    meanDifference: number;
    ks: { d: number; p: number };
  }[];
  /** the most different first: the decision, then numbers, each by its spread */
  different: { id: string; decisions: [string, string]; numbers: { [name: string]: [number, number] } }[];
}

/** Items that are named. */
const MOST_DIFFERENT = 10;

export function runRow(
  name: string,
  { fate, rungs, seen, agents }: Collected,
  ledger: RunRow['ledger'],
): RunRow {
  const trusted = seen.filter(({ state }) => state >= 0);
  const approved = trusted.filter(({ state }) => state === 1).length;
  const sums = [...agents.values()];
  return {
    name,
    seen: fate.seen,
    trusted: trusted.length,
    rungs: Object.fromEntries(rungsIn(rungs)),
    left: Object.fromEntries(fate.left),
    askedAgain: fate.askedAgain,
    approved,
    rate: wilson({ n: trusted.length, hits: approved }),
    tokens: {
      prompt: sums.reduce((all, each) => all + each.prompt, 0),
      completion: sums.reduce((all, each) => all + each.completion, 0),
    },
    ledger,
  };
}

interface Pair {
  first: Seen;
  second: Seen;
}

/** Each of `others` against `first`; p values corrected by Holm over them. */
export function compareAll(
  first: { name: string; collected: Collected },
  others: readonly { name: string; collected: Collected }[],
  margin: number | undefined,
): Comparison[] {
  const comparisons = others.map(other => compare(first, other, margin));
  for (const [at, p] of holm(comparisons.map(each => each.p)).entries())
    (comparisons[at] as Comparison).holm = p;
  return comparisons;
}

function compare(
  first: { name: string; collected: Collected },
  second: { name: string; collected: Collected },
  margin: number | undefined,
): Comparison {
  const decided = ({ seen }: Collected): Seen[] => seen.filter(({ state }) => state >= 0);
  const known = new Map(decided(first.collected).map(record => [record.id, record]));
  const all = decided(second.collected);
  const pairs = all.flatMap((record): Pair[] => {
    const other = known.get(record.id);
    return other === undefined ? [] : [{ first: other, second: record }];
  });
  const table: Comparison['table'] = [
    [0, 0],
    [0, 0],
  ];
  for (const { first: a, second: b } of pairs) {
    const row = table[a.state] as [number, number];
    row[b.state] = (row[b.state] as number) + 1;
  }
  const [[no, won], [lost, yes]] = table;
  const n = pairs.length;
  const clusters = clustersOf(
    pairs.flatMap(({ first: a, second: b }) => [
      { cluster: a.cluster, value: 0, state: a.state },
      { cluster: a.cluster, value: 1, state: b.state },
    ]),
  );
  const shares: Share[] = [
    { n, hits: lost + yes },
    { n, hits: won + yes },
  ];
  const isClustered = clusters.size < n;
  const figure = isClustered ? clusteredFigures(clusters, shares, 0).figures[1] : undefined;
  const difference = figure?.difference ?? pairedDifference({ n, b: won, c: lost });
  // never surer than single pairs would be: without any change between runs there is no spread to judge by
  const error = Math.max(
    pairedError({ n, b: won, c: lost }),
    isClustered && difference ? (difference.high - difference.low) / (2 * 1.959963984540054) : 0,
  );
  const p = margin === undefined || n === 0 ? null : tost((won - lost) / n, error, margin);
  const numbers = numberPairs(first.collected, second.collected, pairs);
  return {
    runs: [first.name, second.name],
    matched: n,
    onlyFirst: known.size - n,
    onlySecond: all.length - n,
    identical: pairs.filter(
      (pair, at) => pair.first.state === pair.second.state && numbers.every(({ of }) => isSame(of[at])),
    ).length,
    table,
    agreement: wilson({ n, hits: no + yes }),
    kappa: kappa(table),
    difference,
    p: figure?.p ?? mcnemar(won, lost),
    holm: 1,
    equivalence: p === null || margin === undefined ? null : { margin, p, equivalent: p < 0.05 },
    numbers: numbers.flatMap(({ name, of }) => numberRow(name, of)),
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

function numberRow(name: string, of: readonly ([number, number] | null)[]): Comparison['numbers'] {
  const known = of.filter(pair => pair !== null);
  const side = (nth: 0 | 1): Float64Array => Float64Array.from(known, pair => pair[nth]).sort();
  const [one, other] = [side(0), side(1)];
  const ks = kolmogorovSmirnov(one, other);
  if (ks === null) return [];
  const mean = (sample: Float64Array): number => sample.reduce((sum, each) => sum + each, 0) / sample.length;
  const means: [number, number] = [mean(one), mean(other)];
  return [{ name, n: known.length, means, meanDifference: means[1] - means[0], ks }];
}

function mostDifferent(pairs: readonly Pair[], numbers: readonly Numbers[]): Comparison['different'] {
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
      const known = numbers.flatMap(({ name, of }) => {
        const pair = of[at];
        return pair ? [[name, pair] as const] : [];
      });
      return {
        id: first.id,
        decisions: [word(first.state), word(second.state)],
        numbers: Object.fromEntries(known),
      };
    });
}
