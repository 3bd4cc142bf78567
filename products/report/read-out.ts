/**
 * What a chain decided, read out of its answers in one of three ways, so that one chain gives several results and nobody is
 * asked again.
 */
import { blankless, outcomeIn, type Said as SaidOutput } from './outcome-texts.ts';
import type { OutcomeRule } from './values.ts';

export const READ_OUTS = ['judge', 'terminal', 'majority'] as const;
export type ReadOut = (typeof READ_OUTS)[number];

interface Said extends SaidOutput {
  /** what its outcome may be; absent or null: no schema says it */
  allowed?: ReadonlySet<string> | null;
}

export interface Read {
  /** null where there is none */
  outcome: string | null;
  /** the answer that said it; undefined of a majority, which nobody said */
  output: unknown;
  /** what the outcome may be, by the schema of who said it */
  allowed?: ReadonlySet<string> | null | undefined;
  /** there is no outcome since as many said one thing as another */
  isTied: boolean;
}

/**
 * `judge`: the decision of the synthesis. `terminal`: the last agent's answer. `majority`: what more agents said than
 * anything else, the last answer of each; where two outcomes have as many, it is `tie`, and without one there is no outcome.
 * Who said nothing leaves all without a majority; so does one who, by `rule`, said what is no outcome: that is returned.
 */
export function readOut(
  { answers, decision }: { answers: readonly Said[]; decision: Said | undefined },
  by: ReadOut,
  { outcome, tie, rule }: { outcome: string; tie?: string | undefined; rule?: OutcomeRule },
): Read {
  const of = (answer: Said | undefined): string | null => blankless(outcomeIn(answer, outcome));
  if (by !== 'majority') {
    const answer = by === 'judge' ? decision : answers.at(-1);
    return { outcome: of(answer), output: answer?.output, allowed: answer?.allowed, isTied: false };
  }
  // of peers the second answer counts
  const last = new Map(answers.map(answer => [answer.agent, answer]));
  const votes = new Map<string, { count: number; allowed: Said['allowed'] }>();
  for (const answer of last.values()) {
    const said = of(answer);
    const { allowed } = answer;
    if (said === null) return { outcome: null, output: undefined, isTied: false };
    if (rule && rule.of(said, allowed ?? null) === null)
      return { outcome: said, output: undefined, allowed, isTied: false };
    const vote = votes.get(said);
    if (vote === undefined) votes.set(said, { count: 1, allowed });
    else vote.count += 1;
  }
  const most = Math.max(0, ...[...votes.values()].map(({ count }) => count));
  const [first, second] = [...votes].filter(([, { count }]) => count === most);
  if (first === undefined) return { outcome: null, output: undefined, isTied: false };
  if (second === undefined)
    return { outcome: first[0], output: undefined, allowed: first[1].allowed, isTied: false };
  return { outcome: tie ?? null, output: undefined, isTied: true };
}
