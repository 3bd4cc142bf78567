/**
 * One agent, one item: ask → find the JSON → mend → validate → ask again, with what was wrong, until an answer fits
 * or the attempts are used up. Whatever happens becomes a step: a failed one keeps what was paid for.
 */

import { hashOfText, keptOf, saidOf } from '../../answers/answers-of-line.ts';
import { fill, type Rule } from '../../answers/defaults.ts';
import type { Check } from '../../answers/schema-check.ts';
import type { Reading } from '../../answers/text.ts';
import { type Answer, type Call, CallFailure, type Pool } from '../../core/item/call.ts';
import type { Code } from '../../core/item/codes.ts';
import type { Rejected, Rung, Step } from '../../core/item/item.ts';
import { isObject, parsePointer } from '../../core/json/pointer.ts';
import type { Agent } from './agent-file.ts';
import { askedAgainFor, asksAgain, checkOf, readReply } from './form.ts';
import { bodies, firstSample, type Guided, limitWords, policyOf, type Sample } from './request-body.ts';
import {
  type Asking,
  type AttemptedStep,
  attemptRequest,
  complaintOf,
  laterRound,
  sampleAfresh,
  wasRecovered,
} from './rounds.ts';

export interface AskOptions {
  /** answers asked for before the step fails */
  attempts: number;
  guided: Guided;
  seed: number;
  /** fills nulls and gaps of the last answer when no attempt gave a valid one; absent: such a step fails */
  defaults?: ReadonlyMap<string, readonly Rule[]>;
}

export interface Question extends AttemptedStep {
  /** what the items of its row have in common, where there are several */
  row?: string | undefined;
  /** the first question of its item */
  begins?: boolean | undefined;
  /** the worst rung among the answers in the context */
  saw: Rung;
  /** texts of the item that a ledger must not keep */
  redact?: readonly string[] | undefined;
}

/** A step: with its output as JSON without spaces, or with why it failed. */
export type AskResult =
  | { step: Step; compact: string; failure?: undefined }
  | { step: Step; failure: { code: Code; message: string } };

export type Ask = (question: Question) => Promise<AskResult>;

/** Prepares an agent for many questions: its schema is compiled and its body prefix built once. */
export function asker(agent: Agent, pool: Pool, options: AskOptions): Ask {
  const check = checkOf(agent);
  const model = agent.model === undefined ? pool.model : (pool.servedAs?.(agent.model) ?? agent.model);
  const own = bodies(agent, model, options.guided);
  const policy = policyOf(agent, options);
  return question => askOne({ agent, model, pool, options, check, own, policy }, question);
}

interface Asker extends Asking {
  options: AskOptions;
  check: Check;
  model: string;
  policy: string;
}

/**
 * Asks in the round of the question, or in the last one on record: where --retry-failed has got an answer, the same
 * command again must not bring the failure back.
 */
function askOne(asker: Asker, question: Question): Promise<AskResult> {
  // nearly always: there is no later round, and a promise less
  if (!asker.pool.onRecord?.lastRound) return askInRound(asker, question, noRound) as Promise<AskResult>;
  return askInRounds(asker, question);
}

const noRound = (): null => null;

async function askInRounds(asker: Asker, question: Question): Promise<AskResult> {
  const later = laterRound(asker, question);
  const asked = await askInRound(asker, question, later);
  if (asked !== null && asked.failure === undefined) return asked;
  const round = later();
  return round === null ? (asked as AskResult) : askOne(asker, { ...question, round });
}

/** Null where the round is over: its next call is not on record, and a later round is. */
async function askInRound(
  asker: Asker,
  question: Question,
  later: () => number | null,
): Promise<AskResult | null> {
  const { agent, pool, options, check } = asker;
  const again = agent.askAgain;
  const step = unanswered(asker, question);
  let sample = firstSample(agent);
  let invalid = 0; // answers that did not fit
  let redone = 0; // answers that fit, but for the value that is asked again (a confidence of zero)

  for (;;) {
    const { body, key } = attemptRequest(asker, question, step.attempts + 1, sample);
    if (pool.onRecord?.lastRound && !pool.onRecord.has(key) && later() !== null) return null;
    step.attempts += 1;
    // no push, which would make room for sixteen more
    step.calls = step.attempts === 1 ? [key] : step.calls.concat(key);
    let answer: Answer;
    try {
      answer = await pool.call(callOf(asker, question, { attempt: step.attempts, body, key }));
    } catch (error) {
      if (!(error instanceof CallFailure)) throw error;
      return { step, failure: { code: error.code, message: `${agent.key}: ${error.message}` } };
    }
    addUsage(step, answer.usage);
    const { text, whole } = saidOf(answer);
    const logprobs = agent.sampling.logprobs ? answer.logprobs : undefined;
    const since = performance.now();
    const reading = readReply(
      { text, whole, logprobs, finish: answer.finish, tool_calls: answer.tool_calls },
      check,
    );
    const mending = performance.now() - since;

    const { problem } = reading;
    const redo = problem?.code !== 'truncated' && asksAgain(again, reading.output);
    if (problem === undefined && !redo) {
      pool.judge(key, reading.rung, undefined, mending);
      const asked = answered(step, text, reading as Answered);
      if (logprobs !== undefined) asked.step.logprobs = logprobs;
      keepBeside(asked.step, answer, check);
      return asked;
    }
    const kept = keptOf(text, whole);
    const { temperature } = sample;
    const refusal: Rejected = redo
      ? { ...kept, code: 'zero-confidence', message: askedAgainFor(reading.output, again), temperature }
      : { ...kept, code: problem?.code as Code, message: problem?.message as string };
    if (redo) redone += 1;
    else invalid += 1;

    const next = redo ? sampleAfresh(again, redone) : askWithWhy(sample, refusal, reading.turnEnd, check);
    const isUsedUp = invalid >= options.attempts;
    if (next === null || (isUsedUp && !wasRecovered(asker, question, step.attempts + 1, next))) {
      const asked = givenUp(asker, step, { text, kept, reading, refusal, redo });
      keepBeside(asked.step, answer, check);
      pool.judge(key, asked.step.rung, refusal.code, mending);
      return asked;
    }
    pool.judge(key, 'failed', refusal.code, mending);
    step.rejected = [...(step.rejected ?? []), refusal];
    sample = next;
  }
}

