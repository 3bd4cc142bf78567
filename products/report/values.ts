/**
 * Which values are outcomes, and which of them are approvals. What is neither is no outcome: an error, a blank or an
 * unknown word is counted and listed, and never a denial.
 */
import { usageError } from '../../engine/core/item/failure.ts';
import { show } from '../../engine/core/json/show.ts';

/** What was named: --approve, --deny and --tie. */
export interface NamedValues {
  approve: readonly string[];
  deny?: readonly string[] | undefined;
  tie?: string | undefined;
}

export interface OutcomeRule {
  /**
   * true: an approval; false: decided otherwise; null: no outcome. `allowed`: what the agent's schema lets the answer be,
   * canonical (`canonical`); null where it says nothing, as of a table.
   */
  of(text: string, allowed: ReadonlySet<string> | null): boolean | null;
  /** what counts as decided otherwise where no schema says it; null: nothing does, and --deny has to say it */
  otherwise: readonly string[] | null;
  /** --deny said it, and nobody guessed */
  isTold: boolean;
}

/** Words that are each other's opposite. `failed` is not among them, since it is what a failed line says of itself. */
const OPPOSITES: readonly (readonly [readonly string[], readonly string[]])[] = [
  [['1'], ['0']],
  [
    ['true', 't'],
    ['false', 'f'],
  ],
  [
    ['yes', 'y'],
    ['no', 'n'],
  ],
  [
    [
      ...['approve', 'approved', 'approval', 'accept', 'accepted', 'grant', 'granted', 'allow', 'allowed'],
      ...['hire', 'hired', 'invite', 'invited'],
    ],
    [
      ...['deny', 'denied', 'denial', 'reject', 'rejected', 'rejection', 'decline', 'declined'],
      ...['refuse', 'refused', 'disapprove', 'disapproved', 'not approved', 'no hire', 'not hired'],
      ...['not invited'],
    ],
  ],
  [['eligible'], ['ineligible', 'not eligible']],
  [['qualified'], ['unqualified', 'not qualified']],
  [['positive'], ['negative']],
  [['good'], ['bad']],
  [['pass'], ['fail']],
];

/** A number as people write it; 1, 1.0 and 01 are spelled by different tools, and only the first two are one number. */
const NUMBER = /^[+-]?(?:0|[1-9]\d{0,14})(?:\.\d{1,15})?$/;

/** One text for all spellings of a value: numbers by their value (1.0 is 1), words without case and repeated spaces. */
export function canonical(text: string): string {
  const trimmed = text.trim();
  if (NUMBER.test(trimmed)) return String(Number(trimmed));
  return trimmed.replaceAll(/\s+/g, ' ').normalize('NFC').toLowerCase();
}

/** not_approved and not-approved are `not approved`; of the words of the table alone, since codes may differ in that. */
const asWord = (value: string): string => value.replaceAll(/[_-]+/g, ' ');

/** Exit 64 where one value is named as both. */
export function outcomeRule({ approve, deny = [], tie }: NamedValues): OutcomeRule {
  const both = deny.find(value => approve.includes(value));
  if (both !== undefined)
    throw usageError(
      `--deny: expected another value than --approve, found ${show(both)} in both; say which it is`,
    );
  // as it is spelled before all spellings of it: --approve A --deny a
  const exact = new Map<string, boolean>();
  const folded = new Map<string, boolean>();
  const name = (value: string, approved: boolean): void => {
    if (!exact.has(value)) exact.set(value, approved);
    if (!folded.has(canonical(value))) folded.set(canonical(value), approved);
  };
  for (const value of approve) name(value, true);
  for (const value of deny) name(value, false);
  if (tie !== undefined) name(tie, false);
  const named = (text: string): boolean | undefined => exact.get(text) ?? folded.get(canonical(text));
  const opposites = deny.length > 0 ? [] : oppositesOf(approve);
  const words = new Set(opposites.map(asWord));
  return {
    of(text, allowed) {
      if (allowed !== null && !allowed.has(canonical(text)) && text !== tie) return null;
      const said = named(text);
      if (said !== undefined) return said;
      if (deny.length > 0) return null;
      return allowed !== null || words.has(asWord(canonical(text))) ? false : null;
    },
    otherwise: deny.length > 0 ? deny : opposites.length > 0 ? opposites : null,
    isTold: deny.length > 0,
  };
}

/** Of `approve` yes `no` and `n`, and of `no` the other way round. */
function oppositesOf(approve: readonly string[]): string[] {
  const words = new Set(approve.map(value => asWord(canonical(value))));
  return OPPOSITES.flatMap(([one, other]) => [
    ...(one.some(word => words.has(word)) ? other : []),
    ...(other.some(word => words.has(word)) ? one : []),
  ]).filter(word => !words.has(word));
}

/** Values and how often each was met, of which so many are held; the rest is one number. */
export interface Tally {
  counts: Map<string, number>;
  others: number;
}

const MOST_VALUES = 1_000;
const LONGEST_VALUE = 200;

export const newTally = (): Tally => ({ counts: new Map(), others: 0 });

/** Error texts may be as many as the lines, and as long as a page. */
export function tally(into: Tally, value: string): void {
  const text = value.length > LONGEST_VALUE ? `${value.slice(0, LONGEST_VALUE)}…` : value;
  const count = into.counts.get(text);
  if (count === undefined && into.counts.size >= MOST_VALUES) into.others += 1;
  else into.counts.set(text, (count ?? 0) + 1);
}

/** The most frequent first; of equal ones in the order in which they came. */
export const mostOf = ({ counts }: Tally, most: number): [string, number][] =>
  [...counts].sort(([, a], [, b]) => b - a).slice(0, most);
