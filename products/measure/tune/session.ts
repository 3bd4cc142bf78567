/**
 * A setting on one start of its server. What is on record is taken from there; the server is started when something has to
 * be measured, and a start that fails is the outcome of the setting.
 */
import { setTimeout as wait } from 'node:timers/promises';
import { systemClock } from '../../../engine/asking/endpoints/pool-clock.ts';
import type { Endpoint } from '../../../engine/asking/pool/pool-state.ts';
import { dataError } from '../../../engine/core/item/failure.ts';
import { cut } from '../../../engine/core/item/wording.ts';
import type { Workload } from '../bench/bench-workload.ts';
import { factsOf } from '../bench/server-facts.ts';
import { type Meter, meterOf, type Steady } from './measure-setting.ts';
import { keptBy, type Point, requestsFor } from './point.ts';
import type { Marked } from './processes.ts';
import { concurrencyOf, numberAt } from './rank.ts';
import { commandOf, SEQS, type Setting, type Study, settingWords } from './tune-file.ts';
import type { Record, Which } from './tune-record.ts';
import {
  type Failure,
  lastLines,
  type Server,
  StartFailed,
  type Starting,
  startServer,
} from './tuned-server.ts';

/** What a study needs of the world around it. */
export interface World {
  study: Study;
  record: Record;
  mark: string;
  times: Starting['times'];
  signal: AbortSignal;
  say(message: string): void;
  /** the file that takes what a server says */
  logFor(): string;
  /** an endpoint that nothing was asked of yet */
  endpoint(): Endpoint;
  /** what is asked of a server that is ready */
  workload(): Promise<{ workload: Workload; model: string }>;
}

/** Ends the measuring of a setting: it failed. */
export class SettingFailed extends Error {
  override name = 'SettingFailed';
  readonly failure: Failure;
  constructor(failure: Failure) {
    super(failure.message);
    this.failure = failure;
  }
}

export interface Session {
  /** The next block of the load at full, from 1 on. */
  block(number: number): Promise<Point>;
  /** Requests at a rate; the points of it, of which there are two where one did not tell, or `twice`: other arrivals each. */
  rate(rate: number, twice?: boolean): Promise<Point[]>;
  close(): Promise<void>;
}

/** Characters of a body that are kept. */
const MOST_BODY = 20_000;
const isMemory = ({ kind }: Failure): boolean => kind === 'out-of-memory';

/** Of requests that fail a few may be an accident. */
const MOST_FAILED = 0.02;

