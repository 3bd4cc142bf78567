/**
 * What the report counts, gathered line by line: a small record of each line that was seen, and sums of the rest. Some
 * hundred bytes a line, so that a study of a hundred thousand lies in memory.
 */
import { createIdSet } from '../../engine/core/files/idset.ts';
import { usageError } from '../../engine/core/item/failure.ts';
import { RUNGS, type Rung } from '../../engine/core/item/item.ts';
import type { JsonObject } from '../../engine/core/json/pointer.ts';
import {
  type AgentSums,
  addAnswers,
  addOne,
  type Fate,
  fateAt,
  isAskedAgain,
  isMended,
  NAMED_IDS,
  newFate,
} from './answer-counts.ts';
import type { Observation } from './observe.ts';
import type { Asked } from './report-names.ts';
import { MOST_IDS } from './rows-query.ts';
import { newTally, tally } from './values.ts';

/** Numbers in a decision that are looked at, in the order in which they come. */
const MOST_NUMBERS = 6;

/** One line, as far as rates need it. Groups, orders and so on are numbers of names; −1 where there is none. */
export interface Seen {
  id: string;
  applicant: number;
  order: number;
  /** of one question that was asked several times, its number; 0 where it was not */
  sample: number;
  cell: number;
  /** what is drawn as one, since it is not independent: the cell of twins, else the applicant */
  cluster: number;
  groups: number[];
  /** 1 approved, 0 not, −1 left out */
  state: number;
  mended: boolean;
  askedAgain: boolean;
  numbers: number[];
  risk: number;
}

export interface LeftOut {
  n: number;
  own: number;
  ids: string[];
}

export type Collected = ReturnType<typeof newCollected>;

const newCollected = (asked: Asked) => ({
  asked,
  seen: [] as Seen[],
  fate: newFate(),
  rungs: new Map<Rung, number>(),
  groups: asked.groups.map(column => ({
    column,
    values: createNames(`--group ${column}`),
    blank: 0,
    fates: [] as Fate[],
  })),
  applicants: createNames(),
  orders: createNames('ordering'),
  cells: createNames(),
  numbers: createNames(),
  /** of the records that enter a rate: each outcome as it is spelled, and those of them that are approvals */
  outcomes: newTally(),
  approvals: new Set<string>(),
  /** a schema says what outcomes there are, at least of some lines */
  hasSchema: false,
  /** of the others that did not fail: what stands where an outcome should */
  noOutcomes: newTally(),
  agents: new Map<string, AgentSums>(),
  /** of the records that enter no rate, by why: how many say so themselves, and the first ids */
  leftOut: new Map<string, LeftOut>(),
  /** questions that items share, whose tokens count once */
  shared: createIdSet(),
  /** answers to a question that is in `seen` already */
  repeats: [] as { of: number; state: number }[],
  /** ids that are there again */
  repeated: 0,
  from: null as string | null,
  to: null as string | null,
});

/** Why a record that did not fail enters no rate. */
const NO_OUTCOME: ReadonlySet<string> = new Set(['blank-outcome', 'unknown-outcome', 'tied']);

/** `accept`: the rungs that may enter a rate; who read the lines has refused the others, but for rows of tables. */
export function createCollector(
  asked: Asked,
  accept: ReadonlySet<Rung>,
): { collected: Collected; add(observation: Observation): void } {
  const ids = new Map<string, number>();
  const clusters = createNames();
  const collected = newCollected(asked);
  return {
    collected,
    add(observation) {
      const { id, order, approved, rung, applicant, cell, decision } = observation;
      const left = observation.left ?? (accept.has(rung) ? null : 'not-accepted');
      const state = left !== null ? -1 : approved ? 1 : 0;
      const first = ids.get(id);
      if (first !== undefined) {
        collected.repeated += 1;
        if (state >= 0) collected.repeats.push({ of: first, state });
        return;
      }
      ids.set(id, collected.seen.length);
      const groups = collected.groups.map((group, at) => {
        const value = observation.groups[at];
        if (value !== null && value !== undefined) return group.values.of(value);
        group.blank += 1;
        return -1;
      });
      const cluster = clusters.of(cell === null ? `a${applicant}` : `c${cell}`);
      const line = { left, mended: isMended(rung), askedAgain: observation.answers.some(isAskedAgain), id };
      collected.seen.push({
        id,
        applicant: collected.applicants.of(applicant),
        order: order === '' ? -1 : collected.orders.of(order),
        sample: observation.sample,
        cell: cell === null ? -1 : collected.cells.of(cell),
        cluster,
        groups,
        state,
        mended: line.mended,
        askedAgain: line.askedAgain,
        numbers: left === null ? numbersIn(decision, collected.numbers) : [],
        risk: observation.risk,
      });
      addOutcome(collected, observation, left);
      addOne(collected.rungs, rung);
      addLine(collected.fate, line);
      if (left !== null) addLeft(collected.leftOut, observation, left);
      for (const [at, value] of groups.entries())
        if (value >= 0) addLine(fateAt(collected.groups[at]?.fates as Fate[], value), line);
      addAnswers(collected, observation, groups, cluster);
      addTime(collected, observation.timestamp);
    },
  };
}

