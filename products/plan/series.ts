/** What servers and client look like over time: samples at even distances, which double when there are too many. */
import type { EngineState } from '../simulator/engine.ts';
import type { VirtualClock } from '../simulator/virtual-clock.ts';

export interface Series {
  /** seconds between two samples */
  every: number;
  /** share of the KV cache that is in use, as a mean over the endpoints */
  kv: number[];
  /** sequences in the batches of all endpoints, and requests that wait for a place in them */
  running: number[];
  waiting: number[];
  /** calls that wait in the client for a place at an endpoint */
  queued: number[];
  /** share of the time in which the engines computed */
  busy: number[];
  outputTokensPerSecond: number[];
}

const MAX_POINTS = 240;
const FIRST_MS = 1_000;

type Lists = Omit<Series, 'every'>;

export interface Recorder {
  /** The series, closed with what has passed since its last sample. */
  end(): Series;
}

/** Looks at all engines and the client's queue from now on. */
export function record(
  clock: VirtualClock,
  states: () => readonly EngineState[],
  queued: () => number,
): Recorder {
  const lists: Lists = { kv: [], running: [], waiting: [], queued: [], busy: [], outputTokensPerSecond: [] };
  let every = FIRST_MS;
  let last = { at: clock.now(), busyMs: 0, outputTokens: 0 };
  let callOff = clock.after(every, look);

  function look(): void {
    sample();
    if (lists.kv.length >= MAX_POINTS) {
      for (const list of Object.values(lists)) halve(list);
      every *= 2;
    }
    callOff = clock.after(every, look);
  }

  function sample(): void {
    const engines = states();
    const sum = (of: (state: EngineState) => number) => engines.reduce((so, state) => so + of(state), 0);
    const now = { at: clock.now(), busyMs: sum(state => state.busyMs), outputTokens: sum(made) };
    const ms = now.at - last.at;
    if (ms <= 0) return;
    lists.kv.push(sum(({ kvUsage }) => kvUsage) / engines.length);
    lists.running.push(sum(({ running }) => running));
    lists.waiting.push(sum(({ waiting }) => waiting));
    lists.queued.push(queued());
    // a step counts when it is over
    lists.busy.push(Math.min(1, (now.busyMs - last.busyMs) / ms / engines.length));
    lists.outputTokensPerSecond.push(((now.outputTokens - last.outputTokens) / ms) * 1000);
    last = now;
  }

  return {
    end() {
      callOff();
      sample();
      return { every: every / 1000, ...lists };
    },
  };
}

const made = ({ outputTokens }: EngineState): number => outputTokens;

/** Two neighbours become their mean. */
function halve(list: number[]): void {
  for (let at = 0; 2 * at + 1 < list.length; at++)
    list[at] = ((list[2 * at] as number) + (list[2 * at + 1] as number)) / 2;
  list.length >>= 1;
}

/** The mean of the samples between two times, in seconds; of all of them where there is none between. */
export function meanBetween(list: readonly number[], every: number, from: number, to: number): number {
  const some = list.slice(Math.floor(from / every), Math.ceil(to / every));
  const taken = some.length > 0 ? some : list;
  return taken.reduce((sum, value) => sum + value, 0) / Math.max(1, taken.length);
}
