/** Clients of an engine in virtual time, each of which asks again as soon as it is answered: how published runs load it. */
import { Engine } from '../../products/simulator/engine.ts';
import type { Preset } from '../../products/simulator/presets.ts';
import type { Handle } from '../../products/simulator/sequence.ts';
import type { Prompt } from '../../products/simulator/tokens.ts';

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

export interface Call {
  prompt: number;
  /** tokens at the beginning of the prompt that all calls share which stand at the same place */
  shared?: number;
  output: number;
}

export interface Load {
  clients: number;
  /** what a client asks, one after the other, again and again */
  calls: readonly Call[];
  /** how often; what is measured is the middle half of all calls */
  rounds?: number;
}

export interface Figures {
  /** (end − first token) / (output − 1), mean over calls, ms */
  tpot: number;
  ttft: number;
  /** output tokens, a second */
  tokensPerSecond: number;
}

export function closedLoop(preset: Preset, { clients, calls, rounds = 8 }: Load): Figures {
  const engine = new Engine(preset);
  const total = clients * calls.length * rounds;
  let [asked, done, counted, tpot, ttft] = [0, 0, 0, 0, 0];
  const marks: { at: number; tokens: number }[] = [];
  const ask = (turn: number, at: number) => {
    const place = turn % calls.length;
    const { prompt, shared, output } = calls[place]!;
    const sequence = {
      prompt: promptLike(prompt, asked++, shared, place),
      output,
      done(end: number, told: Handle) {
        done++;
        if (done === total >> 2 || done === total - (total >> 2)) {
          marks.push({ at: end, tokens: engine.state(end).outputTokens });
        }
        if (marks.length === 1 && output > 1) {
          tpot += (end - told.firstToken) / (output - 1);
          ttft += told.firstToken - told.arrived;
          counted++;
        }
        if (turn + 1 < calls.length * rounds) ask(turn + 1, end);
      },
    };
    engine.add(sequence, at);
  };
  for (let client = 0; client < clients; client++) ask(0, 0);
  drain(engine);
  const [from, to] = marks as [{ at: number; tokens: number }, { at: number; tokens: number }];
  return {
    tpot: tpot / counted,
    ttft: ttft / counted,
    tokensPerSecond: (1_000 * (to.tokens - from.tokens)) / (to.at - from.at),
  };
}
