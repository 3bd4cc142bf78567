/**
 * The wire of a benchmark: undici's Clients by their handler callbacks, where the first statement of each takes the time.
 * What came is looked at once all sockets that are ready have their stamps (setImmediate is behind the poll phase), so
 * that the parsing of one stream does not make another one look late.
 *
 * Never fetch, an SDK or an async iterator: at 200 streams they are late by hundreds of milliseconds, which would be in
 * every figure.
 */
import type { IncomingHttpHeaders } from 'node:http';
import { buildConnector, Client, type Dispatcher } from 'undici';
import type { Endpoint } from '../../../engine/asking/pool/pool-state.ts';
import { type Outcome, Reading, TookTooLong } from './timed-answer.ts';

export interface Request {
  /** from the root of the server */
  path: string;
  body: Buffer;
}

export interface Line {
  /** `ended` is told when the socket is free again, `settle` when all that came has been read; each once. */
  send(request: Request, due: number, ended: () => void, settle: (outcome: Outcome) => void): void;
  /** Requests that are under way end with `reason`. */
  abort(reason: Error): void;
  /** Ends those that got no byte for `ms`. */
  sweep(ms: number): void;
  /** requests under way */
  readonly busy: number;
  /** the server closes connections behind its answers: every request has one of its own since that was seen */
  readonly closes: boolean;
  close(): Promise<void>;
}

export interface LineOptions {
  now: () => number;
  keepText: boolean;
}

/** undici's own limits end a request that waits 300 s in the queue of a server; a benchmark wants to see that. */
const OPTIONS: Client.Options = {
  headersTimeout: 0,
  bodyTimeout: 0,
  pipelining: 1,
  keepAliveTimeout: 4_000,
  keepAliveMaxTimeout: 4_000,
};
const connect = buildConnector({ timeout: 10_000 });

/** Opens nothing yet: as many connections are made as requests are under way at once, and they are kept. */
export function lineTo(endpoint: Endpoint, { now, keepText }: LineOptions): Line {
  const { origin } = new URL(endpoint.url);
  const { key } = endpoint;
  const headers = ['content-type', 'application/json', 'accept', 'text/event-stream, application/json'];
  if (key !== undefined) headers.push('authorization', `Bearer ${key.read()}`);
  const free: Client[] = [];
  const under = new Set<Listening>();
  let closes = false;

  const sendOn = (isAgain: boolean, ...all: Parameters<Line['send']>): void => {
    const [request, due, ended, settle] = all;
    const rested = free.pop();
    const client = rested ?? new Client(origin, { ...OPTIONS, connect });
    const { path, body } = request;
    const sent = now();
    const reading = new Reading({ due, sent }, { key, keepText });
    const listening: Listening = new Listening(client, reading, now, settle, error => {
      under.delete(listening);
      // The server closed the connection while the request was on its way, and has not seen it. One that answers on a new
      // one closes them behind each answer (llama.cpp does, behind a stream), so that none is used twice from now on.
      if (error !== undefined && rested !== undefined && !listening.hasHead && isClosed(error)) {
        for (const other of free.splice(0)) void other.close();
        if (!client.destroyed) void client.close();
        sendOn(true, ...all);
        return false;
      }
      if (isAgain && listening.hasHead) closes = true;
      if (closes && !client.destroyed) void client.close();
      else if (!client.destroyed) free.push(client);
      ended();
      return true;
    });
    under.add(listening);
    client.dispatch({ path, method: 'POST', headers, body }, listening);
  };

  return {
    send: (...all) => sendOn(false, ...all),
    get closes() {
      return closes;
    },
    abort(reason) {
      for (const one of under) one.abort(reason);
    },
    sweep(ms) {
      const before = now() - ms;
      for (const one of under)
        if (one.heard < before) one.abort(new TookTooLong(`no byte within ${ms / 1000} s`));
    },
    get busy() {
      return under.size;
    },
    async close() {
      await Promise.all(free.splice(0).map(client => client.close()));
    },
  };
}

/** How undici and Node say that the other side has closed. */
function isClosed(error: Error): boolean {
  return ['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE'].includes(String((error as NodeJS.ErrnoException).code));
}

interface Heard {
  listening: Listening;
  bytes: Buffer | null;
  at: number;
  error: Error | undefined;
}

/** What has come and is not read yet, of all connections, in the order in which it came. */
let waiting: Heard[] = [];

function later(heard: Heard): void {
  if (waiting.push(heard) === 1) setImmediate(readAll);
}

function readAll(): void {
  const all = waiting;
  waiting = [];
  for (const { listening, bytes, at, error } of all) listening.read(bytes, at, error);
}

/** A class because undici wants one object with these methods for each request. */
class Listening implements Dispatcher.DispatchHandler {
  heard: number;
  hasHead = false;
  private isOver = false;
  private readonly client: Client;
  private readonly reading: Reading;
  private readonly now: () => number;
  private readonly settle: (outcome: Outcome) => void;
  private readonly ended: (error: Error | undefined) => boolean;

  constructor(
    client: Client,
    reading: Reading,
    now: () => number,
    settle: (outcome: Outcome) => void,
    ended: (error: Error | undefined) => boolean,
  ) {
    this.client = client;
    this.reading = reading;
    this.now = now;
    this.settle = settle;
    this.ended = ended;
    this.heard = now();
  }

  onRequestStart(): void {}

  onResponseStart(_: Dispatcher.DispatchController, status: number, headers: IncomingHttpHeaders): void {
    const at = this.now();
    this.heard = at;
    this.hasHead = true;
    const type = headers['content-type'];
    if (status >= 200) this.reading.head(status, Array.isArray(type) ? type[0] : type, at);
  }

  onResponseData(_: Dispatcher.DispatchController, bytes: Buffer): void {
    const at = this.now();
    this.heard = at;
    later({ listening: this, bytes, at, error: undefined });
  }

  onResponseEnd(): void {
    this.end(this.now(), undefined);
  }

  onResponseError(_: Dispatcher.DispatchController, error: Error): void {
    this.end(this.now(), error);
  }

  // undici's own abort does not reach a request whose connection is still being made
  abort(reason: Error): void {
    if (!this.isOver && !this.client.destroyed) this.client.destroy(reason, () => {});
  }

  read(bytes: Buffer | null, at: number, error: Error | undefined): void {
    if (bytes === null) this.settle(this.reading.end(at, error));
    else if (!this.reading.chunk(bytes, at)) this.abort(new Error('no more of it is needed'));
  }

  private end(at: number, error: Error | undefined): void {
    if (this.isOver) return;
    this.isOver = true;
    // while undici tells of an end, it must not get the next request on the same client
    queueMicrotask(() => {
      if (this.ended(error)) later({ listening: this, bytes: null, at, error });
    });
  }
}
