/**
 * The schemas that verification judges answers by: those of the agents. A legacy result has the older scripts' form of
 * them, in which an agent goes by any of its names and weights may miss their sum by 0.01.
 */

import { compileSchema } from '../../answers/schema.ts';
import { type Check, ownCheck } from '../../answers/schema-check.ts';
import { mapSchemas } from '../../answers/schema-words.ts';
import { asksAgain, checkOf } from '../../asking/agents/form.ts';
import {
  type Agent,
  type Agents,
  folderOfAgents,
  loadAgentFiles,
  packagedAgents,
} from '../../asking/agents/load-agents.ts';
import { isSharedName, resolveOrdering, rowIdOf } from '../../asking/agents/orderings.ts';
import { Fatal } from '../../core/item/failure.ts';
import { type Item, isCalls, sampleMark } from '../../core/item/item.ts';
import { isObject, type JsonObject, valueAt } from '../../core/json/pointer.ts';
import { type Problem, show } from '../../core/json/show.ts';
import { broken, type Violation } from './leftovers.ts';

export interface StepPlace {
  /** JSON Pointer of the step */
  at: string;
  role: Agent['role'];
}

/** What the older scripts let pass: weights that were rounded to two places. */
const WITHIN = 0.01;

/**
 * `decision: false` is of items that chain was told to leave undecided, which they do not say themselves.
 * `agents` is a folder; it resolves from `base`, and is read when an answer first needs it. Where none is named, legacy
 * results are judged by the packaged agents (schemas/legacy.schema.json), since nothing says whose else they are.
 */
export const answerSchemas = (
  options: { agents?: string; decision?: boolean },
  base: string,
): AnswerSchemas => new AnswerSchemas(options, base);

export class AnswerSchemas {
  /** Legacy results are judged as those of the packaged agents: no others were named. */
  readonly isPackaged: boolean;
  readonly #isDue: boolean;
  readonly #agents: () => Agents;
  readonly #packaged = once(() => loadAgentFiles(packagedAgents()));
  readonly #checkOfResult: (agent: Agent) => Check;

  constructor({ agents, decision = true }: { agents?: string; decision?: boolean }, base: string) {
    this.isPackaged = agents === undefined;
    this.#isDue = decision;
    this.#agents = once(() => loadAgentFiles(folderOfAgents(agents, base)));
    this.#checkOfResult = checksOfResults(this.#agents);
  }

  /** Who must have decided on an item; null where nobody has to. */
  decider(): string | null {
    return this.#isDue ? (this.#agents().synthesis?.key ?? null) : null;
  }

