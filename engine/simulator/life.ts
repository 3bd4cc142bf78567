/**
 * The life of a chat request on a simulated server, and the counts that tests and /metrics read of it:
 *
 *   bytes ─ hash ─ transport fault? ─ reply (chat.ts) ─ delay (timing.ts) ─ whole | stream | dropped (reply.ts)
 */
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { performance } from 'node:perf_hooks';
import { type ChatSettings, type Reply, replyTo } from './chat.ts';
import { drawTransportFault, FAULTS, type Fault, type TransportFault } from './faults.ts';
import type { Finished, Metrics } from './metrics.ts';
import { PURPOSE, type Random, saltOf, sha256 } from './random.ts';
import { Refusal } from './refusal.ts';
import { drop, eventsOf, sendJson, sendRefusal, startStream, wholeBody } from './reply.ts';
import { type Latency, timingOf } from './timing.ts';

export interface ReceivedRequest {
  body: string;
  headers: IncomingHttpHeaders;
  /** how often these bytes have come to this server, this time included */
  arrival: number;
}

export interface Counts {
  /** chat requests received */
  requests: number;
  /** completions that were written to their end */
  answers: number;
  inFlight: number;
  maxInFlight: number;
  /** how often each fault was served; several answer faults can meet in one answer */
  faults: Record<Fault, number>;
  /** arrivals by the SHA-256 of the body, in hex; of the newest million bodies */
  requestsByBody: ReadonlyMap<string, number>;
}

export interface LifeSettings extends ChatSettings {
  latency: Latency;
  metrics: Metrics;
  onRequest: ((request: ReceivedRequest) => void) | undefined;
}

export interface Life {
  /** Answers a chat request; `name` is that of the server. @throws Refusal */
  serve: (request: IncomingMessage, response: ServerResponse, body: Buffer, name: string) => void;
  counts: () => Counts;
}

const MOST_BODIES = 1_000_000;

export function lifeOf(settings: LifeSettings): Life {
  const { metrics, latency, draws } = settings;
  const arrivals = new Map<string, number>();
  const faults = Object.fromEntries(FAULTS.map(kind => [kind, 0])) as Record<Fault, number>;
  let requests = 0;
  let answers = 0;
  let inFlight = 0;
  let maxInFlight = 0;

  function arrive(key: string): number {
    const arrival = (arrivals.get(key) ?? 0) + 1;
    if (arrival === 1 && arrivals.size >= MOST_BODIES) arrivals.delete(arrivals.keys().next().value!);
    arrivals.set(key, arrival);
    return arrival;
  }

  function serve(request: IncomingMessage, response: ServerResponse, bytes: Buffer, name: string): void {
    const arrived = performance.now();
    const hash = sha256(bytes);
    const body = bytes.toString();
    const arrival = arrive(hash.toString('hex'));
    requests++;
    maxInFlight = Math.max(maxInFlight, ++inFlight);
    response.once('close', () => inFlight--);
    settings.onRequest?.({ body, headers: request.headers, arrival });

    // other servers of the same seed must not fail the same request at the same arrival, or a retry elsewhere were vain
    const random = draws(hash, PURPOSE.transportFault, saltOf(name) + arrival);
    const fault = drawTransportFault(settings.faults, random);
    if (fault === 'hang') {
      faults.hang++;
      return;
    }
    if (fault === '429') {
      faults['429']++;
      const busy = new Refusal(429, 'RateLimitError', 'Simulated fault: too many requests.');
      sendRefusal(response, busy, random() < 0.5 ? { 'retry-after': '1' } : {});
      return;
    }
    const reply = replyTo(body, hash, settings);
    // a call that breaks on the way shows nobody what its answer would have been
    for (const kind of fault ? [fault] : reply.faults) faults[kind]++;
    metrics.started(reply.usage.prompt, reply.usage.cached);
    answer(response, reply, fault, arrived, timingOf(latency, draws(hash, PURPOSE.delay)), random);
  }

  /** Says the reply in its time, in steps of one timer each, and stops where the client goes away. */
  function answer(
    response: ServerResponse,
    reply: Reply,
    fault: TransportFault | undefined,
    arrived: number,
    timing: ReturnType<typeof timingOf>,
    random: Random,
  ): void {
    let timer: NodeJS.Timeout | undefined;
    let over = false;
    const seconds = () => (performance.now() - arrived) / 1000;
    const after = (ms: number, then: () => void) => {
      if (ms <= 0) then();
      else timer = setTimeout(then, ms);
    };
    const end = (how: Finished, completion: number) => {
      over = true;
      metrics.ended(how, { prompt: reply.usage.prompt, completion }, seconds());
    };
    response.once('close', () => {
      clearTimeout(timer);
      if (!over) end('abort', 0);
    });
    const now = () => Math.floor(Date.now() / 1000);

    const fail = () => {
      end('error', 0);
      if (fault === '500') {
        sendRefusal(response, new Refusal(500, 'InternalServerError', 'Simulated fault: the engine failed.'));
      } else drop(response, random() < 0.5 ? undefined : wholeBody(reply, now()));
    };
    const finished = () => {
      end(reply.finish, reply.usage.completion);
      answers++;
    };
    const whole = () => {
      metrics.firstToken(seconds());
      finished();
      sendJson(response, 200, wholeBody(reply, now()));
    };
    const stream = () => {
      metrics.firstToken(seconds());
      startStream(response);
      const all = eventsOf(reply, now());
      const events = fault ? all.slice(0, all.length >> 1) : all;
      const gap = (timing.lastToken - timing.firstToken) / all.length;
      const say = (at: number) => {
        if (gap >= 1 && at < events.length - 1) {
          response.write(events[at]!);
          return after(gap, () => say(at + 1));
        }
        const rest = events.slice(at).join('');
        if (fault) {
          end('error', 0);
          response.write(rest, () => response.destroy());
        } else {
          finished();
          response.end(rest);
        }
      };
      say(0);
    };
    if (reply.stream && fault !== '500') after(timing.firstToken, stream);
    else after(timing.lastToken, fault ? fail : whole);
  }

  return {
    serve,
    counts: () => ({
      requests,
      answers,
      inFlight,
      maxInFlight,
      faults: { ...faults },
      requestsByBody: arrivals,
    }),
  };
}
