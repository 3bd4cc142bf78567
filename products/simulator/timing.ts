/**
 * What decides when an answer is ready: a delay that is drawn for each request, or an engine that all requests share. The
 * handler of a request is the same with both.
 */

import type { Clock } from '../../engine/asking/endpoints/pool-clock.ts';
import type { Reply } from './chat.ts';
import type { Latency } from './control.ts';
import { Engine, type EngineState } from './engine.ts';
import type { Preset } from './presets.ts';
import { type Draws, PURPOSE } from './random.ts';
import type { Speculation } from './speculation.ts';
import { BLOCK, type PromptInput, prefixCache, promptOf, tokensOf } from './tokens.ts';

export interface Work {
  asked: PromptInput;
  promptTokens: number;
  outputTokens: number;
  /** lower runs sooner, where the server schedules by priority */
  priority: number;
  /** the hash of its body */
  request: Buffer;
  streamed: boolean;
  /** when all of it was there, on the clock of the server */
  came: number;
}

/** When what happened, in ms after arrival, and what the prefix cache had. */
export interface ReplyTimes {
  queued: number;
  firstToken: number;
  lastToken: number;
  cachedTokens: number;
}

/** Called in this order; `progress` only where an answer is streamed, with the share of its tokens that are there. */
export interface Listener {
  firstToken(): void;
  progress(share: number): void;
  done(told: ReplyTimes): void;
}

/** What a server can say of itself at this moment; counts are since its start. */
export type Live = Omit<EngineState, 'steps' | 'busyMs' | 'kvRead'>;

export interface Backend {
  /** May call the listener before it returns. The returned function calls the work off: its client has gone. */
  start(work: Work, listener: Listener): () => void;
  live(): Live;
  /** From now on everything takes `factor` times as long. */
  slow(factor: number): void;
  /** the server that is modelled, for its metrics; undefined where none is */
  kvBlocks: number | undefined;
  speculation: Speculation | undefined;
}

/**
 * Starts what a reply is made of: one prompt that is answered, or several that are embedded, each on its own. The
 * listener hears when the last of them is there.
 */
export function startAll(
  backend: Backend,
  { prompts, usage, priority }: Pick<Reply, 'prompts' | 'usage' | 'priority'>,
  request: Buffer,
  streamed: boolean,
  came: number,
  listener: Listener,
): () => void {
  const work = (asked: PromptInput, promptTokens: number, outputTokens: number): Work => ({
    asked,
    promptTokens,
    outputTokens,
    priority,
    request,
    streamed,
    came,
  });
  if (prompts.length === 1) {
    return backend.start(work(prompts[0]!, usage.prompt, Math.max(1, usage.completion)), listener);
  }
  let left = prompts.length;
  let cachedTokens = 0;
  const each: Listener = {
    firstToken() {},
    progress() {},
    done(told) {
      cachedTokens += told.cachedTokens;
      if (--left > 0) return;
      listener.firstToken();
      listener.done({ ...told, cachedTokens });
    },
  };
  const started = prompts.map(asked => backend.start(work(asked, tokensOf(asked as string), 1), each));
  return () => {
    for (const callOff of started) callOff();
  };
}

/** vLLM's default max_num_seqs on a card of 70 GiB or more. */
const SEQUENCES = 1_024;
/** The first token of a streamed answer comes after a quarter of the time, as if prefill had taken it. */
const PREFILL_SHARE = 0.25;

export interface DelaySettings {
  /** null is no delay */
  latency: () => Latency | null;
  draws: Draws;
  clock: Clock;
  maxModelLength: number;
}

/**
 * A server that answers after a delay and is never full: no queue, no preemption, and KV use is what the tokens in
 * flight would take of a card that holds `SEQUENCES` contexts of full length. Its prefix cache knows system prompts.
 */
