/**
 * A simulated vLLM server on a real port: its settings, its sockets, and whether it listens at all.
 *
 * The answers are simulated: they fit the schema of the request and depend on its text and on the seed, and no model
 * is behind them. The same request gets the same answer from every simulator of the same seed, however many run and
 * whatever else is in flight. What a request is answered is in chat.ts, when in timing.ts, with what
 * fault in handle-request.ts.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type Clock, systemClock } from '../../engine/asking/endpoints/pool-clock.ts';
import { descriptors, socketsOf } from '../../engine/core/files/process.ts';
import { sendRefusal } from './answer-wire.ts';
import { biasFrom, type Outcome } from './bias.ts';
import { completionOf } from './chat.ts';
import { chatOf } from './chat-tools.ts';
import { type Control, Controls, durationFrom, latencyFrom, scheduleFrom } from './control.ts';
import { embeddingsOf } from './embeddings.ts';
import { faultsFrom } from './faults.ts';
import {
  type Answerer,
  type Core,
  type Counts,
  type ReceivedRequest,
  RequestHandler,
} from './handle-request.ts';
import { countOf, messageOf } from './messages.ts';
import { classesOf, pooledOf, rerankedOf, scoresOf } from './pooling.ts';
import type { Preset } from './presets.ts';
import { drawsOf } from './random.ts';
import { badRequest, Refusal } from './refusal.ts';
import { responseOf } from './responses.ts';
import { ADMIN, guard, isUnwell, noRoute, routesOf } from './routes.ts';
import { schemaCache } from './schemas.ts';
import { delayBackend, engineBackend } from './timing.ts';
import { transcriptOf } from './transcripts.ts';
import { type MetricNames, Metrics } from './vllm-metrics.ts';

export interface SimulatorOptions {
  /** 0, the default, takes a free port */
  port?: number;
  host?: string;
  seed?: number;
  /** `40ms`, or a range `20ms-80ms` of which each request draws; default `0ms`. Without effect where there is a preset. */
  latency?: string;
  /** an engine that all requests share, in place of a latency */
  preset?: Preset;
  /** `none` (the default), `default`, or `<kind>=<share>,…` */
  faults?: string;
  /** `name=Ebony Washington:-0.1`: planted, so that a report can be held to finding it */
  biases?: readonly string[];
  /** the value of an answer that they are planted in; default: what may be `approve` */
  outcome?: Outcome;
  model?: string;
  maxModelLength?: number;
  /** 503 from so many requests on, running and waiting */
  maxQueuedRequests?: number;
  /** 503 from so many prompt tokens on that are not computed yet */
  maxQueuedTokens?: number;
  /** for so long after it began to listen every route answers 503 */
  startupDelay?: string;
  /** `fcfs` (the default), or by the priority of requests, which are refused otherwise where they have one */
  schedulingPolicy?: SchedulingPolicy;
  metricNames?: MetricNames;
  /** whether POST /admin/config changes settings */
  admin?: boolean;
  /** what changes while it runs, as schedule.schema.json describes it */
  schedule?: unknown;
  /** Sets the transport faults of this server apart from those of others with the same seed; default: its port. */
  name?: string;
  /** sees every request for an answer as it arrives, before anything is answered */
  onRequest?: (request: ReceivedRequest) => void;
  clock?: Clock;
}

/** vLLM's --scheduling-policy. */
export const SCHEDULING_POLICIES = ['fcfs', 'priority'] as const;
export type SchedulingPolicy = (typeof SCHEDULING_POLICIES)[number];

export interface Simulator {
  /** base URL of the API, such as `http://127.0.0.1:8101/v1` */
  url: string;
  port: number;
  model: string;
  counts: () => Counts;
  /** Ends the server and every connection, answered or not. */
  close: () => Promise<void>;
}

const LARGEST_BODY = 32 * 1024 * 1024;
const IDLE_MS = 120_000;
const BACKLOG = 4_096;

const ANSWERERS: ReadonlyMap<string, Answerer> = new Map<string, Answerer>([
  ['/v1/chat/completions', chatOf],
  ['/v1/completions', completionOf],
  ['/v1/embeddings', embeddingsOf],
  ...['/score', '/v1/score'].map(path => [path, scoresOf] as const),
  ...['/rerank', '/v1/rerank', '/v2/rerank'].map(path => [path, rerankedOf] as const),
  ...['/classify', '/v1/classify'].map(path => [path, classesOf] as const),
  ['/pooling', pooledOf],
  ['/v1/audio/transcriptions', transcriptOf],
  ['/v1/responses', responseOf],
  ['/v1/messages', messageOf],
  ['/v1/messages/count_tokens', countOf],
]);

