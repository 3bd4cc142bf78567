/**
 * What the report counts, gathered line by line: a small record of each line that was seen, and sums of the rest. Some
 * hundred bytes a line, so that a study of a hundred thousand lies in memory.
 */
import { createIdSet, type IdSet } from '../../engine/core/files/idset.ts';
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
  newFate,
} from './answer-counts.ts';
import { createNames, type Names } from './name-table.ts';
import type { Observation } from './observe.ts';
import type { Asked } from './report-names.ts';
import { newTally, type Tally, tally } from './values.ts';

/** Numbers in a decision that are looked at, in the order in which they come. */
const MOST_NUMBERS = 6;
/** ids that a figure names */
export const NAMED_IDS = 20;

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

export interface Collected {
  asked: Asked;
  seen: Seen[];
  fate: Fate;
  rungs: Map<Rung, number>;
  groups: { column: string; values: Names; blank: number; fates: Fate[] }[];
  applicants: Names;
  orders: Names;
  cells: Names;
  numbers: Names;
  /** of the records that enter a rate: each outcome as it is spelled, and those of them that are approvals */
  outcomes: Tally;
  approvals: Set<string>;
  /** a schema says what outcomes there are, at least of some lines */
  hasSchema: boolean;
  /** of the others that did not fail: what stands where an outcome should */
  noOutcomes: Tally;
  agents: Map<string, AgentSums>;
  /** questions that items share, whose tokens count once */
  shared: IdSet;
  /** answers to a question that is in `seen` already */
  repeats: { of: number; state: number }[];
  /** ids that are there again */
  repeated: number;
  from: string | null;
  to: string | null;
}

/** Why a record that did not fail enters no rate. */
export const NO_OUTCOME: ReadonlySet<string> = new Set(['blank-outcome', 'unknown-outcome', 'tied']);

export interface Collector {
  add(observation: Observation): void;
  collected: Collected;
}

/** `accept`: the rungs that may enter a rate; who read the lines has refused the others, but for rows of tables. */
export function createCollector(asked: Asked, accept: ReadonlySet<Rung>): Collector {
  const groups = asked.groups.map(column => ({
    column,
    values: createNames(`--group ${column}`),
    blank: 0,
    fates: [] as Fate[],
  }));
  const ids = new Map<string, number>();
  const clusters = createNames();
  const collected: Collected = {
    asked,
    seen: [],
    fate: newFate(),
    rungs: new Map(),
    groups,
    applicants: createNames(),
    orders: createNames('ordering'),
    cells: createNames(),
    numbers: createNames(),
    outcomes: newTally(),
    approvals: new Set(),
    hasSchema: false,
    noOutcomes: newTally(),
    agents: new Map(),
    shared: createIdSet(),
    repeats: [],
    repeated: 0,
    from: null,
    to: null,
  };

  return {
    collected,
    add(observation) {
      const { id, order, outcome, approved, noOutcome, rung, applicant, cell, decision, risk } = observation;
      const left = observation.left ?? (accept.has(rung) ? null : 'not-accepted');
      const state = left !== null ? -1 : approved ? 1 : 0;
      const first = ids.get(id);
      if (first !== undefined) {
        collected.repeated += 1;
        if (state >= 0) collected.repeats.push({ of: first, state });
        return;
      }
      ids.set(id, collected.seen.length);
      const values = groups.map((group, at) => {
        const value = observation.groups[at];
        if (value === null || value === undefined) {
          group.blank += 1;
          return -1;
        }
        return group.values.of(value);
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
        groups: values,
        state,
        mended: line.mended,
        askedAgain: line.askedAgain,
        numbers: left === null ? numbersIn(decision, collected.numbers) : [],
        risk,
      });
      addOne(collected.rungs, rung);
      collected.hasSchema ||= observation.allowed !== null;
      if (left === null) tally(collected.outcomes, outcome as string);
      if (left === null && approved && collected.approvals.size < 1_000)
        collected.approvals.add(outcome as string);
      if (left !== null && NO_OUTCOME.has(left) && noOutcome !== null) tally(collected.noOutcomes, noOutcome);
      addLine(collected.fate, line);
      for (const [at, value] of values.entries()) {
        if (value < 0) continue;
        addLine(fateAt((groups[at] as (typeof groups)[number]).fates, value), line);
      }
      addAnswers(collected, observation, values, cluster);
      addTime(collected, observation.timestamp);
    },
  };
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
