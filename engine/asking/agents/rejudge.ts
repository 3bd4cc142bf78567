/**
 * Rules of judging change from one version of fw to the next. Answers on record are judged again by today's rules, so
 * an answer that was accepted may be asked again. A run says how many before it asks the first one.
 */

import type { RecordedAnswer } from '../../core/item/call.ts';
import type { Code } from '../../core/item/codes.ts';
import { counted } from '../../core/item/wording.ts';
import { readReply } from './ask.ts';
import { checkOf } from './form.ts';
import type { Agents } from './load-agents.ts';

/**
 * Version of the rules by which an answer is accepted. Raise it when an answer that was accepted is refused from now on.
 * Runs of version 1 did not write it down.
 */
export const RULES = 4;

export interface Rejudged {
  /** answers of these agents that were accepted when they were recorded */
  accepted: number;
  /** those of them that today's rules refuse, by the code of the refusal */
  refused: Map<Code, number>;
}

export function rejudge(answers: Iterable<RecordedAnswer>, agents: Agents): Rejudged {
  const checks = new Map([...agents.byKey.values()].map(agent => [agent.key, checkOf(agent)]));
  const rejudged: Rejudged = { accepted: 0, refused: new Map() };
  for (const { agent, ...answer } of answers) {
    const check = checks.get(agent);
    if (check === undefined) continue;
    rejudged.accepted += 1;
    const { problem } = readReply(answer, check);
    if (problem) rejudged.refused.set(problem.code, (rejudged.refused.get(problem.code) ?? 0) + 1);
  }
  return rejudged;
}

/** One sentence for a person; null where today's rules refuse none. */
export function describeRejudged({ accepted, refused }: Rejudged): string | null {
  const sum = [...refused.values()].reduce((all, one) => all + one, 0);
  if (sum === 0) return null;
  const causes = [...refused]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([code, count]) => `${count.toLocaleString('en')} ${code}`);
  return (
    `the ledger has ${counted(accepted, 'answer')} that an earlier version of fw accepted; ` +
    `today's rules refuse ${sum.toLocaleString('en')} of them (${causes.join(', ')}). ` +
    'This run asks again those that it needs, and every answer that had read one of them.'
  );
}
