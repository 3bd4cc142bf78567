/**
 * HTTP to one endpoint: undici Clients in a free list. Last in, first out: a warm connection is used again, and those
 * that a quieter phase does not need are closed by keep-alive. One request per connection at a time also means that an
 * answer can only belong to the request that waits for it.
 *
 * There is no timer here. undici's own are off (its 300 s would end a long queue on the server). The pool's one sweep
 * finds the calls that wait too long, and calls `abort`.
 */
import { buildConnector, Client } from 'undici';
import type { ReplySink } from '../../core/item/call.ts';
import { NoAnswerInTime, seconds } from './endpoint-words.ts';
import {
  type Connection,
  type Exchange,
  type Keeper,
  REQUEST_ID,
  type Reply,
  Running,
  type Watch,
} from './exchange.ts';
import { type Clock, systemClock } from './pool-clock.ts';

export type { Exchange, Reply, Watch } from './exchange.ts';

/**
 * An answer has some kilobytes. A longer body is no answer and is not read: one of 12 MB of tiny values takes so much
 * memory when it is parsed that the process does nothing else for most of a minute.
 */
const MAX_BODY = 4 * 1024 * 1024;

export interface Request {
  method: 'GET' | 'POST' | 'PUT';
  /** from the root of the server, starting with a slash */
  path: string;
  body?: Buffer;
  /** of the body; JSON unless given */
  type?: string;
  /** sent as X-Request-Id */
  id?: string;
  /** further headers, by turns a name and a value */
  headers?: readonly string[] | undefined;
  watch?: Watch;
  /** takes a reply with HTTP 200 as it comes */
  sink?: ReplySink | undefined;
}

export interface Wire {
  /** `settle` is called exactly once: with a reply of any status, or with the error that prevented one. */
  send(request: Request, settle: (outcome: Reply | Error) => void): Exchange;
  /** Ends idle connections at once and busy ones when they have settled. */
  close(): Promise<void>;
}

/**
 * Opens nothing yet: connections are made as requests need them, as many as the caller lets run at once.
 * `origin` is scheme, host and port; `authorization` the header's value, if there is a key; `maxBody` the bytes that an
 * answer may have.
 */
export type OpenWire = (origin: string, authorization: string | undefined, maxBody?: number) => Wire;

let mostOpen = Number.POSITIVE_INFINITY;
let open = 0;
/** connections of those who ask this process: they have descriptors of their own */
let clients = 0;
/** Those of them that have nothing to do. */
let idle = 0;
/** The free lists that have any: in each, the one that is idle the longest comes first. */
const lists = new Set<Connection[]>();

/**
 * The connections of this process, over all endpoints and pools: they share its descriptors. Calls wait for a place
 * while as many are at work as there may be, and a new connection closes one that is idle elsewhere.
 */
export const sockets = {
  /** connections that there may be to endpoints, beside those of clients */
  get most(): number {
    return Math.max(1, mostOpen - clients);
  },
  /** connections that there may be, of both sides */
  get all(): number {
    return mostOpen;
  },
  get clients(): number {
    return clients;
  },
  /** A client has come (1) or gone (-1). */
  noteClient(change: 1 | -1): void {
    clients += change;
    makeRoom();
  },
  /** those at work */
  get busy(): number {
    return open - idle;
  },
  setMost(count: number): void {
    mostOpen = count;
  },
  /** No further connection could be opened: those at work now are as many as there may be. False where none is. */
  fewer(): boolean {
    const { busy } = sockets;
    mostOpen = Math.min(mostOpen, Math.max(1, busy) + clients);
    return busy > 0;
  },
};

function noteOpened(): void {
  open += 1;
  makeRoom();
}

/** One more is there, on either side. Where there are too many, the one that is idle the longest is closed. */
function makeRoom(): void {
  if (open <= sockets.most || idle === 0) return;
  let longest: Connection[] | undefined;
  for (const free of lists) if (restedIn(free) < restedIn(longest)) longest = free;
  const connection = longest?.[0];
  if (longest === undefined || connection === undefined) return;
  takeOut(longest, 0);
  open -= 1;
  connection.client.destroy(null, () => {});
}

