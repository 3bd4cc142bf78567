/**
 * An item as cells: its values by the dotted names of their columns. An object is a column for each of its keys, all the
 * way down; a list, an empty object and any other value is a cell. The answers of an item have the names of their agents
 * in front, wherever in the ordering they come.
 *
 *   {"id": "7", "input": {"text": "…"}, "steps": [{"agent": "triage", "output": {"urgency": "low"}, "rung": "clean", …}]}
 *   → id, rung, input.text, triage.output.urgency, triage.rung, …
 *
 * The answer of a raw request, and of a line of a batch, has its text in a column `answer`: in the body it is in a list.
 */
import { failureOf, type Item, idOf, isRawRequest, rungOf, type Step } from '../../core/item/item.ts';
import { answerText, isBatchResult } from '../../core/item/response.ts';
import { isObject, type JsonObject } from '../../core/json/pointer.ts';

/** Where a column is from: a key of the item, an answer of an agent, or neither (the rung of the item, the text of an answer). */
export type Origin = 'item' | 'step' | 'made';

/** A place in items: a column if `columnOf` says so, and the places below it. */
export interface Place {
  readonly origin: Origin;
  readonly key: string;
  readonly above: Place | null;
  readonly below: Map<string, Place>;
  /** objects are not taken apart here: they have too many different keys */
  isWhole: boolean;
}

/** What walks along with an item: it finds or makes the place of a key, and hears of the values. */
export interface Visitor<P extends Place> {
  /** null: nothing below is wanted */
  placeOf(above: P | null, origin: Origin, key: string): P | null;
  cell(place: P, value: unknown): void;
}

/** Depth is that of a line: at most 512 levels. */
export function visit<P extends Place>(item: Item, visitor: Visitor<P>): void {
  const { steps, ...others } = item;
  const answers = answersOf(steps);
  see(null, 'item', 'id', item.id ?? idOf(item));
  see(null, 'made', 'rung', rungOf(item));
  const failure = failureOf(item);
  if (item.failure === undefined) see(null, 'item', 'failure', failure);
  if (failure === undefined) see(null, 'made', 'answer', answerText(bodyOf(item)));
  for (const [key, value] of Object.entries(others)) if (key !== 'id') see(null, 'item', key, value);
  if (answers === null) see(null, 'item', 'steps', steps);
  else {
    for (const [name, { agent: _, ...step }] of answers) see(null, 'step', name, step);
  }

  function see(above: P | null, origin: Origin, key: string, value: unknown): void {
    if (value === undefined) return;
    const place = visitor.placeOf(above, origin, key);
    if (place === null) return;
    const keys = place.isWhole ? [] : keysOf(value);
    if (keys.length === 0) return visitor.cell(place, value);
    for (const below of keys) see(place, origin, below, (value as JsonObject)[below]);
    // with this key they may have become too many
    if (place.isWhole) visitor.cell(place, value);
  }
}

/** What a server answered to the request of a line; undefined where it is of another kind. */
function bodyOf(item: Item): unknown {
  if (isBatchResult(item)) return isObject(item.response) ? item.response.body : undefined;
  const [step] = isRawRequest(item.request) && Array.isArray(item.steps) ? item.steps : [];
  return step?.response?.body;
}

const keysOf = (value: unknown): string[] =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? Object.keys(value) : [];

/** The steps by the names of their agents; an agent that answered twice is `risk` and `risk#2`. Null: they are no steps. */
function answersOf(steps: unknown): Map<string, Step> | null {
  if (!Array.isArray(steps) || steps.length === 0) return steps === undefined ? new Map() : null;
  const answers = new Map<string, Step>();
  for (const step of steps as (Step | null)[]) {
    if (typeof step !== 'object' || step === null || typeof step.agent !== 'string') return null;
    let name = step.agent;
    for (let nth = 2; answers.has(name); nth++) name = `${step.agent}#${nth}`;
    answers.set(name, step);
  }
  return answers;
}
