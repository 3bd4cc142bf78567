/**
 * The pool: carries calls to endpoints, at most `limit` at each, and tries again elsewhere what did not get through.
 *
 *   call ─► a place is free? ─► endpoint ─► answer
 *              │ no   ▲              │
 *              ▼      │              ▼ not through
 *           waiting ──┴── asleep ◄── again?  ─► failure
 *
 * The queue is here and not on the servers, for a request that waits there cannot be moved. Places are taken with a
 * call in hand and given back in one function, whatever the outcome. One sweep finds everything that time brings:
 * calls without an answer, retries that fell due, dead endpoints to look at again.
 */
import { type Answer, type Call, CallFailure } from '../flow/call.ts';
import type { Code, Fatal } from '../flow/failure.ts';
import { choose } from './choose.ts';
import { systemClock, TIMING, type Timing } from './clock.ts';
import { readCompletion } from './completion.ts';
import type { EndpointPool, PoolOptions } from './contract.ts';
import { noneNamed } from './endpoints.ts';
import {
  createEndpoint,
  dropLate,
  type Endpoint,
  enter,
  leave,
  noteAnswer,
  noteFailure,
  noteNotConnected,
  noteRefusal,
  pause,
  whenDropped,
} from './health.ts';
import { createOutages } from './outage.ts';
import type { Prober } from './probe.ts';
import { foundBy, notOnRecord, recordingOf, type Trouble } from './recording.ts';
import { createRefusals } from './refusals.ts';
import { type Budget, backoff, isRetried, readRetryAfter, TRIES, takeRetry } from './retry.ts';
import { poolStats } from './stats.ts';
import { exhausted, interruptedBy, noteCause, type Ticket, ticketOf } from './ticket.ts';
import { createWaiting } from './waiting.ts';
import type { Reply } from './wire.ts';
import { causeOf, NoAnswerInTime, neverConnected, seconds, serverWords } from './words.ts';

const BROKEN = 'the ledger could not be written';
/** Items in flight where all is on record and nothing is asked. */
const REPLAYED = 64;
/** A pause that a server asks for is told a person from here on, in ms. */
const NEWS = 5_000;

