/**
 * The schemas that verification judges answers by: those of the agents. A legacy result has the older scripts' form of
 * them, in which an agent goes by any of its names and weights may miss their sum by 0.01.
 */

import { compileSchema } from '../../answers/schema.ts';
import { type Check, ownCheck } from '../../answers/schema-check.ts';
import { mapSchemas } from '../../answers/schema-words.ts';
import type { Agent } from '../../asking/agents/agent-file.ts';
import { asksAgain } from '../../asking/agents/ask.ts';
import { checkOf } from '../../asking/agents/form.ts';
import {
  type Agents,
  folderOfAgents,
  loadAgentFiles,
  packagedAgents,
} from '../../asking/agents/load-agents.ts';
import { resolveOrdering } from '../../asking/agents/orderings.ts';
import { isSharedName, rowIdOf } from '../../asking/agents/share.ts';
import { Fatal } from '../../core/item/failure.ts';
import { type Item, sampleMark } from '../../core/item/item.ts';
import { isObject, type JsonObject, valueAt } from '../../core/json/pointer.ts';
import { type Problem, show } from '../../core/json/show.ts';
import type { Violation } from './leftovers.ts';

export interface StepPlace {
  /** JSON Pointer of the step */
  at: string;
  role: Agent['role'];
}

export interface AnswerSchemas {
  /** Who must have decided on an item; null where nobody has to. */
  decider(): string | null;
  /** Whether the step of this number (from 0) has a name under which items of its row may share it. */
  mayShare(item: Item, at: number): boolean;
  /** The ordering that the id of an item ends in, where that is another than the item's; null for nearly all. */
  otherOrderingInId(item: Item): string | null;
  /** Adds to `found` what is wrong with the answer of the step at `at`. */
  judgeStep(step: { agent: unknown; output: unknown }, place: StepPlace, found: Violation[]): void;
  /** The agents of legacy results: those that were named, else the packaged ones. */
  ofResults(): Agents;
  /** Legacy results are judged as those of the packaged agents: no others were named. */
  isPackaged: boolean;
  /** Whether texts of errors and placeholders are no answers: folder.yaml of the agents says `own_words`. */
  wantsOwnWords(of: 'item' | 'legacy'): boolean;
  /**
   * Whether a legacy result fits schemas/legacy.schema.json, which then are the schemas that judge it: no null is in it,
   * no text of an error in its answers, and every key has its type.
   */
  fitsLegacy(result: JsonObject): boolean;
  /** Adds to `found` what is wrong with the answers of a legacy result. */
  judgeResult(result: JsonObject, found: Violation[]): void;
}

/** What the older scripts let pass: weights that were rounded to two places. */
const WITHIN = 0.01;

/**
 * `decision: false` is of items that chain was told to leave undecided, which they do not say themselves.
 * `agents` is a folder; it resolves from `base`, and is read when an answer first needs it. Where none is named, legacy
 * results are judged by the packaged agents (schemas/legacy.schema.json), since nothing says whose else they are.
 */
