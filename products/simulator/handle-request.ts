/**
 * The handler of a request on a simulated server, and the counts that tests and /metrics read of it:
 *
 *   bytes ─ hash ─ transport fault? ─ let in? ─ reply (chat.ts, embeddings.ts) ─ backend ─ whole | stream | dropped (answer-wire.ts)
 */
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import type { Clock } from '../../engine/asking/endpoints/pool-clock.ts';
import { drop, scriptOf, sendJson, sendRefusal, startStream, wholeBody } from './answer-wire.ts';
import { biasText } from './bias.ts';
import type { ChatSettings, Reply, Script } from './chat.ts';
import type { Control } from './control.ts';
import { drawTransportFault, FAULTS, type Fault, type TransportFault } from './faults.ts';
import { PURPOSE, type Random, saltOf, sha256 } from './random.ts';
import { Refusal } from './refusal.ts';
import { type Backend, type Listener, startAll } from './timing.ts';
import type { Finished, Metrics } from './vllm-metrics.ts';

export interface ReceivedRequest {
  body: string;
  headers: IncomingHttpHeaders;
  /** how often these bytes have come to this server, this time included */
  arrival: number;
}

export interface Counts {
  /** requests for answers received, and of others that a server turned away because it was not well */
  requests: number;
  unwell: number;
  /** answers that were written to their end */
  answers: number;
  inFlight: number;
  maxInFlight: number;
  /** how often each fault was served; several answer faults can meet in one answer */
  faults: Record<Fault, number>;
  /** in how many answers each bias was planted, as `name=Ebony Washington:-0.1` */
  biases: Readonly<Record<string, number>>;
  /** arrivals by the SHA-256 of the body, in hex; of the newest million bodies */
  requestsByBody: ReadonlyMap<string, number>;
}

/** What a server is made of that a restart replaces. */
export interface Core {
  backend: Backend;
  metrics: Metrics;
}

export interface HandlerSettings extends ChatSettings {
  control: () => Readonly<Control>;
  core: () => Core;
  clock: Clock;
  onRequest: ((request: ReceivedRequest) => void) | undefined;
}

/** From a body and its hash to an answer. @throws Refusal */
export type Answerer = (body: string, request: Buffer, settings: ChatSettings) => Reply;

/** What a request that is under way will be told in one piece. */
interface Said {
  reply: Reply;
}

/** As vLLM: with the X-Request-Id of the request, where it has one; not of a response, whose id is its own. */
function idOf(id: string, { 'x-request-id': given }: IncomingHttpHeaders): string {
  return typeof given === 'string' && given !== '' && id.includes('-')
    ? `${id.slice(0, id.indexOf('-'))}-${given}`
    : id;
}

const MOST_BODIES = 1_000_000;
const BUSY =
  'The engine is currently busy and cannot accept new requests. Please try again later or on a different instance.';

export class RequestHandler {
  readonly #settings: HandlerSettings;
  readonly #arrivals = new Map<string, number>();
  readonly #underWay = new Set<Said>();
  readonly #faults = Object.fromEntries(FAULTS.map(kind => [kind, 0])) as Record<Fault, number>;
  readonly #planted: Map<string, number>;
  readonly #sums = { requests: 0, unwell: 0, answers: 0, inFlight: 0, maxInFlight: 0 };

  constructor(settings: HandlerSettings) {
    this.#settings = settings;
    this.#planted = new Map((settings.biases ?? []).map(bias => [biasText(bias), 0]));
  }

  /** Counts a request for an answer that is turned away. */
  turnedAway(): void {
    this.#sums.unwell++;
  }

