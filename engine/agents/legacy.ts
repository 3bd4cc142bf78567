/** The strict legacy document: what the older scripts wrote for one application and one ordering, rebuilt from an item. */
import { ItemFailure } from '../flow/failure.ts';
import type { Item, JsonObject, Repair, Rung, Step } from '../flow/item.ts';
import { rungOf } from '../flow/item.ts';
import { contextAfter } from './context.ts';
import type { Agents } from './load.ts';

/**
 * One result, its keys in the order in which the older scripts wrote them. `input` of a turn is the whole text that
 * the agent was shown. Fails an item that lacks its row, a prompt, an answer of its ordering or its decision.
 */
export function legacyResult(item: Item, agents: Agents, timestamp: string): JsonObject {
  const { row, prompt, ordering, steps = [], decision } = item;
  if (!Number.isSafeInteger(row) || (row as number) < 1) {
    throw new ItemFailure(
      'no-row',
      `expected the row of the source, a whole number from 1, found ${JSON.stringify(row) ?? 'none'}`,
    );
  }
  if (typeof prompt !== 'string' || prompt.trim() === '') {
    throw new ItemFailure('empty-prompt', 'expected the prompt that was asked, found none');
  }
  const order = steps.map(step => step.agent);
  const due = ordering ?? order;
  if (steps.length === 0 || steps.length < due.length) {
    const found = steps.length === 0 ? 'none' : order.join(', ');
    throw new ItemFailure(
      'no-steps',
      `expected answers of ${due.join(', ') || 'at least one agent'}, found ${found}`,
    );
  }
  if (order.join() !== due.join()) {
    throw new ItemFailure(
      'steps-out-of-order',
      `expected steps of ${due.join(', ')}, found ${order.join(', ')}`,
    );
  }
  if (decision?.output === undefined) {
    throw new ItemFailure(
      'no-decision',
      'expected a decision, found none; synthesize-decision asks for it, and legacy does both',
    );
  }
  let context = prompt;
  const history = steps.map(step => {
    const turn = { agent: step.agent, input: context, output: step.output };
    context = contextAfter(context, [step], agents);
    return turn;
  });
  const outputs = steps.map(step => step.output);
  return {
    mode: 'sequential',
    initial_prompt: prompt,
    conversation_history: history,
    all_agent_outputs: outputs,
    final_output: outputs.at(-1),
    business_decision: decision.output,
    prompt_id: row,
    ordering: order.join(','),
    timestamp,
  };
}

/** When the answers of an item were given, where all of them were read back from a result that says so. */
export function timestampOf({ timestamp, steps = [], decision }: Item): string | undefined {
  if (typeof timestamp !== 'string' || !isTimestamp(timestamp)) return undefined;
  const isOld = [...steps, ...(decision ? [decision] : [])].every(({ calls }) => calls?.length === 0);
  return isOld ? timestamp : undefined;
}

/** What the strict document has no place for: how far each answer is from the model's own words. */
export interface Provenance {
  id: string | null;
  prompt_id: unknown;
  ordering: unknown;
  rung: Rung;
  /** in the order in which they were asked; the decision comes last */
  agents: { agent: string; rung: Rung; saw: Rung; attempts: number; repairs: Repair[] }[];
}

export function provenanceOf(item: Item, { prompt_id, ordering }: JsonObject): Provenance {
  const answers = [...(item.steps ?? []), item.decision as Step];
  return {
    id: item.id,
    prompt_id,
    ordering,
    rung: rungOf(item),
    agents: answers.map(({ agent, rung, saw, attempts, repairs }) => ({
      agent,
      rung,
      saw,
      attempts,
      repairs,
    })),
  };
}

const TIMESTAMP =
  /^(\d{4})-(\d{2})-(\d{2})T([01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d{1,9})?)?(?:Z|[+-](?:[01]\d|2[0-3]):?[0-5]\d)?$/;

/** Whether `text` is a date and time of ISO 8601, `2026-03-01T09:30:00Z`, of a day that exists. */
export function isTimestamp(text: string): boolean {
  const [, year, month, day] = TIMESTAMP.exec(text) ?? [];
  if (year === undefined) return false;
  const date = new Date(Date.UTC(Number(year), Number(month) - 1, Number(day)));
  return date.getUTCMonth() === Number(month) - 1 && date.getUTCDate() === Number(day);
}