export function answerSchemas(
  { agents: named, decision: isDue = true }: { agents?: string; decision?: boolean },
  base: string,
): AnswerSchemas {
  let loaded: Agents | null = null;
  let packaged: Agents | null = null;
  const agents = (): Agents => {
    loaded ??= loadAgentFiles(folderOfAgents(named, base));
    return loaded;
  };
  const packagedOnes = (): Agents => {
    packaged ??= loadAgentFiles(packagedAgents());
    return packaged;
  };
  const ofResults = checksOfResults(agents);

  return {
    decider: () => (isDue ? (agents().synthesis?.key ?? null) : null),
    mayShare: (item, at) => isSharedName(item.steps?.[at]?.shared, item, at, agents()),
    otherOrderingInId: item => otherOrderingIn(item, agents()),
    judgeStep({ agent: key, output }, { at, role }, found) {
      const agent = typeof key === 'string' ? agents().byKey.get(key) : undefined;
      if (agent?.role !== role) found.push(unknownAgent(`${at}/agent`, { found: key, role }, agents()));
      else {
        add(checkOf(agent)(output), `${at}/output`, found);
        addAskedAgain(agent, output, `${at}/output`, found);
      }
    },
    ofResults: () => (named === undefined ? packagedOnes() : agents()),
    isPackaged: named === undefined,
    wantsOwnWords: of => (of === 'legacy' && named === undefined) || agents().ownWords === true,
    fitsLegacy(result) {
      if (named !== undefined || '_fw' in result) return false;
      const check = ownCheck('legacy');
      return check.fittedLast(result) || check.findings(result).length === 0;
    },
    judgeResult(result, found) {
      if (named !== undefined) return judgeTurns(result, found);
      const { _fw: _mark, ...own } = result; // our mark may hold the null that was there before
      add(ownCheck('legacy').findings(own, true), '', found);
      const stranger = found.length > 0 ? strangerIn(result) : null;
      if (stranger !== null) found.unshift(stranger);
    },
  };

  /** Of a result that the packaged agents' schemas refuse: that it is of others, which --agents names. */
  function strangerIn({ conversation_history: turns }: JsonObject): Violation | null {
    const { names } = packagedOnes();
    for (const [index, turn] of (Array.isArray(turns) ? turns : []).entries()) {
      const agent: unknown = turn?.agent;
      if (typeof agent !== 'string' || names.has(agent)) continue;
      const expected = 'an agent of the packaged FairWatch (--agents FOLDER judges by others)';
      const at = `/conversation_history/${index}/agent`;
      return { code: 'unknown-agent', rule: 'unknown agent', at, expected, got: show(agent) };
    }
    return null;
  }

  function judgeTurns(result: JsonObject, found: Violation[]): void {
    const {
      conversation_history: turns,
      all_agent_outputs: outputs,
      final_output,
      business_decision,
    } = result;
    const { byKey, names, synthesis } = agents();
    const judge = (answer: unknown, agent: Agent | undefined, at: string): void => {
      if (agent === undefined || !isObject(answer)) return;
      add(ofResults(agent)(answer), at, found);
      addAskedAgain(agent, answer, at, found);
    };
    let last: Agent | undefined;
    for (const [index, turn] of (Array.isArray(turns) ? turns : []).entries()) {
      if (!isObject(turn)) continue; // strict.ts says so
      const at = `/conversation_history/${index}`;
      last = byKey.get(names.get(turn.agent as string) ?? '');
      if (last === undefined) {
        found.push(unknownAgent(`${at}/agent`, { found: turn.agent, role: 'agent' }, agents()));
        continue;
      }
      judge(turn.output, last, `${at}/output`);
      judge((outputs as unknown[] | undefined)?.[index], last, `/all_agent_outputs/${index}`);
    }
    judge(final_output, last, '/final_output');
    judge(business_decision, synthesis, '/business_decision');
  }
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

/** What its agent is asked again for is no answer, though it fits the schema. */
function addAskedAgain({ askAgain }: Agent, output: unknown, at: string, found: Violation[]): void {
  if (askAgain === undefined || !asksAgain(askAgain, output)) return;
  const place = at + askAgain.at;
  if (found.some(finding => finding.at === place)) return;
  const expected = 'a value that is not asked again (ask_again)';
  const got = show(valueAt(output, askAgain.at));
  found.push({ code: 'zero-confidence', rule: 'asked again', at: place, expected, got });
}

function unknownAgent(
  at: string,
  { found, role }: { found: unknown; role: Agent['role'] },
  { folder, byKey }: Agents,
): Violation {
  const known = [...byKey.values()].filter(agent => agent.role === role).map(({ key }) => key);
  const expected = `${role === 'agent' ? 'an agent' : 'the synthesis'} of ${folder} (${known.join(', ') || 'none'}; --agents names others)`;
  return { code: 'unknown-agent', rule: 'unknown agent', at, expected, got: show(found) };
}
