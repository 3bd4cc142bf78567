/**
 * A setting on one start of its server. What is on record is taken from there; the server is started when something has to
 * be measured, and a start that fails is the outcome of the setting.
 */
import { setTimeout as wait } from 'node:timers/promises';
import { systemClock } from '../../../engine/asking/endpoints/pool-clock.ts';
import type { Endpoint } from '../../../engine/asking/pool/pool-state.ts';
import { dataError } from '../../../engine/core/item/failure.ts';
import { cut } from '../../../engine/core/item/wording.ts';
import { factsOf } from '../bench/bench-servers.ts';
import type { Workload } from '../bench/bench-workload.ts';
import { Meter, Steady } from './measure-setting.ts';
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

/** Characters of a body that are kept. */
const MOST_BODY = 20_000;
const isMemory = ({ kind }: Failure): boolean => kind === 'out-of-memory';

/** Of requests that fail a few may be an accident. */
const MOST_FAILED = 0.02;

/** A server that runs, and what measures it. */
interface Live {
  server: Server;
  meter: Meter;
  version: string | null;
  log: string;
}

export class Session {
  readonly #world: World;
  readonly #which: Which;
  readonly #name: string;
  #live: Live | null = null;
  #steady: Steady | null = null;

  /** @throws SettingFailed where the record has it */
  constructor(world: World, which: Which) {
    this.#world = world;
    this.#which = which;
    this.#name = settingWords(which.setting);
    const failure = world.record.failure(which);
    if (failure !== undefined) throw new SettingFailed(failure);
  }