/** What was said beside the last answer; calls only of an agent that has tools, for others are no business of its model. */
function keepBeside(
  step: Step,
  { tool_calls: calls, reasoning, reasoning_whole: whole }: Answer,
  { calls: mayCall }: Check,
): void {
  if (calls !== undefined && mayCall) step.tool_calls = calls;
  if (reasoning !== undefined) step.reasoning = reasoning;
  if (whole !== undefined) step.reasoning_whole = whole;
}

/** The step before anybody has answered. */
function unanswered({ agent, policy }: Asker, { saw, round, shared }: Question): Step {
  const step: Step = {
    agent: agent.key,
    rung: 'failed',
    saw,
    repairs: [],
    calls: [],
    attempts: 0,
    usage: { prompt: 0, completion: 0 },
    policy,
  };
  if (round > 0) step.round = round;
  if (shared !== undefined) step.shared = shared;
  return step;
}

function callOf(
  { agent, model, own }: Asker,
  { id, shared, row, begins, round, redact }: Question,
  { attempt, body, key }: { attempt: number; body: Buffer; key: string },
): Call {
  const call: Call = {
    path: '/chat/completions',
    model,
    body,
    head: own.head,
    tail: own.tail,
    key,
    item: shared ?? id,
    row,
    begins: begins && attempt === 1,
    agent: agent.key,
    round,
    attempt,
  };
  if (redact) call.redact = redact;
  return call;
}

/** The next attempt, with the answer that was refused and why. */
function askWithWhy(
  { temperature }: Sample,
  refusal: Rejected,
  turnEnd: number | undefined,
  check: Check,
): Sample {
  // a model that reads its own loop goes on with it; with another seed it may not get into one
  if (refusal.code === 'repeats-itself') return { temperature };
  // the tokens of a template would be read as what they say: as a turn of somebody else
  const raw = refusal.raw.slice(0, turnEnd);
  return { temperature, rejected: { raw, complaint: complaintOf(refusal, check) } };
}

type Answered = Required<Pick<Reading, 'rung' | 'output' | 'compact' | 'repairs'>>;

/** The keys of a finished step, always in the same order, since two runs with the same answers give the same bytes. */
function answered(step: Step, text: string, { rung, output, compact, repairs }: Answered): AskResult {
  const { agent, saw, calls, attempts, usage, policy, round, rejected, shared } = step;
  const done: Step =
    compact === text
      ? { agent, output, sha256: hashOfText(text), rung, saw, repairs, calls, attempts, usage, policy }
      : { agent, output, raw: text, rung, saw, repairs, calls, attempts, usage, policy };
  if (round !== undefined) done.round = round;
  if (rejected !== undefined) done.rejected = rejected;
  if (shared !== undefined) done.shared = shared;
  return { step: done, compact };
}

interface LastAnswer {
  text: string;
  kept: Pick<Rejected, 'raw' | 'whole'>;
  reading: Reading;
  refusal: Rejected;
  redo: boolean;
}

/** The last answer was refused too: defaults if they were asked for and suffice, else a failed step. */
function givenUp(
  { agent: { askAgain, schemaName, sampling }, options, check }: Asker,
  step: Step,
  { text, kept, reading, refusal, redo }: LastAnswer,
): AskResult {
  const rules = options.defaults?.get(schemaName);
  if (rules !== undefined && !redo && isObject(reading.output)) {
    const filled = fill(reading.output, rules, check, askAgain ? [parsePointer(askAgain.at)] : []);
    if (filled.repairs.length > 0 && check(filled.value).length === 0) {
      const repairs = [...reading.repairs, ...filled.repairs];
      const { value: output } = filled;
      return answered(step, text, { rung: 'defaulted', output, compact: JSON.stringify(output), repairs });
    }
  }
  const { agent, ...rest } = step;
  const limit = refusal.code === 'truncated' ? `; ${limitWords(sampling)}` : '';
  const asked = `${step.attempts} ${step.attempts === 1 ? 'attempt' : 'attempts'}`;
  return {
    step: { agent, ...kept, ...rest, problem: { code: refusal.code, message: refusal.message } },
    failure: redo
      ? { code: 'zero-confidence', message: `${agent}: ${asked}, and still ${refusal.message}` }
      : {
          code: 'no-valid-answer',
          message: `${agent}: ${asked}; the last: ${refusal.code}: ${refusal.message}${limit}`,
        },
  };
}

/** What came from the server's prefix cache is left out: it hangs on what else was asked just then, as latency does. */
function addUsage(step: Step, { prompt, completion }: Step['usage']): void {
  step.usage.prompt += prompt;
  step.usage.completion += completion;
}
