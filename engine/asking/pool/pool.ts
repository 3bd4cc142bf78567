/**
 * The pool: carries calls to endpoints, as many as each can take, and tries again elsewhere what failed.
 *
 *   call ─► a place is free? ─► endpoint ─► answer
 *              │ no   ▲              │
 *              ▼      │              ▼ failed (reactions.ts)
 *           waiting ──┴── asleep ◄── again?  ─► failure
 *
 * Places are given back in one function, whatever the outcome. One sweep finds everything that time brings: calls without
 * an answer, retries that are due, dead endpoints and servers' metrics to look at again.
 */
import { type Answer, type Call, CallFailure } from '../../core/item/call.ts';
import type { Fatal } from '../../core/item/failure.ts';
import { lookAtGpus } from '../endpoints/gpu.ts';
import { type Clock, systemClock, TIMING, type Ticker, type Timing } from '../endpoints/pool-clock.ts';
import type { Reply } from '../endpoints/wire.ts';
import { Dispatch } from './call-queue.ts';
import { noteAnswer } from './health.ts';
import { createLag, type Lag } from './lag.ts';
import { dropLateCalls } from './late.ts';
import {
  createItems,
  createSharing,
  followAnswer,
  followLoad,
  followSent,
  lookAtLoads,
  type Sharing,
} from './limit.ts';
import { createLiveCalls } from './live-calls.ts';
import { LiveShares } from './live-shares.ts';
import { createMembership, type Membership } from './membership.ts';
import { createMemory, type Memory } from './memory.ts';
import { noteHeard, noteLooked } from './mute.ts';
import { createSuspects, Outages } from './outage.ts';
import {
  type Asked,
  createPart,
  type EndpointPool,
  LEDGER_BROKEN,
  ofPart,
  type PartOptions,
  type PoolOptions,
} from './part.ts';
import { interruptedBy } from './pool-ending.ts';
import { createEndpoint, type Endpoint, enter, leave, mix, type Part, Ticket } from './pool-state.ts';
import { createTally } from './pool-stats.ts';
import { bodyFor, takesLess } from './priority.ts';
import type { Prober } from './probe.ts';
import { meant, routed } from './raw.ts';
import { Reactions } from './reactions.ts';
import { type AnsweredAttempt, ReplyReader, requestOf } from './read-reply.ts';
import { usualModel, whyNotAsked } from './recording.ts';
import { noteAnswered, noteLook } from './signs-of-work.ts';
import type { Spending } from './spending.ts';
import { type Found, spendingOf, startPool } from './start.ts';
import { createTelling, type Telling } from './tell.ts';

/** Probes the endpoints and settles the model first; throws Fatal (69, 64) where that does not work out. */
export async function createPool(options: PoolOptions): Promise<EndpointPool> {
  const { key, signal, clock = systemClock } = options;
  const timing: Timing = { ...TIMING, timeout: options.timeout ?? null, ...options.timing };
  const endpoints = options.endpoints.map((one, index) => createEndpoint(one, index, key, options));
  const found = await startPool(endpoints, { ...options, clock, timing });
  const carrier = new Carrier(options, { clock, timing }, endpoints, found);
  carrier.spending = await spendingOf(endpoints, options);
  const whole = carrier.open(options, () => {
    signal?.removeEventListener('abort', whole.stop);
    return carrier.close();
  });
  signal?.addEventListener('abort', whole.stop);
  return whole;
}

/** What all parts of a pool share. */
class Carrier {
  readonly #options: PoolOptions;
  readonly #clock: Clock;
  readonly #timing: Timing;
  readonly #endpoints: readonly Endpoint[];
  readonly #found: Found;
  readonly #parts = new Set<Part>();
  readonly #suspects = createSuspects();
  readonly #queue: Dispatch;
  readonly #reader: ReplyReader;
  readonly #reactions: Reactions;
  readonly #outages: Outages;
  readonly #liveCalls = createLiveCalls((ticket, why) => this.#cancel(ticket, why));
  readonly #items: ReturnType<typeof createItems>;
  readonly #tally: ReturnType<typeof createTally>;
  readonly #lag: Lag;
  /** null where all calls are of one kind */
  readonly #shares: LiveShares | null;
  /** null where nothing costs anything, and nothing is bounded */
  spending: Spending | null = null;
  /** what it offers beside calls */
  readonly #telling: Telling & Sharing & Memory & Membership;
  readonly #membership: ReturnType<typeof createMembership>;
  readonly #look: (now: number) => void;
  readonly #gpus: ReturnType<typeof lookAtGpus>;
  readonly #ticker: Ticker;
  /** calls of all parts that had to be sent, and those of them without an outcome */
  #sent = 0;
  #outstanding = 0;
  /** parts that there were */
  #opened = 0;
  #sweptAt: number;

