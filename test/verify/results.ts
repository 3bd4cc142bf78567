/** Results of the study and the items that they were made of, as many as one likes: the i-th follows from i alone. */

import { join } from 'node:path';
import { sawIn } from '../../engine/asking/agents/arrangement.ts';
import { loadAgents } from '../../engine/asking/agents/load-agents.ts';
import { legacyResult } from '../../engine/audit/legacy/legacy-result.ts';
import { type Item, type Step, worse } from '../../engine/core/item/item.ts';
import type { JsonObject } from '../../engine/core/json/pointer.ts';
import { ROOT } from '../fw.ts';

export const FOLDER = join(ROOT, 'pipelines/fairwatch/agents');
export const agents = loadAgents(FOLDER);
const orderings = agents.orderings.get('batch4') as string[][];

const REASONS = [
  'The instalment leaves enough of the income.',
  'Zürich · 東京 · “as filed”… 😀',
  'a string of payments | no text, no reason',
  'Short',
];
const pick = <T>(list: readonly T[], at: number): T => list[at % list.length] as T;

function answerOf(agent: string, i: number): JsonObject {
  const isDecision = agent === agents.synthesis?.key;
  const confidence = 1 + ((i * 37) % 100);
  const reasons = isDecision
    ? ['synthesis_rationale', 'weight_justification', 'risk_assessment']
    : ['approval_decision_reason', 'approval_type_reason', 'interest_rate_reason', 'confidence_reason'];
  return {
    agent_name: agents.byKey.get(agent)?.display,
    loan_type: 'personal_loan',
    approval_decision: pick(['approve', 'deny'], i),
    approval_type: pick(['STANDARD_TERMS', 'SUBOPTIMAL_TERMS', 'MANUAL_REVIEW', 'DENIAL'], i),
    interest_rate: 3 + ((i * 7) % 89) / 4,
    confidence_probability: confidence,
    confidence_level: pick(['low', 'medium', 'high'], i),
    ...(isDecision && {
      agent_influence: {
        risk_manager_weight: 0.4,
        regulatory_weight: 0.3,
        data_science_weight: 0.2,
        consumer_advocate_weight: 0.1,
        primary_influence: pick(orderings[0] as string[], i),
      },
    }),
    reasoning: Object.fromEntries(reasons.map((key, at) => [key, pick(REASONS, i + at)])),
  };
}

const stepOf = (agent: string, i: number): Step => ({
  agent,
  output: answerOf(agent, i),
  rung: 'clean',
  saw: 'clean',
  repairs: [],
  calls: [`call ${i} of ${agent}`],
  attempts: 1,
  usage: { prompt: 80, completion: 20 },
});

export function itemOf(i: number): Item {
  const ordering = pick(orderings, i);
  return {
    id: `row ${i}`,
    row: i + 1,
    prompt: `May applicant ${i} have the loan?\n\nName: ${pick(['Zoë', '李', '😀 "Q"', 'Ann\u2028'], i)}`,
    ordering,
    steps: ordering.map((agent, at) => stepOf(agent, i + at)),
    decision: stepOf('business_decision', i),
  };
}

/** The item with what each of its agents saw: the rungs of the answers before, and no better than it says itself. */
export function withSaw(item: Item): Item {
  const steps: Step[] = [];
  for (const step of item.steps ?? []) steps.push({ ...step, saw: worse(step.saw, sawIn(steps)) });
  const { decision } = item;
  return {
    ...item,
    steps,
    ...(decision && { decision: { ...decision, saw: worse(decision.saw, sawIn(steps)) } }),
  };
}

/** Parsed from its text, as every line is: no two places share an object. */
export const resultOf = (i: number): JsonObject =>
  JSON.parse(JSON.stringify(legacyResult(itemOf(i), agents, '2026-03-01T09:30:00Z')));
