/** Values of answers and tables as text: what was decided, and what is no value. */
import { isObject, type JsonObject, valueAt } from '../../engine/core/json/pointer.ts';
import { show } from '../../engine/core/json/show.ts';

/** What a table says where there is no value, in any case. Of an outcome and of numbers alone: `None` may be a group. */
const BLANK = new Set(['', 'na', 'n/a', '#n/a', 'nan', 'null', 'none', '-', '--']);

/** Who said what. */
export interface Said {
  agent: string;
  /** an object, or a text, number, boolean or list that is the whole answer; undefined: none */
  output: unknown;
}

/**
 * The outcome in an answer. Of an object: a key of it, a JSON Pointer into it, or `AGENT.output.KEY` as `fw export` names
 * columns. Of any other answer, which has no keys: the agent's name, `AGENT.output`, or `answer`, whoever gave it.
 */
export function outcomeIn(said: Said | undefined, name: string): unknown {
  if (said?.output === undefined) return undefined;
  const { agent, output } = said;
  if (!isObject(output)) {
    if (name === 'answer' || name === agent || name === `${agent}.output`) return output;
    return name.startsWith('/') ? valueAt(output, name) : undefined;
  }
  if (name.startsWith('/')) return valueAt(output, name);
  if (Object.hasOwn(output, name)) return output[name];
  const path = pathIn(agent, name);
  return path === null ? undefined : at(output, path);
}

/** What follows `AGENT.output.` in the name of a column; null where it is not one of that agent. */
export function pathIn(agent: string, name: string): string | null {
  const before = `${agent}.output.`;
  return agent !== '' && name.startsWith(before) && name.length > before.length
    ? name.slice(before.length)
    : null;
}

/** `terms.rate` of an object: its key of that name, else the key `rate` of its key `terms`. */
function at(value: JsonObject, path: string): unknown {
  if (Object.hasOwn(value, path)) return value[path];
  for (let dot = path.indexOf('.'); dot >= 0; dot = path.indexOf('.', dot + 1)) {
    const key = path.slice(0, dot);
    const below = Object.hasOwn(value, key) ? value[key] : undefined;
    if (isObject(below)) return at(below, path.slice(dot + 1));
  }
  return undefined;
}

export function blankless(value: unknown): string | null {
  const text = textOf(value);
  return text === null || BLANK.has(text.toLowerCase()) ? null : text;
}

/** A scalar as text, without space around it; null for none, an empty one, and for what is no scalar. */
export function textOf(value: unknown): string | null {
  if (typeof value === 'number' || typeof value === 'boolean') return String(value);
  const text = typeof value === 'string' ? value.trim() : '';
  return text === '' ? null : text;
}

/** A value in the place of an outcome, as it is listed where it is none: `N/A`, `an object`, '' for an empty one. */
export function listed(value: unknown): string {
  if (value === undefined || value === null) return '';
  return typeof value === 'object' ? show(value) : (textOf(value) ?? '');
}
