/**
 * One request to a store and its answer, and what is done where that does not come: what may pass is tried again, each time
 * after a longer while, until it has failed so often in a row.
 */
import { type IncomingHttpHeaders, type IncomingMessage, request as plainly } from 'node:http';
import { request as safely } from 'node:https';
import { dataError, ioError } from '../item/failure.ts';
import { cut } from '../item/wording.ts';
import { visible } from '../json/visible.ts';

/** How a store is asked, and what is known of it. */
export interface Asking {
  env: NodeJS.ProcessEnv;
  /** resolves after so many ms */
  wait(ms: number): Promise<void>;
  /** ms without a byte after which a connection counts as cut */
  stall: number;
  /** it has answered before */
  reached: boolean;
}

export const newAsking = (env: NodeJS.ProcessEnv = process.env): Asking => ({
  env,
  wait: ms => new Promise(resolve => setTimeout(resolve, ms)),
  stall: 60_000,
  reached: false,
});

export interface Request {
  method: 'GET' | 'HEAD' | 'PUT' | 'POST' | 'DELETE';
  url: URL;
  headers: Record<string, string>;
  body?: Buffer;
}

/** What may pass: a server that is busy, a connection that was cut. */
export class Passing extends Error {
  /** ms that the server asks to wait */
  readonly after: number;
  /** rather a mistake in the address, where that server never answered */
  readonly isLasting: boolean;
  constructor(message: string, { after = 0, isLasting = false } = {}) {
    super(message);
    this.after = after;
    this.isLasting = isLasting;
  }
}

/** Resolves to the answer, whatever its status, with its body unread. Rejects with Passing. */
export function exchange(
  { method, url, headers, body }: Request,
  { stall }: Pick<Asking, 'stall'>,
): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const start = url.protocol === 'https:' ? safely : plainly;
    const request = start(url, { method, headers, timeout: stall });
    request.on('timeout', () => request.destroy(silence(stall)));
    request.on('error', error => reject(passingOf(error)));
    request.on('response', response => {
      // whoever reads it may take its time; a reader that waits has a clock of its own
      response.socket.setTimeout(0);
      response.on('error', () => {}); // seen by who reads on
      resolve(response);
    });
    request.end(body);
  });
}

export const silence = (stall: number): Passing => new Passing(`no byte for ${stall / 1000} s`);

/** Where nobody is, or who is there cannot show who it is. */
const LASTING = /^(?:ENOTFOUND|ECONNREFUSED|ERR_TLS|CERT_|SELF_SIGNED|DEPTH_ZERO|UNABLE_TO)/;

export function passingOf(error: unknown): Passing {
  if (error instanceof Passing) return error;
  const { code, message } = error as NodeJS.ErrnoException;
  const isLasting = LASTING.test(code ?? '');
  const hint =
    isLasting && !/^E[CN]/.test(code ?? '') ? ' (NODE_EXTRA_CA_CERTS names a file of authorities)' : '';
  return new Passing(`${code ?? visible(cut(message, 100))}${hint}`, { isLasting });
}

const MAY_PASS = new Set([408, 425, 429, 500, 502, 503, 504]);

/** Throws Passing where the status says that the same request may be answered later. */
export function expectPassed(response: IncomingMessage, code?: string): void {
  const { statusCode = 0, headers } = response;
  if (!MAY_PASS.has(statusCode)) return;
  response.destroy();
  throw new Passing(`status ${statusCode}${code ? ` (${code})` : ''}`, { after: pauseOf(headers) });
}

/** What a server may make us wait: the hub counts requests by windows of five minutes. */
const LONGEST_ASKED = 600;

/** ms: `Retry-After` as seconds or as a date, else the `t=` of the hub's `RateLimit`; a longer wait is not kept. */
export function pauseOf(headers: IncomingHttpHeaders, now: number = Date.now()): number {
  const { 'retry-after': asked, ratelimit } = headers;
  const named = asked ?? /;\s{0,4}t=(\d{1,6})/.exec(String(ratelimit ?? ''))?.[1] ?? '';
  const seconds = /^\d{1,6}$/.test(named) ? Number(named) : (Date.parse(named) - now) / 1000;
  return seconds > 0 && seconds <= LONGEST_ASKED ? Math.ceil(seconds * 1000) : 0;
}

