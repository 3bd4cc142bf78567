/** A server on a real port that each test scripts itself, and a pool with short waits to ask it. */
import { createHash } from 'node:crypto';
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import { onTestFinished } from 'vitest';
import type { Timing } from '../../engine/asking/endpoints/pool-clock.ts';
import type { EndpointPool, PoolOptions } from '../../engine/asking/pool/part.ts';
import { createPool } from '../../engine/asking/pool/pool.ts';
import type { Call } from '../../engine/core/item/call.ts';
import { freePort } from '../free-port.ts';

/** One request for a completion, and the ways to treat it. */
export interface Ask {
  /** 1-based, over the completions that this server was asked for */
  n: number;
  body: string;
  headers: IncomingHttpHeaders;
  request: IncomingMessage;
  response: ServerResponse;
  /** a completion with this content */
  answer(content: string | null, more?: object): void;
  send(status: number, body: unknown, headers?: Record<string, string>): void;
  /** never answers; no longer counted as in flight, for a server learns late that a client has given up */
  ignore(): void;
  /** closes the connection, after `bytes` if there are any */
  cut(bytes?: string): void;
  /** the same with a reset instead of an orderly end */
  reset(bytes?: string): void;
  /** writes bytes as they are, in the place of an answer or behind one */
  raw(bytes: string): void;
}

/** What tells the prompt of a `callOf` from all others. */
export const nonceIn = (body: string): string => JSON.parse(body).messages[0].content;

/** the id of its completion, as vLLM makes it */
export const idOf = (headers: IncomingHttpHeaders): string => `chatcmpl-${headers['x-request-id']}`;

/** the right answer to it */
export const echo = (ask: Ask): void => ask.answer(nonceIn(ask.body));

export interface Fake {
  url: string;
  port: number;
  asked: number;
  inFlight: number;
  maxInFlight: number;
  /** resolves when `n` completions have been asked for */
  reached(n: number): Promise<void>;
  /** resolves when `n` requests have been cut off by the client */
  dropped(n: number): Promise<void>;
  close(): Promise<void>;
}

export interface Served {
  models?: string[];
  /** replaces the answer to GET …/models */
  onModels?: (response: ServerResponse, path: string) => void;
  /** the page of GET …/metrics; absent: there is none */
  metrics?: () => string;
  port?: number;
  prefix?: string;
}

