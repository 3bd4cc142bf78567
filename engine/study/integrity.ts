/**
 * Integrity comes first: how many lines may be counted, what happened to the others, and whether any of it fell on one
 * group more than on another. A parser that fails more for one group makes bias of its own.
 */

import type { Rung } from '../item/item.ts';
import { type AgentSums, type Fate, newFate } from './answers.ts';
import { type Collected, rungsIn } from './collect.ts';
import { LEAST, LEAST_SHARE } from './groups.ts';
import { fisher, holm, type Interval, type Share, wilson } from './statistics.ts';

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
  /** Fisher's p of "as often as in the reference", Holm over all rows and fates of the column; null where not judged */
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
    tests: number;
  }[];
}

export function integrityOf(collected: Collected, references: readonly (string | null)[]): Integrity {
  const { fate, agents, groups } = collected;
  const trusted = fate.seen - sum(fate.left);
  return {
    seen: fate.seen,
    trusted,
    trustedRate: wilson({ n: fate.seen, hits: trusted }),
    rungs: Object.fromEntries(rungsIn(collected.rungs)),
    left: byCount(fate.left),
    ids: fate.leftIds,
    mended: fate.mended,
    askedAgain: fate.askedAgain,
    repeated: collected.repeated,
    agents: [...agents.values()].map(agentRow),
    groups: groups.map(({ column, values, fates }, at) => {
      const reference = references[at] ?? null;
      const rows = values.list.map((value, nth) => fateRow(value, fates[nth] ?? newFate()));
      const tests = testAll(rows, fates, reference === null ? -1 : values.list.indexOf(reference));
      rows.sort((a, b) => b.seen - a.seen || (a.value < b.value ? -1 : 1));
      return { column, reference, rows, agents: agentGroups(agents.values(), values.list, at), tests };
    }),
  };
}

const sum = (counts: Map<string, number>): number =>
  [...counts.values()].reduce((all, each) => all + each, 0);

const byCount = (counts: Map<string, number>): Record<string, number> =>
  Object.fromEntries([...counts].sort(([a, n], [b, m]) => m - n || (a < b ? -1 : 1)));

function fateRow(value: string, { seen, left, mended, askedAgain, leftIds }: Fate): FateRow {
  const trusted = seen - sum(left);
  return {
    value,
    seen,
    trusted,
    trustedRate: wilson({ n: seen, hits: trusted }),
    left: byCount(left),
    mended,
    askedAgain,
    tests: { 'left-out': null, mended: null, 'asked-again': null },
    ids: leftIds,
  };
}

/** Each group against the reference, for each fate that befell anyone: so many tests are one family. */
function testAll(rows: FateRow[], fates: readonly (Fate | undefined)[], reference: number): number {
  const base = rows[reference];
  if (base === undefined) return 0;
  const all = fates.reduce((count, fate) => count + (fate?.seen ?? 0), 0);
  const family: { p: number; set: (holm: number) => void }[] = [];
  const hitsOf: Record<FateName, (row: FateRow) => number> = {
    'left-out': row => row.seen - row.trusted,
    mended: row => row.mended,
    'asked-again': row => row.askedAgain,
  };
  for (const name of FATES) {
    const share = (row: FateRow): Share => ({ n: row.seen, hits: hitsOf[name](row) });
    if (!rows.some(row => share(row).hits > 0)) continue;
    for (const row of rows) {
      if (row === base || row.seen < LEAST || row.seen < LEAST_SHARE * all) continue;
      const p = fisher(share(row), share(base));
      const set = (corrected: number): void => {
        row.tests[name] = { p, holm: corrected };
      };
      family.push({ p, set });
    }
  }
  for (const [nth, corrected] of holm(family.map(({ p }) => p)).entries()) family[nth]?.set(corrected);
  return family.length;
}

function agentRow({ name, fate, rungs, prompt, completion }: AgentSums): AgentRow {
  return {
    agent: name,
    answers: fate.seen,
    rungs: Object.fromEntries(rungsIn(rungs)),
    askedAgain: fate.askedAgain,
    prompt,
    completion,
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
