/**
 * What travels between stages, a line each. The JSON Schema of an item is schemas/item.schema.json; here are the
 * types, the ladder of rungs, and the three questions that every stage asks of a line: is it an item, what is its
 * id, what is its rung.
 */

import { type JsonObject, same } from '../json/pointer.ts';
import { show } from '../json/show.ts';
import type { Code } from './codes.ts';
import { isOfBatch, troubleIn, unansweredIn } from './response.ts';

/**
 * How far a value is from the model's own words; a step has the worst rung that it needed. `unknown`: nobody kept how it
 * came about. It may be any of the rungs before it, or defaulted.
 */
export const RUNGS = ['clean', 'repaired', 'coerced', 'unknown', 'defaulted', 'failed'] as const;
export type Rung = (typeof RUNGS)[number];

/** The rungs that count wherever nobody says otherwise (`--accept`). */
export const ACCEPTED: readonly Rung[] = ['clean', 'repaired', 'coerced', 'unknown'];

export function worse(a: Rung, b: Rung): Rung {
  return RUNGS.indexOf(a) >= RUNGS.indexOf(b) ? a : b;
}

/**
 * One change that fw made to what a model said.
 * Syntax (`repaired`): `offset`, `cut` and `put` on the raw text, so that undoing every entry restores it.
 * Values (`coerced`, `defaulted`): `at` is a JSON Pointer into the output, `from` and `to` the values.
 */
export interface Repair {
  rule: string;
  at?: string;
  from?: unknown;
  to?: unknown;
  offset?: number;
  cut?: string;
  put?: string;
}

/** Tokens; `cached` is the share of `prompt` that came from the server's prefix cache, where the server says so. */
export interface Usage {
  prompt: number;
  completion: number;
  cached?: number;
}

/** What `raw` is only the beginning of: the length and hash of the answer as UTF-8. */
export interface FullText {
  bytes: number;
  sha256: string;
}

/** Of an answer that is too long to be of use, what all of it was; `characters` are UTF-16 units. */
export interface WholeAnswer extends FullText {
  characters: number;
}

/** An answer that was asked for again: what the model said, and why that was not accepted. */
export interface Rejected {
  raw: string;
  /** there where `raw` was cut */
  whole?: FullText;
  code: Code;
  message: string;
  temperature?: number;
}

/** A request as a line of an OpenAI batch file has it: sent as it is, by POST, to a path of the server. */
export interface RawRequest {
  method: string;
  url: string;
  body: JsonObject;
}

/** What a server answered to a raw request: its own body, as JSON, or its words where that is none; null for neither. */
export interface Response {
  status_code: number;
  body: unknown;
}

/** How likely the model took a token to be, as a natural logarithm. */
export interface Logprob {
  token: string;
  logprob: number;
}

/** A token of an answer, and those that were most likely in its place. */
export interface TokenLogprob extends Logprob {
  top_logprobs?: Logprob[];
}

/** A call of a tool, as a server wrote it: `{id, type, function: {name, arguments}}`. Nobody here runs it, or reads what is in it. */
export type ToolCall = JsonObject;

/** What a model said beside its answer. */
export interface Beside {
  /** what it called, as it came; never empty */
  tool_calls?: ToolCall[];
  /** what it thought before it answered, where its server tells that apart from the answer */
  reasoning?: string;
  /** there where `reasoning` is only the beginning of one that is too long to be kept */
  reasoning_whole?: FullText;
}

