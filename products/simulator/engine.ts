/**
 * An engine with continuous batching on a clock that the caller owns: no timer, no wall clock, no draw, so the same calls
 * give the same times on every machine. Which sequences a step serves is in scheduler.ts, how long it takes in steptime.ts.
 *
 * What costs time here is events, not tokens: steps in which the same sequences decode are run as one stretch, whose
 * length, blocks and duration follow from sums. A stretch is cut after the running step when a sequence comes or goes.
 *
 *   const engine = new Engine(preset);
 *   engine.add({ prompt: promptOf(messages), output: 150, done: at => … }, 0);
 *   for (let due = engine.due(); due !== null; due = engine.advance(due));
 */
import type { Preset } from './presets.ts';
import { type Counts, type Limits, type Outcome, Scheduler, type Step } from './scheduler.ts';
import { DoesNotFit, type Handle, Member, type Sequence } from './sequence.ts';
import { computedIn } from './speculation.ts';
import { decodeMs, decodeStepsBy, type StepTimes, stepMs } from './steptime.ts';
import { BLOCK } from './tokens.ts';

export type { Handle } from './sequence.ts';

/** Counts are since the beginning. */
export interface EngineState extends Counts {
  running: number;
  waiting: number;
  /** share of the KV blocks that sequences hold, 0 to 1 */
  kvUsage: number;
  /** prompt tokens that are not computed yet, of running and waiting sequences */
  prefillTokens: number;
  /** milliseconds in steps that are over */
  busyMs: number;
  /** tokens of context that those steps have read, each as often as it was read */
  kvRead: number;
}

/**
 * Times are milliseconds of the caller's clock and never go back; call `advance(now)` before `add` or `remove` where
 * something was due before `now`.
 */
export class Engine {
  readonly #times: StepTimes;
  readonly #scheduler: Scheduler;
  readonly #requestMs: number;
  readonly #plansAhead: boolean;
  /** on their way to the engine, in the order in which they came; and those that it knows, for the plans after the next */
  readonly #coming: Member[] = [];
  #known: Member[] = [];
  #next: Member[] = [];
  // the stretch that runs: `length` steps from `from` on, of which `step` is the first
  #step: Step | null = null;
  #from = 0;
  #length = 0;
  #due: number | null = null;
  #busyMs = 0;
  #kvRead = 0;
  #added = 0;
  #factor = 1;
  #nextFactor = 1;
  /** told each stretch that is over: how many sequences decoded in each of its steps, and how long they took, in ms */
  onSteps: ((decoding: number, steps: number, ms: number) => void) | undefined;

  /** @throws RangeError where a step could not hold all sequences that decode, with their drafts */
  constructor(preset: Preset, limits: Partial<Limits> = {}) {
    const within = { ...preset.limits, ...limits };
    const least = within.maxNumSeqs * computedIn(within.speculation);
    if (within.maxNumBatchedTokens < least) {
      throw new RangeError(
        `expected max-num-batched-tokens of at least ${least}, what the sequences of max-num-seqs decode in a step, found ${within.maxNumBatchedTokens}`,
      );
    }
    this.#times = preset.step;
    this.#requestMs = preset.requestMs;
    this.#plansAhead = preset.plansAhead;
    this.#scheduler = new Scheduler(within);
  }

  /** When the next event is due; null while idle. `add`, `remove` and `advance` may change it. */
  due(): number | null {
    const [first] = this.#coming;
    if (first === undefined) return this.#due;
    const arrives = first.arrived + this.#requestMs;
    return this.#due === null ? arrives : Math.min(arrives, this.#due);
  }

