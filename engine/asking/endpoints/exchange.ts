/** One request on one connection, from sending to the end of its reply, as undici tells of it. */
import type { IncomingHttpHeaders } from 'node:http';
import type { Socket } from 'node:net';
import { type Client, type Dispatcher, util } from 'undici';
import { createPieces, type Pieces } from '../../core/files/pieces.ts';
import type { Flow, ReplySink } from '../../core/item/call.ts';
import { TooLong } from './endpoint-words.ts';

const MIB = 1024 * 1024;
/** The bodies of hundreds of calls must not fill the memory together. Beyond this the large ones are broken off. */
const MAX_HELD_BYTES = 256 * MIB;
const LARGE_BYTES = MIB;
/** Bytes of the bodies that are being read, over all endpoints: they share this process's memory. */
let held = 0;

/** A 1xx says that the server is at work: once a second is often. */
const MAX_INTERIM_REPLIES = 1_000;

export const REQUEST_ID = 'x-request-id';

export interface Reply {
  status: number;
  /** the Retry-After header as it came */
  retryAfter: string | undefined;
  /** the X-Request-Id header as it came */
  requestId?: string | undefined;
  /** empty where a sink has taken it */
  body: Buffer;
}

/** Sees a reply come. A run does not need to know when; an examination does. */
export interface Watch {
  head(headers: Readonly<IncomingHttpHeaders>): void;
  /** so many bytes of the body have come at once */
  data(bytes: number): void;
}

export interface Exchange {
  /** Bytes of the answer's body since it began. Null while the server may still be at work on it. */
  readonly received: number | null;
  /** A sink has its beginning: it cannot be asked again. */
  readonly passedOn?: boolean;
  /** An error where more came than any answer takes, such as a 1xx again and again. */
  readonly overrun: Error | null;
  /**
   * Drops the connection, so that the server sees it. The exchange then settles with `reason`. Called from within
   * `settle`, it makes sure that the connection is not used again.
   */
  abort(reason: Error): void;
}

/** A client of undici with its socket, for undici says nothing of bytes that are neither a whole head nor a body. */
export interface Connection {
  readonly client: Client;
  socket: Socket | null;
  /** of those that have nothing to do: which of them are so for longer */
  restedAt: number;
}

/** Keeps the connections that have nothing to do. */
export interface Keeper {
  giveBack(connection: Connection): void;
  /** It is not to be used again: closes it, if nobody has taken it yet. */
  discard(connection: Connection): void;
}

const EMPTY = Buffer.alloc(0);

/**
 * A class because undici wants one object with these methods for each request, and a prototype costs nothing. They are
 * its older ones: for the newer it makes two objects and a table of the headers for each request.
 */
export class Running implements Exchange, Dispatcher.DispatchHandler {
  private status = 0;
  private retryAfter: string | undefined = undefined;
  private requestId: string | undefined = undefined;
  private first: Buffer = EMPTY;
  private rest: Pieces | null = null;
  private size = 0;
  private begun = false;
  private interim = 0;
  /** of a reply that a sink takes */
  private taken: Taken | null = null;
  passedOn = false;
  /** bytes of its connection when it was sent, and before the head that comes next; -1 before that */
  private sentFrom = -1;
  private headFrom = -1;

  private settle: ((outcome: Reply | Error) => void) | null;
  private readonly connection: Connection;
  private readonly keeper: Keeper;
  private readonly most: number;
  private readonly watch: Watch | undefined;
  private readonly sink: ReplySink | undefined;

  constructor(
    connection: Connection,
    keeper: Keeper,
    most: number,
    { watch, sink }: { watch?: Watch | undefined; sink?: ReplySink | undefined },
    settle: (outcome: Reply | Error) => void,
  ) {
    this.connection = connection;
    this.keeper = keeper;
    this.most = most;
    this.watch = watch;
    this.sink = sink;
    this.settle = settle;
  }

  get received(): number | null {
    if (this.begun) return this.size;
    // a head that has begun is an answer too; that of a 1xx only says that the server is at work
    const isHead = this.status < 200 && this.headFrom >= 0 && this.bytesRead() > this.headFrom;
    return isHead ? this.size : null;
  }

  // Heads, chunk sizes and trailers are no part of the body, so twice as much is let in.
  get overrun(): Error | null {
    // before the first head there is no more than that head, which undici bounds: most calls are so at each look
    if (this.status === 0 || this.passedOn) return null;
    const isMore = this.bytesRead() - this.sentFrom > 2 * this.most + MIB;
    return isMore ? new TooLong(`more than ${bytesInWords(2 * this.most)} and no end of the answer`) : null;
  }

