/**
 * HTTP: where a server listens, and fastify with its own reading of bodies, coercion and logging left out. Every answer has an x-request-id; whatever
 * goes wrong has OpenAI's shape. Timeouts are ours: Node's `requestTimeout` would end an upload of some minutes.
 */
import { type IncomingMessage, type Server, STATUS_CODES } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import type { Dialect } from '../../engine/core/item/dialects.ts';
import { usageError } from '../../engine/core/item/failure.ts';
import type { Say } from '../../engine/core/item/say.ts';
import type { Access, Caller } from './access.ts';
import { type Connections, watchConnections } from './connections.ts';
import { ApiError, bodyOfError, comeAgain, stopping } from './errors.ts';
import { createRoom, readBody } from './http-body.ts';
import { type Noted, tellRequest } from './log/request-line.ts';
import { newRequestId, requestIdOf } from './request-ids.ts';
import type { Settings } from './serve-config.ts';
import type { ServerMetrics } from './serve-metrics.ts';
import type { Parts } from './server-context.ts';

/** bytes of the names and values of all headers of a request */
const MOST_HEADERS = 16 * 1024;
/** ms in which the headers of a request must be here */
const HEADERS_WITHIN = 30_000;
/** ms in which a connection without a request is closed; longer than the pauses of the clients that keep them */
const IDLE = 75_000;
/** ms in which a client that was answered before it had sent all may read the answer */
const LINGER = 2_000;
/** times `mostBody` that all bodies may take together which are read, or are asked */
const BODIES = 64;

export interface HttpOptions {
  access: Access;
  metrics: ServerMetrics;
  /** bytes of a body that is read whole */
  mostBody: number;
  stops?: Pick<Parts, 'closing'> & Partial<Pick<Parts, 'over' | 'isOurs'>>;
  /** told of what is a bug, with no text of a request */
  say: Say;
  /** told each request that is over, where there is a log of them */
  tell?: Say | undefined;
}

export function createHttp({ access, metrics, mostBody, stops, say, tell }: HttpOptions): FastifyInstance {
  const isClosing = (): boolean => stops?.closing.aborted === true;
  const app = fastify({
    logger: false,
    genReqId: ({ headers }) => requestIdOf(headers),
    requestTimeout: 0,
    keepAliveTimeout: IDLE,
    return503OnClosing: false, // fastify's own words have neither the shape nor a Retry-After
    routerOptions: { maxParamLength: 200 },
    http: { maxHeaderSize: MOST_HEADERS, headersTimeout: HEADERS_WITHIN },
    clientErrorHandler: (error, socket) => refuse(error as NodeJS.ErrnoException, socket as Socket),
    frameworkErrors: (error, _request, reply) => {
      void answer(reply, new ApiError(400, error.message));
    },
  });
  const connections = watchConnections(app.server);
  connectionsOf.set(app.server, connections);
  app.server.maxHeadersCount = 0; // beyond a count they would be left out silently; the bytes are bounded
  app.decorateRequest('caller', null as unknown as Caller);
  app.decorateRequest('ends', null);
  app.decorateRequest('span', null);
  app.decorateRequest('noted', null as unknown as Noted);
  const giveBack = addBodies(app, mostBody);
  /** of those who are known: what has no whole answer yet */
  const open = new Set<FastifyReply>();
  app.addHook('onRequest', async (request, reply) => {
    void reply.header('x-request-id', request.id);
    // where Anthropic's clients look for it, whatever they ask and whoever refuses it
    if (shapeOf(request) === 'anthropic') void reply.header('request-id', request.id);
    request.noted = {};
    // an answer that nobody waits for any more has a close, and no end
    if (tell !== undefined)
      reply.raw.once('close', () => {
        tellRequest(tell, request, reply);
        request.span?.end(request, reply);
      });
    const { scope } = request.routeOptions.config;
    if (scope === undefined) return;
    // on a connection that was there before: no new one is taken
    if (isClosing() || stops?.isOurs?.() === false) throw stopping();
    request.caller = access.check(request.headers, scope, request.noted);
    refusePacked(request.headers['content-encoding']);
  });
  app.addHook('preParsing', async (request, reply) => {
    if ((request.caller as Caller | null) === null) return;
    connections.asks(request.raw.socket, reply.raw);
    open.add(reply);
    reply.raw.once('close', () => {
      open.delete(reply);
      giveBack(request);
    });
  });
  stops?.over?.addEventListener('abort', () => {
    for (const reply of open) {
      if (reply.request.ends !== null) reply.request.ends();
      else if (!reply.raw.headersSent) void answer(reply, stopping());
    }
  });
  app.addHook('onSend', async (request, reply) => {
    if (!request.raw.complete || isClosing()) void reply.header('connection', 'close');
  });
  app.addHook('onResponse', async (request, reply) => {
    metrics.answered(request.routeOptions.url ?? 'none', reply.statusCode, reply.elapsedTime / 1000);
    if (!request.raw.complete) letGo(request.raw.socket);
  });
  app.setErrorHandler((error, request, reply) => {
    if (error instanceof ApiError) return answer(reply, error);
    const { statusCode = 500, message } = error as Error & { statusCode?: number };
    if (statusCode < 500) return answer(reply, new ApiError(statusCode, message));
    say(`${request.method} ${request.routeOptions.url} (${request.id}): ${(error as Error).stack}`, {
      ...{ event: 'bug', level: 'error', request: request.id },
    });
    return answer(reply, new ApiError(500, 'The server had an error while processing your request.'));
  });
  app.setNotFoundHandler((request, reply) => {
    const path = request.url.split('?', 1)[0]?.slice(0, 200);
    return answer(
      reply,
      new ApiError(404, `Invalid URL (${request.method} ${path})`, { code: 'unknown_url' }),
    );
  });
  return app;
}

