/** The strict legacy document: what the older scripts wrote for one application and one ordering, rebuilt from an item. */

import { arrangementOf, contextAfter, isUsual } from '../../asking/agents/arrangement.ts';
import { foreignNames } from '../../asking/agents/form.ts';
import type { Agents } from '../../asking/agents/load-agents.ts';
import { ItemFailure } from '../../core/item/failure.ts';
import { type Item, type Rung, rungOf, type Step } from '../../core/item/item.ts';
import { isObject, type JsonObject } from '../../core/json/pointer.ts';
import { show } from '../../core/json/show.ts';
import { hashOfResult } from '../../flow/provenance.ts';
import { type Named, withOwnNames } from './own-names.ts';

/**
 * One result, its keys in the order in which the older scripts wrote them. `input` of a turn is the whole text that
 * the agent was shown, and so has the model's spelling of names; outputs have the agents' own (own-names.ts). Fails an
 * item that lacks its row, a prompt, an answer of its ordering or its decision.
 */
export function legacyResult(item: Item, agents: Agents, timestamp: string): JsonObject {
  const { row, sample, prompt, ordering, steps = [], decision } = item;
  if (!Number.isSafeInteger(row) || (row as number) < 1) {
    throw new ItemFailure(
      'no-row',
      `expected the row of the source, a whole number from 1, found ${JSON.stringify(row) ?? 'none'}`,
    );
  }
  if (typeof prompt !== 'string' || prompt.trim() === '') {
    throw new ItemFailure('empty-prompt', 'expected the prompt that was asked, found none');
  }
  if (!isUsual(arrangementOf(item))) {
    throw new ItemFailure(
      'not-strict',
      'expected agents who were shown all answers before them, as legacy results have it, found another arrangement; such items stay items',
    );
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
    const input = context;
    context = contextAfter(context, [step], agents); // throws where there is no output
    return { agent: step.agent, input, output: namedAnswer(step, agents).output };
  });
  const outputs = history.map(({ output }) => output);
  return {
    mode: 'sequential',
    initial_prompt: prompt,
    conversation_history: history,
    all_agent_outputs: outputs,
    final_output: outputs.at(-1),
    business_decision: namedAnswer(decision, agents).output,
    prompt_id: row,
    ordering: order.join(','),
    timestamp,
    // the older scripts asked each row once, and pass over a key that they do not know
    ...(Number.isSafeInteger(sample) && { sample }),
  };
}

/** An answer as the result has it. The older scripts read keys of it, so that it must be an object. */
function namedAnswer({ agent, output }: Step, agents: Agents): Named {
  if (!isObject(output)) {
    const found = typeof output === 'string' ? 'text' : show(output);
    const message = `expected answers that are objects, as legacy results have them, found that of ${agent}, which is ${found}; such items stay items`;
    throw new ItemFailure('not-strict', message, { agent });
  }
  const own = agents.byKey.get(agent);
  const [foreign] = own ? foreignNames(own, output) : [];
  if (foreign) {
    const message = `expected answers of the agents themselves, found under ${agent} ${foreign.got}; ask it again: fw validate | fw chain --retry-failed`;
    throw new ItemFailure('schema-mismatch', message, { agent });
  }
  return withOwnNames(output, own, agents);
}

/** When the answers of an item were given, where all of them were read back from a result that says so. */
export function timestampOf({ timestamp, steps = [], decision }: Item): string | undefined {
  const isOld = [...steps, ...(decision ? [decision] : [])].every(({ calls }) => calls?.length === 0);
  return isOld && typeof timestamp === 'string' ? utcOf(timestamp) : undefined;
}

/** What the strict document has no place for: how far each answer is from the model's own words. */
export interface Provenance {
  id: string | null;
  prompt_id: unknown;
  ordering: unknown;
  sample?: unknown;
  /** of the result: see engine/flow/provenance.ts */
  sha256: string | null;
  rung: Rung;
  /** in the order in which they were asked; the decision comes last */
  agents: Pick<Step, 'agent' | 'rung' | 'saw' | 'attempts' | 'calls' | 'repairs' | 'shared'>[];
}

/** What is known of the answers of `item`, then what the result has in another form. */
export function provenanceOf(item: Item, result: JsonObject, agents: Agents): Provenance {
  const { prompt_id, ordering, sample } = result;
  const answers = [...(item.steps ?? []), item.decision as Step];
  return {
    id: item.id,
    prompt_id,
    ordering,
    ...(sample !== undefined && { sample }),
    sha256: hashOfResult(result),
    rung: rungOf(item),
    agents: answers.map(answer => {
      const { agent, rung, saw, attempts, calls, repairs, shared } = answer;
      return {
        agent,
        rung,
        saw,
        attempts,
        calls,
        repairs: [...repairs, ...namedAnswer(answer, agents).repairs],
        ...(shared !== undefined && { shared }),
      };
    }),
  };
}

const TIMESTAMP =
  /^(\d{4}-\d{2}-\d{2})T((?:[01]\d|2[0-3]):[0-5]\d)(:[0-5]\d(?:\.\d{1,9})?)?(?:Z|([+-])([01]\d|2[0-3]):?([0-5]\d))?$/;

/**
 * A date and time of ISO 8601, `2026-03-01T10:30:00+01:00`, as the older scripts write one: without a zone. It is that of
 * UTC, `2026-03-01T09:30:00`, so that files of several machines can be compared; a time without a zone stays as it is.
 * Undefined where `text` is none, or its day does not exist.
 */
export function utcOf(text: string): string | undefined {
  const [, day, minute, seconds = '', sign, hours, minutes] = TIMESTAMP.exec(text) ?? [];
  const there = new Date(`${day}T${minute}Z`);
  if (Number.isNaN(there.getTime()) || there.toISOString().slice(0, 10) !== day) return undefined;
  const ahead = sign === undefined ? 0 : Number(`${sign}1`) * (Number(hours) * 60 + Number(minutes));
  const [, utc] = /^(\d{4}-.{11}):/.exec(new Date(there.getTime() - ahead * 60_000).toISOString()) ?? [];
  return utc && `${utc}${seconds}`;
}

/** Days that every month has. */
const COMMON_DAY =
  /^\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])T(?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d{1,9})?)?(?:Z|[+-](?:[01]\d|2[0-3]):?[0-5]\d)?$/;

/** Whether `text` is a date and time of ISO 8601, of a day that exists. Python's dates, by which the older scripts read it, begin with year 1. */
export function isTimestamp(text: string): boolean {
  if (text.startsWith('0000')) return false;
  return COMMON_DAY.test(text) || utcOf(text) !== undefined;
}
