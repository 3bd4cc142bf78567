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
import { systemClock, TIMING, type Timing } from '../endpoints/pool-clock.ts';
import { createDispatch } from './call-queue.ts';
import { noteAnswer } from './health.ts';
import { createLag } from './lag.ts';
import { dropLateCalls } from './late.ts';
import { createItems, createSharing, followAnswer, followLoad, followSent, lookAtLoads } from './limit.ts';
import { createLiveCalls } from './live-calls.ts';
import { createMemory } from './memory.ts';
import { noteHeard, noteLooked } from './mute.ts';
import { createOutages, createSuspects } from './outage.ts';
import { createPart, type EndpointPool, type PartOptions } from './part.ts';
import { interruptedBy, LEDGER_BROKEN } from './pool-ending.ts';
import type { PoolOptions } from './pool-options.ts';
import {
  createEndpoint,
  type Endpoint,
  enter,
  leave,
  type Part,
  type Ticket,
  ticketOf,
} from './pool-state.ts';
import { createTally } from './pool-stats.ts';
import type { Prober } from './probe.ts';
import { meant, routed } from './raw.ts';
import { createReactions } from './reactions.ts';
import { type AnsweredAttempt, createReading, requestOf } from './read-reply.ts';
import { usualModel, whyNotAsked } from './recording.ts';
import { noteAnswered, noteLook } from './signs-of-work.ts';
import { startPool } from './start.ts';
import { createTelling } from './tell.ts';

