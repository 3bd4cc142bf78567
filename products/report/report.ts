/** The report as data: what `fw report --json` writes, and the page shows. */

import { clusteredShare, clustersOf, LEAST, partsOf } from '../kit/agreement.ts';
import { SEED } from '../kit/permute.ts';
import { NAMED_IDS } from './answer-counts.ts';
import type { Collected } from './collect.ts';
import { type NumberTable, numberTables, riskTable, turnRows } from './decisions.ts';
import { correctTogether, type Test } from './family.ts';
import { type GroupTable, groupTable, LEAST_SHARE } from './groups.ts';
import { FATES, type Integrity, integrityOf } from './integrity.ts';
import type { Judged } from './judged.ts';
import { type OrderTable, orderTable } from './orders.ts';
import { ruleOf } from './report-names.ts';
import { reversalNotes, withinStrata } from './reversal.ts';
import type { Joined } from './source.ts';
import { noiseIn, type TwinTable, twinTable } from './twins.ts';
import { mostOf, type Tally } from './values.ts';

export interface FileRow {
  path: string;
  lines: number;
  kinds: string[];
  /** orderings of its lines, agents by commas; the first ones, where there are many */
  orderings: string[];
  /** the ordering that its name says, where that is not the one that its lines say */
  named: string | null;
}

export type Report = ReturnType<typeof reportOf>;

export interface Made {
  version: string;
  files: FileRow[];
  /** VALUE for any column that has it, or COLUMN=VALUE */
  references: readonly string[];
  accept: readonly string[];
  notes: readonly string[];
  source?: Joined | null;
  /** what people said of the records; null without --labels */
  judged?: Judged | null;
}

/** Values that are listed. */
const LISTED = 100;

export function reportOf(collected: Collected, made: Made) {
  const { asked, seen, outcomes, agents, from, to } = collected;
  const groups = collected.groups.map(({ column, values }, at) =>
    groupTable(collected, at, referenceFor(column, values.list, made.references)),
  );
  const references = groups.map(({ reference }) => reference);
  const within = withinStrata(collected, references);
  const repeated = noiseIn(collected);
  const trusted = seen.filter(({ state }) => state >= 0);
  const approved = trusted.filter(({ state }) => state === 1).length;
  const of = clustersOf(
    trusted,
    () => 0,
    ({ state }) => state === 1,
  );
  const integrity = integrityOf(collected, references);
  const twins =
    asked.twins.length === 0
      ? []
      : references.flatMap((reference, at) => twinTable(collected, at, reference, repeated) ?? []);
  const orders = orderTable(collected);
  const numbers = numberTables(collected, references);
  const sums = [...agents.values()];
  const prompt = sums.reduce((all, each) => all + each.prompt, 0);
  const completion = sums.reduce((all, each) => all + each.completion, 0);
  const family = correctTogether(testsOf({ groups, twins, orders, integrity, numbers }));
  return {
    report: 1 as const,
    version: made.version,
    files: made.files,
    asked: { ...askedOf(collected), accept: [...made.accept] },
    method: {
      interval: 0.95 as const,
      seed: SEED,
      least: LEAST,
      leastShare: LEAST_SHARE,
      ids: NAMED_IDS,
    },
    /** what a reader should know before the figures */
    notes: [...made.notes, ...reversalNotes(within)],
    integrity,
    /** of trusted records: each outcome and how often, and the approval rate of all */
    outcomes: Object.fromEntries(mostOf(outcomes, LISTED)),
    /** those of `outcomes` that count as approvals, as they are spelled */
    approvals: [...collected.approvals].slice(0, LISTED),
    /** what is in their place of records that have none, the most frequent first; blanks too; `others`: not among these */
    noOutcomes: listOf(collected.noOutcomes),
    /** what people said of the records; null without --labels. It is no test of the page */
    judged: made.judged ?? null,
    /** how records found their rows in --source; null without one */
    source: made.source ?? null,
    /** `clusters`: applications, or cells of twins; `samples`: each application was asked several times */
    level: {
      n: trusted.length,
      approved,
      rate: clusteredShare(partsOf(of, 0)),
      applicants: new Set(trusted.map(({ applicant }) => applicant)).size,
      clusters: of[0]?.size ?? 0,
      samples: trusted.some(({ sample }) => sample > 0),
    },
    groups,
    /** differences of groups among records of one stratum: of risk, of twins, of another group */
    within,
    noise: repeated.noise,
    twins,
    orders,
    turns: turnRows(collected),
    numbers,
    risk: riskTable(collected),
    tokens: prompt + completion > 0 ? { prompt, completion } : null,
    /** of legacy results, which say when they were made; items do not */
    time: from !== null && to !== null ? { from, to } : null,
    /** the tests that are corrected together, and what the page calls a finding */
    family,
  };
}

/**
 * What the page judges by. Where a column has twins they are tested and not the rates, which ask the same question less
 * sharply; each order of the twins alone is a look into a finding, and none of its own.
 */
function testsOf({
  groups,
  twins,
  orders,
  integrity,
  numbers,
}: {
  groups: readonly GroupTable[];
  twins: readonly TwinTable[];
  orders: OrderTable | null;
  integrity: Integrity;
  numbers: readonly NumberTable[];
}): Test[] {
  const tests: Test[] = [];
  for (const { column, reference, rows } of groups) {
    const paired = twins.find(each => each.column === column);
    for (const row of paired?.rows ?? [])
      tests.push({
        section: 'groups',
        what: `${column} ${row.value} against ${reference}, between twins`,
        p: row.p,
        row,
      });
    if (paired) continue;
    for (const row of rows)
      if (row.p !== null && !row.small)
        tests.push({ section: 'groups', what: `${column} ${row.value} against ${reference}`, p: row.p, row });
  }
  if (orders?.test)
    tests.push({ section: 'order', what: 'the order of the agents', p: orders.test.p, row: orders.test });
  for (const { column, reference, rows } of integrity.groups)
    for (const { value, tests: fates } of rows)
      for (const fate of FATES) {
        const row = fates[fate];
        const what = `${fate.replace('-', ' ')}: ${column} ${value} against ${reference}`;
        if (row) tests.push({ section: 'integrity', what, p: row.p, row });
      }
  for (const { name, column, reference, rows } of numbers)
    for (const { value, clusters, ks } of rows)
      if (ks && clusters >= LEAST)
        tests.push({
          section: 'numbers',
          what: `${name}: ${column} ${value} against ${reference}`,
          p: ks.p,
          row: ks,
        });
  return tests;
}

function askedOf(collected: Collected) {
  const { asked, hasSchema } = collected;
  const words = ruleOf(asked).otherwise;
  const { outcome, agent, approve, groups, readOut, twins, risk } = asked;
  return {
    outcome,
    /** whose answer counts; null: the decision, else the last answer */
    agent: agent ?? null,
    /** --read-out */
    readOut: readOut ?? null,
    approve,
    /** the values that are outcomes and no approvals, where no schema says it; null: none is known */
    otherwise: words && [...words],
    /** one says what outcomes there are, at least of some lines */
    schema: hasSchema,
    groups: [...groups],
    twins: [...twins],
    risk: risk ?? null,
  };
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

function listOf(tally: Tally) {
  const values = mostOf(tally, LISTED).map(([value, count]) => ({ value, count }));
  const all = [...tally.counts.values()].reduce((sum, each) => sum + each, tally.others);
  return { values, others: all - values.reduce((sum, { count }) => sum + count, 0) };
}
