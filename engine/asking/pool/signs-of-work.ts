/**
 * Signs that an endpoint works, and how fast. A server that computes a long answer says nothing for minutes, and one that
 * hangs says nothing either; a live /health tells them apart no better, since a hung engine has one. What does:
 *
 *   - counters of /metrics that move while an engine works: tokens written and read, and its steps;
 *   - answers that come from there, to whomever of this process.
 *
 * Requests that run or wait there are no sign, for they count what came and not what was done.
 */
import type { Answer, Call } from '../../core/item/call.ts';
import { isObject } from '../../core/json/pointer.ts';
import {
  meanOf,
  type Page,
  PROMPT_TOKENS,
  readLoad,
  sumOf,
  WRITTEN_TOKENS,
} from '../endpoints/server-load.ts';

/**
 * Steps of the engine, each of which gives every call in its batch a token or more; of several engines, the mean. TGI
 * counts those that read prompts apart from those that write: their mean is too few rather than too many.
 */
const STEPS = ['vllm:iteration_tokens_total_count', 'tgi_batch_inference_count', 'llamacpp:n_decode_total'];
/** A step takes a ms or more: what is beyond is no count of one server. */
const LEAST_STEP_MS = 1;
/**
 * Tokens may be counted as they are written, or when an answer is over. These are counted as they are written: those that
 * grow without an answer, or, looked at so often, never by just what was answered.
 */
const ODD_LOOKS = 3;
/**
 * Counters that fall are those of a server that began again, or of several behind one URL that answer by turns. For so
 * long they say nothing.
 */
const UNSTEADY_MS = 30_000;

/** Of one page. */
export interface Counters {
  written: number;
  read: number;
  /** undefined where it does not count them */
  steps: number | undefined;
  running: number;
  kv: number;
}

/** null where the page counts no tokens, or says nothing of running requests */
function readCounters(page: Page): Counters | null {
  const load = readLoad(page);
  const written = sumOf(page, WRITTEN_TOKENS);
  if (load === null || written === undefined) return null;
  const { running, kv } = load;
  return { written, read: sumOf(page, PROMPT_TOKENS) ?? 0, steps: meanOf(page, STEPS), running, kv };
}

/** What is known of an endpoint's work. Times are ms of the pool's clock, and -Infinity before the first. */
export const noSigns = () => ({
  /** what its counters said last, and when, and what it had answered us then; null where it has none */
  last: null as (Counters & { seenAt: number; answered: number; tokens: number }) | null,
  /** looks in a row at which it had written more or less than it had answered since the last one */
  odd: 0,
  /** from when on they are trusted */
  steadyFrom: Number.NEGATIVE_INFINITY,
  /** They move while it works, and not only when a call is over: if they stand still, so does the engine. */
  isLive: false,
  /** tokens that each call of its batch could have been given since the pool was opened */
  steps: 0,
  /** when it was last seen to work */
  at: Number.NEGATIVE_INFINITY,
  /** when its KV cache was last seen to change, as the pieces of a long prompt do before a token is counted */
  stirredAt: Number.NEGATIVE_INFINITY,
  /** its last answer, and `steps` then; when the call was sent that was sent last of those that are answered */
  answeredAt: Number.NEGATIVE_INFINITY,
  stepsAtAnswer: 0,
  newestSent: Number.NEGATIVE_INFINITY,
  /** looks in a row to which it said nothing at all */
  unheard: 0,
  /** when it was last heard, whatever it said; looks of any kind since then that it left without an answer (mute.ts) */
  heardAt: Number.NEGATIVE_INFINITY,
  muteLooks: 0,
  /** when it last left a call unanswered until that was given up */
  unansweredAt: Number.NEGATIVE_INFINITY,
  /** looks that it answered while it had calls, since it was mute last */
  heardAtWork: 0,
  /** the last of its failures in a row was a silence, which a sign of work makes good */
  wasSilent: false,
  speeds: { writes: new Map(), reads: new Map() } as Speeds,
});

export type Signs = ReturnType<typeof noSigns>;

/** What of an endpoint is looked at here. */
interface Working {
  readonly signs: Signs;
  readonly counts: { readonly answered: number; readonly usage: { readonly completion: number } };
  failuresInARow: number;
  readonly lacks: { metrics: boolean | null };
}