/** @throws RangeError on a setting that cannot be read, the system's error where the port is taken; exit 74 for too low a file limit */
export async function startSimulator(options: SimulatorOptions = {}): Promise<Simulator> {
  const { host = '127.0.0.1', seed = 7, model = 'simulated-3b', maxModelLength = 8_192, preset } = options;
  const { clock = systemClock, metricNames: names = 'new', admin = false } = options;
  const byPriority = options.schedulingPolicy === 'priority';
  const startupDelay = durationFrom(options.startupDelay ?? '0ms');
  const draws = drawsOf(seed);
  const first = controlAtStart(options, startupDelay);
  const schedule = scheduleFrom(options.schedule ?? [], first);

  const server = createServer({ requestTimeout: 0 });
  // what judges a schema needs descriptors too, and without any it ends the process (schemas.ts)
  server.maxConnections = socketsOf(descriptors());
  let port = options.port ?? 0;

  const controls = new Controls(first, clock, (now, before) => {
    core.backend.slow(now.slowdown);
    if (now.health === before.health) return;
    if (now.health === 'down') {
      core = coreOf();
      // who asked for it gets the answer to that first
      setImmediate(() => {
        if (controls.now.health !== 'down') return;
        server.close();
        server.closeAllConnections();
      });
    } else if (before.health === 'down' && !server.listening) {
      // somebody else may have taken the port: then this server stays down, as a real one would
      listen(server, port, host).catch(() => {});
    }
  });
  const coreOf = (): Core => {
    const latency = () => controls.now.latency;
    const backend = preset
      ? engineBackend(preset, clock, maxModelLength, byPriority)
      : delayBackend({ latency, draws, clock, maxModelLength });
    backend.slow(controls.now.slowdown);
    const { kvBlocks, speculation } = backend;
    return { backend, metrics: new Metrics({ model, maxModelLength, names, kvBlocks, speculation }) };
  };
  let core = coreOf();

  const handler = new RequestHandler({
    model,
    maxModelLength,
    draws,
    byPriority,
    schemaOf: schemaCache(),
    biases: (options.biases ?? []).map(biasFrom),
    ...(options.outcome && { outcome: options.outcome }),
    get faults() {
      return controls.now.faults;
    },
    control: () => controls.now,
    core: () => core,
    clock,
    onRequest: options.onRequest,
  });
  const routes = routesOf({ model, maxModelLength, core: () => core, controls, admin });
  let { name = '' } = options;
  const answer = receiverOf({ controls, handler, routes, host, name: () => name });
  server.on('request', (request, response) => receive(request, response, answer));
  // a client that keeps connections for reuse must not meet a server that closes them just then
  server.keepAliveTimeout = IDLE_MS;
  await listen(server, port, host);
  port = (server.address() as AddressInfo).port;
  name ||= String(port);
  if (startupDelay > 0) controls.follow([{ at: `${startupDelay}ms`, health: 'ok' }]);
  controls.follow(schedule);
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${port}/v1`,
    port,
    model,
    counts: () => handler.counts(),
    close: () =>
      new Promise(closed => {
        controls.close();
        server.close(() => closed());
        server.closeAllConnections();
      }),
  };
}

function controlAtStart(options: SimulatorOptions, startupDelay: number): Control {
  return {
    latency: options.preset ? null : latencyFrom(options.latency ?? '0ms'),
    slowdown: 1,
    faults: faultsFrom(options.faults ?? 'none'),
    health: startupDelay > 0 ? 'starting' : 'ok',
    maxQueuedRequests: options.maxQueuedRequests ?? null,
    maxQueuedTokens: options.maxQueuedTokens ?? null,
  };
}

function listen(server: Server, port: number, host: string): Promise<void> {
  return new Promise((listening, failed) => {
    server.once('error', failed);
    server.listen({ port, host, backlog: BACKLOG }, () => {
      server.off('error', failed);
      listening();
    });
  });
}

type Receiver = (request: IncomingMessage, response: ServerResponse, body: Buffer) => void;

interface Receiving {
  controls: Controls;
  handler: RequestHandler;
  routes: ReturnType<typeof routesOf>;
  host: string;
  name: () => string;
}

function receiverOf({ controls, handler, routes, host, name }: Receiving): Receiver {
  return (request, response, body) => {
    const path = request.url!.split('?', 1)[0]!;
    const answerer = request.method === 'POST' ? ANSWERERS.get(path) : undefined;
    if (isUnwell(response, controls, path)) {
      if (answerer) handler.turnedAway();
      return;
    }
    const route = routes.get(`${request.method} ${path}`);
    if (path === ADMIN && route) guard(request.headers, host, request.method === 'POST');
    if (answerer) handler.serve(request, response, body, answerer, name());
    else if (route) route(response, body);
    else noRoute(response, ANSWERERS.has(path) || routes.has(`GET ${path}`) || routes.has(`POST ${path}`));
  };
}

/** Collects a body of at most LARGEST_BODY, and answers what `answer` refuses; a client that goes away in the middle is not answered. */
function receive(request: IncomingMessage, response: ServerResponse, answer: Receiver): void {
  const chunks: Buffer[] = [];
  let length = 0;
  request.on('data', (chunk: Buffer) => {
    length += chunk.length;
    if (length <= LARGEST_BODY) chunks.push(chunk);
    else chunks.length = 0;
  });
  request.on('end', () => {
    try {
      if (length > LARGEST_BODY)
        throw badRequest(`Expected a body of at most ${LARGEST_BODY} bytes, found ${length}.`);
      answer(request, response, chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks));
    } catch (error) {
      const { message } = error as Error;
      const refusal = error instanceof Refusal ? error : new Refusal(500, 'InternalServerError', message);
      sendRefusal(response, refusal);
    }
  });
  // without a listener the reset of a connection would end the process
  request.on('error', () => {});
}