/** One agent's answer inside an item. `raw` is left out where `output` is the same text, or it is the compact JSON of it. */
export interface Step extends Beside {
  agent: string;
  /** text of an agent without a schema, else what its schema asks for; of one that only called tools its `tool_calls`; never null */
  output?: unknown;
  /** of a raw request, in place of `output`: all that the server said, refusals too */
  response?: Response;
  raw?: string;
  /** where `raw` is left out: 16 hex characters of the SHA-256 of the text, so that an edit of `output` is found; of a
   * response that of its body as JSON */
  sha256?: string;
  /** where the agent file asks for them: those of the answer, token by token */
  logprobs?: TokenLogprob[];
  /** of a failed step, there where `raw` was cut */
  whole?: FullText;
  rung: Rung;
  /** the worst rung among the answers that this agent was shown */
  saw: Rung;
  repairs: Repair[];
  calls: string[];
  attempts: number;
  /** how often --retry-failed took this step up; absent at first */
  round?: number;
  rejected?: Rejected[];
  /**
   * the name of the question: with --share all items of the row have it that begin alike (`50acc2a3e4e6/risk-data-*`), with
   * --once all equal requests (`same/` and a hash)
   */
  shared?: string;
  /** of a failed step: why its last answer, `raw`, was not accepted */
  problem?: { code: Code; message: string };
  usage: Pick<Usage, 'prompt' | 'completion'>;
  /** a fingerprint of how it was sampled: see policyOf in engine/asking/agents/request-body.ts */
  policy?: string;
}

export interface Failure {
  stage: string;
  code: Code;
  message: string;
  agent?: string;
  /** JSON Pointer of an answer of `agent` that is refused, and that the item still has: `/steps/1`, `/decision` */
  at?: string;
  /** only where a line could not be read: its number and its text (or base64, where it is not UTF-8) */
  line?: number;
  text?: string;
  base64?: string;
  [key: string]: unknown;
}

export interface Item {
  id: string | null;
  row?: number;
  input?: { [column: string]: string };
  prompt?: string;
  /** who was shown what: see engine/asking/agents/arrangement.ts; absent: each agent all before it */
  arrangement?: unknown;
  /** in place of a prompt: chat messages as the server takes them */
  messages?: unknown;
  /** in place of a prompt */
  request?: RawRequest;
  ordering?: string[];
  steps?: Step[];
  decision?: Step;
  failure?: Failure;
  [key: string]: unknown;
}

/** What the text stages may add to a foreign record, beside `failure`. */
export interface Mark {
  rung: Rung;
  repairs: Repair[];
}

/** A line with an id and something to ask or something answered is an item; any other object is a foreign record. */
export function isItem(line: JsonObject): line is Item {
  return (
    'id' in line &&
    ('prompt' in line || 'steps' in line || Array.isArray(line.messages) || isRawRequest(line.request))
  );
}

/** Whether it has the keys of one; `wrongShape` looks at their types. */
export function isRawRequest(request: unknown): request is JsonObject {
  return typeof request === 'object' && request !== null && 'url' in request && 'body' in request;
}

/** Whether a step has what it asked for. */
export function isAnswered({ output, response, rung }: Step): boolean {
  return (
    output !== undefined || (response !== undefined && rung !== 'failed' && troubleIn(response) === null)
  );
}

/** Of an answer, a record or a step: what its model said beside the answer. */
export function besideOf({ tool_calls, reasoning, reasoning_whole }: Beside): Beside {
  const beside: Beside = {};
  if (tool_calls !== undefined) beside.tool_calls = tool_calls;
  if (reasoning !== undefined) beside.reasoning = reasoning;
  if (reasoning_whole !== undefined) beside.reasoning_whole = reasoning_whole;
  return beside;
}

/** Whether all that a step has for an answer is what its model called. */
export function isCalls({ output, tool_calls: calls }: { output?: unknown; tool_calls?: unknown }): boolean {
  return calls !== undefined && Array.isArray(output) && same(calls, output);
}

/** A result of the older scripts: `prompt_id` is the row there, and `ordering` a comma-separated list. */
export function isLegacy(line: JsonObject): boolean {
  return !('id' in line) && 'business_decision' in line && 'conversation_history' in line;
}

/** Whether a line means to be a result of the older scripts, even one that lacks what makes it one, or has an `id` as well. */
export function isLegacyLike(line: JsonObject): boolean {
  return (
    !isItem(line) &&
    ('business_decision' in line || 'conversation_history' in line || 'all_agent_outputs' in line)
  );
}

/** What the ids of the samples of one row end in: `#2`; of a row without samples nothing. */
export function sampleMark({ sample }: JsonObject): string {
  return Number.isSafeInteger(sample) ? `#${sample}` : '';
}

