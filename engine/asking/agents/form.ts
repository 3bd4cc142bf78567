/** By what the answers of an agent are judged: its schema, or that they are text. */

import { isTooLong, TOO_LONG, takesTooMuch } from '../../answers/answers-of-line.ts';
import { readAnswer } from '../../answers/read-answer.ts';
import { compileSchema, textCheck } from '../../answers/schema.ts';
import type { Check, SchemaFinding } from '../../answers/schema-check.ts';
import { kindsOf } from '../../answers/schema-words.ts';
import { failed, type Reading } from '../../answers/text.ts';
import type { RecordedAnswer } from '../../core/item/call.ts';
import { dataError } from '../../core/item/failure.ts';
import type { ToolCall } from '../../core/item/item.ts';
import { isObject, type JsonObject, valueAt } from '../../core/json/pointer.ts';
import { problem, show } from '../../core/json/show.ts';
import { type Agent, type AskAgain, placeInSchema } from './agent-file.ts';

const known = new WeakMap<Agent, Check>();

/** Exit 65 where the schema of the agent does not compile. */
export function checkOf(agent: Agent): Check {
  const before = known.get(agent);
  if (before !== undefined) return before;
  const { schema, schemaPath, choice, regex } = agent;
  const form = { ...(choice && { choice }), ...(regex !== undefined && { regex }) };
  const own = schema === undefined ? textCheck(form, schemaPath) : checkOfSchema(agent, schema);
  const named = withOwnName(agent, own);
  const after = agent.text_after === undefined ? named : withTextAfter(named, agent.text_after);
  const check =
    agent.tools === undefined
      ? after
      : Object.assign((value: unknown) => after(value), { ...after, calls: true as const });
  known.set(agent, check);
  return check;
}

function withTextAfter(check: Check, textAfter: 'accept' | 'refuse'): Check {
  if (textAfter === 'accept') return check;
  return Object.assign((value: unknown) => check(value), { ...check, textAfter });
}

function checkOfSchema(agent: Agent, schema: JsonObject): Check {
  const place = (pointer: string): string => placeInSchema(agent, pointer);
  const check = compileSchema(schema, place);
  const kinds = [...kindsOf(schema)].filter(kind => kind !== 'null');
  if (kinds.length > 0) return check;
  throw dataError(
    `${place('')}: expected a schema that some value fits, found one that allows none but null`,
  );
}

/**
 * Whose answer an answer says it is. A model spells its own name as it likes; where it gives the name of another agent
 * of the folder, it has quoted that agent, and its own answer is missing.
 */
interface Company {
  /** keys of an answer that name its agent */
  keys: readonly string[];
  /** names of the other agents, as `bare` gives them */
  others: ReadonlySet<string>;
  /** names that answers gave, and whether each is that of another agent: a model spells its own nearly always alike */
  known: Map<string, boolean>;
}

/** Names that are remembered; a model that makes up more of them costs time and no memory. */
const KNOWN_NAMES = 1_000;

const companies = new WeakMap<Agent, Company>();

/** Lets the agents of a folder know each other. `keys`: those of an answer that name its agent. */
export function introduce(agents: readonly Agent[], keys: readonly string[]): void {
  for (const agent of agents) {
    const own = new Set(namesOf(agent));
    const others = agents.flatMap(namesOf).filter(name => name !== '' && !own.has(name));
    companies.set(agent, { keys, others: new Set(others), known: new Map() });
  }
}

function namesOf({ key, short, display, agent_name }: Agent): string[] {
  return [key, short, display, agent_name].flatMap(name => (name === undefined ? [] : [bare(name)]));
}

/** A name without case, signs, spaces, and words that say no more than that it is an agent's. */
function bare(name: string): string {
  return name
    .normalize('NFKC')
    .toLowerCase()
    .replace(/\([^()]{0,60}\)/g, ' ')
    .replace(/(?<!\p{L})(?:the|ai|agent|assistant)(?!\p{L})/gu, ' ')
    .replace(/[^\p{L}\p{N}]+/gu, '');
}