  /** The next block of the load at full, from 1 on. */
  async block(number: number): Promise<Point> {
    const { study, record } = this.#world;
    const { setting } = this.#which;
    const what = `block ${number}`;
    const recorded = record.point(this.#which, what);
    if (recorded !== undefined) return recorded;
    const live = await this.#begin();
    if (this.#steady === null) {
      const concurrency = concurrencyOf(study, setting);
      // as many as run at once have ended: then some are at each part of their way
      const ramp = Math.min(concurrency, numberAt(setting, SEQS, concurrency));
      this.#steady = new Steady(live.meter, concurrency, ramp, study.blockMs);
    }
    return this.#note(live, what, await this.#steady.next());
  }

  /** Requests at a rate; the points of it, of which there are two where one did not tell, or `twice`: other arrivals each. */
  async rate(rate: number, twice = false): Promise<Point[]> {
    const { study, record } = this.#world;
    const { phase, run } = this.#which;
    const least = Math.max(requestsFor(study.slo), Math.ceil((rate * lengthOf(study)) / 1000));
    // those of a race are the same for all settings; a confirmation has others, for one may be lucky with these
    const arrivals = study.seed + (phase === 'confirm' ? 2 * run : 0);
    const points: Point[] = [];
    for (let again = 0; again < 2; again++) {
      const seed = (arrivals + again) % 2 ** 32;
      const what = `rate ${rate}, seed ${seed}`;
      let point = record.point(this.#which, what);
      if (point === undefined) {
        const live = await this.#begin();
        await this.#stopSteady();
        point = await this.#note(live, what, await live.meter.atRate(rate, least, seed));
      }
      points.push(point);
      if (!twice && keptBy(points, study.slo).sure) break;
    }
    return points;
  }

  async close(): Promise<void> {
    await this.#end();
  }

  /** The server, started where it does not run yet; once more where memory may have been held. */
  async #begin(): Promise<Live> {
    if (this.#live !== null) return this.#live;
    const { record, signal, say, times } = this.#world;
    signal.throwIfAborted();
    say(`starts ${this.#name}`);
    for (let tries = 1; ; tries++) {
      const log = this.#world.logFor();
      try {
        this.#live = await this.#start(log);
        return this.#live;
      } catch (error) {
        if (!(error instanceof StartFailed)) throw error;
        const { failure, left } = error;
        this.#sayLeft(left);
        // what a server before this one held of a GPU may not be free yet
        const mayBeHeld = record.lines.some(({ kind }) => kind === 'start') || isMemory(failure);
        if (tries === 2 || !mayBeHeld || failure.kind === 'never-healthy') this.#fail(failure, left, log);
        say(`${this.#name}: ${failure.message}; once more in ${times.pause / 1000} s`);
        await wait(times.pause, undefined, { signal });
      }
    }
  }

  async #start(log: string): Promise<Live> {
    const { study, signal, mark, times } = this.#world;
    const command = commandOf(study, this.#which.setting);
    const endpoint = this.#world.endpoint();
    try {
      const server = await startServer({
        command,
        endpoint,
        mark,
        log,
        readyMs: study.readyMs,
        times,
        signal,
      });
      return await this.#ready(server, command, log);
    } catch (error) {
      await endpoint.wire.close();
      throw error;
    }
  }

  async #ready(server: Server, command: string, log: string): Promise<Live> {
    const { study, record, signal } = this.#world;
    try {
      const { workload, model } = await this.#world.workload();
      const [facts] = await factsOf([server.endpoint], model, systemClock);
      const version = facts?.version ?? null;
      const before = record.version();
      if (before !== undefined && before !== version)
        throw dataError(
          `expected the server version ${before ?? 'unknown'}, as in the measurements so far, found ${version ?? 'unknown'}: name another --out`,
        );
      record.start(this.#which, {
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
      const meter = new Meter({ server, workload, bounds: study.slo, signal });
      await meter.warmUp(concurrencyOf(study, this.#which.setting));
      return { server, meter, version, log };
    } catch (error) {
      const ended = server.ended();
      const left = await server.stop();
      this.#sayLeft(left);
      if (ended !== null) this.#fail(ended, left, log);
      throw error;
    }
  }

  /** Records what was measured. A measurement on which the server is gone, or nothing is answered, is no figure. */
  async #note({ server, version, log }: Live, what: string, point: Point | null): Promise<Point> {
    const { record, signal } = this.#world;
    signal.throwIfAborted();
    const ended = server.ended();
    const all = (point?.completed ?? 0) + (point?.failed ?? 0);
    if (ended === null && point !== null && point.failed <= MOST_FAILED * all) {
      record.notePoint(this.#which, what, point, { version, log });
      return point;
    }
    const failure: Failure = ended ?? {
      kind: 'requests-failed',
      message: `${point === null ? 'all' : `${point.failed} of ${all}`} requests failed: ${point?.failure ?? this.#steady?.cause() ?? 'no answer'}`,
      lines: lastLines(log),
    };
    return this.#fail(failure, await this.#end(), log);
  }

  #fail(failure: Failure, left: readonly Marked[], log: string): never {
    const { record, say } = this.#world;
    const names = left.map(({ name, pid }) => `${name} (process ${pid})`);
    record.noteFailure(this.#which, failure, names, log);
    const last = failure.lines.at(-1);
    say(`${last === undefined ? 'it said nothing' : `it said last: ${last}`}; all of it is in ${log}`);
    throw new SettingFailed(failure);
  }

  #sayLeft(left: readonly Marked[]): void {
    for (const { name, pid } of left)
      this.#world.say(`${this.#name}: left ${name} (process ${pid}) behind, which was ended`);
  }

  async #stopSteady(): Promise<void> {
    await this.#steady?.stop();
    this.#steady = null;
  }

  async #end(): Promise<Marked[]> {
    if (this.#live === null) return [];
    const { server, meter } = this.#live;
    this.#live = null;
    await this.#stopSteady();
    await meter.close();
    const left = await server.stop();
    await server.endpoint.wire.close();
    this.#sayLeft(left);
    return left;
  }
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
  const session = new Session(world, which);
  try {
    return await use(session);
  } finally {
    await session.close();
  }
}

export const raced = (setting: Setting): Which => ({ phase: 'race', setting, run: 1 });
