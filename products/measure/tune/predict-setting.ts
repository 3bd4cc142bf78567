/**
 * What a setting would do, by the simulated engine in virtual time: hours of a grid in seconds. Times are milliseconds of
 * that clock, rates are a second.
 */

import { createEngine, type Engine } from '../../simulator/engine.ts';
import type { Preset } from '../../simulator/presets.ts';
import type { Prompt } from '../../simulator/prompt.ts';
import type { Handle } from '../../simulator/sequence.ts';
import { BLOCK } from '../../simulator/tokens.ts';
import { dueTimes } from '../bench/drive-load.ts';

/** The tokens of a request: `shared` are those at the beginning of the prompt which all requests have in common. */
export interface Lengths {
  prompt: number;
  shared: number;
  output: number;
}

/** A request that ended, and what the engine was like over the run. */
export interface Ended {
  sent: number;
  first: number;
  end: number;
  output: number;
}

export interface VirtualRun {
  ended: Ended[];
  kvMax: number;
  preemptions: number;
}

/** Hashes of blocks: those of the shared part are the same in all prompts. */
function promptOf({ prompt, shared }: Lengths, number: number): Prompt {
  const blocks = new Int32Array(2 * Math.floor(prompt / BLOCK));
  for (let index = 0; index < blocks.length / 2; index++) {
    const isCommon = (index + 1) * BLOCK <= shared;
    blocks[2 * index] = Math.imul(isCommon ? 1 : number + 2, 0x9e3779b1) ^ index;
    blocks[2 * index + 1] = isCommon ? -1 : number;
  }
  return { tokens: prompt, blocks };
}

interface Virtual {
  run: VirtualRun;
  engine: Engine;
  add(number: number, at: number, done?: (end: number) => void): void;
}

function virtual(preset: Preset, lengths: readonly Lengths[]): Virtual {
  const engine = createEngine(preset);
  const run: VirtualRun = { ended: [], kvMax: 0, preemptions: 0 };
  return {
    run,
    engine,
    add(number, at, done) {
      const of = lengths[number % lengths.length] as Lengths;
      engine.add(
        {
          prompt: promptOf(of, number),
          output: of.output,
          done(end: number, { firstToken }: Handle) {
            run.ended.push({ sent: at, first: firstToken, end, output: of.output });
            done?.(end);
          },
        },
        at,
      );
    },
  };
}

/** `clients` ask again as soon as they are answered, until `requests` were sent; those under way are waited for. */
export function closedRun(
  preset: Preset,
  lengths: readonly Lengths[],
  { clients, requests }: { clients: number; requests: number },
): VirtualRun {
  const { run, engine, add } = virtual(preset, lengths);
  let sent = 0;
  const next = (at: number): void => {
    if (sent < requests) add(sent++, at, next);
  };
  for (let client = 0; client < clients; client++) next(0);
  for (let due = engine.due(); due !== null; due = engine.advance(due)) note(run, engine, due);
  return run;
}

/** Requests come at their times, whatever the answers take. */
export function openRun(
  preset: Preset,
  lengths: readonly Lengths[],
  { rate, count, seed }: { rate: number; count: number; seed: number },
): VirtualRun {
  const { run, engine, add } = virtual(preset, lengths);
  const due = dueTimes({ rate, burstiness: 1, count, seed });
  for (let number = 0; number < count; number++) {
    const at = due[number] as number;
    for (let next = engine.due(); next !== null && next < at; next = engine.advance(next))
      note(run, engine, next);
    add(number, at);
  }
  for (let next = engine.due(); next !== null; next = engine.advance(next)) note(run, engine, next);
  return run;
}

function note(run: VirtualRun, engine: Engine, at: number): void {
  const { kvUsage, preemptions } = engine.state(at);
  run.kvMax = Math.max(run.kvMax, kvUsage);
  run.preemptions = preemptions;
}

/** Requests and output tokens a second in the middle half of a closed run: without its beginning and its end. */
export function throughputOf({ ended }: Pick<VirtualRun, 'ended'>): { requests: number; tokens: number } {
  const quarter = ended.length >> 2;
  const [from, to] = [ended[quarter], ended[ended.length - 1 - quarter]];
  if (from === undefined || to === undefined || !(to.end > from.end)) return { requests: 0, tokens: 0 };
  const seconds = (to.end - from.end) / 1000;
  const within = ended.slice(quarter + 1, ended.length - quarter);
  const tokens = within.reduce((sum, { output }) => sum + output, 0);
  return { requests: within.length / seconds, tokens: tokens / seconds };
}
