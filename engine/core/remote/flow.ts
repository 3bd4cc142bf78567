/** The bytes of a file one after the other, over as many connections as it takes. */
import type { IncomingMessage } from 'node:http';
import { type Asking, Passing, Patience, passingOf, silence } from './exchange.ts';

/** Bytes that are handed on at once, where they are there. */
const BLOCK = 1 << 20;

interface Flowing {
  /** the byte to begin at */
  from: number;
  name: string;
  asking: Asking;
  /** The body of an answer that begins at byte `at`. */
  open(at: number): Promise<IncomingMessage>;
  /** the byte at which it ends; null while nobody knows */
  end(): number | null;
}

export class Flow {
  readonly #of: Flowing;
  readonly #patience: Patience;
  #at: number;
  #body: IncomingMessage | null = null;
  #isClosed = false;
  /** what was looked at before it was read */
  #first: Buffer | null = null;

  constructor(of: Flowing) {
    this.#of = of;
    this.#at = of.from;
    this.#patience = new Patience(`${of.name}: expected to read it to its end`, of.asking);
  }

  /** The first bytes, at least `bytes` where there are as many; they are read again. */
  async begins(bytes: number): Promise<Buffer> {
    while ((this.#first?.length ?? 0) < bytes) {
      const piece = await this.#piece();
      if (piece === null) break;
      this.#first = this.#first === null ? piece : Buffer.concat([this.#first, piece]);
    }
    return this.#first ?? Buffer.alloc(0);
  }

  /** What comes next, at least a byte; null at the end. */
  async next(): Promise<Buffer | null> {
    const first = this.#first;
    this.#first = null;
    return first ?? this.#piece();
  }

  /**
   * The same behind the `rest` of what was read before. A longer rest waits for more, or a line of many blocks would be copied
   * for each of them.
   */
  async block(rest: Buffer | null): Promise<Buffer | null> {
    const wanted = (rest?.length ?? 0) / 4;
    const pieces: Buffer[] = [];
    let bytes = 0;
    while (bytes <= wanted || (bytes < BLOCK && this.#body !== null && this.#body.readableLength > 0)) {
      const piece = await this.next();
      if (piece === null) break;
      pieces.push(piece);
      bytes += piece.length;
    }
    if (bytes === 0) return null;
    if (rest === null && pieces.length === 1) return pieces[0] as Buffer;
    return Buffer.concat(rest === null ? pieces : [rest, ...pieces]);
  }

  close(): void {
    this.#isClosed = true;
    this.#body?.destroy();
    this.#body = null;
  }

  async #piece(): Promise<Buffer | null> {
    while (!this.#isClosed) {
      const end = this.#of.end();
      if (end !== null && this.#at >= end) return null;
      try {
        this.#body ??= await this.#of.open(this.#at);
        if (this.#isClosed) break;
        const piece = await pieceOf(this.#body, this.#of.asking.stall);
        if (piece === null) return this.#ended();
        this.#at += piece.length;
        this.#patience.went();
        return piece;
      } catch (error) {
        this.#body?.destroy();
        this.#body = null;
        if (!this.#isClosed) await this.#patience.after(error);
      }
    }
    this.close();
    return null;
  }

  #ended(): null {
    const end = this.#of.end();
    if (end !== null && this.#at < end) throw new Passing(`its end ${end - this.#at} bytes too early`);
    return null;
  }
}

const EVENTS = ['readable', 'end', 'close', 'error'] as const;

/** What has come of a body, at least a byte; null at its end. Rejects with Passing where it is cut off, or nothing comes. */
export function pieceOf(body: IncomingMessage, stall: number): Promise<Buffer | null> {
  return new Promise((resolve, reject) => {
    let timer: NodeJS.Timeout | undefined;
    const settle = (act: () => void): void => {
      clearTimeout(timer);
      for (const event of EVENTS) body.off(event, look);
      act();
    };
    const look = (): void => {
      const piece = body.read() as Buffer | null;
      if (piece !== null) settle(() => resolve(piece));
      else if (body.readableEnded && body.complete) settle(() => resolve(null));
      else if (body.readableEnded || body.destroyed) settle(() => reject(cutOff(body)));
    };
    for (const event of EVENTS) body.on(event, look);
    timer = setTimeout(() => settle(() => reject(silence(stall))), stall);
    look();
  });
}

function cutOff({ errored }: IncomingMessage): Passing {
  return errored === null ? new Passing('the connection cut') : passingOf(errored);
}