export function openSession(world: World, which: Which): Session {
  const { study, record, signal, say } = world;
  let live: { server: Server; meter: Meter; version: string | null; log: string } | null = null;
  let steady: Steady | null = null;

  const before = record.failure(which);
  if (before !== undefined) throw new SettingFailed(before);

  function fail(failure: Failure, left: readonly Marked[], log: string): never {
    const names = left.map(({ name, pid }) => `${name} (process ${pid})`);
    record.noteFailure(which, failure, names, log);
    const last = failure.lines.at(-1);
    say(`${last === undefined ? 'it said nothing' : `it said last: ${last}`}; all of it is in ${log}`);
    throw new SettingFailed(failure);
  }

  async function begin(): Promise<NonNullable<typeof live>> {
    if (live !== null) return live;
    signal.throwIfAborted();
    const command = commandOf(study, which.setting);
    say(`starts ${settingWords(which.setting)}`);
    for (let tries = 1; ; tries++) {
      const log = world.logFor();
      const endpoint = world.endpoint();
      try {
        const server = await startServer({
          command,
          endpoint,
          mark: world.mark,
          log,
          readyMs: study.readyMs,
          times: world.times,
          signal,
        });
        live = await ready(server, command, log);
        return live;
      } catch (error) {
        await endpoint.wire.close();
        if (!(error instanceof StartFailed)) throw error;
        tellLeft(error.left);
        // what a server before this one held of a GPU may not be free yet
        const mayBeHeld = record.lines.some(({ kind }) => kind === 'start') || isMemory(error.failure);
        if (tries === 2 || !mayBeHeld || error.failure.kind === 'never-healthy')
          fail(error.failure, error.left, log);
        say(
          `${settingWords(which.setting)}: ${error.failure.message}; once more in ${world.times.pause / 1000} s`,
        );
        await wait(world.times.pause, undefined, { signal });
      }
    }
  }

  async function ready(server: Server, command: string, log: string): Promise<NonNullable<typeof live>> {
    try {
      const { workload, model } = await world.workload();
      const [facts] = await factsOf([server.endpoint], model, systemClock);
      const version = facts?.version ?? null;
      const known = record.version();
      if (known !== undefined && known !== version)
        throw dataError(
          `expected the server version ${known ?? 'unknown'}, as in the measurements so far, found ${version ?? 'unknown'}: name another --out`,
        );
      record.start(which, {
        ready_s: Number((server.readyMs / 1000).toFixed(2)),
        proof: server.proof,
        command,
        version,
        log,
        settings: facts?.settings ?? {},
        asked: {
          source: workload.source,
          model,
          body: cut(workload.requestAt(0).body.toString(), MOST_BODY),
        },
      });
      const meter = meterOf({ server, workload, bounds: study.slo, signal });
      await meter.warmUp(concurrencyOf(study, which.setting));
      return { server, meter, version, log };
    } catch (error) {
      const ended = server.ended();
      const left = await server.stop();
      tellLeft(left);
      if (ended !== null) fail(ended, left, log);
      throw error;
    }
  }

  function tellLeft(left: readonly Marked[]): void {
    for (const { name, pid } of left)
      say(`${settingWords(which.setting)}: left ${name} (process ${pid}) behind, which was ended`);
  }

  /** A measurement on which the server is gone, or nothing is answered, is no figure. */
  async function check(point: Point | null): Promise<Point> {
    signal.throwIfAborted();
    const { server, log } = live as NonNullable<typeof live>;
    const ended = server.ended();
    const failed = point === null || point.failed > MOST_FAILED * (point.completed + point.failed);
    if (ended === null && point !== null && !failed) return point;
    const failure: Failure = ended ?? {
      kind: 'requests-failed',
      message: `${point === null ? 'all' : `${point.failed} of ${point.completed + point.failed}`} requests failed: ${point?.failure ?? steady?.cause() ?? 'no answer'}`,
      lines: lastLines(log),
    };
    const left = await end();
    return fail(failure, left, log);
  }

  async function end(): Promise<Marked[]> {
    if (live === null) return [];
    const { server, meter } = live;
    live = null;
    await steady?.stop();
    steady = null;
    await meter.close();
    const left = await server.stop();
    await server.endpoint.wire.close();
    tellLeft(left);
    return left;
  }

  const note = (what: string, point: Point): void => {
    const { version, log } = live as NonNullable<typeof live>;
    record.notePoint(which, what, point, { version, log });
  };

  return {
    async block(number) {
      const what = `block ${number}`;
      const known = record.point(which, what);
      if (known !== undefined) return known;
      const { meter } = await begin();
      if (steady === null) {
        const concurrency = concurrencyOf(study, which.setting);
        // as many as run at once have ended: then some are at each part of their way
        const ramp = Math.min(concurrency, numberAt(which.setting, SEQS, concurrency));
        steady = meter.steady(concurrency, ramp, study.blockMs);
      }
      const point = await check(await steady.next());
      note(what, point);
      return point;
    },

    async rate(rate, twice = false) {
      const least = Math.max(requestsFor(study.slo), Math.ceil((rate * lengthOf(study)) / 1000));
      // those of a race are the same for all settings; a confirmation has others, for one may be lucky with these
      const arrivals = study.seed + (which.phase === 'confirm' ? 2 * which.run : 0);
      const points: Point[] = [];
      for (let again = 0; again < 2; again++) {
        const seed = (arrivals + again) % 2 ** 32;
        const what = `rate ${rate}, seed ${seed}`;
        let point = record.point(which, what);
        if (point === undefined) {
          const { meter } = await begin();
          await steady?.stop();
          steady = null;
          point = await check(await meter.atRate(rate, least, seed));
          note(what, point);
        }
        points.push(point);
        if (!twice && keptBy(points, study.slo).sure) break;
      }
      return points;
    },

    async close() {
      await end();
    },
  };
}

/** A queue that grows is not seen in a time which is hardly longer than the bound. */
const BOUNDS_LONG = 10;

/** ms of a rate that is measured. */
export function lengthOf({ blockMs, slo }: Pick<Study, 'blockMs' | 'slo'>): number {
  const longest = Math.max(0, ...slo.filter(({ metric }) => metric !== 'tpot').map(({ ms }) => ms));
  return Math.max(blockMs, BOUNDS_LONG * longest);
}

/** A session that is closed whatever comes of it. */
export async function inSession<T>(
  world: World,
  which: Which,
  use: (session: Session) => Promise<T>,
): Promise<T> {
  const session = openSession(world, which);
  try {
    return await use(session);
  } finally {
    await session.close();
  }
}

export const raced = (setting: Setting): Which => ({ phase: 'race', setting, run: 1 });
