/**
 * A file that is elsewhere, as the bytes of it: from its beginning, or a part. A connection that is cut is taken up where it
 * stopped, by a range, and only as long as the file is the same one.
 */
import type { IncomingMessage } from 'node:http';
import { dataError, ioError } from '../item/failure.ts';
import { visible } from '../json/visible.ts';
import { addressOf } from './address.ts';
import { type Asking, newAsking, Passing } from './exchange.ts';
import { Flow, pieceOf } from './flow.ts';
import { type Source, sourceOf } from './sources.ts';

/** What an answer says of the whole file; null where it does not. */
interface Version {
  etag: string | null;
  modified: string | null;
  size: number | null;
}

/** A part that is held whole. */
const MOST_PART = 2 ** 31;

/** Exit 64 where the address is none. Nothing is asked yet. */
export function openRemote(text: string, asking: Asking = newAsking()): RemoteFile {
  return new RemoteFile(sourceOf(addressOf(text), asking), asking);
}

export class RemoteFile {
  readonly name: string;
  readonly #source: Source;
  readonly #asking: Asking;
  #version: Version | null = null;

  constructor(source: Source, asking: Asking) {
    this.name = source.name;
    this.#source = source;
    this.#asking = asking;
  }

  /** Bytes `from` to `to` (not included), or to the end. */
  flow(from = 0, to?: number): Flow {
    return new Flow({
      ...{ from, asking: this.#asking, name: this.name },
      open: at => this.#open(at, to),
      end: () => to ?? this.#version?.size ?? null,
    });
  }

  /** Itself, once it was asked for: its size is known then. */
  async known(): Promise<this> {
    const flow = this.flow();
    await flow.begins(1);
    flow.close();
    return this;
  }

  /** Known once something was read. Exit 65 where the server does not say it. */
  get size(): number {
    const size = this.#version?.size ?? null;
    if (size !== null) return size;
    throw dataError(
      `${this.name}: expected a file whose size its server tells, found none; download it first`,
    );
  }

  /** Bytes `from` to `to` (not included), in memory of their own. Rejects with 65 where the server gives no parts, or the file has changed, and with 74. */
  async part(from: number, to: number): Promise<Buffer> {
    if (!(to - from <= MOST_PART))
      throw dataError(`${this.name}: expected a part of at most 2 GiB, found more`);
    const bytes = Buffer.allocUnsafeSlow(to - from);
    const flow = this.flow(from, to);
    let at = 0;
    try {
      for (let piece = await flow.next(); piece !== null; piece = await flow.next())
        at += piece.copy(bytes, at);
    } finally {
      flow.close();
    }
    if (at < bytes.length) throw this.#changed('it shorter');
    return bytes;
  }

  /** The body of an answer that begins at byte `from`. */
  async #open(from: number, to: number | undefined): Promise<IncomingMessage> {
    const known = this.#version;
    const isPart = from > 0 || to !== undefined;
    if (known && from > 0 && to === undefined && known.etag === null && known.modified === null)
      throw ioError(
        `${this.name}: expected to read on after the connection was cut, found a server that does not tell whether the file is still the same; download it first`,
      );
    const headers: Record<string, string> = { 'accept-encoding': 'identity' };
    if (isPart) headers.range = `bytes=${from}-${to === undefined ? '' : to - 1}`;
    if (known?.etag?.startsWith('"') && this.#source.hasConditions) headers['if-match'] = known.etag;
    const response = await this.#source.ask(headers);
    const { statusCode = 0 } = response;
    if (known !== null && (statusCode === 412 || statusCode === 416))
      throw this.#changed('another in its place', response);
    if (statusCode !== 200 && statusCode !== 206) return this.#source.refuse(response);
    const { 'content-encoding': encoding = 'identity' } = response.headers;
    if (!READABLE.test(encoding)) throw this.#encoded(visible(encoding.slice(0, 40)), response);
    const now = versionOf(response);
    if (known !== null && differ(known, now)) throw this.#changed('another in its place', response);
    this.#version ??= now;
    this.#asking.reached = true;
    if (statusCode === 200 && isPart) {
      if (to !== undefined)
        throw this.#wrong('a server that gives it as a whole alone; download it first', response);
      await skip(response, from, this.#asking.stall);
    } else if (statusCode === 206 && beginOf(response) !== from) throw this.#wrong('another one', response);
    return response;
  }

  #changed(found: string, response?: IncomingMessage): Error {
    response?.destroy();
    return ioError(
      `${this.name}: expected the file to stay as it is while it is read, found ${found}; run the same command again to read the new one`,
    );
  }

  #encoded(encoding: string, response: IncomingMessage): Error {
    response.destroy();
    return dataError(
      `${this.name}: expected its bytes, or gzip or zstd of them, found the Content-Encoding ${encoding}; download it first`,
    );
  }

  #wrong(found: string, response: IncomingMessage): Error {
    response.destroy();
    return dataError(`${this.name}: expected the part of the file that was asked for, found ${found}`);
  }
}

/** Those whose bytes show it, so that they are unpacked where they are read; aws-chunked is of how an object was sent. */
const READABLE = /^(?:identity|gzip|x-gzip|zstd|aws-chunked|[\s,])*$/i;

function versionOf({ headers, statusCode }: IncomingMessage): Version {
  const whole =
    statusCode === 206
      ? /\/(\d{1,16})$/.exec(headers['content-range'] ?? '')?.[1]
      : headers['content-length'];
  return {
    etag: headers.etag ?? null,
    modified: headers['last-modified'] ?? null,
    size: whole === undefined ? null : Number(whole),
  };
}

const beginOf = ({ headers }: IncomingMessage): number =>
  Number(/^bytes (\d{1,16})-/.exec(headers['content-range'] ?? '')?.[1] ?? Number.NaN);

function differ(before: Version, now: Version): boolean {
  if (before.size !== null && now.size !== null && before.size !== now.size) return true;
  if (before.etag !== null && now.etag !== null) return before.etag !== now.etag;
  return before.modified !== now.modified;
}

/** Reads over the bytes that were read before, of a server that begins at the beginning. */
async function skip(response: IncomingMessage, bytes: number, stall: number): Promise<void> {
  for (let left = bytes; left > 0; ) {
    const piece = await pieceOf(response, stall);
    if (piece === null) throw new Passing('the end of the answer too early');
    if (piece.length > left) response.unshift(piece.subarray(left));
    left -= piece.length;
  }
}
