/**
 * Endpoints that cannot be reached, and calls that may be the cause.
 *
 * An endpoint is taken out at the first refused connection, looked at again by a cheap GET, and put back when it answers.
 * While none is there, calls wait and lose nothing, until it has lasted too long. The same holds where all that are
 * there fail whatever they are asked, such as a proxy before a server that restarts.
 */
import { type Fatal, unavailable } from '../../core/item/failure.ts';
import type { Say } from '../../core/item/say.ts';
import { oneLine, seconds } from '../endpoints/endpoint-words.ts';
import { isFailing } from './health.ts';
import { startSmall } from './limit.ts';
import { dropCalls, isMute, noteHeard, noteLooked } from './mute.ts';
import type { Endpoint, Ticket } from './pool-state.ts';
import { type Prober, probe, settle } from './probe.ts';
import { causes } from './start.ts';

export interface OutageOptions extends Prober {
  endpoints: readonly Endpoint[];
  /** the models that are asked for: an endpoint is of use if it serves one of them; null where any is */
  models: readonly string[] | null;
  /** how long no endpoint may be there, in ms */
  giveUp: number;
  /** endpoints that cannot be used are looked at again, too */
  lasting?: boolean | undefined;
  warn: Say;
  /** called when an endpoint is found dead, and when one can take calls again */
  onLost: (endpoint: Endpoint) => void;
  onBack: () => void;
}

/** Calls that have to fail, with no answer between them, before it is the endpoints and not the calls. */
const MIN_FAILED_CALLS = 20;
/** An endpoint that flaps is told so often; in between it is only counted. */
const TELL_LOST_EVERY_MS = 60_000;

function isThere(endpoint: Endpoint): boolean {
  return endpoint.state === 'up' && !isFailing(endpoint);
}

/** It was away and is back: how it was before says nothing of how it is now. */
function beginAgain(endpoint: Endpoint, now: number): void {
  endpoint.failuresInARow = 0;
  endpoint.pausedUntil = 0;
  noteLooked(endpoint, true, now);
  startSmall(endpoint, now);
  Object.assign(endpoint.latencies, { count: 0, median: Number.NaN, medianAt: 0 });
  endpoint.byAgent.clear();
  endpoint.signs.speeds = { writes: new Map(), reads: new Map() };
  endpoint.signs.last = null;
}

/** Takes endpoints out that are gone, looks at them now and then, and puts them back. */
export class Outages {
  readonly #options: OutageOptions;
  readonly #unanswered = new Set<Ticket>();
  #lastUp: number;
  /** by model, when an endpoint that serves it was last there */
  readonly #lastServed = new Map<string, number>();
  #closed = false;

