/** What was named of a study, and by what its outcomes are judged. */
import type { AllowedValues } from './allowed.ts';
import type { ReadOut } from './read-out.ts';
import type { Source } from './source.ts';
import { type OutcomeRule, outcomeRule } from './values.ts';

/** What was named: see the options of `fw report`. */
export interface Asked {
  groups: readonly string[];
  outcome: string;
  /** the values that are approvals, as a person reads them: `approve`, `1 or approve` */
  approve: string;
  /** as they were named; absent: `approve` alone */
  approvals?: readonly string[] | undefined;
  /** absent: of --approve alone */
  rule?: OutcomeRule | undefined;
  /** absent: no schema says what an outcome may be */
  allowed?: AllowedValues | undefined;
  /** whose answer counts; absent: the decision, else the last answer */
  agent?: string | undefined;
  /** how the outcome is read out of a chain; absent: its decision, else its last answer */
  readOut?: ReadOut | undefined;
  /** what a majority of equal halves counts as; absent: it has no outcome */
  tie?: string | undefined;
  /** columns in which twins are alike */
  twins: readonly string[];
  /** a column of numbers */
  risk?: string | undefined;
  /** the table that was asked */
  source?: Source | undefined;
}

const rules = new WeakMap<Asked, OutcomeRule>();

/** By what outcomes are judged. */
export function ruleOf(asked: Asked): OutcomeRule {
  const rule = asked.rule ?? rules.get(asked) ?? outcomeRule({ approve: [asked.approve], tie: asked.tie });
  rules.set(asked, rule);
  return rule;
}
