/**
 * Live calls beside batches in virtual time: the pool as it is, engines of the simulator, and callers that come by chance
 * at a rate (a seed gives the same ones each time).
 */
import { FIRST_LIMIT } from '../../engine/asking/endpoints/settings.ts';
import type { EndpointPool, PoolOptions } from '../../engine/asking/pool/part.ts';
import { createPool } from '../../engine/asking/pool/pool.ts';
import type { EndpointStats } from '../../engine/asking/pool/pool-stats.ts';
import type { Answer, Call, ReplySink } from '../../engine/core/item/call.ts';
import { presetNamed } from '../../products/simulator/presets.ts';
import { lcg } from '../../products/simulator/random.ts';
import { type VirtualClock, virtualClock } from '../../products/simulator/virtual-clock.ts';
import {
  VIRTUAL_MODEL,
  type VirtualServer,
  virtualServers,
} from '../../products/simulator/virtual-servers.ts';

/** Tokens of a call: of its prompt, and those that it is answered. */
export interface Size {
  prompt: number;
  output: number;
}

/** Callers that come by chance, so many a second for so many seconds; 0 a second is a pause. */
export interface Phase {
  name: string;
  rate: number;
  seconds: number;
  /** of the calls in it, by turns */
  sizes: readonly Size[];
}

export interface Experiment {
  preset: string;
  phases: readonly Phase[];
  /** lines of each batch; none: live calls are alone */
  batches: readonly { lines: number; size: Size; at?: number }[];
  servers?: number;
  byPriority?: boolean;
  seed?: number;
  pool?: Partial<PoolOptions>;
  events?: (clock: VirtualClock, servers: readonly VirtualServer[]) => void;
  /** sees an endpoint each second */
  watch?: (seconds: number, endpoint: EndpointStats) => void;
}

export interface Seen {
  /** ms to the first token of each live call, by the name of its phase; Infinity where there was none */
  ttfts: Map<string, number[]>;
  /** seconds in which each batch was done, and its lines that failed */
  batches: { done: number; failed: number }[];
  /** lines done by the end of each phase */
  lines: number[];
}

export const RESERVE = 32;
const LIVE = { place: 30_000, firstByte: 120_000, answer: 570_000, stream: 3_600_000, tries: 3 };
const CHARACTERS = 4;
const BLOCK = 16;

let asked = 0;

/** The text is as long as its tokens are, and no other one begins as it does. */
function callOf({ prompt, output }: Size, live: boolean, sink?: ReplySink): Call {
  const item = `${++asked}`;
  const head = `{"model":"${VIRTUAL_MODEL}","prompt_tokens":${prompt},"max_tokens":${output},"text":"${item} `;
  const body = Buffer.from(`${head.padEnd(CHARACTERS * prompt - 2, 'x')}"}`);
  return {
    ...{ path: '/v1/chat/completions', model: VIRTUAL_MODEL, raw: true, body, head: '', tail: '' },
    ...{ key: item.padStart(32, '0'), item, agent: '/v1/chat/completions', round: 0, attempt: 1 },
    ...(live && { live: LIVE, caller: 'someone' }),
    ...(sink && { sink }),
  };
}

function answering(byPriority: boolean) {
  let prompts = 0;
  return (body: Buffer) => {
    const asked = JSON.parse(body.toString()) as {
      prompt_tokens: number;
      max_tokens: number;
      priority?: number;
    };
    const blocks = new Int32Array(2 * Math.floor(asked.prompt_tokens / BLOCK));
    const own = ++prompts;
    for (let at = 0; at < blocks.length; at++) blocks[at] = at % 2 === 0 ? own : at;
    const usage = { prompt_tokens: asked.prompt_tokens, completion_tokens: asked.max_tokens };
    const choices = [{ index: 0, message: { role: 'assistant', content: 'x' }, finish_reason: 'stop' }];
    return {
      prompt: { tokens: asked.prompt_tokens, blocks },
      tokens: asked.max_tokens,
      priority: byPriority ? (asked.priority ?? 0) : 0,
      bodyOf: () => Buffer.from(JSON.stringify({ id: 'x', model: VIRTUAL_MODEL, choices, usage })),
    };
  };
}