/** What is wrong with an answer of `agent` that carries the name of another one; empty where nothing is. */
export function foreignNames(agent: Agent, output: unknown): readonly SchemaFinding[] {
  const company = companies.get(agent);
  if (company === undefined || !isObject(output)) return NONE_FOREIGN;
  let found = NONE_FOREIGN;
  for (const key of company.keys) {
    const said = Object.hasOwn(output, key) ? output[key] : undefined;
    if (typeof said !== 'string' || said.length > 200 || !isForeign(company, said)) continue;
    const what = problem(`/${key}`, 'agent-name', 'your own answer', `that of another agent, ${show(said)}`);
    found = [...found, { ...what, instance: `/${key}`, data: said, parent: {}, params: {} }];
  }
  return found;
}

const NONE_FOREIGN: readonly SchemaFinding[] = [];

function isForeign({ others, known }: Company, said: string): boolean {
  let isOther = known.get(said);
  if (isOther === undefined) {
    isOther = others.has(bare(said));
    if (known.size < KNOWN_NAMES) known.set(said, isOther);
  }
  return isOther;
}

/** The check of an agent's answers, with their name. */
function withOwnName(agent: Agent, check: Check): Check {
  if (check.text) return check;
  const findings: Check['findings'] = (value, isChanged) => {
    const found = check.findings(value, isChanged);
    const foreign = foreignNames(agent, value);
    return foreign.length === 0 ? found : [...foreign, ...found];
  };
  return Object.assign(
    (value: unknown) => (foreignNames(agent, value).length > 0 ? findings(value) : check(value)),
    {
      ...check,
      findings,
      fittedLast: (value: object) => check.fittedLast(value) && foreignNames(agent, value).length === 0,
    },
  );
}

/** What an answer is read as, whether it came just now or is on record. */
export function readReply(
  { text, whole, logprobs, finish, tool_calls: calls }: Omit<RecordedAnswer, 'agent'>,
  check: Check,
): Reading {
  if (logprobs !== undefined && takesTooMuch(logprobs))
    return failed('answer-too-long', `${TOO_LONG}, got logprobs that take more; ask for fewer top_logprobs`);
  const reading =
    check.calls && calls !== undefined && CALLED.has(finish)
      ? readCalling(text, calls, check)
      : readAnswer(text, check, { finish });
  const isFine = whole === undefined && !isTooLong(text, reading.output);
  if (isFine || reading.problem?.code === 'truncated') return reading;
  const message = `${TOO_LONG}, got ${whole?.characters ?? text.length} characters`;
  const code = check.text ? 'answer-too-long' : 'no-json-found';
  return { rung: 'failed', repairs: [], problem: { code, message } };
}

/** How servers say that an answer which calls tools is whole. */
const CALLED: ReadonlySet<string> = new Set(['tool_calls', 'stop', 'function_call']);

/** What is said beside calls is the answer where it fits; else the calls are, since what is said is no more than about them. */
function readCalling(text: string, calls: readonly ToolCall[], check: Check): Reading {
  if (takesTooMuch(calls)) return failed('answer-too-long', `${TOO_LONG}, got tool_calls that take more`);
  if (text.trim() !== '') {
    const said = readAnswer(text, check, { finish: 'stop' });
    if (said.problem === undefined) return said;
  }
  return { rung: 'clean', output: calls, compact: JSON.stringify(calls), repairs: [] };
}

/** Whether an answer that fits is asked again all the same, for a value that its agent's `ask_again` names. */
export function asksAgain(again: AskAgain | undefined, output: unknown): boolean {
  if (again === undefined || output === undefined) return false;
  const value = valueAt(output, again.at);
  return value !== undefined && again.when.includes(value);
}

export function askedAgainFor(output: unknown, again: AskAgain | undefined): string {
  const value = again && valueAt(output, again.at);
  return `${again?.at} is ${JSON.stringify(value) ?? 'missing'}`;
}