  /**
   * The sequence is looked at when the running step ends, at once where none runs.
   * @throws RangeError where it would never fit into the KV cache
   */
  add(asked: Sequence, now: number): Handle {
    // of an empty text a model is still shown the token that begins it
    const sequence = asked.prompt.tokens > 0 ? asked : { ...asked, prompt: { ...asked.prompt, tokens: 1 } };
    const { prompt, output } = sequence;
    const tokensHeld = this.#scheduler.blocks.total * BLOCK;
    // the last token is sampled and never computed
    const most = tokensHeld - prompt.tokens + 1;
    if (most < 1) {
      throw new DoesNotFit(
        `expected a prompt of at most ${tokensHeld} tokens, found ${prompt.tokens}: more than the KV cache holds`,
      );
    }
    if (!Number.isInteger(output) || output < 1 || output > most) {
      throw new DoesNotFit(
        `expected 1 to ${most} tokens after a prompt of ${prompt.tokens}, found ${output}: the KV cache holds ${tokensHeld}`,
      );
    }
    const member = new Member(sequence, this.#added++, now);
    if (this.#requestMs > 0) this.#coming.push(member);
    else this.#admit(member, now);
    return member;
  }

  #admit(member: Member, now: number): void {
    if (member.silent) return;
    if (this.#plansAhead && this.#step !== null) {
      // the step after the running one is planned already, unless it is of the same stretch, which ends with it then
      if (this.#cut(now, 1)) this.#known.push(member);
      else this.#next.push(member);
      return;
    }
    if (this.#scheduler.add(member)) this.#cut(now);
    this.#due ??= now;
  }

  /** The client has gone: the sequence leaves at the end of the running step, and nothing of it is called again. */
  remove(handle: Handle, now: number): void {
    const member = handle as Member;
    member.silent = true;
    if (member.phase === 'coming') return;
    this.#scheduler.remove(member);
    this.#cut(now);
  }

  /** From the next step on a step takes `factor` times as long: a server that has become slow, or well again. */
  slow(factor: number, now: number): void {
    this.#cut(now);
    this.#nextFactor = factor;
  }

  /** Runs all steps that end by `now`, in order, with their callbacks; returns `due()`. */
  advance(now: number): number | null {
    for (let next = this.due(); next !== null && next <= now; next = this.due()) {
      const at = next;
      if (at !== this.#due) {
        this.#admit(this.#coming.shift()!, at);
        continue;
      }
      const ran = this.#step;
      if (ran) {
        const ms = this.#stretchMs(ran, this.#length);
        this.#busyMs += ms;
        this.onSteps?.(this.#scheduler.decoding.count, this.#length, ms);
        this.#kvRead += stretchKv(ran, this.#length);
      }
      const outcome = ran && this.#scheduler.complete(this.#length);
      // planned before anybody is told: what a client does with an answer is too late for the next step
      this.#plan(at);
      if (outcome) tell(at, outcome);
    }
    return this.due();
  }

  state(now: number): EngineState {
    const { counts, decoding, running, waiting, prefillTokens } = this.#scheduler;
    const over = Math.max(0, this.#runningAt(now) - 1);
    const step = over > 0 ? this.#step : null;
    return {
      ...counts,
      steps: counts.steps + over,
      // of drafted tokens a part may have been counted
      outputTokens: Math.floor(counts.outputTokens + over * decoding.madeInStep),
      decodes: counts.decodes + over * decoding.count,
      running: running.size,
      waiting: waiting.size + this.#known.length + this.#next.length,
      kvUsage: this.#scheduler.kvUsage(over),
      prefillTokens,
      busyMs: this.#busyMs + (step ? this.#stretchMs(step, over) : 0),
      kvRead: this.#kvRead + (step ? stretchKv(step, over) : 0),
    };
  }

  /** How long the first `steps` of the stretch take; more than one only decode. */
  #stretchMs(step: Step, steps: number): number {
    const times = this.#times;
    const { sequences, tokens, kv, attention } = step;
    return (
      this.#factor *
      (steps === 1 ? stepMs(times, sequences, tokens, kv, attention) : decodeMs(times, step, steps))
    );
  }

  /** The step of the stretch that runs at `now`, from 1; 0 where none runs. */
  #runningAt(now: number): number {
    if (this.#step === null || this.#length <= 1) return this.#length;
    const passed = (now - this.#from) / this.#factor;
    return Math.min(this.#length, decodeStepsBy(this.#times, this.#step, passed));
  }

  #plan(now: number): void {
    for (const member of this.#known) if (!member.silent) this.#scheduler.add(member);
    this.#known = this.#next;
    this.#next = [];
    const step = this.#scheduler.next(now);
    this.#step = step;
    this.#factor = this.#nextFactor;
    this.#from = now;
    this.#length = step?.alike ?? 0;
    if (step) this.#due = now + this.#stretchMs(step, this.#length);
    // who ran alone and was preempted is let in by the next plan
    else this.#due = this.#scheduler.waiting.size > 0 || this.#known.length > 0 ? now : null;
    if (this.#known.length > 0) this.#cut(now);
  }

  /**
   * Ends the stretch with the step that runs at `now`, or `more` steps later: something has changed. Whether it has so
   * many.
   */
  #cut(now: number, more = 0): boolean {
    const last = this.#runningAt(now) + more;
    if (this.#step === null || last > this.#length) return false;
    this.#length = last;
    this.#due = this.#from + this.#stretchMs(this.#step, this.#length);
    return true;
  }
}

/** The context that the first `steps` of a stretch read. */
const stretchKv = ({ kv, growth }: Step, steps: number) => steps * kv + (growth * steps * (steps - 1)) / 2;

function tell(at: number, { firsts, progressed, ended }: Outcome): void {
  for (const member of firsts) {
    member.firstToken = at;
    if (!member.silent) member.sequence.firstToken?.(at);
  }
  for (const member of progressed) {
    if (!member.silent) member.sequence.progress!.tokens(at, member.made);
  }
  for (const member of ended) if (!member.silent) member.sequence.done(at, member);
}