  constructor(options: OutageOptions) {
    const { endpoints, clock, timing } = options;
    this.#options = options;
    this.#lastUp = clock.now();
    for (const endpoint of endpoints) noteHeard(endpoint, this.#lastUp);
    for (const endpoint of endpoints)
      if (this.#isLookedAt(endpoint)) this.#probeLater(endpoint, timing.reprobeSoon);
  }

  /** Takes out an endpoint that refused a connection. */
  lost(endpoint: Endpoint, cause: string): void {
    const { endpoints, clock, timing, warn, onLost } = this.#options;
    onLost(endpoint);
    if (endpoint.state !== 'up') return;
    endpoint.state = 'down';
    endpoint.cause = cause;
    endpoint.load = null; // what its metrics said is over
    this.#probeLater(endpoint, timing.reprobeFirst);
    const now = clock.now();
    endpoint.lostAt = now;
    if (endpoint.lostToldAt !== null && now - endpoint.lostToldAt < TELL_LOST_EVERY_MS) return;
    endpoint.lostToldAt = now;
    const others = endpoints.filter(({ state }) => state === 'up').length;
    const all = endpoints.filter(({ leaving }) => !leaving).length;
    warn(`${endpoint.url} is down: ${cause}; ${others} of ${all} endpoints remain`, {
      ...{ event: 'endpoint-down', level: 'warn', endpoint: endpoint.url, endpoints_up: others },
    });
  }

  /** A call broke off there: looks whether it is dead before the call is tried elsewhere. */
  check(endpoint: Endpoint): void {
    if (endpoint.state === 'up' && !endpoint.probing) void this.#checkOn(endpoint);
  }

  /** A call was answered: somebody is there. */
  noteAnswer(): void {
    if (this.#unanswered.size > 0) this.#unanswered.clear();
  }

  /**
   * A call failed. True where that is no fault of it: every endpoint fails, and has failed many different calls since
   * the last answer. (At the end of a run the calls that fail everywhere are few.)
   */
  allEndpointsFailing(ticket: Ticket): boolean {
    if (this.#unanswered.size < MIN_FAILED_CALLS) this.#unanswered.add(ticket);
    return this.#unanswered.size >= MIN_FAILED_CALLS && !this.#options.endpoints.some(isThere);
  }

  /**
   * The models that no endpoint has served for too long, while others are there, each with what its calls are told:
   * they must not wait without an end. None where a pool waits for ever.
   */
  goneModels(now: number): [model: string, why: string][] {
    const { endpoints, giveUp } = this.#options;
    if (giveUp === Number.POSITIVE_INFINITY) return [];
    for (const endpoint of endpoints) {
      for (const model of endpoint.models)
        if (isThere(endpoint) || !this.#lastServed.has(model)) this.#lastServed.set(model, now);
    }
    return [...this.#lastServed].flatMap(([model, at]) => {
      if (now - at <= giveUp) return [];
      const name = JSON.stringify(oneLine(model, 200));
      return [[model, `No endpoint that serves ${name} was there for ${seconds(giveUp)}.`]];
    });
  }

  /**
   * Starts the probes that are due. `idle` means that nothing is asked, so nothing is missed; `suspendedMs` is how long
   * this process was suspended. Returns what ends the run when no endpoint has been there for too long.
   */
  sweep(now: number, idle: boolean, suspendedMs: number): Fatal | undefined {
    const { endpoints, giveUp, lasting, timing } = this.#options;
    for (const endpoint of endpoints) {
      if (now < endpoint.probeAt || endpoint.probing) continue;
      if (this.#isLookedAt(endpoint)) void this.#lookAgain(endpoint);
      else if (lasting && endpoint.state === 'up') {
        // what nobody asks is looked at all the same: a server says what is there before somebody asks for it
        this.#probeLater(endpoint, timing.lookSoon);
        const isQuiet = now - endpoint.signs.heardAt >= timing.lookSoon;
        if (endpoint.running.length === 0 || isQuiet) void this.#checkOn(endpoint);
      }
    }
    if (suspendedMs > 0)
      for (const [model, at] of this.#lastServed) this.#lastServed.set(model, at + suspendedMs);
    if (idle || endpoints.some(isThere)) this.#lastUp = now;
    else if (suspendedMs > 0) this.#lastUp += suspendedMs;
    if (now - this.#lastUp <= giveUp) return undefined;
    return unavailable(
      `expected an endpoint to come back, found none for ${seconds(giveUp)}: ${causes(endpoints)}; ` +
        'start them and run again, or wait longer: --wait 10m',
    );
  }

  /** It may be asked again, once it answers a look. */
  join(endpoint: Endpoint, cause: string): void {
    const { clock } = this.#options;
    Object.assign(endpoint, { state: 'down', cause, probeAt: 0, lostAt: null, lostToldAt: null });
    noteHeard(endpoint, clock.now());
    if (!endpoint.probing) void this.#lookAgain(endpoint, true);
  }

  close(): void {
    this.#closed = true;
  }

  #isLookedAt({ state }: Endpoint): boolean {
    return state === 'down' || (this.#options.lasting === true && state === 'unusable');
  }

  #probeLater(endpoint: Endpoint, wait: number): void {
    endpoint.probeWait = wait;
    endpoint.probeAt = this.#options.clock.now() + wait;
  }

  /** `isFirst`: somebody has just named it, and hears of it either way. */
  async #lookAgain(endpoint: Endpoint, isFirst = false): Promise<void> {
    const { models, warn, onBack, clock, timing } = this.#options;
    endpoint.probing = true;
    const before = endpoint.cause;
    const result = await probe(endpoint, this.#options);
    endpoint.probing = false;
    if (this.#closed || !this.#isLookedAt(endpoint)) return;
    settle(result, models);
    if (endpoint.state === 'up') {
      beginAgain(endpoint, clock.now());
      if (endpoint.lostToldAt === endpoint.lostAt)
        warn(`${endpoint.url} is up`, { event: 'endpoint-up', level: 'info', endpoint: endpoint.url });
      onBack();
    } else if (endpoint.state === 'unusable') {
      this.#probeLater(endpoint, timing.reprobeLast);
      if (endpoint.cause !== before)
        warn(`${endpoint.url} is back, but cannot be used: ${endpoint.cause}`, {
          ...{ event: 'endpoint-unusable', level: 'warn', endpoint: endpoint.url },
        });
    } else {
      const most =
        clock.now() - (endpoint.lostAt ?? 0) < timing.giveUp ? timing.reprobeSoon : timing.reprobeLast;
      this.#probeLater(endpoint, Math.min(most, endpoint.probeWait * 2));
      if (isFirst)
        warn(`${endpoint.url} is not up: ${endpoint.cause}; it is asked once it answers`, {
          ...{ event: 'endpoint-down', level: 'warn', endpoint: endpoint.url },
        });
    }
  }

  async #checkOn(endpoint: Endpoint): Promise<void> {
    const { models, lasting, clock, timing } = this.#options;
    endpoint.probing = true;
    const result = await probe(endpoint, this.#options);
    endpoint.probing = false;
    if (this.#closed || endpoint.state !== 'up') return;
    const { hindrance, cause = '' } = result;
    noteLooked(endpoint, hindrance !== 'silent', clock.now());
    const isDown = hindrance === 'refused' || hindrance === 'no-route' || hindrance === 'unknown-host';
    if (isDown) this.lost(endpoint, cause);
    else if (lasting && hindrance === undefined)
      settle(result, models); // it may have come back with others
    else if ((lasting || endpoint.running.length === 0) && isMute(endpoint, timing, clock.now()))
      this.#lostMute(endpoint);
  }

  /** It may hang with its connections open. What it has is asked elsewhere; a run that ends has patience.ts for that. */
  #lostMute(endpoint: Endpoint): void {
    const why = `it has answered nothing for ${seconds(this.#options.clock.now() - endpoint.signs.heardAt)}, GET ${endpoint.prefix}/models neither`;
    this.lost(endpoint, why);
    dropCalls(endpoint, why);
    this.#options.onLost(endpoint); // now that they have failed: one of them may be the cause
  }
}

/** A failed call was there when its endpoint died if that is found out within this time. */
const DEATH_WINDOW_MS = 5_000;
/** Deaths of different endpoints after which a call is a suspect. */
const SUSPECT_AFTER_DEATHS = 2;
/** Failed calls that are remembered for each endpoint. */
const MAX_REMEMBERED = 4_096;

/**
 * Calls that kill servers. A call that was in flight at the deaths of two endpoints may be the cause of both, and must
 * not be sent to a third one in company: it is tried alone, at an endpoint that has nothing else. If that one dies too,
 * the call is quarantined; all others only happened to be there.
 */
export function createSuspects() {
  const broken = new Map<Endpoint, { ticket: Ticket; at: number }[]>();
  const deaths = new WeakMap<Ticket, Set<Endpoint>>();
  let waiting: Ticket[] = [];
  let reserved: Endpoint | null = null;
  let alone: Ticket | null = null;

  return {
    get size(): number {
      return waiting.length;
    },
    /** no endpoint is kept free, and none has to be */
    get idle(): boolean {
      return waiting.length === 0 && reserved === null && alone === null;
    },
    /** A call broke off at an endpoint, which may be dead. */
    noteBroken(endpoint: Endpoint, ticket: Ticket, now: number): void {
      const recent = broken.get(endpoint) ?? [];
      broken.set(endpoint, recent);
      if (recent.length >= MAX_REMEMBERED) recent.shift();
      recent.push({ ticket, at: now });
    },
    /** Forgets the calls whose endpoint did not die in time. */
    forget(now: number): void {
      for (const [endpoint, recent] of broken) {
        const from = recent.findIndex(({ at }) => now - at <= DEATH_WINDOW_MS);
        if (from < 0) broken.delete(endpoint);
        else if (from > 0) recent.splice(0, from);
      }
    },
    /** The endpoint is dead. Returns the calls that broke off there just now: they lost a try for nothing. */
    noteDeath(endpoint: Endpoint, now: number): Ticket[] {
      const there = (broken.get(endpoint) ?? []).filter(({ at }) => now - at <= DEATH_WINDOW_MS);
      broken.delete(endpoint);
      for (const { ticket } of there) {
        const where = deaths.get(ticket) ?? new Set();
        deaths.set(ticket, where.add(endpoint));
      }
      return there.map(({ ticket }) => ticket);
    },
    /** Takes a call that is to be tried again, if it is a suspect. */
    take(ticket: Ticket): boolean {
      if ((deaths.get(ticket)?.size ?? 0) < SUSPECT_AFTER_DEATHS) return false;
      waiting.push(ticket);
      return true;
    },
    /**
     * The endpoint that is kept free for suspects, `send` being told when it is empty; `usable` are those that may be
     * asked. While it returns an endpoint, nobody else may take a place there.
     */
    next(usable: readonly Endpoint[], send: (ticket: Ticket, endpoint: Endpoint) => void): Endpoint | null {
      if (alone !== null && alone.at === null) alone = null;
      if (alone !== null) return alone.at;
      if (waiting.length === 0) {
        reserved = null;
        return null;
      }
      // the one with the least to finish is free the soonest
      if (reserved === null || !usable.includes(reserved)) {
        reserved = usable.reduce<Endpoint | null>(
          (least, one) => (least === null || one.running.length < least.running.length ? one : least),
          null,
        );
      }
      if (reserved !== null && reserved.running.length === 0) {
        alone = waiting.shift() as Ticket;
        send(alone, reserved);
      }
      return reserved;
    },
    /** whether the call is tried alone right now */
    isAlone: (ticket: Ticket): boolean => ticket === alone,
    /** takes out the calls that `isMeant` */
    withdraw(isMeant: (ticket: Ticket) => boolean): Ticket[] {
      const out = waiting.filter(isMeant);
      waiting = waiting.filter(ticket => !isMeant(ticket));
      return out;
    },
  };
}

export type Suspects = ReturnType<typeof createSuspects>;