/** Probes the endpoints and settles the model first; throws Fatal (69, 64) where that does not work out. */
export async function createPool(options: PoolOptions): Promise<EndpointPool> {
  const { key, warn, signal, wait = 0, lasting = false, clock = systemClock, random = Math.random } = options;
  const timing: Timing = { ...TIMING, timeout: options.timeout ?? null, ...options.timing };
  const prober: Prober = { clock, timing };
  const endpoints = options.endpoints.map((one, index) => createEndpoint(one, index, key, options));
  const found = await startPool(endpoints, { ...options, ...prober });

  const suspects = createSuspects();
  const queue = createDispatch(endpoints, suspects, send);
  const pump = (): void => queue.pump(clock.now());
  const readReply = createReading(endpoints, found.maxModelLength, warn);
  const outages = createOutages({
    ...prober,
    endpoints,
    models: found.models,
    giveUp: lasting ? Infinity : Math.max(wait, timing.giveUp),
    ...{ lasting, warn },
    onLost(endpoint) {
      for (const there of suspects.noteDeath(endpoint, clock.now())) reactions.giveBack(there);
    },
    onBack: pump,
  });
  const look = lookAtLoads({
    ...prober,
    endpoints,
    onPage(endpoint, page) {
      noteLook(endpoint, page, clock.now());
      noteLooked(endpoint, page !== undefined, clock.now());
    },
    onLoad(endpoint, load) {
      followLoad(endpoint, load, clock.now());
      pump();
    },
  });
  const gpus = lookAtGpus({ ...prober, endpoints, warn, openWire: options.openWire });
  const parts = new Set<Part>();
  const reactions = createReactions({
    ...{ endpoints, clock, timing, random, warn, suspects, outages, fail },
    ...{ retryBudget: options.retryBudget, sent: () => sent, giveUp: giveUpAll, sleep: queue.sleep },
  });
  const items = createItems(endpoints, options.inFlight, () =>
    [...parts].reduce((sum, { known }) => sum + known.listening, 0),
  );
  let sent = 0; // calls of all parts, and those without an outcome
  let outstanding = 0;
  let sweptAt = clock.now();
  const lag = createLag(clock, timing.tick);
  const tally = createTally(endpoints, sweptAt);
  const telling = createTelling(endpoints, prober, pump);
  const sharing = createSharing(endpoints, clock, () => items.recount());
  const memory = createMemory(endpoints, clock, () => items.recount());
  const liveCalls = createLiveCalls((ticket, why) => cancel(ticket, why));
  const ticker = clock.every(timing.tick, sweep);

  /** `onRoad`: is told the ticket of a call that had to be sent. */
  function call(part: Part, given: Call, onRoad?: (ticket: Ticket) => void): Promise<Answer> {
    const { known, ending, counts, ledger } = part;
    const asked = meant(given, part.unnamed ?? found.unnamed);
    if (ending.reason) return Promise.reject(ending.reason);
    const answer = known.find(asked, usualModels);
    if (answer) {
      if (known.listening > 0) items.tell();
      return answer;
    }
    const why = whyNotAsked(ledger, endpoints, asked);
    if (why) ending.giveUp(why, 'it is not on record, and nothing can be asked');
    if (ending.reason) return Promise.reject(ending.reason);
    const queued = routed(asked, endpoints);
    if (queued instanceof Error) return Promise.reject(queued);
    counts.calls++;
    counts.outstanding++;
    sent++;
    if (outstanding++ === 0) ticker.hold(true);
    const now = clock.now();
    const sending = known.sent(asked, (...settle) => {
      const ticket = ticketOf(queued, part, now, ...settle);
      onRoad?.(ticket);
      liveCalls.opened(ticket);
      queue.push(ticket);
    });
    queue.pump(now);
    return sending;
  }

  const usualModels = (): string[] => [...new Set(endpoints.map(usualModel))];

  function send(ticket: Ticket, endpoint: Endpoint, now: number): void {
    enter(endpoint, ticket, now);
    followSent(endpoint, ticket, lag, now);
    if (ticket.causes !== null) {
      endpoint.counts.retries++;
      ticket.part.counts.retries++;
    }
    const exchange = endpoint.wire.send(requestOf(ticket.call, endpoint), got => {
      const had = leave(endpoint, ticket);
      ticket.atServers += clock.now() - ticket.sentAt;
      if (!(got instanceof Error)) noteHeard(endpoint, clock.now());
      try {
        const attempt = readReply(endpoint, ticket.call, got, had);
        endpoint.counts.busy += clock.now() - ticket.sentAt;
        if (attempt.kind === 'answer') answered(ticket, endpoint, attempt);
        else reactions.failed(ticket, endpoint, attempt);
      } catch (bug) {
        fail(ticket, bug as Error);
      }
      pump();
    });
    // A request that failed on the spot is out of its place already.
    if (ticket.at === endpoint) ticket.exchange = exchange;
  }

  function answered(ticket: Ticket, endpoint: Endpoint, { answer }: AnsweredAttempt): void {
    const now = clock.now();
    const latency = now - ticket.sentAt;
    const { part, call } = ticket;
    if (typeof call.sink?.firstAt === 'number') answer.ttft = call.sink.firstAt - ticket.sentAt;
    noteAnswer(endpoint, ticket.call.agent, latency, answer.usage);
    noteAnswered(endpoint, ticket, answer, now);
    followAnswer(endpoint, ticket, answer.usage.completion, lag, now);
    items.recount();
    tally.answered(ticket, endpoint, answer.usage, now);
    part.answered(ticket, answer, now);
    options.onAnswer?.(endpoint.url, latency);
    queue.noteHome(ticket, endpoint);
    part.ending.noteAnswer();
    outages.noteAnswer();
    part.recording.answer(ticket, endpoint, answer, error => {
      // a stream has gone to who asked, to its end: an error behind it would say that the answer is none
      if (error && call.sink === undefined) return fail(ticket, interruptedBy(LEDGER_BROKEN));
      if (part.ledger) part.times.writing += clock.now() - now;
      done(ticket);
      ticket.resolve(answer);
    });
  }

  function fail(ticket: Ticket, reason: Error): void {
    ticket.part.failed(ticket, reason, clock.now());
    done(ticket);
    ticket.reject(reason);
  }

  function done(ticket: Ticket): void {
    const { call, part } = ticket;
    liveCalls.ended(ticket);
    part.known.over(call);
    part.counts.outstanding--;
    if (--outstanding === 0) ticker.hold(false);
  }

  function sweep(): void {
    const now = clock.now();
    // This process was suspended (SIGSTOP, a closed laptop): the answers may be here, only unread.
    lag.look(now);
    const suspendedMs = now - sweptAt > timing.stall ? now - sweptAt : 0;
    if (suspendedMs > 0) tally.suspended(suspendedMs);
    else tally.tick(now - sweptAt, now, outstanding, queue.awake);
    sweptAt = now;
    dropLateCalls(endpoints, timing, now, suspendedMs);
    liveCalls.sweep(now);
    queue.wake(now);
    suspects.forget(now);
    look(now);
    gpus.look(now);
    items.recount();
    const gone = outages.sweep(now, outstanding === 0, suspendedMs);
    if (gone) giveUpAll(gone, 'no endpoint was there any more');
    for (const [model, why] of outages.goneModels(now)) {
      const isMeant = ({ call }: Ticket): boolean => call.model === model && call.anywhere !== true;
      for (const ticket of queue.withdraw(isMeant)) fail(ticket, new CallFailure('call-failed', why));
    }
    pump();
  }

  function giveUpAll(fatal: Fatal, why: string): void {
    for (const { ending } of parts) ending.giveUp(fatal, why);
  }

  function cancel(ticket: Ticket, gone: CallFailure): void {
    if (ticket.at !== null) return ticket.exchange?.abort(gone);
    for (const one of queue.withdraw(waiting => waiting === ticket)) fail(one, gone);
  }

  /** `closeAll` closes what the part does not share. */
  function open(partOptions: PartOptions, closeAll: () => Promise<unknown>): EndpointPool {
    const part = createPart(partOptions, endpoints, clock, (which, reason) => {
      for (const ticket of queue.withdraw(waiting => waiting.part === which)) fail(ticket, reason);
    });
    parts.add(part);
    const { ledger, ending } = part;
    const left: (() => void)[] = []; // what lasts as long as the part
    return {
      model: found.model,
      servedAs: name => found.servedAs?.get(name) ?? name,
      maxModelLength: found.maxModelLength,
      get itemsInFlight() {
        return items.most;
      },
      onRoom: listener => void left.push(items.onRoom(listener)),
      call: asked => call(part, asked),
      ask(asked) {
        let ticket: Ticket | undefined;
        const answer = call(part, asked, sent => {
          ticket = sent;
        });
        return {
          answer,
          cancel: (why = 'Whoever asked has gone.') =>
            void (ticket && cancel(ticket, new CallFailure('interrupted', why))),
          get waited() {
            return ticket && ticket.firstSentAt !== null ? ticket.firstSentAt - ticket.askedAt : null;
          },
        };
      },
      part(more) {
        more.ledger?.begin(
          more.model === undefined ? found : { model: more.model },
          endpoints.map(({ url }) => url),
        );
        return open(more, async () => {});
      },
      onRecord: ledger,
      stop: ending.stop,
      abort: ending.abort,
      judge(key, rung, code, mending) {
        part.times.mending += mending;
        ledger?.judge(key, rung, code);
      },
      asksWith: asksWith => ledger?.stage(asksWith),
      acceptedBefore: asksWith => ledger?.acceptedBefore(asksWith) ?? [],
      giveUp: (fatal, why = LEDGER_BROKEN) => ending.breakOff(fatal, why),
      verdict: ending.verdict,
      ...telling,
      ...sharing,
      ...memory,
      stats: () => tally.stats(part.sums(), queue.waiting, clock.now()),
      async close(how) {
        ending.stop();
        await closeAll();
        await ending.settled();
        parts.delete(part);
        for (const leave of left) leave();
        await ledger?.close(how);
      },
    };
  }

  const whole = open(options, async () => {
    ticker.stop();
    lag.close();
    outages.close();
    signal?.removeEventListener('abort', whole.stop);
    await Promise.all([...endpoints.map(({ wire }) => wire.close()), gpus.close()]);
  });
  signal?.addEventListener('abort', whole.stop);
  return whole;
}
