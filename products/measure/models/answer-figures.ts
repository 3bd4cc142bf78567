/** What the answers of one model were worth: valid at once or later, by rung, and alike to a truth or to another run. */
import { judgeLines, judgeOptions } from '../../../engine/audit/verdict.ts';
import { COMMON } from '../../../engine/flow/join.ts';
import { clusteredShare, isSingle } from '../../kit/agreement.ts';
import { kappa } from '../../kit/kappa.ts';
import type { Figure, Interval, Share } from '../../kit/statistics.ts';
import { type Observation, observe } from '../../report/observe.ts';
import { eachLine } from '../../report/read-lines.ts';
import type { OutcomeRule } from '../../report/values.ts';

export interface Agreement {
  /** items that have an outcome in both */
  matched: number;
  /** of those, with the same one */
  share: Interval | null;
  /** Cohen's; null of more than 50 different outcomes, or of one; without an interval where an application counts twice */
  kappa: Figure | null;
}

export interface Quality {
  items: number;
  /** items whose answers verification accepts */
  accepted: number;
  /** items by their rung */
  rungs: Record<string, number>;
  /** answers of agents: how many, and those that fitted as they were first given */
  answers: number;
  firstTry: Interval | null;
  /** codes of those that were not accepted, the most frequent first */
  left: [code: string, count: number][];
  label: Agreement | null;
  reference: Agreement | null;
}

export interface Judging {
  /** null: nothing is compared */
  outcome: string | null;
  label: string | null;
  /** outcomes of another run by the ids of its items; null where there is none */
  reference: ReadonlyMap<string, string> | null;
  /** the agents folder of the pipeline, from `base` */
  agents: string | undefined;
  base: string;
  warn(message: string): void;
}

/** What is compared is whether two are alike, whatever they say. */
const ANY_VALUE: OutcomeRule = { of: () => false, otherwise: null, isTold: true };

/** Calls `take` with each line of a file of finished items, as verification sees it. */
async function eachObservation(
  path: string,
  { outcome, label, agents, base, warn }: Judging,
  take: (observation: Observation) => void,
): Promise<void> {
  const stage = 'bench';
  const maxLine = COMMON['max-line'].default;
  const accept = ['clean', 'repaired', 'coerced', 'unknown'];
  // an agents folder of one step has no decision, and a chain that lacks its own has failed anyway
  const by = await judgeOptions(
    { accept, ...(agents !== undefined && { agents }), decision: false },
    { base },
  );
  const named = outcome ?? '';
  const asked = {
    ...{ groups: label === null ? [] : [label], outcome: named, approve: '', twins: [] },
    rule: ANY_VALUE,
  };
  const judge = judgeLines({ stage, maxLine, ...by });
  await eachLine(path, { stage, maxLine, judge, outcome: named, warn }, (line, where, kind, failure) =>
    take(observe(line, asked, where, failure, kind)),
  );
}

/** The outcomes of a file of finished items, of those that verification accepts. */
export async function outcomesOf(path: string, judging: Judging): Promise<Map<string, string>> {
  const outcomes = new Map<string, string>();
  await eachObservation(path, judging, ({ id, outcome, left }) => {
    if (left === null && outcome !== null && !outcomes.has(id)) outcomes.set(id, outcome);
  });
  return outcomes;
}

export async function qualityOf(path: string, judging: Judging): Promise<Quality> {
  const rungs: Record<string, number> = {};
  const left = new Map<string, number>();
  const labels = pairing();
  const references = pairing();
  // an application that is asked in several orders is one
  const firsts = new Map<string, Share>();
  let [items, accepted, answers] = [0, 0, 0];
  await eachObservation(path, judging, seen => {
    items++;
    rungs[seen.rung] = (rungs[seen.rung] ?? 0) + 1;
    for (const { attempts, rung } of seen.answers) {
      answers++;
      const isFirst = attempts === 1 && (rung === 'clean' || rung === 'repaired' || rung === 'coerced');
      count(firsts, seen.applicant, isFirst);
    }
    // what is compared may be missing in an answer that is valid
    const code = seen.left === 'blank-outcome' && judging.outcome === null ? null : seen.left;
    if (code === null) accepted++;
    else left.set(code, (left.get(code) ?? 0) + 1);
    if (code !== null || seen.outcome === null) return;
    const [label] = seen.groups;
    if (label) labels.add(label, seen.outcome, seen.applicant);
    const other = judging.reference?.get(seen.id);
    if (other !== undefined) references.add(other, seen.outcome, seen.applicant);
  });
  return {
    items,
    accepted,
    rungs,
    answers,
    firstTry: clusteredShare([...firsts.values()]),
    left: [...left].sort(([, a], [, b]) => b - a),
    label: judging.label === null ? null : labels.agreement(),
    reference: judging.reference === null ? null : references.agreement(),
  };
}

const MOST_OUTCOMES = 50;

function count(shares: Map<string, Share>, of: string, isHit: boolean): void {
  const share = shares.get(of) ?? { n: 0, hits: 0 };
  share.n++;
  if (isHit) share.hits++;
  shares.set(of, share);
}

function pairing(): { add(truth: string, said: string, applicant: string): void; agreement(): Agreement } {
  const counts = new Map<string, number>();
  const names = new Map<string, number>();
  const alike = new Map<string, Share>();
  let matched = 0;
  const numberOf = (name: string): number => {
    const known = names.get(name) ?? names.size;
    names.set(name, known);
    return known;
  };
  return {
    add(truth, said, applicant) {
      matched++;
      count(alike, applicant, truth === said);
      if (names.size > MOST_OUTCOMES) return;
      const key = `${numberOf(truth)} ${numberOf(said)}`;
      counts.set(key, (counts.get(key) ?? 0) + 1);
    },
    agreement() {
      const size = names.size;
      const table = Array.from({ length: size }, (_, i) =>
        Array.from({ length: size }, (_, j) => counts.get(`${i} ${j}`) ?? 0),
      );
      const parts = [...alike.values()];
      const all = size > MOST_OUTCOMES ? null : kappa(table);
      return {
        matched,
        share: clusteredShare(parts),
        kappa: all === null || isSingle(parts) ? all : { value: all.value, low: null, high: null },
      };
    },
  };
}
