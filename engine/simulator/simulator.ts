/**
 * A simulated vLLM server on a real port: its settings, its routes, its sockets.
 *
 * The answers are simulated: they fit the schema of the request and depend on its text and on the seed, and no model
 * is behind them. The same request gets the same answer from every simulator of the same seed, however many run and
 * whatever else is in flight. What a request is answered is in chat.ts, when and with what fault in life.ts.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { messagesOf, modelAsked, parseObject } from './chat.ts';
import { faultsFrom } from './faults.ts';
import { type Counts, type LifeSettings, lifeOf, type ReceivedRequest } from './life.ts';
import { metricsOf } from './metrics.ts';
import { drawsOf } from './random.ts';
import { badRequest, Refusal } from './refusal.ts';
import { sendJson, sendRefusal, sendText } from './reply.ts';
import { schemaCache } from './schemas.ts';
import { latencyFrom } from './timing.ts';
import { prefixCache, promptTokensOf, tokenIds, tokensOf } from './tokens.ts';

export interface SimulatorOptions {
  /** 0, the default, takes a free port */
  port?: number;
  host?: string;
  seed?: number;
  /** `40ms`, or a range `20ms-80ms` of which each request draws; default `0ms` */
  latency?: string;
  /** `none` (the default), `default`, or `<kind>=<share>,…` */
  faults?: string;
  model?: string;
  maxModelLength?: number;
  /** Sets the transport faults of this server apart from those of others with the same seed; default: its port. */
  name?: string;
  /** sees every chat request as it arrives, before anything is answered */
  onRequest?: (request: ReceivedRequest) => void;
}

export interface Simulator {
  /** base URL of the API, such as `http://127.0.0.1:8101/v1` */
  url: string;
  port: number;
  model: string;
  counts: () => Counts;
  /** Ends the server and every connection, answered or not. */
  close: () => Promise<void>;
}

/** vLLM's release, marked as what it is by a local version. */
const VERSION = '0.32.0+fw.simulated';
const LARGEST_BODY = 32 * 1024 * 1024;
const IDLE_MS = 120_000;
const BACKLOG = 4_096;

/** @throws RangeError on a latency or faults that cannot be read, and the system's error where the port is taken */
export async function startSimulator(options: SimulatorOptions = {}): Promise<Simulator> {
  const { host = '127.0.0.1', seed = 7, model = 'simulated-3b', maxModelLength = 8_192 } = options;
  const settings: LifeSettings = {
    model,
    maxModelLength,
    faults: faultsFrom(options.faults ?? 'none'),
    latency: latencyFrom(options.latency ?? '0ms'),
    draws: drawsOf(seed),
    schemaOf: schemaCache(),
    cachedTokensOf: prefixCache(),
    metrics: metricsOf(model, maxModelLength),
    onRequest: options.onRequest,
  };
  const life = lifeOf(settings);
  const routes = routesOf(settings);
  let { name = '' } = options;

  const server = createServer({ requestTimeout: 0 }, (request, response) => {
    readBody(request, response, body => {
      try {
        const path = request.url!.split('?', 1)[0]!;
        if (path === '/v1/chat/completions' && request.method === 'POST')
          life.serve(request, response, body, name);
        else otherRoute(routes, path, request.method!, response, body);
      } catch (error) {
        const { message } = error as Error;
        const refusal = error instanceof Refusal ? error : new Refusal(500, 'InternalServerError', message);
        sendRefusal(response, refusal);
      }
    });
  });
  // a client that keeps connections for reuse must not meet a server that closes them just then
  server.keepAliveTimeout = IDLE_MS;
  await new Promise<void>((listening, failed) => {
    server.once('error', failed);
    server.listen({ port: options.port ?? 0, host, backlog: BACKLOG }, listening);
  });
  const { port } = server.address() as AddressInfo;
  name ||= String(port);
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${port}/v1`,
    port,
    model,
    counts: life.counts,
    close: () =>
      new Promise(closed => {
        server.close(() => closed());
        server.closeAllConnections();
      }),
  };
}

/** Collects a body of at most LARGEST_BODY; a client that goes away in the middle is not answered. */
function readBody(request: IncomingMessage, response: ServerResponse, then: (body: Buffer) => void): void {
  const chunks: Buffer[] = [];
  let length = 0;
  request.on('data', (chunk: Buffer) => {
    length += chunk.length;
    if (length <= LARGEST_BODY) chunks.push(chunk);
    else chunks.length = 0;
  });
  request.on('end', () => {
    if (length <= LARGEST_BODY) then(chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks));
    else
      sendRefusal(response, badRequest(`Expected a body of at most ${LARGEST_BODY} bytes, found ${length}.`));
  });
  // without a listener the reset of a connection would end the process
  request.on('error', () => {});
}

type Routes = ReadonlyMap<string, (response: ServerResponse, body: Buffer) => void>;

function otherRoute(
  routes: Routes,
  path: string,
  method: string,
  response: ServerResponse,
  body: Buffer,
): void {
  const route = routes.get(`${method} ${path}`);
  if (route) return route(response, body);
  const known = path === '/v1/chat/completions' || routes.has(`GET ${path}`) || routes.has(`POST ${path}`);
  if (known) sendJson(response, 405, '{"detail":"Method Not Allowed"}');
  else sendJson(response, 404, '{"detail":"Not Found"}');
}

function routesOf({ model, maxModelLength, metrics }: LifeSettings): Routes {
  const models = JSON.stringify({
    object: 'list',
    data: [
      {
        id: model,
        object: 'model',
        created: Math.floor(Date.now() / 1000),
        owned_by: 'vllm',
        root: model,
        parent: null,
        max_model_len: maxModelLength,
        permission: [],
      },
    ],
  });
  return new Map<string, (response: ServerResponse, body: Buffer) => void>([
    ['GET /v1/models', response => sendJson(response, 200, models)],
    ['GET /health', response => sendText(response, 200, 'text/plain', '')],
    ['GET /version', response => sendJson(response, 200, JSON.stringify({ version: VERSION }))],
    [
      'GET /metrics',
      response => sendText(response, 200, 'text/plain; version=0.0.4; charset=utf-8', metrics.text()),
    ],
    [
      'POST /tokenize',
      (response, body) => {
        const question = parseObject(body.toString());
        modelAsked(question, model);
        const { prompt, messages } = question;
        if (typeof prompt !== 'string' && messages === undefined) {
          throw badRequest('prompt: Field required: expected a prompt or messages.');
        }
        const asked = typeof prompt === 'string' ? [{ role: 'user', content: prompt }] : messagesOf(messages);
        const count = typeof prompt === 'string' ? tokensOf(prompt) : promptTokensOf(asked);
        const tokens = tokenIds(asked.map(message => message.content).join('\n'), count);
        sendJson(
          response,
          200,
          JSON.stringify({ count, max_model_len: maxModelLength, tokens, token_strs: null }),
        );
      },
    ],
  ]);
}
