/** What the flags of fw bench say, as the plan of a benchmark. Exit 64 for what is none. */

import { usageError } from '../../../engine/core/item/failure.ts';
import { durationOf } from '../../../engine/flow/options.ts';
import type { Goal } from './bench-figures.ts';
import type { Extent, Load } from './drive-load.ts';

const MOST_AT_ONCE = 16_384;
const MOST_LOADS = 100;

export interface LoadFlags {
  concurrency: string | undefined;
  rate: string | undefined;
  burstiness: string;
  sweep: boolean | undefined;
  ramp: string | undefined;
  seed: number;
}

/** The loads in the order in which they are named, closed loops first; none for a sweep. One at a time where none is named. */
export function loadsOf({ concurrency, rate, sweep, seed, ramp, ...flags }: LoadFlags): Load[] {
  const burstiness = shapeOf(flags.burstiness);
  if (ramp !== undefined) {
    if (concurrency !== undefined || rate !== undefined || sweep)
      throw usageError('expected --ramp, or --concurrency, --rate or --sweep, found both');
    const { from, to } = rampOf(ramp);
    return [{ kind: 'open', rate: to, from, burstiness, seed }];
  }
  if (sweep) {
    if (concurrency !== undefined || rate !== undefined)
      throw usageError(
        'expected --sweep, or --concurrency and --rate, found both: a sweep finds its own loads',
      );
    return [];
  }
  const closed = listOf(concurrency, '--concurrency').map((text): Load => {
    const value = Number(text);
    if (!/^\d{1,6}$/.test(text) || value < 1 || value > MOST_AT_ONCE)
      throw usageError(
        `--concurrency: expected whole numbers from 1 to ${MOST_AT_ONCE}, such as 1,10,40, found '${text}'`,
      );
    return { kind: 'closed', concurrency: value };
  });
  const open = listOf(rate, '--rate').map((text): Load => {
    const value = text === 'inf' ? Number.POSITIVE_INFINITY : Number(text);
    if (text !== 'inf' && (!/^\d{1,6}(?:\.\d{1,6})?$/.test(text) || value <= 0 || value > 100_000))
      throw usageError(`--rate: expected requests a second, such as 0.5,2,inf, found '${text}'`);
    return { kind: 'open', rate: value, burstiness, seed };
  });
  const all = [...closed, ...open];
  if (all.length > MOST_LOADS) throw usageError(`expected at most ${MOST_LOADS} loads, found ${all.length}`);
  return all.length > 0 ? all : [{ kind: 'closed', concurrency: 1 }];
}

/** `1:20/60s` */
function rampOf(text: string): { from: number; to: number; ms: number } {
  const [, from, to, time] = /^(\d{1,6}(?:\.\d{1,6})?):(\d{1,6}(?:\.\d{1,6})?)\/(\w{1,20})$/.exec(text) ?? [];
  const ramp = {
    from: Number(from),
    to: Number(to),
    ms: time === undefined ? 0 : durationOf(time, '--ramp'),
  };
  if (!(ramp.from > 0 && ramp.to > 0 && ramp.to <= 100_000 && ramp.from <= 100_000 && ramp.ms > 0))
    throw usageError(`--ramp: expected FROM:TO/TIME, requests a second, such as 1:20/60s, found '${text}'`);
  return ramp;
}

function listOf(text: string | undefined, flag: string): string[] {
  if (text === undefined) return [];
  const list = text.split(',').map(each => each.trim());
  const twice = list.find((each, at) => list.indexOf(each) < at);
  if (twice !== undefined)
    throw usageError(`${flag}: expected different loads, found '${twice}' twice; --repeat runs each again`);
  return list;
}

function shapeOf(text: string): number {
  if (text === 'inf') return Number.POSITIVE_INFINITY;
  const value = Number(text);
  if (/^\d{1,4}(?:\.\d{1,6})?$/.test(text) && value >= 0.01 && value <= 1000) return value;
  throw usageError(`--burstiness: expected 0.01 to 1000 (1: Poisson), or inf for even gaps, found '${text}'`);
}

/** A minute where nothing is said and prompts are made up; `own` is the number of the user's requests. */
export function extentOf(
  requests: number | undefined,
  duration: string | undefined,
  loads: readonly Load[],
  own: number | null,
  ramp: string | undefined,
): Extent {
  if (ramp !== undefined) {
    if (requests !== undefined || duration !== undefined)
      throw usageError('expected --ramp, which has its time, found --requests or --duration beside it');
    return { requests: null, ms: rampOf(ramp).ms };
  }
  if (requests !== undefined && duration !== undefined)
    throw usageError('expected --requests or --duration, found both');
  const isAtOnce = loads.some(load => load.kind === 'open' && load.rate === Number.POSITIVE_INFINITY);
  if (requests !== undefined || (duration === undefined && own !== null))
    return { requests: requests ?? own, ms: null };
  if (isAtOnce) throw usageError('--rate inf: expected --requests, how many are sent at once, found none');
  const ms = durationOf(duration ?? '60s', '--duration');
  if (ms < 1) throw usageError(`--duration: expected more than no time, found '${duration}'`);
  return { requests: null, ms };
}

/** `ttft:500,tpot:50,e2el:5000`, ms each; of vLLM's --goodput the same words. */
export function goalOf(texts: readonly string[] | undefined): Goal | null {
  if (texts === undefined) return null;
  const goal: Record<string, number> = {};
  for (const text of texts.flatMap(each => each.split(/[ ,]/)).filter(Boolean)) {
    const [, name, value] = /^(ttft|tpot|e2el):(\d{1,9}(?:\.\d{1,6})?)$/.exec(text) ?? [];
    if (name === undefined)
      throw usageError(
        `--goodput: expected ttft, tpot or e2el with milliseconds, such as ttft:500,tpot:50,e2el:5000, found '${text}'`,
      );
    if (Object.hasOwn(goal, name)) throw usageError(`--goodput: expected ${name} once, found it twice`);
    goal[name] = Number(value);
  }
  return goal;
}
