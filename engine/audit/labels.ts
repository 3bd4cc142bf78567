/**
 * What a file says of all its results, in its name (`sequential_risk_data_legacy.json`) or in the metadata of a document,
 * against the results: the older scripts' readers take the ordering from there, and once they mixed agents up.
 */

import type { Agents } from '../asking/agents/load-agents.ts';
import { resolveOrdering } from '../asking/agents/orderings.ts';
import { originOf } from '../core/files/origin.ts';
import { Fatal } from '../core/item/failure.ts';
import type { Item } from '../core/item/item.ts';
import { isObject } from '../core/json/pointer.ts';
import { show } from '../core/json/show.ts';
import { visible } from '../core/json/visible.ts';
import { broken, type Violation } from './legacy/leftovers.ts';

/** A name of a file that says an ordering; others say none. */
const NAMES_ORDERING = /^sequential_/;

/** Finds a legacy result that has another ordering than its file says. A label that is no ordering says nothing. */
export function labelCheck(agents: () => Agents): (line: Item) => Violation | null {
  const known = new Map<string, string | null>();
  const orderingIn = (label: string): string | null => {
    const before = known.get(label);
    if (before !== undefined) return before;
    const found = keysIn(label, agents());
    if (known.size < MOST_KEPT) known.set(label, found);
    return found;
  };
  return line => {
    const own: unknown = line.ordering;
    const source = originOf(line)?.source;
    if (source === undefined) return null;
    const name = source.name.split(/[/\\]/).at(-1) as string;
    const labels: [string, string][] = NAMES_ORDERING.test(name)
      ? [[name, `the name of its file, ${name}`]]
      : [];
    const { ordering } = source;
    if (typeof ordering === 'string')
      labels.push([ordering, `the metadata of its document, ${show(ordering)}`]);
    for (const [label, says] of labels) {
      const claimed = orderingIn(label);
      if (claimed === null || claimed === own) continue;
      const expected = `${claimed}, as in ${says}`;
      return broken('ordering', '/ordering', expected, show(own));
    }
    return null;
  };
}

export interface DocumentCheck {
  see(line: Item): void;
  /** what is wrong with documents, each once */
  findings(): string[];
}

/** Documents that findings name. */
const MOST_NAMED = 10;

/**
 * Documents that have metadata before their results, as fw and the older scripts' last version write them: these name the
 * model, and the results are sorted by row. A document without metadata is an older one, of which nothing is asked.
 */
export function documentCheck(): DocumentCheck {
  const rows = new WeakMap<object, number>();
  const found = new Set<string>();
  const add = (name: string, what: string): void => {
    if (found.size < MOST_NAMED) found.add(`${visible(name)}: ${what}`);
  };
  return {
    see(line) {
      const source = originOf(line)?.source;
      if (source?.metadata === undefined) return;
      const { name, metadata } = source;
      const before = rows.get(source);
      const model = isObject(metadata) ? metadata.model : undefined;
      if (before === undefined && (typeof model !== 'string' || model.trim() === ''))
        add(
          name,
          `/metadata/model: expected the model that answered (unknown, where nobody knows), got ${show(model)}`,
        );
      const { prompt_id: row } = line;
      if (typeof row !== 'number') return;
      if (before !== undefined && row < before)
        add(name, `/results: expected results sorted by prompt_id, got row ${row} behind row ${before}`);
      rows.set(source, row);
    },
    findings: () => [...found],
  };
}

/** Files have few labels. Documents end to end could have any number. */
const MOST_KEPT = 10_000;

function keysIn(label: string, agents: Agents): string | null {
  try {
    return resolveOrdering(label, agents).join();
  } catch (error) {
    if (error instanceof Fatal) return null;
    throw error;
  }
}
