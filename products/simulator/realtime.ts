/** An engine in real time: its steps are due on a clock, and one timer is set for the next of them. */

import type { Clock } from '../../engine/asking/endpoints/pool-clock.ts';
import { Engine } from './engine.ts';
import type { Preset } from './presets.ts';
import type { Backend } from './timing.ts';
import { BLOCK, promptOf } from './tokens.ts';

/** @throws RangeError where a context of full length does not fit into the KV cache: vLLM would not start either */
export function engineBackend(preset: Preset, clock: Clock, maxModelLength: number): Backend {
  const kvBlocks = Math.floor(preset.limits.kvTokens / BLOCK);
  if (maxModelLength > kvBlocks * BLOCK) {
    throw new RangeError(
      `expected a context length of at most ${kvBlocks * BLOCK} tokens, the KV cache of ${preset.name}, found ${maxModelLength}: a shorter --max-model-len, or more memory by --gpu-memory-utilization`,
    );
  }
  const engine = new Engine(preset);
  let set: number | null = null;
  let callOff = () => {};

  /** Sets the timer for what is due next, where that has changed. */
  function arm(): void {
    const due = engine.due();
    if (due === set) return;
    callOff();
    set = due;
    callOff = due === null ? () => {} : clock.after(Math.max(0, due - clock.now()), wake);
  }

  function wake(): void {
    set = null;
    callOff = () => {};
    engine.advance(clock.now());
    arm();
  }

  /** What fell due while this process was busy is run first: nobody comes in before they came. */
  function now(): number {
    const time = clock.now();
    const due = engine.due();
    if (due !== null && due < time) engine.advance(time);
    return time;
  }

  return {
    kvBlocks,
    live: () => engine.state(now()),
    slow(factor) {
      engine.slow(factor, now());
      arm();
    },
    start({ asked, outputTokens, streamed }, listener) {
      const handle = engine.add(
        {
          prompt: promptOf(asked),
          output: outputTokens,
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
        now(),
      );
      arm();
      return () => {
        engine.remove(handle, now());
        arm();
      };
    },
  };
}