  counts(): Counts {
    return {
      ...this.#sums,
      faults: { ...this.#faults },
      biases: Object.fromEntries(this.#planted),
      requestsByBody: this.#arrivals,
    };
  }

  /** Answers a request; `name` is that of the server. @throws Refusal */
  serve(
    request: IncomingMessage,
    response: ServerResponse,
    bytes: Buffer,
    answerer: Answerer,
    name: string,
  ): void {
    const { draws, faults: shares, clock, core: currentCore, onRequest } = this.#settings;
    const came = clock.now();
    const hash = sha256(bytes);
    const body = bytes.toString();
    const arrival = this.#arrive(hash.toString('hex'));
    const sums = this.#sums;
    sums.requests++;
    sums.maxInFlight = Math.max(sums.maxInFlight, ++sums.inFlight);
    response.once('close', () => sums.inFlight--);
    onRequest?.({ body, headers: request.headers, arrival });

    // other servers of the same seed must not fail the same request at the same arrival, or a retry elsewhere were vain
    const random = draws(hash, PURPOSE.transportFault, saltOf(name) + arrival);
    const fault = drawTransportFault(shares, random);
    if (fault === 'hang') {
      this.#faults.hang++;
      return;
    }
    if (fault === '429') {
      this.#faults['429']++;
      const busy = new Refusal(429, 'RateLimitError', 'Simulated fault: too many requests.');
      sendRefusal(response, busy, random() < 0.5 ? { 'retry-after': '1' } : {});
      return;
    }
    const core = currentCore();
    this.#letIn(core);
    const reply = answerer(body, hash, this.#settings);
    reply.id = idOf(reply.id, request.headers);
    // a call that breaks on the way shows nobody what its answer would have been
    for (const kind of fault ? [fault] : reply.faults) this.#faults[kind]++;
    for (const bias of reply.biases)
      this.#planted.set(biasText(bias), this.#planted.get(biasText(bias))! + 1);
    const said: Said = { reply };
    if (fault === undefined && !reply.stream) {
      if (draws(hash, PURPOSE.swap, saltOf(name) + arrival)() < shares.swap) this.#swap(said);
      this.#underWay.add(said);
      response.once('close', () => this.#underWay.delete(said));
    }
    this.#answer(response, reply, said, fault, hash, core, random, came);
  }

  #arrive(key: string): number {
    const arrivals = this.#arrivals;
    const arrival = (arrivals.get(key) ?? 0) + 1;
    if (arrival === 1 && arrivals.size >= MOST_BODIES) arrivals.delete(arrivals.keys().next().value!);
    arrivals.set(key, arrival);
    return arrival;
  }

  /** Refuses what a limit does not let in, as vLLM from 0.29 on: before the request is read. */
  #letIn({ backend, metrics }: Core): void {
    const { maxQueuedRequests, maxQueuedTokens } = this.#settings.control();
    if (maxQueuedRequests === null && maxQueuedTokens === null) return;
    const { running, waiting, prefillTokens } = backend.live();
    const reason =
      maxQueuedRequests !== null && running + waiting >= maxQueuedRequests
        ? 'queued_reqs'
        : maxQueuedTokens !== null && prefillTokens >= maxQueuedTokens
          ? 'queued_tokens'
          : undefined;
    if (reason === undefined) return;
    metrics.rejected(reason);
    throw new Refusal(503, 'Service Unavailable', BUSY);
  }

  /** Gives the request the answer of one that is under way, and that one its own. */
  #swap(said: Said): void {
    const { reply } = said;
    for (const other of this.#underWay) {
      if (other.reply.kind !== reply.kind) continue;
      said.reply = other.reply;
      other.reply = reply;
      this.#faults.swap++;
      return;
    }
  }

  /** Says the reply in its time (what was swapped in has the time of what it took the place of), and stops where the client goes away. */
  #answer(
    response: ServerResponse,
    reply: Reply,
    said: Said,
    fault: TransportFault | undefined,
    request: Buffer,
    { backend, metrics }: Core,
    random: Random,
    came: number,
  ): void {
    const { clock } = this.#settings;
    const sums = this.#sums;
    const streamed = reply.stream && fault !== '500';
    let script: Script | undefined;
    let over = false;
    let firstToken = 0;
    let callOff = () => {};
    const now = () => Math.floor(Date.now() / 1000);
    const fail = (how: Finished) => {
      over = true;
      metrics.broken(how);
    };
    const listener: Listener = {
      firstToken() {
        if (streamed) {
          script = scriptOf(reply, now(), backend.speculation !== undefined);
          startStream(response);
          response.write(script.upTo(fault ? 0 : 1 / Math.max(1, reply.usage.completion)));
        }
        firstToken = clock.now() - came;
      },
      progress(share) {
        // one that is to break breaks half-way
        const events = fault && share > 0.5 ? '' : script!.upTo(share);
        if (events) response.write(events);
      },
      done(told) {
        reply.usage.cached = told.cachedTokens;
        if (fault === '500') {
          fail('error');
          sendRefusal(
            response,
            new Refusal(500, 'InternalServerError', 'Simulated fault: the engine failed.'),
          );
        } else if (fault) {
          fail('error');
          if (script) response.write(script.upTo(0.5), () => response.destroy());
          else drop(response, random() < 0.5 ? undefined : wholeBody(reply, now()));
        } else {
          over = true;
          sums.answers++;
          if (script) response.end(script.rest());
          else sendJson(response, 200, wholeBody(said.reply, now()));
          // as vLLM: when this process spoke, which is later than when the engine had the token
          metrics.answered(reply.finish, reply.usage, { ...told, firstToken, lastToken: clock.now() - came });
        }
      },
    };
    response.once('close', () => {
      if (over) return;
      callOff();
      fail('abort');
    });
    callOff = startAll(backend, reply, request, streamed, came, listener);
  }
}
