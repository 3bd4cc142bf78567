/**
 * What a chain decided, read out of its answers in one of three ways, so that one chain gives several results and nobody is
 * asked again.
 */
import type { JsonObject } from '../json/pointer.ts';
import { blankless, outcomeIn } from './outcome.ts';

export const READ_OUTS = ['judge', 'terminal', 'majority'] as const;
export type ReadOut = (typeof READ_OUTS)[number];

interface Said {
  agent: string;
  output: JsonObject | undefined;
}

export interface Read {
  /** null where there is none */
  outcome: string | null;
  /** the answer that said it; undefined of a majority, which nobody said */
  output: JsonObject | undefined;
  /** there is no outcome since as many said one thing as another */
  isTied: boolean;
}

/**
 * `judge`: the decision of the synthesis. `terminal`: the last agent's answer. `majority`: what more agents said than
 * anything else, the last answer of each; where two outcomes have as many, it is `tie`, and without one there is no outcome.
 */
export function readOut(
  { answers, decision }: { answers: readonly Said[]; decision: Said | undefined },
  by: ReadOut,
  { outcome, tie }: { outcome: string; tie?: string | undefined },
): Read {
  const of = (answer: Said | undefined): string | null => blankless(outcomeIn(answer?.output, outcome));
  if (by !== 'majority') {
    const answer = by === 'judge' ? decision : answers.at(-1);
    return { outcome: of(answer), output: answer?.output, isTied: false };
  }
  // of peers the second answer counts
  const last = new Map(answers.map(answer => [answer.agent, answer]));
  const votes = new Map<string, number>();
  for (const answer of last.values()) {
    const said = of(answer);
    if (said === null) return { outcome: null, output: undefined, isTied: false };
    votes.set(said, (votes.get(said) ?? 0) + 1);
  }
  const most = Math.max(0, ...votes.values());
  const [first, second] = [...votes].filter(([, count]) => count === most).map(([said]) => said);
  if (first === undefined) return { outcome: null, output: undefined, isTied: false };
  if (second === undefined) return { outcome: first, output: undefined, isTied: false };
  return { outcome: tie ?? null, output: undefined, isTied: true };
}