/** Since when the first of a free list is idle. */
const restedIn = (free: readonly Connection[] | undefined): number =>
  free?.[0]?.restedAt ?? Number.POSITIVE_INFINITY;

/** counts what comes to rest */
let rests = 0;

function rest(free: Connection[], connection: Connection): void {
  connection.restedAt = ++rests;
  if (free.push(connection) === 1) lists.add(free);
  idle += 1;
}

/** The connection at the index `at` of a free list. */
function takeOut(free: Connection[], at: number): void {
  if (at === free.length - 1) free.pop();
  else free.splice(at, 1);
  if (free.length === 0) lists.delete(free);
  idle -= 1;
}

const connect = buildConnector({ timeout: 10_000 });

/** A server may offer to keep an idle connection for minutes. Where calls move elsewhere, thousands would be open. */
const KEEP_IDLE_MS = 4_000;

const OPTIONS: Client.Options = {
  keepAliveTimeout: KEEP_IDLE_MS,
  keepAliveMaxTimeout: KEEP_IDLE_MS,
  headersTimeout: 0,
  bodyTimeout: 0,
  pipelining: 1,
};

function connectionTo(origin: URL): Connection {
  const connection: Connection = {
    socket: null,
    restedAt: 0,
    client: new Client(origin, {
      ...OPTIONS,
      connect: (options, told) =>
        connect(options, (...made) => {
          connection.socket = made[1];
          told(...made);
        }),
    }),
  };
  return connection;
}

export const openWire: OpenWire = (origin, authorization, maxBody = MAX_BODY) => {
  const own = authorization === undefined ? [] : ['authorization', authorization];
  const usual = ['content-type', 'application/json', ...own];
  const free: Connection[] = [];
  const root = new URL(origin); // read once, and not for each connection
  let closing = false;
  const keeper: Keeper = {
    giveBack(connection) {
      const { client } = connection;
      if (client.destroyed || closing) {
        open -= 1;
        if (!client.destroyed) void client.close();
        return;
      }
      rest(free, connection);
    },
    discard(connection) {
      const at = free.lastIndexOf(connection);
      if (at < 0) return;
      takeOut(free, at);
      open -= 1;
      queueMicrotask(() => connection.client.destroy(null, () => {})); // undici is still at the end of its last answer
    },
  };
  const take = (): Connection => {
    const rested = free.at(-1);
    if (rested !== undefined) {
      takeOut(free, free.length - 1);
      return rested;
    }
    noteOpened();
    return connectionTo(root);
  };
  return {
    send(request, settle) {
      const connection = take();
      const { path, method, body, type, id, watch, sink, headers: more } = request;
      // lists of models and metrics are no answers
      const most = method === 'POST' ? maxBody : Math.max(maxBody, MAX_BODY);
      const running = new Running(connection, keeper, most, { watch, sink }, settle);
      const first = type === undefined ? usual : ['content-type', type, ...own];
      const named = id === undefined ? first : [...first, REQUEST_ID, id];
      const headers = more === undefined ? named : [...named, ...more];
      connection.client.dispatch({ path, method, headers, body }, running);
      return running;
    },
    async close() {
      closing = true;
      const rested = free.splice(0);
      lists.delete(free);
      idle -= rested.length;
      open -= rested.length;
      await Promise.all(rested.map(({ client }) => client.close()));
    },
  };
};

/** One request: the reply, or the error that prevented one, after `ms` at the latest. */
export function sendWithin(
  wire: Wire,
  request: Request,
  ms: number,
  clock: Pick<Clock, 'after'> = systemClock,
): Promise<Reply | Error> {
  return new Promise(resolve => {
    const callOff = clock.after(ms, () => {
      const late = new NoAnswerInTime(`no answer within ${seconds(ms)}`);
      resolve(late);
      exchange.abort(late);
    });
    const exchange = wire.send(request, outcome => {
      callOff();
      resolve(outcome);
    });
  });
}