/** Its metrics were looked at. `page`: null where there are none, undefined where that could not be seen. */
export function noteLook(endpoint: Working, page: Page | null | undefined, now: number): void {
  const { signs } = endpoint;
  signs.unheard = page === undefined ? signs.unheard + 1 : 0;
  if (page === undefined) return;
  const counters = page === null ? null : readCounters(page);
  const { last } = signs;
  const { answered, usage } = endpoint.counts;
  signs.last = counters && { ...counters, seenAt: now, answered, tokens: usage.completion };
  endpoint.lacks.metrics = counters === null;
  if (counters === null) signs.isLive = false;
  if (counters === null || last === null) return;
  const written = counters.written - last.written;
  const read = counters.read - last.read;
  const steps = (counters.steps ?? 0) - (last.steps ?? 0);
  if (Math.min(written, read, steps) < 0) {
    signs.isLive = false;
    signs.steadyFrom = now + UNSTEADY_MS;
  }
  if (now < signs.steadyFrom) return;
  if (counters.kv !== last.kv) signs.stirredAt = now;
  if (Math.max(written, read, steps) === 0) return;
  noteWork(endpoint, now);
  const ended = answered - last.answered;
  const isBusy = last.running > 0 && counters.running > 0;
  signs.odd = isBusy && written !== usage.completion - last.tokens ? signs.odd + 1 : 0;
  signs.isLive ||= isBusy && (steps > 0 || (written > 0 && ended === 0) || signs.odd >= ODD_LOOKS);
  // without steps: at least so many tokens for each that was there at either look, or was answered in between
  const seats = Math.max(1, counters.running, last.running) + ended;
  const each = counters.steps === undefined || last.steps === undefined ? written / seats : steps;
  signs.steps += Math.min(each, (now - last.seenAt) / LEAST_STEP_MS);
}

/** A call was answered there. */
export function noteAnswered(
  endpoint: Working,
  { call, sentAt }: { call: Call; sentAt: number },
  { usage, body }: Answer,
  now: number,
): void {
  const { signs } = endpoint;
  const { choices } = isObject(body) ? body : {};
  const ms = now - sentAt;
  // several choices are written side by side
  const tokens = usage.completion / Math.max(1, Array.isArray(choices) ? choices.length : 1);
  if (tokens > 0) noteSpeed(signs.speeds, 'writes', call.model, ms, tokens);
  else noteSpeed(signs.speeds, 'reads', call.model, ms, call.body.length);
  signs.answeredAt = now;
  signs.stepsAtAnswer = signs.steps;
  signs.newestSent = Math.max(signs.newestSent, sentAt);
  signs.unheard = 0;
  noteWork(endpoint, now);
}

/** What its silence was counted as is no failure any more. */
function noteWork(endpoint: Working, now: number): void {
  const { signs } = endpoint;
  signs.at = now;
  if (signs.wasSilent) endpoint.failuresInARow = 0;
  signs.wasSilent = false;
}

/** Since when a call has its share at an endpoint: ms, and the endpoint's `steps`. */
export interface Turn {
  from: number;
  steps: number;
  /** one that was sent behind it is answered */
  isOvertaken: boolean;
}

export const turnFrom = (from: number, steps: number): Turn => ({ from, steps, isOvertaken: false });

/** While only calls are answered that were sent before it, it may wait in the server's queue. */
export function noteTurn(turn: Turn, sentAt: number, { answeredAt, stepsAtAnswer, newestSent }: Signs): void {
  if (turn.isOvertaken || answeredAt <= turn.from) return;
  turn.from = answeredAt;
  turn.steps = stepsAtAnswer;
  turn.isOvertaken = newestSent > sentAt;
}

/** As if all of it had been seen `ms` later: this process stood still. */
export function postponeSigns({ signs }: Pick<Working, 'signs'>, ms: number): void {
  signs.at += ms;
  signs.stirredAt += ms;
  signs.steadyFrom += ms;
  signs.answeredAt += ms;
  signs.heardAt += ms;
  signs.newestSent += ms;
}

/** Answers kept for a speed: as many as for a median. */
const KEPT = 64;

/** What has a speed: the writing of tokens, of one choice each, or the reading of bytes, where nothing is written. */
export type SpeedOf = 'writes' | 'reads';

/** The last answers of one model, as ms and tokens, or ms and bytes. */
interface Speed {
  readonly ms: Float64Array;
  readonly units: Float64Array;
  count: number;
}

export type Speeds = Record<SpeedOf, Map<string, Speed>>;

/** An answer took so many ms for so many tokens or bytes. */
export function noteSpeed(speeds: Speeds, what: SpeedOf, model: string, ms: number, units: number): void {
  let speed = speeds[what].get(model);
  if (speed === undefined) {
    speed = { ms: new Float64Array(KEPT), units: new Float64Array(KEPT), count: 0 };
    speeds[what].set(model, speed);
  }
  const at = speed.count++ % KEPT;
  speed.ms[at] = ms;
  speed.units[at] = units;
}

/**
 * In ms a token, or a byte; NaN where nothing is known. All their time by all their tokens, so that a long answer counts
 * for more than a short one. Time in the server's queue and for the prompt is in it: it is rather too slow.
 */
export function paceOf(speeds: Speeds, what: SpeedOf, model: string): number {
  const speed = speeds[what].get(model);
  if (speed === undefined) return Number.NaN;
  const { ms, units, count } = speed;
  let time = 0;
  let done = 0;
  for (let i = Math.min(KEPT, count) - 1; i >= 0; i--) {
    time += ms[i] as number;
    done += units[i] as number;
  }
  return time / done;
}