/** What is packed has a length that nobody knows before it is unpacked: no body is taken so. */
function refusePacked(encoding: string | undefined): void {
  if (encoding === undefined || ['', 'identity'].includes(encoding.trim().toLowerCase())) return;
  throw new ApiError(
    415,
    `Expected a body without content-encoding, found '${encoding.slice(0, 40)}': send it as it is.`,
    { code: 'unsupported_content_encoding' },
  );
}

/** How its client reads errors: by the path, else by what only Anthropic's clients send. */
function shapeOf({ routeOptions, headers }: FastifyRequest): Dialect['errors'] {
  return routeOptions.config.errors ?? ('anthropic-version' in headers ? 'anthropic' : 'openai');
}

/** Bodies are read whole, within a bound for all of them; what it returns gives back what a request had of it. */
function addBodies(app: FastifyInstance, mostBody: number): (request: FastifyRequest) => void {
  app.removeAllContentTypeParsers();
  const bodies = createRoom(BODIES * mostBody);
  const held = new WeakMap<FastifyRequest, number>();
  const whole = async (request: FastifyRequest, raw: IncomingMessage): Promise<Buffer | undefined> => {
    const caller: Caller | null = request.caller;
    if (caller === null) return undefined; // of a stranger nothing is read
    const { most } = request.routeOptions.config;
    if (most !== undefined) return readBody(raw, most); // of workers, who are trusted with more
    return readBody(raw, mostBody, bytes => hold(request, bytes));
  };
  const hold = (request: FastifyRequest, bytes: number): ApiError | null => {
    if (!bodies.take(request.caller.owner, bytes)) return tooMuch();
    held.set(request, (held.get(request) ?? 0) + bytes);
    return null;
  };
  app.addContentTypeParser('application/json', whole);
  app.addContentTypeParser('multipart/form-data', async (request: FastifyRequest, raw: IncomingMessage) => {
    if (request.routeOptions.config.isForm !== true) return undefined;
    const form = await whole(request, raw);
    if (form === undefined) return undefined;
    const { jsonOfForm } = await import('./gateway/form-request.ts');
    const body = await jsonOfForm(form, request.headers['content-type'] ?? '');
    const refused = hold(request, Math.max(0, body.length - form.length));
    if (refused !== null) throw refused;
    return body;
  });
  // any other body is left in the connection: a route that takes one reads it itself
  app.addContentTypeParser('*', async () => undefined);
  return request => bodies.give(request.caller.owner, held.get(request) ?? 0);
}

