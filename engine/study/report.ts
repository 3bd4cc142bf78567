/** The report as data: what `fw report --json` writes, and the page shows. */

import { RESAMPLES, SEED } from './bootstrap.ts';
import { clusteredFigures, clustersOf } from './clusters.ts';
import { type Collected, NAMED_IDS, type Seen } from './collect.ts';
import {
  type NumberTable,
  numberTables,
  type RiskTable,
  riskTable,
  type TurnRow,
  turnRows,
} from './decisions.ts';
import { type GroupTable, groupTable, LEAST, LEAST_SHARE } from './groups.ts';
import { type Integrity, integrityOf } from './integrity.ts';
import { type OrderTable, orderTable } from './orders.ts';
import { type Interval, wilson } from './statistics.ts';
import { type Noise, noiseIn, type TwinTable, twinTable } from './twins.ts';

export interface FileRow {
  path: string;
  lines: number;
  kinds: string[];
  /** orderings of its lines, agents by commas; the first ones, where there are many */
  orderings: string[];
  /** the ordering that its name says, where that is not the one that its lines say */
  named: string | null;
}

export interface Report {
  report: 1;
  version: string;
  files: FileRow[];
  asked: {
    outcome: string;
    approve: string;
    groups: string[];
    twins: string[];
    risk: string | null;
    accept: string[];
  };
  method: { interval: 0.95; resamples: number; seed: number; least: number; leastShare: number; ids: number };
  /** what a reader should know before the figures */
  notes: string[];
  integrity: Integrity;
  /** of trusted records: each outcome and how often, and the approval rate of all */
  outcomes: Record<string, number>;
  level: { n: number; approved: number; rate: Interval | null; applicants: number };
  groups: GroupTable[];
  noise: Noise;
  twins: TwinTable[];
  orders: OrderTable | null;
  turns: TurnRow[];
  numbers: NumberTable[];
  risk: RiskTable | null;
  tokens: { prompt: number; completion: number } | null;
  /** of legacy results, which say when they were made; items do not */
  time: { from: string; to: string } | null;
  /** how many tests of hypotheses were made */
  tests: number;
}

export interface Made {
  version: string;
  files: FileRow[];
  /** VALUE for any column that has it, or COLUMN=VALUE */
  references: readonly string[];
  accept: readonly string[];
  notes: readonly string[];
}

export function reportOf(collected: Collected, made: Made): Report {
  const { asked, seen, outcomes, agents, from, to } = collected;
  const groups = collected.groups.map(({ column, values }, at) =>
    groupTable(collected, at, referenceFor(column, values.list, made.references)),
  );
  const references = groups.map(({ reference }) => reference);
  const noise = noiseIn(collected);
  const trusted = seen.filter(({ state }) => state >= 0);
  const approved = trusted.filter(({ state }) => state === 1).length;
  const integrity = integrityOf(collected, references);
  const twins =
    asked.twins.length === 0
      ? []
      : references.flatMap((reference, at) => twinTable(collected, at, reference, noise) ?? []);
  const orders = orderTable(collected);
  const numbers = numberTables(collected, references);
  const sums = [...agents.values()];
  const prompt = sums.reduce((all, each) => all + each.prompt, 0);
  const completion = sums.reduce((all, each) => all + each.completion, 0);
  const count = (tables: readonly { tests: number }[]): number =>
    tables.reduce((n, { tests }) => n + tests, 0);
  return {
    report: 1,
    version: made.version,
    files: made.files,
    asked: { ...askedOf(collected), accept: [...made.accept] },
    method: {
      interval: 0.95,
      resamples: RESAMPLES,
      seed: SEED,
      least: LEAST,
      leastShare: LEAST_SHARE,
      ids: NAMED_IDS,
    },
    notes: [...made.notes],
    integrity,
    outcomes: Object.fromEntries(mostOf(outcomes, 100)),
    level: {
      n: trusted.length,
      approved,
      rate: levelOf(trusted),
      applicants: new Set(trusted.map(({ applicant }) => applicant)).size,
    },
    groups,
    noise,
    twins,
    orders,
    turns: turnRows(collected),
    numbers,
    risk: riskTable(collected),
    tokens: prompt + completion > 0 ? { prompt, completion } : null,
    time: from !== null && to !== null ? { from, to } : null,
    tests:
      count(groups) +
      count(integrity.groups) +
      count(twins) +
      (orders?.test ? 1 : 0) +
      numbers.reduce((n, { rows }) => n + rows.filter(({ ks }) => ks !== null).length, 0),
  };
}

/** The rate of all; where an applicant is there several times, with the interval of clusters. */
function levelOf(trusted: readonly Seen[]): Interval | null {
  const share = { n: trusted.length, hits: trusted.filter(({ state }) => state === 1).length };
  const clusters = clustersOf(trusted.map(({ cluster, state }) => ({ cluster, value: 0, state })));
  if (clusters.size === trusted.length) return wilson(share);
  return clusteredFigures(clusters, [share], 0).figures[0]?.rate ?? null;
}

function askedOf({ asked }: Collected): Omit<Report['asked'], 'accept'> {
  const { outcome, approve, groups, twins, risk } = asked;
  return { outcome, approve, groups: [...groups], twins: [...twins], risk: risk ?? null };
}

/** The reference that was named for a column: `column=value` before a value that the column has. */
function referenceFor(
  column: string,
  values: readonly string[],
  references: readonly string[],
): string | undefined {
  const own = references.find(text => text.startsWith(`${column}=`));
  return own?.slice(column.length + 1) ?? references.find(text => values.includes(text));
}

function mostOf(counts: Map<string, number>, most: number): [string, number][] {
  return [...counts].sort(([, a], [, b]) => b - a).slice(0, most);
}