/**
 * The id of an item, the custom_id of a line of a batch file, `prompt_id/ordering` of a legacy result, with `#2` of a
 * second sample; null where a line has none.
 */
export function idOf(line: JsonObject): string | null {
  const { id, prompt_id, ordering, custom_id } = line;
  if (typeof custom_id === 'string' && isOfBatch(line)) return custom_id;
  if (typeof id === 'string') return id;
  const isKnown =
    (typeof prompt_id === 'number' || typeof prompt_id === 'string') && typeof ordering === 'string';
  return isKnown && isLegacy(line) ? `${prompt_id}/${ordering}${sampleMark(line)}` : null;
}

/**
 * Why a finished line is a failure; undefined for one that is none. It is what the line says itself, or, of a batch's
 * output and of a raw request, what `troubleIn` finds in what the server answered. Lines come from anywhere: a `failure`
 * that is none still fails its line, but nothing in it is believed.
 */
export function failureOf(line: JsonObject): Failure | undefined {
  const { failure } = line;
  if (failure === undefined) return unansweredIn(line) ?? undefined;
  if (isFailure(failure)) return failure;
  const message = `expected a failure with stage, code and message, found ${show(failure)}`;
  return { stage: 'unknown', code: 'not-an-item', message };
}

/** Whether a line is a failure, whoever says so. */
export const isFailed = (line: JsonObject): boolean => failureOf(line) !== undefined;

function isFailure(value: unknown): value is Failure {
  if (typeof value !== 'object' || value === null) return false;
  const { stage, code, message, agent, text } = value as JsonObject;
  return (
    typeof stage === 'string' &&
    typeof code === 'string' &&
    typeof message === 'string' &&
    (agent === undefined || typeof agent === 'string') &&
    (text === undefined || typeof text === 'string')
  );
}

const carried = new WeakMap<object, Rung>();

/** For a document that has no place for its rung (legacy): it is judged by this one as long as it is in the process. */
export function carryRung<T extends JsonObject>(line: T, rung: Rung): T {
  carried.set(line, rung);
  return line;
}

/** A changed line keeps the rung that the line before it carried, or the one of its new mark, if that is worse. */
export function passRungOn(before: JsonObject, after: JsonObject): void {
  const rung = carried.get(before);
  if (rung !== undefined && !carried.has(after)) carried.set(after, worse(rung, rungOfMark(after)));
}

/**
 * The worst rung over the steps and the decision of an item; a foreign record carries its rung in `_fw`, and a legacy
 * result that nothing vouches for is `unknown` at best. What is no rung, or no list of steps, is `failed`.
 */
export function rungOf(line: JsonObject): Rung {
  if (isFailed(line)) return 'failed';
  const kept = carried.get(line);
  if (kept !== undefined) return kept;
  const { steps, decision } = line as Item;
  let rung = rungOfMark(line);
  // a foreign record may have steps and decisions of its own
  if (!isItem(line)) return isLegacyLike(line) ? worse(rung, 'unknown') : rung;
  if (Array.isArray(steps)) for (const step of steps) rung = worse(rung, rungOfStep(step));
  else if (steps !== undefined) return 'failed';
  return decision === undefined ? rung : worse(rung, rungOfStep(decision));
}

function rungOfMark({ _fw }: { _fw?: Mark | null }): Rung {
  return _fw === undefined ? 'clean' : knownRung(_fw?.rung);
}

function rungOfStep(step: Step | null): Rung {
  const rung = knownRung(step?.rung);
  return step?.saw === undefined ? rung : worse(rung, knownRung(step.saw));
}

function knownRung(rung: Rung | undefined): Rung {
  return rung !== undefined && RUNGS.includes(rung) ? rung : 'failed';
}

/** Tells the next stage that this one ended early, so that it does not take the end of the stream for success. */
export function incompleteLine(stage: string, message: string): Item {
  return { id: null, failure: { stage, code: 'input-incomplete', message } };
}

/** A line by which a stage says that it ended early: no item of anybody's, and what follows it is missing. */
export function saysEnd(line: JsonObject): boolean {
  return idOf(line) === null && failureOf(line)?.code === 'input-incomplete';
}