  /** Whether the step of this number (from 0) has a name under which items of its row may share it. */
  mayShare(item: Item, at: number): boolean {
    return isSharedName(item.steps?.[at]?.shared, item, at, this.#agents());
  }

  /** The ordering that the id of an item ends in, where that is another than the item's; null for nearly all. */
  otherOrderingInId(item: Item): string | null {
    return otherOrderingIn(item, this.#agents());
  }

  /** Adds to `found` what is wrong with the answer of the step at `at`. */
  judgeStep(
    step: { agent: unknown; output: unknown; tool_calls?: unknown },
    { at, role }: StepPlace,
    found: Violation[],
  ): void {
    const { agent: key, output } = step;
    const agent = typeof key === 'string' ? this.#agents().byKey.get(key) : undefined;
    if (agent?.role !== role) found.push(unknownAgent(`${at}/agent`, { found: key, role }, this.#agents()));
    else if (agent.tools === undefined || !isCalls(step))
      addAll(checkOf(agent)(output), agent, output, `${at}/output`, found);
  }

  /** The agents of legacy results: those that were named, else the packaged ones. */
  ofResults(): Agents {
    return this.isPackaged ? this.#packaged() : this.#agents();
  }

  /** Whether texts of errors and placeholders are no answers: folder.yaml of the agents says `own_words`. */
  wantsOwnWords(of: 'item' | 'legacy'): boolean {
    return (of === 'legacy' && this.isPackaged) || this.#agents().ownWords === true;
  }

  /**
   * Whether a legacy result fits schemas/legacy.schema.json, which then are the schemas that judge it: no null is in it,
   * no text of an error in its answers, and every key has its type.
   */
  fitsLegacy(result: JsonObject): boolean {
    if (!this.isPackaged || '_fw' in result) return false;
    const check = ownCheck('legacy');
    return check.fittedLast(result) || check.findings(result).length === 0;
  }

  /** Adds to `found` what is wrong with the answers of a legacy result. */
  judgeResult(result: JsonObject, found: Violation[]): void {
    if (!this.isPackaged) return this.#judgeTurns(result, found);
    const { _fw: _mark, ...own } = result; // our mark may hold the null that was there before
    add(ownCheck('legacy').findings(own, true), '', found);
    const stranger = found.length > 0 ? this.#strangerIn(result) : null;
    if (stranger !== null) found.unshift(stranger);
  }

  /** Of a result that the packaged agents' schemas refuse: that it is of others, which --agents names. */
  #strangerIn({ conversation_history: turns }: JsonObject): Violation | null {
    const { names } = this.#packaged();
    for (const [index, turn] of (Array.isArray(turns) ? turns : []).entries()) {
      const agent: unknown = turn?.agent;
      if (typeof agent !== 'string' || names.has(agent)) continue;
      const expected = 'an agent of the packaged FairWatch (--agents FOLDER judges by others)';
      const at = `/conversation_history/${index}/agent`;
      return broken('unknown agent', at, expected, show(agent), 'unknown-agent');
    }
    return null;
  }

  #judgeTurns(result: JsonObject, found: Violation[]): void {
    const { conversation_history: turns, all_agent_outputs: outputs } = result;
    const { byKey, names, synthesis } = this.#agents();
    const judge = (answer: unknown, agent: Agent | undefined, at: string): void => {
      if (agent === undefined || !isObject(answer)) return;
      addAll(this.#checkOfResult(agent)(answer), agent, answer, at, found);
    };
    let last: Agent | undefined;
    for (const [index, turn] of (Array.isArray(turns) ? turns : []).entries()) {
      if (!isObject(turn)) continue; // strict.ts says so
      const at = `/conversation_history/${index}`;
      last = byKey.get(names.get(turn.agent as string) ?? '');
      if (last === undefined) {
        found.push(unknownAgent(`${at}/agent`, { found: turn.agent, role: 'agent' }, this.#agents()));
        continue;
      }
      judge(turn.output, last, `${at}/output`);
      judge((outputs as unknown[] | undefined)?.[index], last, `/all_agent_outputs/${index}`);
    }
    judge(result.final_output, last, '/final_output');
    judge(result.business_decision, synthesis, '/business_decision');
  }
}

function once<T>(make: () => T): () => T {
  let made: T | undefined;
  return () => {
    made ??= make();
    return made;
  };
}

/**
 * `ingest` ends ids with the ordering. An id that ends in the names of two agents or more says one; any other may end in
 * what it likes.
 */
function otherOrderingIn(item: Item, agents: Agents): string | null {
  const { id, steps = [], ordering = steps.map(({ agent }) => agent), sample } = item;
  if (typeof id !== 'string' || !id.includes('/')) return null;
  if (rowIdOf({ ...item, ordering }, agents).label !== '') return null;
  const mark = sampleMark({ sample });
  const label = (mark !== '' && id.endsWith(mark) ? id.slice(0, -mark.length) : id)
    .split('/')
    .at(-1) as string;
  try {
    const claimed = resolveOrdering(label, agents);
    return claimed.length < 2 || claimed.join() === ordering.join() ? null : claimed.join();
  } catch (error) {
    if (error instanceof Fatal) return null;
    throw error;
  }
}

/** The form of an agent's answer in a legacy result, as a check for each agent, made when it is first asked for. */
export function checksOfResults(agents: () => Agents): (agent: Agent) => Check {
  const checks = new Map<string, Check>();
  return agent => {
    const { key, schema, schemaPath } = agent;
    const known =
      checks.get(key) ?? (schema ? compileSchema(inResults(schema, agents()), schemaPath) : checkOf(agent));
    checks.set(agent.key, known);
    return known;
  };
}

function inResults(schema: unknown, { names }: Agents): unknown {
  const others = new Map<unknown, string[]>();
  for (const [name, key] of names) if (name !== key) others.set(key, [...(others.get(key) ?? []), name]);
  return mapSchemas(schema, one => {
    const { enum: values, 'x-fw-sum': sum } = one;
    const isOfAgents = Array.isArray(values) && values.length > 0 && values.every(value => others.has(value));
    return {
      ...one,
      ...(isOfAgents && { enum: values.flatMap(value => [value, ...(others.get(value) as string[])]) }),
      ...(isObject(sum) && { 'x-fw-sum': { within: WITHIN, ...sum } }),
    };
  });
}

/** One finding a place: what a rule has said of it is said in better words. */
function add(problems: readonly Problem[], at: string, found: Violation[]): void {
  if (problems.length === 0) return;
  const known = new Set(found.map(finding => finding.at));
  for (const { at: below, keyword, expected, got } of problems) {
    if (known.has(at + below)) continue;
    found.push({ code: 'schema-mismatch', rule: `schema: ${keyword}`, at: at + below, expected, got });
  }
}

/** What is wrong with an answer by its schema; and what its agent is asked again for is none, though it fits that. */
function addAll(
  problems: readonly Problem[],
  { askAgain }: Agent,
  output: unknown,
  at: string,
  found: Violation[],
): void {
  add(problems, at, found);
  if (askAgain === undefined || !asksAgain(askAgain, output)) return;
  const place = at + askAgain.at;
  if (found.some(finding => finding.at === place)) return;
  const expected = 'a value that is not asked again (ask_again)';
  found.push(broken('asked again', place, expected, show(valueAt(output, askAgain.at)), 'zero-confidence'));
}

function unknownAgent(
  at: string,
  { found, role }: { found: unknown; role: Agent['role'] },
  { folder, byKey }: Agents,
): Violation {
  const known = [...byKey.values()].filter(agent => agent.role === role).map(({ key }) => key);
  const expected = `${role === 'agent' ? 'an agent' : 'the synthesis'} of ${folder} (${known.join(', ') || 'none'}; --agents names others)`;
  return broken('unknown agent', at, expected, show(found), 'unknown-agent');
}