const connectionsOf = new WeakMap<object, Connections>();

/** Whether there is no descriptor for the other side of what this connection asks. */
export const isBeyond = ({ raw, server }: FastifyRequest): boolean =>
  connectionsOf.get(server.server)?.isBeyond(raw.socket) === true;

/** Nothing is under way any more: who has said nothing yet holds up the end no longer. */
export const endSilent = ({ server }: FastifyInstance): void => connectionsOf.get(server)?.stop();

const tooMuch = (): ApiError =>
  comeAgain(
    503,
    'The bodies of all requests take as much memory as they may: send it again.',
    'overloaded',
    1,
  );

function answer(reply: FastifyReply, error: ApiError): FastifyReply {
  // a path that no router reads has come to no hook
  const noted = reply.request.noted as Noted | undefined;
  if (noted) noted.error = error.code ?? error.type;
  return reply
    .code(error.status)
    .headers(error.headers)
    .header('content-type', 'application/json; charset=utf-8')
    .send(bodyOfError(error, shapeOf(reply.request)));
}

/** It may still be sending: what it sends is dropped, so that it finds the answer, and then the connection ends. */
function letGo(socket: Socket): void {
  setTimeout(() => socket.destroy(), LINGER).unref();
}

const STATUS_OF: Readonly<Record<string, number>> = {
  HPE_HEADER_OVERFLOW: 431,
  ERR_HTTP_REQUEST_TIMEOUT: 408,
};

/** What is no request of HTTP has no route and no reply: it is answered on the bare connection. */
function refuse({ code = '' }: NodeJS.ErrnoException, socket: Socket): void {
  if (code === 'ECONNRESET' || !socket.writable) return void socket.destroy();
  const status = STATUS_OF[code] ?? 400;
  const words =
    status === 431
      ? `Expected headers of at most ${MOST_HEADERS} bytes, found more.`
      : `Expected a request of HTTP/1.1, found another one (${code || 'unreadable'}).`;
  const body = bodyOfError(
    new ApiError(status, status === 408 ? 'The request did not come in time.' : words),
  );
  socket.end(
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\ncontent-type: application/json; charset=utf-8\r\n` +
      `x-request-id: ${newRequestId()}\r\ncontent-length: ${Buffer.byteLength(body)}\r\nconnection: close\r\n\r\n${body}`,
  );
}

type Place = Pick<Settings, 'host' | 'port'>;

/**
 * Connections that are made before this process takes them. Node's own 511 turn the rest of a thousand callers away, whose
 * systems try again after a second; the system's own limit (`somaxconn`) is 4,096 as well.
 */
export const BACKLOG = 4_096;

/** Exit 64 for an address that cannot be listened on; any other error as it is. */
export function listenError(error: unknown, { host, port }: Place): unknown {
  const { code } = error as NodeJS.ErrnoException;
  if (code === 'EADDRINUSE')
    return usageError(`--listen: expected a free port of ${host}, found ${port} in use; 0 takes any`);
  if (code === 'EACCES' || code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND')
    return usageError(`--listen: expected an address to listen on, found ${host}:${port} (${code})`);
  return error;
}

export function urlOf(server: Server, { host }: Place): string {
  const { port } = server.address() as AddressInfo;
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}`;
}

export async function listen(app: FastifyInstance, place: Place): Promise<string> {
  try {
    await app.listen({ host: place.host, port: place.port, backlog: BACKLOG });
  } catch (error) {
    throw listenError(error, place);
  }
  return urlOf(app.server, place);
}
