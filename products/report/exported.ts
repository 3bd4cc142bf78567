/** A row of a table that `fw export` wrote, as the item that it was: its answers, rungs and failure count as they do there. */
import { RUNGS, type Rung } from '../../engine/core/item/item.ts';
import { isObject, type JsonObject } from '../../engine/core/json/pointer.ts';

/** What a table holds of an item. */
export interface ExportedItem extends JsonObject {
  rung: Rung;
  input: JsonObject;
}

/** `KEY.rung` and so on are of an agent; `failure.`, `input.` and keys of the item are not. */
const OF_ITEM = new Set(['failure', 'input']);
const PART = /^(?:output|rung|saw|attempts|shared|usage)(?:\.|$)/;

interface Parts {
  /** column, and the keys from the answer on: `output`, `output.rate`, `usage.prompt` */
  of: { column: string; part: string }[];
}

interface Layout {
  answers: Map<string, Parts>;
  inputs: { column: string; name: string }[];
}

const layouts = new Map<string, Layout>();
const MOST_LAYOUTS = 64;

/** Null for a row of another table. A row of an export has an id, and a rung that is one. */
export function exportedItem(row: JsonObject): ExportedItem | null {
  if (!Object.hasOwn(row, 'id') || !RUNGS.includes(row.rung as Rung)) return null;
  const columns = Object.keys(row);
  const key = columns.join('\n');
  let layout = layouts.get(key);
  if (layout === undefined) {
    layout = layoutOf(columns);
    if (layouts.size >= MOST_LAYOUTS) layouts.clear();
    layouts.set(key, layout);
  }
  return itemOf(row, layout);
}

function layoutOf(columns: readonly string[]): Layout {
  const answers = new Map<string, Parts>();
  const inputs: Layout['inputs'] = [];
  for (const column of columns) {
    if (column.startsWith('input.')) inputs.push({ column, name: column.slice('input.'.length) });
    const found = answerOf(column);
    if (found === null) continue;
    const parts = answers.get(found.agent) ?? { of: [] };
    answers.set(found.agent, parts);
    parts.of.push({ column, part: found.part });
  }
  // a table of somebody else's may have a column `x.rung`, and no answers
  for (const [agent, { of }] of answers)
    if (!of.some(({ part }) => part.startsWith('output'))) answers.delete(agent);
  return { answers, inputs };
}

/** `risk.output.rate`, `risk#2.rung`, and in quotes where two columns would have one name: `steps."input".rung`. */
function answerOf(column: string): { agent: string; part: string } | null {
  const quoted = /^(?:steps\.)?"((?:[^"\\]|\\.)*)"\.(.*)$/s.exec(column);
  if (quoted) {
    const [, agent = '', part = ''] = quoted;
    // without `steps.` it is a key of the item, but for the decision, which is one
    return PART.test(part) && (column.startsWith('steps.') || agent === 'decision') ? { agent, part } : null;
  }
  for (let dot = column.indexOf('.'); dot > 0; dot = column.indexOf('.', dot + 1)) {
    const [agent, part] = [column.slice(0, dot), column.slice(dot + 1)];
    if (PART.test(part)) return OF_ITEM.has(agent) ? null : { agent, part };
  }
  return null;
}

function itemOf(row: JsonObject, { answers, inputs }: Layout): ExportedItem {
  const { ordering, prompt } = row;
  // a line of a batch goes by the name of its request
  const id = textIn(row, 'custom_id') ?? row.id;
  const steps: JsonObject[] = [];
  let decision: JsonObject | undefined;
  for (const [agent, parts] of answers) {
    const step = stepOf(row, agent, parts);
    if (step === null) continue;
    if (agent === 'decision') decision = step;
    else steps.push(step);
  }
  const order = orderOf(ordering);
  if (order) steps.sort((a, b) => place(order, a) - place(order, b));
  const code = textIn(row, 'failure.code');
  return {
    id,
    ...(prompt !== '' && { prompt }),
    row: numberIn(row, 'row') ?? undefined,
    sample: numberIn(row, 'sample') ?? undefined,
    ...(order && { ordering: order }),
    input: Object.fromEntries(inputs.map(({ column, name }) => [name, row[column]])),
    steps,
    ...(decision && { decision }),
    ...(code !== null && {
      failure: {
        stage: textIn(row, 'failure.stage') ?? '',
        code,
        message: textIn(row, 'failure.message') ?? '',
      },
    }),
    rung: code === null ? (row.rung as Rung) : 'failed',
  };
}