function addOutcome(collected: Collected, observation: Observation, left: string | null): void {
  const { allowed, outcome, approved, noOutcome } = observation;
  collected.hasSchema ||= allowed !== null;
  if (left === null) {
    tally(collected.outcomes, outcome as string);
    if (approved && collected.approvals.size < 1_000) collected.approvals.add(outcome as string);
  } else if (NO_OUTCOME.has(left) && noOutcome !== null) tally(collected.noOutcomes, noOutcome);
}

function addLine(
  fate: Fate,
  { left, mended, askedAgain, id }: { left: string | null; mended: boolean; askedAgain: boolean; id: string },
): void {
  fate.seen += 1;
  if (mended) fate.mended += 1;
  if (askedAgain) fate.askedAgain += 1;
  if (left === null) return;
  addOne(fate.left, left);
  if (!NO_OUTCOME.has(left)) fate.failed += 1;
  if (fate.leftIds.length < NAMED_IDS) fate.leftIds.push(id);
}

function addLeft(all: Map<string, LeftOut>, { id, isOwnFailure }: Observation, left: string): void {
  const of = all.get(left) ?? { n: 0, own: 0, ids: [] };
  all.set(left, of);
  of.n += 1;
  if (isOwnFailure) of.own += 1;
  if (of.ids.length < MOST_IDS) of.ids.push(id);
}

/** The numbers of a decision, by name; NaN where this one lacks it. */
function numbersIn(decision: JsonObject | undefined, names: Names): number[] {
  if (decision === undefined) return [];
  const numbers: number[] = [];
  for (const [name, value] of Object.entries(decision)) {
    if (typeof value !== 'number' || !Number.isFinite(value)) continue;
    if (names.list.length >= MOST_NUMBERS && !names.list.includes(name)) continue;
    numbers[names.of(name)] = value;
  }
  return numbers;
}

function addTime(collected: Collected, timestamp: string | null): void {
  if (timestamp === null || timestamp.length > 40) return;
  if (collected.from === null || timestamp < collected.from) collected.from = timestamp;
  if (collected.to === null || timestamp > collected.to) collected.to = timestamp;
}

/** Rungs that were met, from the best to the worst. */
export const rungsIn = (counts: Map<Rung, number>): [Rung, number][] =>
  RUNGS.flatMap(rung => {
    const count = counts.get(rung);
    return count === undefined ? [] : [[rung, count] as [Rung, number]];
  });

/** Values of a group column, orders, files: beyond that nobody reads a table, and a column of ids was named. */
const MOST_VALUES = 10_000;

/** Names as numbers, in the order in which they came. */
export interface Names {
  of(name: string): number;
  list: string[];
}

export function createNames(what = ''): Names {
  const numbers = new Map<string, number>();
  const list: string[] = [];
  return {
    list,
    of(name) {
      const known = numbers.get(name);
      if (known !== undefined) return known;
      if (what !== '' && list.length >= MOST_VALUES)
        throw usageError(`${what}: expected at most 10,000 values, found more: is it a column of ids?`);
      numbers.set(name, list.length);
      list.push(name);
      return list.length - 1;
    },
  };
}