/** Probes the endpoints and settles the model first; throws Fatal (69, 64) where that does not work out. */
export async function createPool(options: PoolOptions): Promise<EndpointPool> {
  const { key, warn, signal, ledger, wait = 0, clock = systemClock, random = Math.random } = options;
  const timing: Timing = { ...TIMING, ...options.timing };
  const prober: Prober = { clock, timing, key };
  const endpoints = options.endpoints.map((setting, index) => createEndpoint(setting, index, key));
  const found = await foundBy(options, endpoints, prober);
  const places = endpoints.reduce((sum, { limit }) => sum + limit, 0);

  const waiting = createWaiting();
  const refusals = createRefusals(key, found.maxModelLength, warn);
  const outages = createOutages({
    ...prober,
    endpoints,
    model: found.model,
    giveUp: Math.max(wait, timing.giveUp),
    warn,
    onBack: pump,
  });
  const recording = recordingOf(ledger, found.model, clock);
  const budget: Budget = { share: options.retryBudget, floor: Math.max(256, places), spent: 0 };
  const failed = new Map<Code, number>();
  const ticker = clock.every(timing.tick, sweep);
  let calls = 0;
  let replayed = 0;
  let outstanding = 0;
  /** what every further call is told; null while the pool works */
  let ended: CallFailure | null = null;
  let givenUp: Fatal | undefined;
  let aborted = false;
  let pumping = false;
  let sweptAt = clock.now();

  signal?.addEventListener('abort', stop);

  function call(asked: Call): Promise<Answer> {
    if (ended !== null) return Promise.reject(ended);
    const known = ledger?.find(asked.key);
    if (known) {
      replayed++;
      return Promise.resolve(known);
    }
    const why = ledger?.closed ?? (endpoints.length === 0 ? noneNamed() : null);
    if (why) giveUp(notOnRecord(why, asked), 'it is not on record, and nothing can be asked');
    if (ended !== null) return Promise.reject(ended);
    return new Promise((resolve, reject) => {
      calls++;
      if (outstanding++ === 0) ticker.hold(true);
      waiting.push(ticketOf(asked, ledger !== undefined, resolve, reject));
      pump();
    });
  }

  function pump(): void {
    if (pumping) return;
    pumping = true;
    const now = clock.now();
    try {
      waiting.offer(ticket => {
        const endpoint = choose(endpoints, ticket, now);
        if (endpoint !== null) send(ticket, endpoint, now);
        return endpoint !== null;
      });
    } finally {
      pumping = false;
    }
  }

  function send(ticket: Ticket, endpoint: Endpoint, now: number): void {
    enter(endpoint, ticket, now);
    if (ticket.causes !== null) endpoint.retries++;
    const { path, body } = ticket;
    const bytes = typeof body === 'string' ? Buffer.from(body) : body;
    ticket.body = bytes;
    const exchange = endpoint.wire.send(
      { method: 'POST', path: endpoint.prefix + path, body: bytes },
      outcome => {
        leave(endpoint, ticket);
        try {
          settle(ticket, endpoint, outcome);
        } catch (bug) {
          fail(ticket, bug as Error);
        }
        pump();
      },
    );
    // A request that failed on the spot is out of its place already.
    if (ticket.at === endpoint) ticket.exchange = exchange;
  }

  function settle(ticket: Ticket, endpoint: Endpoint, outcome: Reply | Error): void {
    const now = clock.now();
    if (outcome instanceof CallFailure) {
      recording.failure(ticket, endpoint, 'interrupted', outcome.message);
      return fail(ticket, outcome);
    }
    if (outcome instanceof Error) {
      if (neverConnected(outcome)) return notConnected(ticket, endpoint, causeOf(outcome, key), now);
      const late = outcome instanceof NoAnswerInTime;
      if (late) ticket.timeouts++;
      return notThrough(ticket, endpoint, late ? 'timeout' : 'transport', causeOf(outcome, key), now);
    }
    const { status, body } = outcome;
    if (status === 200) {
      const answer = readCompletion(body, key);
      if (typeof answer === 'string') return notThrough(ticket, endpoint, 'bad answer', answer, now);
      noteAnswer(endpoint, now - ticket.sentAt, answer.usage);
      refusals.noteAnswer();
      return recording.answer(ticket, endpoint, answer, error => {
        if (error) return fail(ticket, interruptedBy(BROKEN));
        done();
        ticket.resolve(answer);
      });
    }
    if (isRetried(status)) {
      const rest = readRetryAfter(outcome.retryAfter, clock.date(), timing.pauseCap);
      if (rest !== undefined) leaveAlone(endpoint, rest, now);
      const words = serverWords(body, key, 120);
      return notThrough(ticket, endpoint, `HTTP ${status}`, `HTTP ${status}${words && ` "${words}"`}`, now);
    }
    noteRefusal(endpoint);
    const refusal = refusals.failureOf(endpoint.url, outcome);
    recording.failure(ticket, endpoint, 'refused', refusal.message);
    fail(ticket, refusal);
    const hopeless = refusals.hopeless(outstanding);
    if (hopeless) giveUp(hopeless, 'every call was refused');
  }

  /** The call lost nothing and keeps its tries; the endpoint is not there and is taken out until a probe finds it. */
  function notConnected(ticket: Ticket, endpoint: Endpoint, cause: string, now: number): void {
    noteNotConnected(endpoint);
    noteCause(ticket, endpoint, cause);
    outages.lost(endpoint, cause);
    again(ticket, now);
  }

  function leaveAlone(endpoint: Endpoint, rest: number, now: number): void {
    if (rest >= NEWS && endpoint.pausedUntil < now)
      warn(`${endpoint.url} asks for no calls for ${seconds(rest)}`);
    pause(endpoint, now + rest);
  }

  function notThrough(ticket: Ticket, endpoint: Endpoint, kind: Trouble, cause: string, now: number): void {
    recording.failure(ticket, endpoint, kind, cause);
    noteFailure(endpoint, kind, now, timing);
    noteCause(ticket, endpoint, cause);
    ticket.avoid = endpoint;
    if (++ticket.tries >= TRIES) return fail(ticket, exhausted(ticket, `${TRIES} tries`));
    if (!takeRetry(budget, calls)) {
      return fail(
        ticket,
        exhausted(ticket, `the retries of this run are spent (${budget.spent} in ${calls} calls)`),
      );
    }
    again(ticket, now);
  }

  function again(ticket: Ticket, now: number): void {
    if (ended !== null) return fail(ticket, ended);
    ticket.notBefore =
      now + backoff(Math.max(1, ticket.tries), timing.backoffBase, timing.backoffCap, random);
    waiting.sleep(ticket);
  }

  function fail(ticket: Ticket, reason: Error): void {
    if (reason instanceof CallFailure) failed.set(reason.code, (failed.get(reason.code) ?? 0) + 1);
    done();
    ticket.reject(reason);
  }

  function done(): void {
    if (--outstanding === 0) ticker.hold(false);
  }

  function sweep(): void {
    const now = clock.now();
    // This process stood still (SIGSTOP, a closed laptop): the answers may be here, only unread.
    const stood = now - sweptAt > timing.stall ? now - sweptAt : 0;
    sweptAt = now;
    for (const endpoint of endpoints) dropLate(endpoint, timing, now, stood);
    waiting.wake(now);
    const gone = outages.sweep(now, outstanding === 0, stood);
    if (gone) giveUp(gone, 'no endpoint was there any more');
    pump();
  }

  /** Every call that waits, and every further one, is told `reason`. The first reason holds. */
  function end(reason: CallFailure): void {
    if (ended !== null) return;
    ended = reason;
    for (const ticket of waiting.empty()) fail(ticket, reason);
  }

  /** What a server still holds is dropped too: one that no longer answers would hold up the end for its whole timeout. */
  function giveUp(fatal: Fatal, why: string): void {
    if (ended !== null) return;
    givenUp ??= fatal;
    const reason = interruptedBy(why);
    end(reason);
    drop(reason);
    options.onGivenUp?.();
  }

  function drop(reason: CallFailure): void {
    for (const { running } of endpoints) for (const ticket of running.slice()) ticket.exchange?.abort(reason);
  }

  function stop(): void {
    end(new CallFailure('interrupted', 'The run was stopped before this call was answered.'));
  }

  function abort(): void {
    aborted = true;
    stop();
    drop(new CallFailure('interrupted', 'The run was stopped while a server worked on this call.'));
  }

  return {
    model: found.model,
    maxModelLength: found.maxModelLength,
    itemsInFlight: options.inFlight ?? (2 * places || REPLAYED),
    call,
    stop,
    abort,
    judge: (key, rung, code) => ledger?.judge(key, rung, code),
    asksWith: asksWith => ledger?.stage(asksWith),
    giveUp(fatal) {
      // told even where the run was ending anyway: what it says of the ledger is not so
      givenUp ??= fatal;
      giveUp(fatal, BROKEN);
    },
    verdict: () => givenUp ?? refusals.verdict(),
    stats: () =>
      poolStats(
        endpoints,
        { calls, replayed: ledger ? replayed : null, waiting: waiting.size, failed },
        clock.now(),
      ),
    async close() {
      stop();
      ticker.stop();
      outages.close();
      signal?.removeEventListener('abort', stop);
      await Promise.all(endpoints.map(({ wire }) => wire.close()));
      if (aborted) await whenDropped(endpoints);
      await ledger?.close();
    },
  };
}