const MOST_TRIES = 8;
const FIRST_PAUSE = 500;
const LONGEST_PAUSE = 20_000;

/** Counts what fails in a row. */
export class Patience {
  readonly #asking: Asking;
  readonly #what: string;
  #failed = 0;

  /** `what` was expected, for the message: `s3://b/k: expected to read on` */
  constructor(what: string, asking: Asking) {
    this.#what = what;
    this.#asking = asking;
  }

  went(): void {
    this.#failed = 0;
    this.#asking.reached = true;
  }

  /** Resolves when it is time for the next try. Rejects with 74 where there were enough, and with what is none that passes. */
  async after(error: unknown): Promise<void> {
    if (!(error instanceof Passing)) throw error;
    this.#failed += 1;
    if (error.isLasting && !this.#asking.reached)
      throw ioError(`${this.#what}, found ${error.message}; look at the address and the network`);
    if (this.#failed >= MOST_TRIES)
      throw ioError(
        `${this.#what}, found ${error.message}, ${this.#failed} times in a row; the same command again goes on`,
      );
    const pause = Math.min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (this.#failed - 1));
    await this.#asking.wait(Math.max(error.after, pause * (0.5 + Math.random() / 2)));
  }
}

/** `act`, again and again while what stops it may pass. */
export async function patiently<T>(what: string, asking: Asking, act: () => Promise<T>): Promise<T> {
  const patience = new Patience(what, asking);
  for (;;) {
    try {
      const done = await act();
      patience.went();
      return done;
    } catch (error) {
      await patience.after(error);
    }
  }
}

/** The whole body as text. Rejects with Passing where it is cut off, with 65 where it is longer. */
export async function textOf(
  response: IncomingMessage,
  { stall }: Pick<Asking, 'stall'>,
  most = 1 << 16,
): Promise<string> {
  // headers may come, and nothing behind them
  let timer: NodeJS.Timeout | undefined;
  const wind = (): void => {
    clearTimeout(timer);
    timer = setTimeout(() => response.destroy(silence(stall)), stall);
  };
  wind();
  const pieces: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const piece of response) {
      wind();
      bytes += (piece as Buffer).length;
      if (bytes > most) throw dataError(`expected an answer of at most ${most} bytes, found a longer one`);
      pieces.push(piece as Buffer);
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === undefined) throw error;
    throw passingOf(error);
  } finally {
    clearTimeout(timer);
  }
  return Buffer.concat(pieces).toString();
}

const MOST_HOPS = 10;

/**
 * The answer at the end of the redirections from `url`. `headersFor` is asked at each: what is for one host is not sent to
 * another. `onHop` sees the headers of each answer.
 */
export async function following(
  url: URL,
  headersFor: (url: URL) => Record<string, string>,
  { asking, name, onHop }: { asking: Asking; name: string; onHop?(headers: IncomingHttpHeaders): void },
): Promise<IncomingMessage> {
  let at = url;
  for (let hops = 0; hops <= MOST_HOPS; hops++) {
    const response = await exchange({ method: 'GET', url: at, headers: headersFor(at) }, asking);
    onHop?.(response.headers);
    const { statusCode = 0, headers } = response;
    if (![301, 302, 303, 307, 308].includes(statusCode) || headers.location === undefined) return response;
    response.destroy();
    if (!URL.canParse(headers.location, at.href))
      throw dataError(`${name}: expected an address to go on to, found none that can be read`);
    const next = new URL(headers.location, at);
    if (!/^https?:$/.test(next.protocol) || (at.protocol === 'https:' && next.protocol === 'http:'))
      throw dataError(`${name}: expected to be led on to an https address, found ${next.protocol}`);
    at = next;
  }
  throw dataError(`${name}: expected an answer, found more than ${MOST_HOPS} redirections`);
}
