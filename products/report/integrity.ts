/**
 * Integrity comes first: how many lines may be counted, what happened to the others, and whether any of it fell on one
 * group more than on another. A parser that fails more for one group makes bias of its own.
 */

import type { Rung } from '../../engine/core/item/item.ts';
import { type Clusters, clusteredShare, clustersOf, partsOf, sameRate, twoOf } from '../kit/agreement.ts';
import type { Interval } from '../kit/statistics.ts';
import { type AgentSums, type Fate, newFate } from './answer-counts.ts';
import { type Collected, type LeftOut, rungsIn, type Seen } from './collect.ts';
import { isFew } from './groups.ts';
import { byIds, exactly, rowsQuery } from './rows-query.ts';

/** What can befall lines. */
export const FATES = ['left-out', 'mended', 'asked-again'] as const;
export type FateName = (typeof FATES)[number];

export interface FateRow {
  value: string;
  seen: number;
  trusted: number;
  trustedRate: Interval | null;
  left: Record<string, number>;
  mended: number;
  askedAgain: number;
  /** of "as often as in the reference", as of rates; corrected over all tests of the page; null where not judged */
  tests: Record<FateName, { p: number; holm: number } | null>;
  ids: string[];
}

export interface AgentRow {
  agent: string;
  answers: number;
  rungs: Partial<Record<Rung, number>>;
  askedAgain: number;
  prompt: number;
  completion: number;
  /** answers without usage, whose tokens are in no sum */
  uncounted: number;
}

/** Of one agent and one group: the share of its answers that failed, were mended, were asked for again. */
export interface AgentGroupRow {
  agent: string;
  value: string;
  answers: number;
  failed: number;
  mended: number;
  askedAgain: number;
}

export interface Integrity {
  /** lines, each id once */
  seen: number;
  trusted: number;
  trustedRate: Interval | null;
  rungs: Partial<Record<Rung, number>>;
  left: Record<string, number>;
  /** of each of `left` the query of its records for fw view: by their failure, else the first of their ids */
  leftRows: Record<string, string>;
  ids: string[];
  mended: number;
  askedAgain: number;
  /** ids that were there again: their answers are repeats, and enter no rate */
  repeated: number;
  agents: AgentRow[];
  groups: {
    column: string;
    reference: string | null;
    rows: FateRow[];
    agents: AgentGroupRow[];
  }[];
}

export function integrityOf(collected: Collected, references: readonly (string | null)[]): Integrity {
  const { fate, agents, groups, seen } = collected;
  const trusted = fate.seen - sum(fate.left);
  const trustedOf = (value: (record: Seen) => number): Clusters =>
    clustersOf(seen, value, ({ state }) => state >= 0);
  return {
    seen: fate.seen,
    trusted,
    trustedRate: clusteredShare(
      partsOf(
        trustedOf(() => 0),
        0,
      ),
    ),
    rungs: Object.fromEntries(rungsIn(collected.rungs)),
    left: byCount(fate.left),
    leftRows: Object.fromEntries([...collected.leftOut].map(([code, of]) => [code, leftRows(code, of)])),
    ids: fate.leftIds,
    mended: fate.mended,
    askedAgain: fate.askedAgain,
    repeated: collected.repeated,
    agents: [...agents.values()].map(agentRow),
    groups: groups.map(({ column, values, fates }, at) => {
      const reference = references[at] ?? null;
      const clusters = trustedOf(({ groups: own }) => own[at] as number);
      const rows = values.list.map((value, nth) =>
        fateRow(value, fates[nth] ?? newFate(), clusteredShare(partsOf(clusters, nth))),
      );
      testAll(rows, seen, at, reference === null ? -1 : values.list.indexOf(reference));
      rows.sort((a, b) => b.seen - a.seen || (a.value < b.value ? -1 : 1));
      return { column, reference, rows, agents: agentGroups(agents.values(), values.list, at) };
    }),
  };
}

/** What verification alone refuses has no failure in its line. */
const leftRows = (code: string, { n, own, ids }: LeftOut): string =>
  rowsQuery(own === n ? [['failure', exactly(code)]] : byIds(ids));

const sum = (counts: Map<string, number>): number =>
  [...counts.values()].reduce((all, each) => all + each, 0);

const byCount = (counts: Map<string, number>): Record<string, number> =>
  Object.fromEntries([...counts].sort(([a, n], [b, m]) => m - n || (a < b ? -1 : 1)));

function fateRow(
  value: string,
  { seen, left, mended, askedAgain, leftIds }: Fate,
  trustedRate: Interval | null,
): FateRow {
  return {
    value,
    seen,
    trusted: seen - sum(left),
    trustedRate,
    left: byCount(left),
    mended,
    askedAgain,
    tests: { 'left-out': null, mended: null, 'asked-again': null },
    ids: leftIds,
  };
}

const BEFELL: Record<FateName, (record: Seen) => boolean> = {
  'left-out': ({ state }) => state < 0,
  mended: ({ mended }) => mended,
  'asked-again': ({ askedAgain }) => askedAgain,
};

/** Each group against the reference, for each fate that befell anyone; `rows` by the number of their value. */
function testAll(rows: readonly FateRow[], seen: readonly Seen[], at: number, reference: number): void {
  if (rows[reference] === undefined) return;
  const all = rows.reduce((count, row) => count + row.seen, 0);
  for (const name of FATES) {
    const clusters = clustersOf(seen, ({ groups }) => groups[at] as number, BEFELL[name]);
    if (rows.every((_, nth) => partsOf(clusters, nth).every(({ hits }) => hits === 0))) continue;
    for (const [nth, row] of rows.entries()) {
      if (nth === reference || isFew(clusters[nth]?.size ?? 0, row.seen, all)) continue;
      row.tests[name] = { p: sameRate(twoOf(clusters, nth, reference)), holm: 1 };
    }
  }
}

function agentRow({ name, fate, rungs, prompt, completion, uncounted }: AgentSums): AgentRow {
  return {
    agent: name,
    answers: fate.seen,
    rungs: Object.fromEntries(rungsIn(rungs)),
    askedAgain: fate.askedAgain,
    prompt,
    completion,
    uncounted,
  };
}

function agentGroups(agents: Iterable<AgentSums>, values: readonly string[], at: number): AgentGroupRow[] {
  return [...agents].flatMap(({ name, byGroup }) =>
    values.flatMap((value, nth) => {
      const fate = byGroup[at]?.[nth];
      if (fate === undefined) return [];
      const { seen, failed, mended, askedAgain } = fate;
      return [{ agent: name, value, answers: seen, failed, mended, askedAgain }];
    }),
  );
}