export async function serve(onAsk: (ask: Ask) => void, served: Served = {}): Promise<Fake> {
  const prefix = served.prefix ?? '/v1';
  const waits: { ready: () => boolean; resolve: () => void }[] = [];
  let dropped = 0;
  const tell = () => {
    for (const wait of waits.splice(0)) wait.ready() ? wait.resolve() : waits.push(wait);
  };
  const when = (ready: () => boolean) =>
    new Promise<void>(resolve => {
      waits.push({ ready, resolve });
      tell();
    });

  const server = createServer((request, response) => {
    const path = request.url ?? '';
    if (request.method === 'GET') {
      if (path.endsWith('/metrics'))
        return response.writeHead(served.metrics ? 200 : 404).end(served.metrics?.());
      if (served.onModels) return served.onModels(response, path);
      const data = (served.models ?? ['m']).map(id => ({ id, object: 'model', max_model_len: 4096 }));
      response.setHeader('content-type', 'application/json');
      return response.end(JSON.stringify({ object: 'list', data }));
    }
    // of another test's process, which looks for a server that had this port before
    if (!path.startsWith(prefix)) return response.writeHead(404).end();
    const chunks: Buffer[] = [];
    request.on('data', chunk => chunks.push(chunk));
    request.on('end', () => {
      fake.inFlight++;
      fake.maxInFlight = Math.max(fake.maxInFlight, fake.inFlight);
      const n = ++fake.asked;
      // The answer is over for a server when it has handed it on, which is before a client can have read it.
      const over = () => {
        if (gone) return;
        gone = true;
        fake.inFlight--;
      };
      let gone = false;
      response.on('close', () => {
        if (!response.writableFinished) dropped++;
        over();
        tell();
      });
      const send: Ask['send'] = (status, body, headers = {}) => {
        const text = typeof body === 'string' ? body : JSON.stringify(body);
        over();
        response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(text);
      };
      onAsk({
        n,
        body: Buffer.concat(chunks).toString(),
        headers: request.headers,
        request,
        response,
        send,
        answer: (content, more = {}) =>
          send(200, {
            id: idOf(request.headers),
            choices: [{ index: 0, message: { content }, finish_reason: 'stop' }],
            ...more,
          }),
        ignore: over,
        cut(bytes) {
          over();
          if (bytes === undefined) request.socket.destroy();
          else request.socket.end(bytes, () => request.socket.destroy());
        },
        reset(bytes = '') {
          over();
          request.socket.write(bytes, () => request.socket.resetAndDestroy());
        },
        raw(bytes) {
          over();
          request.socket.write(bytes);
        },
      });
      tell();
    });
  });
  const port = served.port ?? (await freePort()); // it may be closed, and be there again
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, '127.0.0.1', resolve);
  });
  const fake: Fake = {
    url: `http://127.0.0.1:${port}${prefix}`,
    port,
    asked: 0,
    inFlight: 0,
    maxInFlight: 0,
    reached: n => when(() => fake.asked >= n),
    dropped: n => when(() => dropped >= n),
    close: () =>
      new Promise(resolve => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
  onTestFinished(() => fake.close());
  return fake;
}

/** A port on which nothing listens (it was free a moment ago). */
export async function deadUrl(): Promise<string> {
  const fake = await serve(() => {});
  await fake.close();
  return fake.url;
}

export const QUICK: Partial<Timing> = {
  tick: 2,
  backoffBase: 1,
  backoffCap: 4,
  rest: 1,
  restCap: 4,
  reprobeFirst: 2,
  reprobeSoon: 4,
  reprobeLast: 8,
};

export type Opened = EndpointPool & { warnings: string[] };

/** A pool over `urls`; it is closed when the test ends. */
export async function open(
  urls: readonly (string | { url: string; limit: number; pinned?: boolean })[],
  more: Partial<PoolOptions> = {},
): Promise<Opened> {
  const warnings: string[] = [];
  const endpoints = urls.map(one => ({
    pinned: true,
    ...(typeof one === 'string' ? { url: one, limit: 8 } : one),
  }));
  const warn = (message: string) => void warnings.push(message);
  const pool = await createPool({ endpoints, retryBudget: 0.2, warn, timing: QUICK, ...more });
  onTestFinished(async () => {
    pool.abort();
    await pool.close();
  });
  return Object.assign(pool, { warnings });
}

let count = 0;

export function callOf(more: Partial<Call> = {}): Call {
  const item = `item-${++count}`;
  const body = JSON.stringify({ model: 'm', messages: [{ role: 'user', content: item }] });
  return {
    path: '/chat/completions',
    model: 'm',
    body: Buffer.from(body),
    head: '',
    tail: '',
    key: createHash('sha256').update(item).digest('hex').slice(0, 32),
    item,
    agent: 'a',
    round: 0,
    attempt: 1,
    ...more,
  };
}

/** What became of a call: its text, or the code it failed with. */
export async function outcome(pool: EndpointPool, call = callOf()): Promise<string> {
  try {
    return (await pool.call(call)).text;
  } catch (error) {
    return String((error as { code?: string }).code ?? error);
  }
}

export async function errorOf(promise: Promise<unknown>): Promise<Error> {
  try {
    await promise;
  } catch (error) {
    return error as Error;
  }
  throw new Error('expected a rejection, found a value');
}

/** Lets the event loop turn until `ready`; a condition that never comes fails the test instead of hanging it. */
export async function until(ready: () => boolean): Promise<void> {
  for (let turn = 0; turn < 1_000_000; turn++) {
    if (ready()) return;
    await new Promise(setImmediate);
  }
  throw new Error(`never came true: ${ready}`);
}

/** Asks, two calls at a time, until `ready`. */
export async function askUntil(pool: EndpointPool, ready: () => boolean): Promise<void> {
  for (let turn = 0; turn < 5_000; turn++) {
    if (ready()) return;
    await Promise.all([outcome(pool), outcome(pool)]);
    await new Promise(setImmediate);
  }
  throw new Error(`never came true: ${ready}`);
}