class FirstToken implements ReplySink {
  firstAt: number | null = null;
  readonly enough = false;
  onFirst?: () => void;
  readonly #now: () => number;
  readonly #output: number;

  constructor(now: () => number, output: number) {
    this.#now = now;
    this.#output = output;
  }
  head(): void {}
  data(): void {
    if (this.firstAt !== null) return;
    this.firstAt = this.#now();
    this.onFirst?.();
  }
  end(): Answer {
    const usage = { prompt: 0, completion: this.#output };
    return { text: '', finish: 'stop', usage, replayed: false };
  }
}

export async function runExperiment(experiment: Experiment): Promise<Seen> {
  const { preset, phases, batches, servers: count = 1, byPriority = false, seed = 7 } = experiment;
  const clock = virtualClock();

  const { servers, openWire } = virtualServers(clock, {
    ...{ preset: presetNamed(preset), count, seed, limits: { byPriority } },
    answer: answering(byPriority),
  });
  const pool = await clock.until(
    createPool({
      endpoints: servers.map(({ url }) => ({ url, limit: FIRST_LIMIT, pinned: false })),
      ...{
        openWire,
        clock,
        random: lcg(seed),
        retryBudget: 0.2,
        warn: () => {},
        lasting: true,
        reserve: RESERVE,
      },
      ...experiment.pool,
    }),
  );
  experiment.events?.(clock, servers);
  const watching = clock.every(1_000, () =>
    pool.stats().endpoints.forEach(one => void experiment.watch?.(clock.now() / 1_000, one)),
  );
  const ttfts = new Map(phases.map(({ name }) => [name, [] as number[]]));
  let lines = 0;
  const part = pool.part({ lasts: true, share: { owner: 'gateway', batch: '', weight: 1 } });
  const begun = clock.now();
  const done = batches.map((batch, index) => batchOf(pool, clock, batch, index, () => lines++));
  const byPhase: number[] = [];
  const live = callers(
    clock,
    phases,
    lcg(seed + 1),
    async (phase, size) => {
      const sink = new FirstToken(() => clock.now(), size.output);
      const came = clock.now();
      await part.ask(callOf(size, true, sink)).answer.catch(() => {});
      ttfts.get(phase)?.push((sink.firstAt ?? Number.POSITIVE_INFINITY) - came);
    },
    () => byPhase.push(lines),
  );
  await clock.until(live);
  const ended = await clock.until(Promise.all(done));
  watching.stop();
  await clock.until(pool.close());
  return {
    ttfts,
    batches: ended.map(({ at, failed }) => ({ done: (at - begun) / 1_000, failed })),
    lines: byPhase,
  };
}

async function batchOf(
  pool: EndpointPool,
  clock: VirtualClock,
  { lines, size, at = 0 }: Experiment['batches'][number],
  index: number,
  onDone: () => void,
): Promise<{ at: number; failed: number }> {
  if (at > 0) await new Promise<void>(begin => clock.after(at * 1_000, begin));
  const part = pool.part({ lasts: true, share: { owner: `owner-${index}`, batch: `${index}`, weight: 1 } });
  let left = lines;
  let failed = 0;
  const work = async (): Promise<void> => {
    while (left-- > 0) {
      await part.call(callOf(size, false)).then(onDone, () => failed++);
    }
  };
  await Promise.all(Array.from({ length: Math.min(lines, 512) }, work));
  return { at: clock.now(), failed };
}

/** Resolves when the last of them has its answer. */
function callers(
  clock: VirtualClock,
  phases: readonly Phase[],
  random: () => number,
  ask: (phase: string, size: Size) => Promise<void>,
  onPhase: () => void,
): Promise<void> {
  return new Promise(over => {
    let open = 1;
    const end = (): void => {
      if (--open === 0) over();
    };
    let from = clock.now();
    for (const { name, rate, seconds, sizes } of phases) {
      const until = from + seconds * 1_000;
      let turn = 0;
      for (let at = from; rate > 0; ) {
        at += (-1_000 * Math.log(1 - random())) / rate;
        if (at >= until) break;
        const size = sizes[turn++ % sizes.length] as Size;
        open++;
        clock.at(at, () => void ask(name, size).then(end));
      }
      open++;
      clock.at(until, () => {
        onPhase();
        end();
      });
      from = until;
    }
    end();
  });
}

export function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? Number.NaN;
}