/** Null where the row has no answer of that agent. */
function stepOf(row: JsonObject, name: string, { of }: Parts): JsonObject | null {
  const values = new Map<string, unknown>();
  const output: JsonObject = {};
  for (const { column, part } of of) {
    const value = row[column];
    if (value === '' || value === null || value === undefined) continue;
    if (part.startsWith('output.')) put(output, part.slice('output.'.length), typedOf(value));
    else values.set(part, value);
  }
  if (values.size === 0 && Object.keys(output).length === 0) return null;
  const whole = values.get('output');
  const number = (part: string): number => Number(values.get(part) ?? 0) || 0;
  return {
    // the second answer of an agent is `risk#2`
    agent: name === 'decision' ? 'decision' : name.replace(/#\d+$/, ''),
    ...(Object.keys(output).length > 0 ? { output } : whole !== undefined && { output: typedOf(whole) }),
    rung: values.has('rung') ? rungIn(values.get('rung')) : 'unknown',
    attempts: number('attempts'),
    usage: { prompt: number('usage.prompt'), completion: number('usage.completion') },
    ...(typeof values.get('shared') === 'string' && { shared: values.get('shared') }),
  };
}

const rungIn = (value: unknown): Rung => (RUNGS.includes(value as Rung) ? (value as Rung) : 'failed');

/** `terms.rate` is the key `rate` of the key `terms`, since an object became columns; both names find it. */
function put(into: JsonObject, path: string, value: unknown): void {
  const dot = path.indexOf('.');
  const key = dot < 0 ? path : path.slice(0, dot);
  const before = Object.hasOwn(into, key) ? into[key] : undefined;
  const isBelow = dot > 0 && (before === undefined || isObject(before));
  const own = isBelow ? (before ?? {}) : value;
  Object.defineProperty(into, isBelow ? key : path, {
    ...{ value: own, enumerable: true, configurable: true, writable: true },
  });
  if (isBelow) put(own as JsonObject, path.slice(dot + 1), value);
}

const NUMBER = /^-?(?:0|[1-9]\d{0,14})(?:\.\d{1,17})?(?:e[+-]?\d{1,3})?$/i;

/** CSV has no types: what is written as a number is one; a text of JSON, from a column of several types, is that text. */
function typedOf(value: unknown): unknown {
  if (typeof value === 'bigint') return Number(value);
  if (typeof value !== 'string') return value;
  if (NUMBER.test(value)) return Number(value);
  if (!value.startsWith('"') || !value.endsWith('"') || value.length < 2) return value;
  try {
    return JSON.parse(value);
  } catch {
    return value;
  }
}

function textIn(row: JsonObject, column: string): string | null {
  const value = row[column];
  return typeof value === 'string' && value !== '' ? value : null;
}

function numberIn(row: JsonObject, column: string): number | null {
  const value = Number(row[column]);
  return row[column] !== '' && Number.isSafeInteger(value) ? value : null;
}

/** A list as its JSON text. */
function orderOf(ordering: unknown): string[] | null {
  if (typeof ordering !== 'string' || !ordering.startsWith('[')) return null;
  try {
    const keys: unknown = JSON.parse(ordering);
    return Array.isArray(keys) && keys.every(key => typeof key === 'string') ? keys : null;
  } catch {
    return null;
  }
}

function place(order: readonly string[], { agent }: JsonObject): number {
  const at = order.indexOf(agent as string);
  return at < 0 ? order.length : at;
}
