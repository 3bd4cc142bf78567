/** What befell lines and answers, in all and by group, and who of the agents changed a decision. */
import type { IdSet } from '../../engine/core/files/idset.ts';
import type { Rung } from '../../engine/core/item/item.ts';
import { emptyTable, type TwoByTwo } from '../kit/kappa.ts';
import type { Answered } from './answers-said.ts';
import type { Observation } from './observe.ts';
import { blankless, outcomeIn } from './outcome-texts.ts';
import { type Asked, ruleOf } from './report-names.ts';

/** What befell the lines of one group, or the answers of one agent. */
export interface Fate {
  seen: number;
  /** why lines were left out, and how many */
  left: Map<string, number>;
  /** lines or answers with a change of fw's in them */
  mended: number;
  askedAgain: number;
  failed: number;
  leftIds: string[];
}

export const newFate = (): Fate => ({
  seen: 0,
  left: new Map(),
  mended: 0,
  askedAgain: 0,
  failed: 0,
  leftIds: [],
});

/** Decisions of an agent against the one before it. */
export interface Turns {
  n: number;
  toNo: number;
  toYes: number;
}

const noTurns = (): Turns => ({ n: 0, toNo: 0, toYes: 0 });

/** Ids that are named behind a figure. */
export const NAMED_IDS = 20;

/** The first lines in which an agent turned the decision, each way. */
export interface TurnedIds {
  toNoIds: string[];
  toYesIds: string[];
}

const noIds = (): TurnedIds => ({ toNoIds: [], toYesIds: [] });

function keepId(ids: string[], id: string): void {
  if (ids.length < NAMED_IDS) ids.push(id);
}

/** What an agent did in one cluster: its turns, and [no, yes] of its own by [no, yes] of the decision. */
export interface InCluster {
  turns: Turns;
  withDecision: TwoByTwo;
}

export interface AgentSums {
  name: string;
  fate: Fate;
  rungs: Map<Rung, number>;
  /** by group column, by value */
  byGroup: Fate[][];
  turned: TurnedIds;
  turnsByGroup: (Turns & TurnedIds)[][];
  clusters: Map<number, InCluster>;
  prompt: number;
  completion: number;
  /** answers that were paid for and came without usage: their tokens are in no sum */
  uncounted: number;
}

export function addOne<K>(counts: Map<K, number>, key: K, more = 1): void {
  counts.set(key, (counts.get(key) ?? 0) + more);
}

export function fateAt(fates: Fate[], at: number): Fate {
  fates[at] ??= newFate();
  return fates[at];
}

export const isMended = (rung: Rung): boolean => ['repaired', 'coerced', 'defaulted'].includes(rung);
export const isAskedAgain = ({ attempts }: Answered): boolean => attempts > 1;

const yesOrNo = (answer: Answered, asked: Asked): number => {
  const text = blankless(outcomeIn(answer, asked.outcome));
  const approved = text === null ? null : ruleOf(asked).of(text, answer.allowed);
  return approved === null ? -1 : approved ? 1 : 0;
};

export function addAnswers(
  { agents, asked, shared }: { agents: Map<string, AgentSums>; asked: Asked; shared: IdSet },
  { id, answers, left }: Observation,
  values: number[],
  cluster: number,
): void {
  const last = answers.at(-1);
  const decided = left === null && last ? yesOrNo(last, asked) : -1;
  let before = -1;
  for (const [at, answer] of answers.entries()) {
    const sums = agentOf(agents, answer.agent, values.length);
    const fates = [sums.fate];
    for (const [column, value] of values.entries())
      if (value >= 0) fates.push(fateAt(sums.byGroup[column] as Fate[], value));
    for (const fate of fates) {
      fate.seen += 1;
      if (isMended(answer.rung)) fate.mended += 1;
      if (isAskedAgain(answer)) fate.askedAgain += 1;
      if (answer.rung === 'failed') fate.failed += 1;
    }
    addOne(sums.rungs, answer.rung);
    // an answer that items share was paid for once
    if (answer.shared === null || shared.add(answer.shared)) {
      sums.prompt += answer.prompt;
      sums.completion += answer.completion;
      // a prompt has a token at least
      if (answer.prompt === 0) sums.uncounted += 1;
    }
    if (left !== null) continue;
    const own = yesOrNo(answer, asked);
    const isDecision = at === answers.length - 1;
    if (own >= 0 && decided >= 0 && !isDecision)
      inCluster(sums, cluster).withDecision[own as 0 | 1][decided as 0 | 1] += 1;
    if (own >= 0 && before >= 0) {
      const all = [inCluster(sums, cluster).turns];
      const ids = [sums.turned];
      for (const [column, value] of values.entries()) {
        if (value < 0) continue;
        const ofColumn = sums.turnsByGroup[column] as (Turns & TurnedIds)[];
        ofColumn[value] ??= { ...noTurns(), ...noIds() };
        all.push(ofColumn[value]);
        ids.push(ofColumn[value]);
      }
      for (const turns of all) {
        turns.n += 1;
        if (before === 1 && own === 0) turns.toNo += 1;
        if (before === 0 && own === 1) turns.toYes += 1;
      }
      for (const { toNoIds, toYesIds } of ids) {
        if (before === 1 && own === 0) keepId(toNoIds, id);
        if (before === 0 && own === 1) keepId(toYesIds, id);
      }
    }
    before = own;
  }
}

function inCluster({ clusters }: AgentSums, cluster: number): InCluster {
  const known = clusters.get(cluster);
  if (known) return known;
  const own = { turns: noTurns(), withDecision: emptyTable() };
  clusters.set(cluster, own);
  return own;
}

/** Agents are named by the lines, which come from anywhere. */
const MOST_AGENTS = 100;
const OTHERS = '(others)';

function agentOf(agents: Map<string, AgentSums>, name: string, columns: number): AgentSums {
  const known = agents.get(name);
  if (known) return known;
  if (agents.size >= MOST_AGENTS && name !== OTHERS) return agentOf(agents, OTHERS, columns);
  const sums: AgentSums = {
    name,
    fate: newFate(),
    rungs: new Map(),
    byGroup: Array.from({ length: columns }, () => []),
    turned: noIds(),
    turnsByGroup: Array.from({ length: columns }, () => []),
    clusters: new Map(),
    prompt: 0,
    completion: 0,
    uncounted: 0,
  };
  agents.set(name, sums);
  return sums;
}
