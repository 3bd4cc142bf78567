/**
 * null-fix: give every null that a schema forbids a recorded, conservative default, where there is one.
 *
 *   $ printf '%s\n' '{"decision":"deny","rate":null}' | fw null-fix --schema fixtures/rate.schema.json --defaults fixtures/rate.defaults.yaml
 *   {"decision":"deny","rate":25,"_fw":{"rung":"defaulted","repairs":[{"rule":"null-default","at":"/rate","from":null,"to":25}]}}
 *
 * Reads   items, legacy results, records (with --schema)
 * Writes  the same bytes where nothing is null or missing
 * Fails   null-value, schema-mismatch, where the defaults do not suffice. A decision's confidence has no default: it is
 *         asked again
 */

import { defaultsOf } from '../engine/agents/load.ts';
import { AGENTS_OPTION } from '../engine/agents/options.ts';
import {
  changedStep,
  healed,
  isReadable,
  type Judge,
  judges,
  mapSteps,
  marked,
  ownOf,
} from '../engine/agents/recheck.ts';
import { type Item, isItem, type JsonObject, type Step } from '../engine/flow/item.ts';
import { stage } from '../engine/flow/stage.ts';
import { fill } from '../engine/integrity/fill.ts';
import { holdsNull } from '../engine/integrity/pointer.ts';
import { type Reading, readAnswer } from '../engine/integrity/read-answer.ts';

export default stage({
  name: 'null-fix',
  summary: 'Give every null that a schema forbids a recorded, conservative default, where there is one.',
  examples: ['fw validate < out.jsonl | fw null-fix | fw verify --accept clean,repaired,coerced,defaulted'],
  heals: ['null-value', 'schema-mismatch', 'no-valid-answer'],
  options: {
    ...AGENTS_OPTION,
    schema: {
      type: 'string',
      description: 'JSON Schema for records: a path, or legacy (the default for legacy results).',
    },
    defaults: {
      type: 'string',
      description: 'YAML file of defaults; default: defaults.yaml of the agents folder.',
    },
  },

  each(options, tools) {
    const judge = judges(options, tools.base);
    const defaults = defaultsOf(options, tools.base);
    /** The value with its gaps filled; null where there is none, or where the defaults do not make it fit. */
    const filledBy = (value: JsonObject, { check, name }: Judge) => {
      const filled = fill(value, defaults.get(name) ?? [], check);
      return filled.repairs.length > 0 && check(filled.value).length === 0 ? filled : null;
    };
    const filledStep = (step: Step): Step => {
      const judged = judge.ofStep(step.agent);
      const reading =
        step.output === undefined ? lastReading(step, judged) : { output: step.output, repairs: [] };
      const filled = reading.output && filledBy(reading.output, judged);
      if (!filled) return step;
      return changedStep(step, filled.value, 'defaulted', [...reading.repairs, ...filled.repairs]);
    };
    return item => {
      // only validate can say that a key is missing; a null is seen here, so the stage also works on its own
      if (item.failure === undefined && !holdsNull(item)) return item;
      if (isItem(item)) {
        const after = mapSteps(item, filledStep);
        return after === item || item.failure === undefined ? after : healed(after);
      }
      const judged = judge.ofRecord(item);
      if (judged === null) return item;
      const record = item as Item;
      const own = ownOf(record);
      const filled = own && filledBy(own, judged);
      return filled ? marked(filled.value, 'defaulted', filled.repairs, record._fw) : record;
    };
  },
});

/** The object in the last answer of a failed step, as far as it could be read; nothing of one that was cut off. */
function lastReading(step: Step, { check }: Judge): Pick<Reading, 'output' | 'repairs'> {
  return readAnswer(step.raw ?? '', check, { finish: isReadable(step) ? 'stop' : 'length' });
}
