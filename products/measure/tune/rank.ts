/**
 * The space in virtual time: what the simulated engine of a preset says of each setting, and which of them are worth a
 * start. An engine knows max_num_seqs, max_num_batched_tokens and gpu_memory_utilization; settings that differ in other
 * names are equal to it.
 */

import { dueTimes } from '../../kit/arrivals.ts';
import { Engine } from '../../simulator/engine.ts';
import { type Preset, withFlags } from '../../simulator/presets.ts';
import type { Handle } from '../../simulator/sequence.ts';
import { scaledTimes } from '../../simulator/steptime.ts';
import { BLOCK, type Prompt } from '../../simulator/tokens.ts';
import { lastKept, mostFor, rungOf } from './race.ts';
import {
  type Bound,
  isSame,
  MEMORY,
  SEQS,
  type Setting,
  type Study,
  TOKENS,
  type Value,
} from './tune-file.ts';

export interface Ranked {
  setting: Setting;
  /** requests a second at saturation, or at the concurrency of the load */
  capacity: number;
  /** requests a second within the bounds, if an open loop finds that; null: they are kept at no rate that was tried */
  rate: number | null;
  /** of the goal, as `goalValue` */
  value: number;
  kv_max: number;
  preemptions: number;
  /** why it would not start; null where it would */
  refused: string | null;
}

/** What a load is to a setting: so many at a time that the server always has some waiting, unless the load says how many. */
export function concurrencyOf({ load }: Pick<Study, 'load'>, setting: Setting): number {
  if (typeof load.concurrency === 'number') return load.concurrency;
  return Math.min(MOST_AT_ONCE, Math.max(FEWEST_AT_ONCE, 2 * numberAt(setting, SEQS, USUAL_SEQS)));
}

/** Whether a rate is looked for: only where the load has no concurrency of its own can there be one. */
export const findsRate = ({ load, slo }: Pick<Study, 'load' | 'slo'>): boolean =>
  slo.length > 0 && typeof load.concurrency !== 'number';

const MOST_AT_ONCE = 4_096;
const FEWEST_AT_ONCE = 64;
/** vLLM's default on a card below 70 GiB. */
const USUAL_SEQS = 256;

export function numberAt(setting: Setting, name: string, otherwise: number): number {
  const value: Value | undefined = setting[name];
  return typeof value === 'number' ? value : otherwise;
}

/** GPU hours in an hour of the server, times their price; 1 where nothing costs anything. */
export function hourlyOf({ price = 1, gpus }: Pick<Study, 'price' | 'gpus'>, setting: Setting): number {
  return price * (typeof gpus === 'number' ? gpus : numberAt(setting, gpus, 1));
}

/** A preset whose every time is `factor` times as long. */
export function scaled(preset: Preset, factor: number): Preset {
  return { ...preset, step: scaledTimes(preset.step, factor) };
}

/** Requests of a virtual run: enough for a p99, and a minute of the load. */
const VIRTUAL_REQUESTS = 1_000;
const VIRTUAL_SECONDS = 60;
const BATCHES = 6;

type Ranking = Pick<Study, 'load' | 'slo' | 'goal' | 'price' | 'gpus' | 'seed'>;

export function rankOne(
  study: Ranking,
  preset: Preset,
  lengths: readonly Lengths[],
  setting: Setting,
): Ranked {
  const { slo, goal, seed } = study;
  let server: Preset;
  try {
    server = withFlags(preset, {
      maxNumSeqs: numberAt(setting, SEQS, preset.limits.maxNumSeqs),
      maxNumBatchedTokens: numberAt(setting, TOKENS, preset.limits.maxNumBatchedTokens),
      gpuMemoryUtilization: setting[MEMORY] === undefined ? undefined : numberAt(setting, MEMORY, 0.9),
    });
    const longest = Math.max(...lengths.map(({ prompt, output }) => prompt + output));
    if (longest > server.limits.kvTokens)
      throw new RangeError(`the KV cache holds ${server.limits.kvTokens} tokens, a request needs ${longest}`);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    const refused = error.message;
    return { setting, capacity: 0, rate: null, value: 0, kv_max: 0, preemptions: 0, refused };
  }
  const clients = concurrencyOf(study, setting);
  const requests = Math.max(VIRTUAL_REQUESTS, BATCHES * clients);
  const full = closedRun(server, lengths, { clients, requests });
  const { requests: capacity, tokens } = throughputOf(full);
  let rate: number | null = null;
  let share = 1;
  if (findsRate(study)) {
    const keeps = (rung: number): boolean => {
      const perSecond = rungOf.rate(rung);
      const count = Math.ceil(Math.max(VIRTUAL_REQUESTS, VIRTUAL_SECONDS * perSecond));
      return isKept(openRun(server, lengths, { rate: perSecond, count, seed }).ended, slo);
    };
    const rung = lastKept(mostFor(capacity), keeps);
    rate = rung === null ? null : rungOf.rate(rung);
    share = (rate ?? 0) / capacity;
  } else if (slo.length > 0) share = isKept(full.ended, slo) ? 1 : 0;
  const most = goal === 'tokens' || goal === 'cost' ? tokens : capacity;
  const value = most * share * (goal === 'cost' ? 3600 / hourlyOf(study, setting) : 1);
  return { setting, capacity, rate, value, kv_max: full.kvMax, preemptions: full.preemptions, refused: null };
}

/** Best first; of equals the one that comes first in the space. */
export function rank(
  study: Ranking,
  preset: Preset,
  lengths: readonly Lengths[],
  settings: readonly Setting[],
): Ranked[] {
  return settings.map(setting => rankOne(study, preset, lengths, setting)).sort((a, b) => b.value - a.value);
}

function isKept(ended: readonly Ended[], bounds: readonly Bound[]): boolean {
  return bounds.every(({ metric, percentile, ms }) => {
    const good = ended.filter(one => !(timeOf(one, metric) > ms)).length;
    return good >= (percentile / 100) * ended.length;
  });
}

function timeOf({ sent, first, end, output }: Ended, metric: Bound['metric']): number {
  if (metric === 'ttft') return first - sent;
  if (metric === 'e2el') return end - sent;
  return output > 1 ? (end - first) / (output - 1) : Number.NaN;
}

/** Starts of a race, with the present setting. */
export const MOST_RACED = 8;
/** As far as a preset may be wrong near saturation. */
const WORTH = 0.75;

/** The settings that are started: the present one first, then those within a quarter of the best that is foretold. */
export function chosen(ranked: readonly Ranked[], present: Setting): Setting[] {
  const [first] = ranked;
  const others = ranked
    .filter(({ refused, value }) => refused === null && value >= WORTH * (first?.value ?? 0))
    .map(({ setting }) => setting)
    .filter(setting => !isSame(setting, present));
  return [present, ...others.slice(0, MOST_RACED - 1)];
}

// What a setting would do, by the simulated engine in virtual time: hours of a grid in seconds. Times are milliseconds of
// that clock, rates are a second.

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
  const engine = new Engine(preset);
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
