/** Clients of an engine in virtual time, each of which asks again as soon as it is answered: how published runs load it. */
import { createEngine, type Engine } from '../../engine/simulator/engine.ts';
import type { Preset } from '../../engine/simulator/presets.ts';
import type { Prompt } from '../../engine/simulator/prompt.ts';

/** Runs an engine until it is idle. */
export function drain(engine: Engine): void {
  for (let due = engine.due(); due !== null; due = engine.advance(due));
}

/** A prompt of `tokens` that shares its first `shared` with all others of the same `family`. */
export function promptLike(tokens: number, number: number, shared = 0, family = 0): Prompt {
  const blocks = new Int32Array(2 * Math.floor(tokens / 16));
  for (let index = 0; index < blocks.length / 2; index++) {
    const common = (index + 1) * 16 <= shared;
    blocks[2 * index] = Math.imul((common ? family : number + 1_000) + 1, 0x9e3779b1) ^ index;
    blocks[2 * index + 1] = common ? -1 : number;
  }
  return { tokens, blocks };
}

export interface Load {
  clients: number;
  prompt: number;
  output: number;
  /** prompt tokens that all requests share */
  shared?: number;
  /** requests of each client */
  rounds?: number;
}

export interface Figures {
  /** (end − first token) / (output − 1), mean over requests, ms */
  tpot: number;
  ttft: number;
  /** output tokens over the whole run, a second */
  tokensPerSecond: number;
}

/** The figures leave out the first and the last round, in which the load is not yet or no longer what is measured. */
export function closedLoop(
  preset: Preset,
  { clients, prompt, output, shared = 0, rounds = 8 }: Load,
): Figures {
  const engine = createEngine(preset);
  let asked = 0;
  let [tpot, ttft, counted, tokens, begin, finish] = [0, 0, 0, 0, Number.POSITIVE_INFINITY, 0];
  const ask = (round: number, at: number) => {
    engine.add(
      {
        prompt: promptLike(prompt, asked++, shared),
        output,
        done(end, told) {
          if (round > 0 && round < rounds - 1) {
            tpot += (end - told.firstToken) / (output - 1);
            ttft += told.firstToken - told.arrived;
            counted++;
            tokens += output;
            begin = Math.min(begin, told.arrived);
            finish = Math.max(finish, end);
          }
          if (round < rounds - 1) ask(round + 1, end);
        },
      },
      at,
    );
  };
  for (let client = 0; client < clients; client++) ask(0, 0);
  drain(engine);
  return {
    tpot: tpot / counted,
    ttft: ttft / counted,
    tokensPerSecond: (1_000 * tokens) / (finish - begin),
  };
}
