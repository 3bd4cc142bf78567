/**
 * validate: check answers and records against their schemas, and coerce what can be coerced without guessing.
 *
 *   $ echo '{"rate":"8.5%"}' | fw validate --schema fixtures/rate.schema.json
 *   {"rate":8.5,"_fw":{"rung":"coerced","repairs":[{"rule":"percent","at":"/rate","from":"8.5%","to":8.5}]}}
 *
 * Reads   items (each step by its agent's schema), legacy results, any other record (by --schema, else any object)
 * Writes  the same bytes where all fits
 * Fails   null-value, where nulls are all that is wrong (null-fix heals it); schema-mismatch
 */

import { codeOf, coerce, FIXES } from '../engine/answers/read-answer.ts';
import { describeRules } from '../engine/answers/rules.ts';
import type { Check } from '../engine/answers/schema-check.ts';
import { AGENTS_OPTION } from '../engine/asking/agents/asking-options.ts';
import { type AnswerPlace, answerPlace } from '../engine/asking/agents/reopen.ts';
import {
  changedStep,
  healed,
  judges,
  mapSteps,
  marked,
  ownOf,
  readAgain,
  SCHEMA_OPTION,
} from '../engine/audit/recheck.ts';
import { ItemFailure, usageError } from '../engine/core/item/failure.ts';
import { type Item, isCalls, isItem, type Step } from '../engine/core/item/item.ts';
import { summarise } from '../engine/core/json/show.ts';
import { namesIn } from '../engine/flow/options.ts';
import { stage } from '../engine/flow/stage.ts';

export default stage({
  name: 'validate',
  summary: 'Check answers and records against their schemas; coerce what can be coerced without guessing.',
  examples: [
    'fw validate < out.jsonl | fw null-fix | fw verify',
    'fw validate --schema note.schema.json notes.ndjson',
    'fw validate --skip weights-to-sum,fraction < out.jsonl',
    'fw validate --rules',
  ],
  heals: ['no-valid-answer', 'schema-mismatch', 'null-value'],
  options: {
    ...AGENTS_OPTION,
    ...SCHEMA_OPTION,
    skip: {
      type: 'array',
      items: { type: 'string' },
      description: 'Rules to skip, comma-separated; --rules lists them.',
    },
    rules: {
      type: 'boolean',
      description: 'List every rule with the rung it leads to, and exit.',
    },
  },
  tells: options => (options.rules ? describeRules() : undefined),

  each(options, tools) {
    if (options.rules) throw usageError('--rules: expected on a command line, found in a pipeline');
    const judge = judges(options, tools.base);
    const skipped = namesIn(options.skip);
    const unknown = skipped.find(rule => !FIXES.has(rule));
    if (unknown !== undefined)
      throw usageError(`--skip: expected a rule (${[...FIXES].join(', ')}), found '${unknown}'`);
    const fixes = new Set([...FIXES].filter(rule => !skipped.includes(rule)));

    const checkedStep = (step: Step, at: string): Step => {
      const judged = judge.ofStep(step.agent);
      if (step.output === undefined) return readAgain(step, judged, fixes);
      if (judged.check.calls && isCalls(step)) return step; // nobody said in which form a tool is called
      const { value, repairs } = fitting(step.output, judged.check, fixes, () => ({ agent: step.agent, at }));
      return repairs.length === 0 ? step : changedStep(step, value, 'coerced', repairs);
    };
    return item => {
      if (isItem(item)) return afresh(item, mapSteps(item, checkedStep));
      const judged = judge.ofRecord(item);
      if (judged === null) return item;
      const record = item as Item;
      const own = ownOf(record);
      if (own === null) return record;
      const { value, repairs } = fitting(own, judged.check, fixes, place => answerPlace(own, place));
      if (repairs.length > 0) return marked(value, 'coerced', repairs, record._fw);
      if (record.failure === undefined) return record;
      const { failure: _failure, ...fits } = record;
      return fits as Item;
    };
  },
});

/** An item that had failed here before and fits now has no failure any more. */
function afresh(before: Item, after: Item): Item {
  return before.failure === undefined ? after : healed(after);
}

function fitting<T>(
  value: T,
  check: Check,
  fixes: ReadonlySet<string>,
  whose: (place: string) => AnswerPlace | null,
) {
  const result = coerce(value, check, fixes);
  if (result.findings.length === 0) return { value: result.value as T, repairs: result.repairs };
  const place = whose(result.findings[0]?.at ?? '');
  throw new ItemFailure(codeOf(result.findings), summarise(result.findings), place ?? {});
}
