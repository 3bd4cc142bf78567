/**
 * null-fix: replace nulls that a schema forbids with conservative defaults, and record each change.
 *
 *   $ printf '%s\n' '{"decision":"deny","rate":null}' | fw null-fix --schema fixtures/rate.schema.json --defaults fixtures/rate.defaults.yaml
 *   {"decision":"deny","rate":25,"_fw":{"rung":"defaulted","repairs":[{"rule":"null-default","at":"/rate","from":null,"to":25}]}}
 *
 * Reads   items, legacy results, records (with --schema)
 * Writes  the same bytes where nothing is null or missing
 * Fails   null-value, schema-mismatch, where the defaults do not suffice. What an agent is asked for again (a decision's
 *         confidence) is never filled, whatever the defaults say. With --mark-only every line that would be filled
 */

import { fill } from '../engine/answers/defaults.ts';
import { readAnswer } from '../engine/answers/read-answer.ts';
import { AGENTS_OPTION } from '../engine/asking/agents/asking-options.ts';
import { defaultsOf } from '../engine/asking/agents/load-agents.ts';
import {
  changedStep,
  healed,
  isReadable,
  type Judge,
  judges,
  mapSteps,
  marked,
  ownOf,
  SCHEMA_OPTION,
} from '../engine/audit/recheck.ts';
import { type Item, isItem, isRawRequest, type Repair, type Step } from '../engine/core/item/item.ts';
import { holdsNull, isObject, type JsonObject, same } from '../engine/core/json/pointer.ts';
import { shorten } from '../engine/core/json/show.ts';
import { stage, withFailure } from '../engine/flow/stage.ts';

export default stage({
  name: 'null-fix',
  summary: 'Replace nulls that a schema forbids with conservative defaults, and record each change.',
  examples: ['fw validate < items.jsonl | fw null-fix | fw verify --accept clean,repaired,coerced,defaulted'],
  heals: ['null-value', 'schema-mismatch', 'no-valid-answer'],
  options: {
    ...AGENTS_OPTION,
    ...SCHEMA_OPTION,
    defaults: {
      type: 'string',
      file: 'read',
      from: 'base',
      description: 'YAML file of defaults. Default: defaults.yaml in the agents folder.',
    },
    'mark-only': {
      type: 'boolean',
      description: 'Fill nothing; instead fail the line, and list what would be filled under failure.would.',
    },
  },

  each(options, tools) {
    const judge = judges(options, tools.base);
    const defaults = defaultsOf(options, tools.base);
    /** The value with its gaps filled; null where there is none, or where the defaults do not make it fit. */
    const filledBy = (value: JsonObject, { check, name, asked }: Judge) => {
      const rules = defaults.get(name);
      if (rules === undefined) return null;
      const filled = fill(value, rules, check, asked());
      return filled.repairs.length > 0 && check.findings(filled.value, true).length === 0 ? filled : null;
    };
    /** A record that validate has just judged by the same schema has no gap. */
    const fitted = (item: Item): boolean =>
      !isItem(item) && judge.ofRecord(item)?.check.fittedLast(item) === true;
    const filledIn = (step: Step) => {
      const judged = judge.ofStep(step.agent);
      const { output } = step;
      const reading = output === undefined ? lastReading(step, judged) : { output, repairs: [] };
      const filled = isObject(reading.output) ? filledBy(reading.output, judged) : null;
      return filled ? { value: filled.value, repairs: filled.repairs, before: reading.repairs } : null;
    };
    const filledStep = (step: Step): Step => {
      const filled = filledIn(step);
      return filled
        ? changedStep(step, filled.value, 'defaulted', [...filled.before, ...filled.repairs])
        : step;
    };
    const filled = (item: Item): Item => {
      if (isItem(item)) {
        const after = mapSteps(item, filledStep);
        return after === item || item.failure === undefined ? after : healed(after);
      }
      const judged = judge.ofRecord(item);
      const record = item as Item;
      const own = ownOf(record);
      const after = judged && own && filledBy(own, judged);
      return after ? marked(after.value, 'defaulted', after.repairs, record._fw) : record;
    };
    const onlyMarked = (item: Item): Item => {
      const would: Would[] = [];
      if (isItem(item)) {
        for (const [at, step] of placesOf(item)) {
          for (const entry of filledIn(step)?.repairs ?? [])
            would.push({ ...entry, at: `${at}/output${entry.at}`, agent: step.agent });
        }
      } else {
        const judged = judge.ofRecord(item);
        const own = ownOf(item as Item);
        would.push(...((judged && own && filledBy(own, judged)?.repairs) ?? []));
      }
      return markedOnly(item, would);
    };
    return item => {
      // only validate can say that a key is missing; a null is seen here, so the stage also works on its own
      if (item.failure === undefined && (fitted(item) || !holdsNull(item))) return item;
      return options['mark-only'] ? onlyMarked(item) : filled(item);
    };
  },
});

function placesOf({ request, steps = [], decision }: Item): [string, Step][] {
  if (isRawRequest(request)) return []; // its answers are nobody's to fill
  const places = steps.map((step, index): [string, Step] => [`/steps/${index}`, step]);
  return decision ? [...places, ['/decision', decision]] : places;
}

/** An entry that null-fix would make, its pointer into the line. */
type Would = Repair & { agent?: string };

/** The line failed, with what would be filled; as it came where that is nothing, or was noted before. */
function markedOnly(item: Item, would: readonly Would[]): Item {
  const [first] = would;
  if (first === undefined || same(item.failure?.would, would)) return item;
  const { agent } = first;
  const failure = item.failure ?? {
    stage: 'null-fix',
    ...(agent !== undefined && { agent }),
    code: would.every(({ from }) => from === null) ? 'null-value' : 'schema-mismatch',
    message: `nothing was filled (--mark-only) at ${shorten(would.map(({ at }) => at).join(', '))}`,
  };
  return withFailure(item, { ...failure, would });
}

/** The object in the last answer of a failed step, as far as it could be read; nothing of one that was cut off. */
function lastReading(step: Step, { check }: Judge): Pick<Step, 'output' | 'repairs'> {
  return readAnswer(step.raw ?? '', check, { finish: isReadable(step) ? 'stop' : 'length' });
}
