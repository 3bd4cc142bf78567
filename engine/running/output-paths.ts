/** The paths of outputs: one, or one for each value of `{ordering}` in the target of a pipeline. */
import { resolve } from 'node:path';
import { agentsOf } from '../asking/agents/asking-options.ts';
import type { Agents } from '../asking/agents/load-agents.ts';
import { orderingLabel, resolveOrdering } from '../asking/agents/orderings.ts';
import { isKept } from '../core/files/saving.ts';
import { Fatal, usageError } from '../core/item/failure.ts';
import type { Item } from '../core/item/item.ts';
import { isTexts } from '../core/item/line-shape.ts';
import type { Values } from '../flow/options.ts';
import type { Targets } from './outputs.ts';
import type { Pipeline } from './pipeline.ts';

/**
 * The path of every line, or, where `{ordering}` is in `target`, that for a line: `{ordering}` becomes the short names of its agents, as in the files of the older scripts, and
 * `unordered` where a line has none, or one that is not understood.
 */
export function namer(target: string, row: readonly { options: Values }[], base: string): Targets {
  const [before, after, ...more] = target.split('{ordering}');
  if (more.length > 0 || /[{}]/.test(`${before}${after ?? ''}`)) {
    throw usageError(`output: expected a path with at most one {ordering} in it, found '${target}'`);
  }
  if (after === undefined) return { always: target, of: () => target };
  const withAgents = row.find(({ options }) => options.agents !== undefined) ?? row[0];
  const agents = agentsOf({ agents: withAgents?.options.agents as string | undefined }, { base });
  const labels = new Map<string, string>();
  const of = (line: Item): string => {
    const { ordering } = line as { ordering?: unknown };
    const keys = isTexts(ordering) ? ordering.join(',') : typeof ordering === 'string' ? ordering : '';
    const label = labels.get(keys) ?? labelOf(keys, agents);
    if (label !== UNORDERED) labels.set(keys, label);
    return `${before}${label}${after}`;
  };
  return { always: null, of };
}

/** The files that fit the pattern `target` and that this run did not write, unfinished ones too. */
export async function othersOf(target: string, written: readonly string[]): Promise<string[]> {
  const [before = '', after] = target.split('{ordering}');
  if (after === undefined) return [];
  const { default: glob } = await import('fast-glob');
  const escaped = (text: string): string => text && glob.escapePath(text);
  const pattern = `${escaped(before)}*${escaped(after)}`;
  const found = await glob([pattern, `${pattern}.*.partial`]);
  const own = new Set(written.map(path => resolve(path)));
  return found.filter(path => !isKept(path) && !own.has(resolve(path))).sort();
}

const UNORDERED = 'unordered';

/** What a line says is never a part of a path but as names that the agents folder has. */
function labelOf(keys: string, agents: Agents): string {
  if (keys === '') return UNORDERED;
  try {
    return orderingLabel(resolveOrdering(keys, agents), agents, '_');
  } catch (error) {
    if (error instanceof Fatal) return UNORDERED;
    throw error;
  }
}

/** The output that a pipeline file names: for lines as it is written there, `.json` where its stages write a document. */
export function outputOf({ output, row }: Pick<Pipeline, 'output' | 'row'>): string | undefined {
  const isDocument = row.some(({ stage, options }) => stage.frame?.(options)?.isDocument === true);
  return isDocument ? output?.replace(/\.(?:jsonl|ndjson)$/, '.json') : output;
}
