/**
 * fix-escapes: repair illegal backslashes in models' JSON, and change nothing else.
 *
 *   $ printf '%s\n' '{"note":"cost \$5"}' | fw fix-escapes
 *   {"note":"cost \\$5","_fw":{"rung":"repaired","repairs":[{"rule":"illegal-escape","offset":14,"cut":"\\","put":"\\\\"}]}}
 *
 * Reads   any NDJSON: lines that do not parse, and failed steps of items
 * Writes  the same bytes where there is nothing to mend
 * Fails   nothing of its own; what it cannot mend stays failed
 */

import { fixEscapes } from '../engine/answers/escapes.ts';
import { AGENTS_OPTION } from '../engine/asking/agents/asking-options.ts';
import { healed, judges, mapSteps, marked, readAgain, standsAsText } from '../engine/audit/recheck.ts';
import { remember } from '../engine/core/files/origin.ts';
import { type Failure, type Item, isItem, type Repair } from '../engine/core/item/item.ts';
import { wrongShape } from '../engine/core/item/line-shape.ts';
import { lossless } from '../engine/core/json/lossless.ts';
import { isObject, type JsonObject } from '../engine/core/json/pointer.ts';
import { stage } from '../engine/flow/stage.ts';

const ONLY_ESCAPES: ReadonlySet<string> = new Set(['illegal-escape', 'escaped-apostrophe']);

export default stage({
  name: 'fix-escapes',
  summary: "Repair illegal backslashes in models' JSON, and change nothing else.",
  examples: ['fw fix-escapes < out.jsonl | fw validate | fw verify'],
  heals: ['not-json', 'no-valid-answer'],
  mends: true,
  options: AGENTS_OPTION,

  each(options, tools) {
    const judge = judges(options, tools.base);
    return item => {
      if (item.failure?.code === 'not-json') return mendedLine(item, item.failure);
      if (!isItem(item) || item.failure === undefined) return item;
      return healed(mapSteps(item, step => readAgain(step, judge.ofStep(step.agent), ONLY_ESCAPES)));
    };
  },
});

/** A line that was no JSON for its backslashes alone is an object again; any other stays as it is. */
function mendedLine(item: Item, failure: Failure): Item {
  if (!standsAsText(item) || typeof failure.text !== 'string' || typeof item.id === 'string') return item;
  const { text, repairs } = fixEscapes(failure.text);
  if (repairs.length === 0) return item;
  try {
    const value: unknown = JSON.parse(text);
    const loss = lossless(text);
    if (loss) return { ...item, failure: { ...failure, code: loss.code, message: loss.message } };
    // a line that was no JSON cannot have a mark of ours
    const isLine = isObject(value) && !Object.hasOwn(value, '_fw') && wrongShape(value) === null;
    return isLine ? markedLine(text, value, repairs, failure.line) : item;
  } catch {
    return item;
  }
}

/** The mended object, its mark behind its own bytes: spaces and spellings stay, so that the entries can be undone. */
function markedLine(text: string, value: JsonObject, repairs: readonly Repair[], at = 0): Item {
  const item = marked(value, 'repaired', repairs);
  const line = Buffer.from(`${text.trimEnd().slice(0, -1)},"_fw":${JSON.stringify(item._fw)}}\n`);
  remember(item, { block: line, from: 0, to: line.length, number: at });
  return item;
}