  private bytesRead(): number {
    return this.connection.socket?.bytesRead ?? 0;
  }

  onConnect(): void {
    this.sentFrom = this.headFrom = this.bytesRead();
  }

  onHeaders(status: number, raw: Buffer[], resume: () => void): boolean {
    this.status = status;
    this.requestId = headerIn(raw, REQUEST_ID);
    this.retryAfter = headerIn(raw, 'retry-after');
    if (status < 200) {
      this.headFrom = this.bytesRead();
      if (++this.interim > MAX_INTERIM_REPLIES)
        this.abort(
          new TooLong(`more than ${MAX_INTERIM_REPLIES} interim replies (HTTP ${status}) and no answer`),
        );
    }
    // a server that does not know the length yet may have sent its head first, and think now
    this.begun = status >= 200 && headerIn(raw, 'content-length') !== undefined;
    this.watch?.head(util.parseHeaders(raw));
    this.taken = status === 200 && this.sink !== undefined ? new Taken(util.parseHeaders(raw), resume) : null;
    return true;
  }

  onData(chunk: Buffer): boolean {
    this.watch?.data(chunk.length);
    this.size += chunk.length;
    if (this.sink !== undefined && this.taken !== null) return this.passOn(chunk, this.taken, this.sink);
    held += chunk.length;
    if (!this.begun) this.begun = !isBlank(chunk);
    if (this.size > this.most)
      this.abort(new TooLong(`an answer larger than ${bytesInWords(this.most)} (--max-body)`, true));
    else if (held > MAX_HELD_BYTES && this.size > LARGE_BYTES) this.abort(new TooLong(CROWD));
    if (this.first === EMPTY) this.first = chunk;
    else {
      if (this.rest === null) {
        this.rest = createPieces();
        this.rest.add(this.first);
      }
      this.rest.add(chunk);
    }
    return true;
  }

  private passOn(chunk: Buffer, taken: Taken, sink: ReplySink): boolean {
    this.begun = true;
    if (!this.passedOn) {
      this.passedOn = true;
      sink.head(taken.headers, taken);
    }
    sink.data(chunk);
    return !taken.isPaused;
  }

  onComplete(): void {
    const body = this.rest === null ? this.first : this.rest.take();
    this.end({ status: this.status, retryAfter: this.retryAfter, requestId: this.requestId, body });
  }

  onError(error: Error): void {
    this.end(error);
  }

  // By destroying the client: undici's own abort cannot reach a request whose connection is still being made.
  abort(reason: Error): void {
    const { client } = this.connection;
    if (this.settle === null) this.keeper.discard(this.connection);
    else if (!client.destroyed) client.destroy(reason, () => {});
  }

  private end(outcome: Reply | Error): void {
    const { settle } = this;
    if (settle === null) return;
    this.settle = null;
    if (!this.passedOn) held -= this.size;
    // While undici tells of an error it must not get the next request on this client: that would end the process.
    if (outcome instanceof Error) queueMicrotask(() => this.keeper.giveBack(this.connection));
    else this.keeper.giveBack(this.connection);
    settle(outcome);
  }
}

const CROWD = 'an answer larger than 1 MiB, while answers of 256 MiB came in';

/** A reply that a sink takes. */
class Taken implements Flow {
  readonly headers: IncomingHttpHeaders;
  readonly #resume: () => void;
  isPaused = false;

  constructor(headers: IncomingHttpHeaders, resume: () => void) {
    this.headers = headers;
    this.#resume = resume;
  }

  pause(): void {
    this.isPaused = true;
  }

  resume(): void {
    if (!this.isPaused) return;
    this.isPaused = false;
    this.#resume();
  }
}

/** The first value of a header; `raw` has by turns a name and a value, `name` is in small letters. */
function headerIn(raw: readonly Buffer[], name: string): string | undefined {
  for (let at = 0; at + 1 < raw.length; at += 2) {
    const own = raw[at] as Buffer;
    if (own.length === name.length && own.toString('latin1').toLowerCase() === name)
      return (raw[at + 1] as Buffer).toString('latin1');
  }
  return undefined;
}

function bytesInWords(bytes: number): string {
  return bytes % MIB === 0 ? `${bytes / MIB} MiB` : `${bytes} bytes`;
}

/** White space alone: some servers send it to keep a connection open while the model thinks. */
function isBlank(chunk: Buffer): boolean {
  for (const byte of chunk) if (byte > 0x20) return false;
  return true;
}
