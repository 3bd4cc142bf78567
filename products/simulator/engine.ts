/**
 * An engine with continuous batching on a clock that the caller owns: no timer, no wall clock, no draw, so the same calls
 * give the same times on every machine. Which sequences a step serves is in scheduler.ts, how long it takes in steptime.ts.
 *
 * What costs time here is events, not tokens: steps in which the same sequences decode are run as one stretch, whose
 * length, blocks and duration follow from sums. A stretch is cut after the running step when a sequence comes or goes.
 *
 *   const engine = createEngine(preset);
 *   engine.add({ prompt: promptOf(messages), output: 150, done: at => … }, 0);
 *   for (let due = engine.due(); due !== null; due = engine.advance(due));
 */
import type { Preset } from './presets.ts';
import { type Counts, createScheduler, type Limits, type Outcome, type Step } from './scheduler.ts';
import { type Handle, type Member, memberOf, type Sequence } from './sequence.ts';
import { decodeMs, decodeStepsBy, stepMs } from './steptime.ts';
import { BLOCK } from './tokens.ts';

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
export interface Engine {
  /**
   * The sequence is looked at when the running step ends, at once where none runs.
   * @throws RangeError where it would never fit into the KV cache
   */
  add(sequence: Sequence, now: number): Handle;
  /** The client has gone: the sequence leaves at the end of the running step, and nothing of it is called again. */
  remove(handle: Handle, now: number): void;
  /** When the next event is due; null while idle. `add`, `remove` and `advance` may change it. */
  due(): number | null;
  /** From the next step on a step takes `factor` times as long: a server that has become slow, or well again. */
  slow(factor: number, now: number): void;
  /** Runs all steps that end by `now`, in order, with their callbacks; returns `due()`. */
  advance(now: number): number | null;
  state(now: number): EngineState;
}

/** @throws RangeError where the limits are none that vLLM would start with */
export function createEngine(preset: Preset, limits: Partial<Limits> = {}): Engine {
  const { step: times } = preset;
  const within = { ...preset.limits, ...limits };
  if (within.maxNumBatchedTokens < within.maxNumSeqs) {
    throw new RangeError(
      `expected max-num-batched-tokens of at least max-num-seqs (${within.maxNumSeqs}), found ${within.maxNumBatchedTokens}`,
    );
  }
  const scheduler = createScheduler(within);
  const { decoding, counts } = scheduler;
  const tokensHeld = scheduler.blocks * BLOCK;

  // the stretch that runs: `length` steps from `from` on, of which `step` is the first
  let step: Step | null = null;
  let from = 0;
  let length = 0;
  let due: number | null = null;
  let busyMs = 0;
  let kvRead = 0;
  let added = 0;
  let factor = 1;
  let nextFactor = 1;

  /** How long the first `steps` of the stretch take; more than one only decode. */
  const stretchMs = ({ sequences, tokens, kv, attention }: Step, steps: number) =>
    factor *
    (steps === 1 ? stepMs(times, sequences, tokens, kv, attention) : decodeMs(times, sequences, kv, steps));

  /** The context that the first `steps` of the stretch read: that of sequences which decode grows by one each step. */
  const stretchKv = ({ sequences, kv }: Step, steps: number) =>
    steps * kv + (sequences * steps * (steps - 1)) / 2;

  /** The step of the stretch that runs at `now`, from 1; 0 where none runs. */
  function runningAt(now: number): number {
    if (step === null || length <= 1) return length;
    return Math.min(length, decodeStepsBy(times, step.sequences, step.kv, (now - from) / factor));
  }

  function plan(now: number): void {
    step = scheduler.next(now);
    factor = nextFactor;
    from = now;
    length = step?.alike ?? 0;
    if (step) due = now + stretchMs(step, length);
    // who ran alone and was preempted is let in by the next plan
    else due = scheduler.waiting() > 0 ? now : null;
  }

  /** Ends the stretch with the step that runs at `now`: something has changed. */
  function cut(now: number): void {
    if (step === null || length <= 1) return;
    length = runningAt(now);
    due = from + stretchMs(step, length);
  }

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

  return {
    add(sequence, now) {
      const { prompt, output } = sequence;
      // the last token is sampled and never computed
      const most = tokensHeld - prompt.tokens + 1;
      if (!Number.isInteger(output) || output < 1 || output > most) {
        throw new RangeError(
          `expected 1 to ${Math.max(0, most)} tokens after a prompt of ${prompt.tokens}, found ${output}: the KV cache holds ${tokensHeld}`,
        );
      }
      const member = memberOf(sequence, added++, now);
      if (scheduler.add(member)) cut(now);
      due ??= now;
      return member;
    },
    remove(handle, now) {
      const member = handle as Member;
      member.silent = true;
      scheduler.remove(member);
      cut(now);
    },
    due: () => due,
    slow(next, now) {
      cut(now);
      nextFactor = next;
    },
    advance(now) {
      while (due !== null && due <= now) {
        const at = due;
        const ran = step;
        if (ran) {
          busyMs += stretchMs(ran, length);
          kvRead += stretchKv(ran, length);
        }
        const outcome = ran && scheduler.complete(length);
        // planned before anybody is told: what a client does with an answer is too late for the next step
        plan(at);
        if (outcome) tell(at, outcome);
      }
      return due;
    },
    state(now) {
      const over = Math.max(0, runningAt(now) - 1);
      return {
        ...counts,
        steps: counts.steps + over,
        outputTokens: counts.outputTokens + over * decoding.count,
        running: scheduler.running(),
        waiting: scheduler.waiting(),
        kvUsage: scheduler.kvUsage(over),
        prefillTokens: scheduler.prefillTokens(),
        busyMs: busyMs + (step && over > 0 ? stretchMs(step, over) : 0),
        kvRead: kvRead + (step && over > 0 ? stretchKv(step, over) : 0),
      };
    },
  };
}