  constructor(options: PoolOptions, prober: Prober, endpoints: Endpoint[], found: Found) {
    const { warn, wait = 0, lasting = false, retryBudget, random = Math.random } = options;
    const { clock, timing } = prober;
    const world = { ...prober, endpoints, warn };
    const pump = (): void => this.#pump();
    this.#options = options;
    this.#clock = clock;
    this.#timing = timing;
    this.#endpoints = endpoints;
    this.#found = found;
    this.#sweptAt = clock.now();
    this.#queue = new Dispatch(endpoints, this.#suspects, (...going) => this.#send(...going));
    this.#reader = new ReplyReader({ endpoints, warn, maxModelLength: found.maxModelLength });
    this.#outages = new Outages({
      ...{ ...world, models: found.models, lasting },
      giveUp: lasting ? Infinity : Math.max(wait, timing.giveUp),
      onLost: endpoint => {
        for (const there of this.#suspects.noteDeath(endpoint, clock.now())) this.#reactions.giveBack(there);
      },
      onBack: pump,
    });
    this.#reactions = new Reactions({
      ...{ ...world, random, retryBudget, suspects: this.#suspects, outages: this.#outages },
      sent: () => this.#sent,
      giveUp: this.#giveUp,
      sleep: ticket => this.#queue.sleep(ticket),
      fail: (ticket, reason) => this.#fail(ticket, reason),
    });
    this.#look = lookAtLoads({
      ...world,
      onPage(endpoint, page) {
        noteLook(endpoint, page, clock.now());
        noteLooked(endpoint, page !== undefined, clock.now());
      },
      onLoad: (endpoint, load) => {
        followLoad(endpoint, load, clock.now());
        pump();
      },
    });
    this.#gpus = lookAtGpus({ ...world, openWire: options.openWire });
    this.#items = createItems(endpoints, options.inFlight, () =>
      [...this.#parts].reduce((sum, { known }) => sum + known.listening, 0),
    );
    this.#lag = createLag(clock, timing.tick);
    const sharing = { clock, lag: this.#lag, objective: options.liveTtft ?? null, onRoom: pump };
    // a run has nobody who waits beside it
    this.#shares = lasting ? new LiveShares(sharing) : null;
    this.#tally = createTally(endpoints, this.#sweptAt);
    const recount = (): void => this.#items.recount();
    this.#membership = createMembership({
      ...{ endpoints, settings: options.endpoints, clock, outages: this.#outages, queue: this.#queue },
      make: (setting, index) => createEndpoint(setting, index, options.key, options),
      ...{ reserve: options.reserve, overflow: options.overflow },
      onTtft: ms => this.#shares?.aimAt(ms),
      onChange: () => {
        recount();
        this.#gpus.renew();
        this.#pump();
      },
    });
    this.#telling = {
      ...this.#membership,
      ...createTelling(endpoints, prober, pump),
      ...createSharing(endpoints, clock, recount),
      ...createMemory(endpoints, clock, recount),
    };
    this.#ticker = clock.every(timing.tick, () => this.#sweep());
  }

  #pump(): void {
    const now = this.#clock.now();
    this.#queue.pump(now);
    this.spending?.end(this.#parts, this.#queue, now);
  }

  /** `onRoad`: is told the ticket of a call that had to be sent. */
  #call(part: Part, given: Call, onRoad?: (ticket: Ticket) => void): Promise<Answer> {
    const { known, ending, counts, ledger } = part;
    const endpoints = this.#endpoints;
    const asked = meant(given, part.unnamed ?? this.#found.unnamed);
    if (ending.reason) return Promise.reject(ending.reason);
    const answer = known.find(asked, () => [...new Set(endpoints.map(usualModel))]);
    if (answer) {
      if (known.listening > 0) this.#items.tell();
      return answer;
    }
    const why = whyNotAsked(ledger, endpoints, asked);
    if (why) ending.giveUp(why, 'it is not on record, and nothing can be asked');
    if (ending.reason) return Promise.reject(ending.reason);
    let queued = routed(asked, endpoints);
    if (queued instanceof Error && this.#membership.mayWait(asked)) queued = asked;
    if (queued instanceof Error) return Promise.reject(queued);
    counts.calls++;
    counts.outstanding++;
    this.#sent++;
    if (this.#outstanding++ === 0) this.#ticker.hold(true);
    const now = this.#clock.now();
    const sending = known.sent(asked, (resolve, reject) => {
      const ticket = new Ticket(queued, part, now, resolve, reject);
      onRoad?.(ticket);
      this.#liveCalls.opened(ticket);
      this.#queue.push(ticket);
    });
    this.#pump();
    return sending;
  }

  #send(ticket: Ticket, endpoint: Endpoint, now: number): void {
    enter(endpoint, ticket, now);
    followSent(endpoint, ticket, this.#lag, now);
    this.#shares?.sent(endpoint, ticket, now);
    this.spending?.sent(ticket, endpoint, now);
    if (ticket.causes !== null) {
      endpoint.counts.retries++;
      ticket.part.counts.retries++;
    }
    const request = requestOf(ticket.call, bodyFor(ticket, endpoint), endpoint);
    const exchange = endpoint.wire.send(request, got => this.#settled(ticket, endpoint, got));
    // A request that failed on the spot is out of its place already.
    if (ticket.at === endpoint) ticket.exchange = exchange;
  }

  #settled(ticket: Ticket, endpoint: Endpoint, got: Reply | Error): void {
    const clock = this.#clock;
    const had = leave(endpoint, ticket);
    this.#shares?.left(endpoint, ticket, !(got instanceof Error) && got.status === 200);
    ticket.atServers += clock.now() - ticket.sentAt;
    if (!(got instanceof Error)) noteHeard(endpoint, clock.now());
    if (takesLess(ticket, endpoint, got, this.#options.warn)) return this.#queue.sleep(ticket);
    try {
      const attempt = this.#reader.read(endpoint, ticket.call, got, had);
      const { usage = null } = attempt.kind === 'answer' ? attempt.answer : attempt;
      this.spending?.left(ticket, endpoint, usage, clock.now());
      endpoint.counts.busy += clock.now() - ticket.sentAt;
      if (attempt.kind === 'answer') this.#answered(ticket, endpoint, attempt);
      else this.#reactions.failed(ticket, endpoint, attempt);
    } catch (bug) {
      this.#fail(ticket, bug as Error);
    }
    this.#pump();
  }

  #answered(ticket: Ticket, endpoint: Endpoint, { answer }: AnsweredAttempt): void {
    const now = this.#clock.now();
    const latency = now - ticket.sentAt;
    const { part, call } = ticket;
    if (typeof call.sink?.firstAt === 'number') answer.ttft = call.sink.firstAt - ticket.sentAt;
    noteAnswer(endpoint, ticket.call.agent, latency, answer.usage);
    noteAnswered(endpoint, ticket, answer, now);
    followAnswer(endpoint, ticket, answer.usage.completion, this.#lag, now);
    this.#items.recount();
    this.#tally.answered(ticket, endpoint, answer.usage, now);
    part.answered(ticket, answer, now);
    this.#options.onAnswer?.(endpoint.url, latency);
    this.#queue.noteHome(ticket, endpoint);
    part.ending.noteAnswer();
    this.#outages.noteAnswer();
    part.recording.answer(ticket, endpoint, answer, error => {
      // a stream has gone to who asked, to its end: an error behind it would say that the answer is none
      if (error && call.sink === undefined) return this.#fail(ticket, interruptedBy(LEDGER_BROKEN));
      if (part.ledger) part.times.writing += this.#clock.now() - now;
      this.#done(ticket);
      ticket.resolve(answer);
    });
  }

  #fail(ticket: Ticket, reason: Error): void {
    ticket.part.failed(ticket, reason, this.#clock.now());
    this.#done(ticket);
    ticket.reject(reason);
  }

  #done(ticket: Ticket): void {
    const { call, part } = ticket;
    this.#liveCalls.ended(ticket);
    part.known.over(call);
    part.counts.outstanding--;
    if (--this.#outstanding === 0) this.#ticker.hold(false);
  }

  readonly #failAll = (part: Part, reason: CallFailure): void =>
    this.#failWaiting(waiting => waiting.part === part, reason);

  #failWaiting(isMeant: (ticket: Ticket) => boolean, reason: CallFailure): void {
    for (const ticket of this.#queue.withdraw(isMeant)) this.#fail(ticket, reason);
  }

  #sweep(): void {
    const now = this.#clock.now();
    const passed = now - this.#sweptAt;
    // This process was suspended (SIGSTOP, a closed laptop): the answers may be here, only unread.
    this.#lag.look(now);
    const suspendedMs = passed > this.#timing.stall ? passed : 0;
    if (suspendedMs) this.#tally.suspended(suspendedMs);
    else this.#tally.tick(passed, now, this.#outstanding, this.#queue.awake);
    this.#sweptAt = now;
    dropLateCalls(this.#endpoints, this.#timing, now, suspendedMs);
    this.#liveCalls.sweep(now);
    this.#shares?.sweep(this.#endpoints, now);
    this.#queue.wake(now);
    this.#suspects.forget(now);
    this.#look(now);
    this.#gpus.look(now);
    this.#items.recount();
    this.#membership.sweep();
    const gone = this.#outages.sweep(now, this.#outstanding === 0, suspendedMs);
    if (gone) this.#giveUp(gone, 'no endpoint was there any more');
    for (const [model, why] of this.#outages.goneModels(now))
      this.#failWaiting(
        ({ call }) => call.model === model && call.anywhere !== true,
        new CallFailure('call-failed', why),
      );
    this.#pump();
  }

  readonly #giveUp = (fatal: Fatal, why: string): void => {
    for (const { ending } of this.#parts) ending.giveUp(fatal, why);
  };

  #cancel(ticket: Ticket, gone: CallFailure): void {
    if (ticket.at !== null) ticket.exchange?.abort(gone);
    else this.#failWaiting(waiting => waiting === ticket, gone);
  }

  /** `closeAll` closes what the part does not share. */
  open(partOptions: PartOptions, closeAll: () => Promise<unknown>): EndpointPool {
    const [items, found] = [this.#items, this.#found];
    // the first one has none: a run alone is its own only part
    const salt = this.#opened === 0 ? 0 : mix(this.#opened);
    this.#opened += 1;
    const part = createPart(partOptions, this.#endpoints, this.#clock, this.#failAll, salt);
    this.#parts.add(part);
    const { ledger, ending } = part;
    const left: (() => void)[] = []; // what lasts as long as the part
    return {
      model: found.model,
      servedAs: name => found.servedAs?.get(name) ?? name,
      maxModelLength: found.maxModelLength,
      placing: this.#queue.placing(salt),
      get itemsInFlight() {
        return items.most;
      },
      onRoom: listener => void left.push(items.onRoom(listener)),
      call: asked => this.#call(part, asked),
      ask: asked => this.#ask(part, asked),
      part: more => {
        more.ledger?.begin(
          more.model === undefined ? found : { model: more.model },
          this.#endpoints.map(({ url }) => url),
        );
        return this.open(more, async () => {});
      },
      ...ofPart(part),
      ...this.#telling,
      stats: () => this.#tally.stats(part.sums(), this.#queue.waiting, this.#clock.now(), this.spending),
      close: async how => {
        ending.stop();
        await closeAll();
        await ending.settled();
        this.#parts.delete(part);
        for (const leave of left) leave();
        await ledger?.close(how);
      },
    };
  }

  #ask(part: Part, asked: Call): Asked {
    let ticket: Ticket | undefined;
    const answer = this.#call(part, asked, sent => {
      ticket = sent;
    });
    return {
      answer,
      cancel: (why = 'Whoever asked has gone.') =>
        ticket && this.#cancel(ticket, new CallFailure('interrupted', why)),
      get waited() {
        return ticket && ticket.firstSentAt !== null ? ticket.firstSentAt - ticket.askedAt : null;
      },
    };
  }

  async close(): Promise<void> {
    this.#ticker.stop();
    this.#lag.close();
    this.#outages.close();
    await Promise.all([...this.#endpoints.map(({ wire }) => wire.close()), this.#gpus.close()]);
  }
}