export function delayBackend({ latency, draws, clock, maxModelLength }: DelaySettings): Backend {
  const cachedTokensOf = prefixCache();
  let factor = 1;
  let tokensHeld = 0;
  const live = {
    running: 0,
    waiting: 0,
    prefillTokens: 0,
    preemptions: 0,
    prefixQueries: 0,
    prefixHits: 0,
    promptTokens: 0,
    outputTokens: 0,
    decodes: 0,
  };
  return {
    kvBlocks: undefined,
    speculation: undefined,
    slow(next) {
      factor = next;
    },
    live: () => ({ ...live, kvUsage: Math.min(1, tokensHeld / (SEQUENCES * maxModelLength)) }),
    start({ asked, promptTokens, outputTokens, request, streamed }, listener) {
      const arrived = clock.now();
      const { low, high } = latency() ?? { low: 0, high: 0 };
      const cachedTokens = cachedTokensOf(asked);
      const lastToken = Math.round((low + (high - low) * draws(request, PURPOSE.delay)()) * factor);
      const firstToken = streamed ? Math.round(lastToken * PREFILL_SHARE) : lastToken;
      live.running++;
      tokensHeld += promptTokens;
      live.promptTokens += promptTokens;
      live.prefixQueries += promptTokens;
      live.prefixHits += cachedTokens;
      let over = false;
      let spoken = 0;
      let callOff = () => {};
      const end = () => {
        over = true;
        live.running--;
        tokensHeld -= promptTokens;
      };
      const after = (ms: number, then: () => void) => {
        if (over) return;
        if (ms <= 0) then();
        else callOff = clock.after(ms, then);
      };
      const finish = () => {
        end();
        live.outputTokens += outputTokens;
        listener.done({ queued: 0, firstToken: spoken, lastToken: clock.now() - arrived, cachedTokens });
      };
      // a part for each token behind the first; a timer has whole milliseconds, so shorter gaps are put together
      const parts = Math.min(outputTokens - 1, Math.floor(lastToken - firstToken));
      const gap = (lastToken - firstToken) / parts;
      const part = (number: number) => {
        if (number >= parts) return finish();
        listener.progress((1 + (number * (outputTokens - 1)) / parts) / outputTokens);
        schedule(number + 1);
      };
      // by the time of the first token, so that late timers do not add up; parts that are overdue come together
      const schedule = (number: number) => {
        const passed = clock.now() - arrived - spoken;
        const next = Math.min(parts, Math.max(number, Math.floor(passed / gap)));
        after(Math.max(1, next * gap - passed), () => part(next));
      };
      after(firstToken, () => {
        spoken = clock.now() - arrived;
        listener.firstToken();
        if (streamed && parts > 1) schedule(1);
        else after(lastToken - firstToken, finish);
      });
      return () => {
        if (over) return;
        callOff();
        end();
      };
    },
  };
}

/**
 * An engine in real time: its steps are due on a clock, and one timer is set for the next of them.
 * @throws RangeError where a context of full length does not fit into the KV cache: vLLM would not start either
 */
export function engineBackend(
  preset: Preset,
  clock: Clock,
  maxModelLength: number,
  byPriority = false,
): Backend {
  const kvBlocks = Math.floor(preset.limits.kvTokens / BLOCK);
  if (maxModelLength > kvBlocks * BLOCK) {
    throw new RangeError(
      `expected a context length of at most ${kvBlocks * BLOCK} tokens, the KV cache of ${preset.name}, found ${maxModelLength}: a shorter --max-model-len, or more memory by --gpu-memory-utilization`,
    );
  }
  const engine = new Engine(preset, { byPriority });
  let set: number | null = null;
  let callOff = () => {};
  /** the engine has been told of all that was until then: no time goes back */
  let reached = 0;

  /** Sets the timer for what is due next, where that has changed. */
  function arm(): void {
    const due = engine.due();
    if (due === set) return;
    callOff();
    set = due;
    if (due === null) callOff = () => {};
    else if (clock.at) callOff = clock.at(due, wake);
    else callOff = clock.after(Math.max(0, due - clock.now()), wake);
  }

  function wake(): void {
    set = null;
    callOff = () => {};
    advance(clock.now());
    arm();
  }

  function advance(to: number): void {
    reached = to;
    engine.advance(to);
  }

  /**
   * What fell due by `time` while this process was busy is run first: nobody comes in before they came, and steps end when
   * they should have, however late the timer was.
   */
  function upTo(time: number): number {
    const at = Math.max(time, reached);
    const due = engine.due();
    if (due !== null && due < at) advance(at);
    return at;
  }

  return {
    kvBlocks,
    speculation: preset.limits.speculation,
    live: () => engine.state(upTo(clock.now())),
    slow(factor) {
      reached = upTo(clock.now());
      engine.slow(factor, reached);
      arm();
    },
    start({ asked, outputTokens, priority, streamed, came }, listener) {
      const handle = engine.add(
        {
          prompt: promptOf(asked),
          output: outputTokens,
          priority,
          firstToken: () => listener.firstToken(),
          ...(streamed
            ? {
                progress: {
                  every: 1,
                  tokens: (_, made) => listener.progress(made / outputTokens),
                },
              }
            : {}),
          done: (at, { arrived, scheduled, firstToken, cachedTokens }) =>
            listener.done({
              queued: scheduled - arrived,
              firstToken: firstToken - arrived,
              lastToken: at - arrived,
              cachedTokens,
            }),
        },
        // not when it was read: what came before the end of a step is in the next one
        upTo(came),
      );
      arm();
      return () => {
        reached = upTo(clock.now());
        engine.remove(handle, reached);
        arm();
      };
    },
  };
}
