/**
 * The tests of a page are one family: what it calls a finding is one after a correction over all of them, so that a page
 * about data without any effect has a finding in at most 5 of 100 cases. Four fifths of the 5 % are for what a study asks
 * first, whether groups are decided differently; the rest is shared by the other sections that test anything.
 */
import { weightedHolm } from '../kit/statistics.ts';

export const LEVEL = 0.05;
const FIRST = 0.8;

const SECTIONS = ['groups', 'order', 'integrity', 'numbers'] as const;
export type Section = (typeof SECTIONS)[number];

/** A p value, and where its corrected one goes. */
export interface Test {
  section: Section;
  /** what was tested, in words */
  what: string;
  p: number;
  row: { holm: number | null };
}

export interface Family {
  level: number;
  method: 'weighted-holm';
  tests: number;
  /** those with tests, and the share of the level that each has to begin with */
  sections: { name: Section; tests: number; share: number }[];
  /** p below the level after the correction, the smallest first */
  findings: { section: Section; what: string; p: number; holm: number }[];
}

/** Corrects `tests` together, and writes each corrected p into its row. */
export function correctTogether(tests: readonly Test[]): Family {
  const of = (name: Section): number => tests.filter(({ section }) => section === name).length;
  const present = SECTIONS.filter(name => of(name) > 0);
  const others = present.filter(name => name !== 'groups').length;
  const shareOf = (name: Section): number => {
    if (others === 0 || others === present.length) return 1 / present.length;
    return name === 'groups' ? FIRST : (1 - FIRST) / others;
  };
  const sections = present.map(name => ({ name, tests: of(name), share: shareOf(name) }));
  const weights = new Map(sections.map(({ name, tests: count, share }) => [name, share / count]));
  const corrected = weightedHolm(
    tests.map(({ p }) => p),
    tests.map(({ section }) => weights.get(section) as number),
  );
  for (const [at, { row }] of tests.entries()) row.holm = corrected[at] as number;
  const findings = tests
    .map(({ section, what, p }, at) => ({ section, what, p, holm: corrected[at] as number }))
    .filter(({ holm }) => holm < LEVEL)
    .sort((a, b) => a.holm - b.holm || a.p - b.p);
  return { level: LEVEL, method: 'weighted-holm', tests: tests.length, sections, findings };
}
