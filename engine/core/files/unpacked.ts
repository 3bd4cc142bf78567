/**
 * Compressed inputs as the bytes that they hold: gzip, and Zstandard where this Node has it (22.15 and later). They are told by
 * their first bytes, whatever their names, and read a part at a time.
 */
import { closeSync, openSync, readSync } from 'node:fs';
import type { Transform } from 'node:stream';
import * as zlib from 'node:zlib';
import { dataError } from '../item/failure.ts';

type Raw = () => Buffer | null | Promise<Buffer | null>;

type Decompressing = Transform & { bytesWritten: number };

interface Packing {
  name: string;
  magic: readonly number[];
  /** undefined where this Node cannot */
  open: (() => Decompressing) | undefined;
}

const zstd = (zlib as { createZstdDecompress?: () => Decompressing }).createZstdDecompress;

const PACKINGS: readonly Packing[] = [
  { name: 'gzip', magic: [0x1f, 0x8b, 8], open: () => zlib.createGunzip({ chunkSize: 1 << 18 }) },
  { name: 'Zstandard', magic: [0x28, 0xb5, 0x2f, 0xfd], open: zstd },
];

/**
 * What gives the bytes within those of `raw`, of which `first` has been read; null where they are not compressed, or so that
 * this process cannot read them.
 */
export function unpackerOf(first: Buffer, raw: Raw, name: string): Unpacker | null {
  const packing = packingOf(first);
  if (packing?.open === undefined) return null;
  let isFirst = true;
  const all: Raw = () => {
    if (!isFirst) return raw();
    isFirst = false;
    return first;
  };
  return new Unpacker(packing.name, packing.open(), all, name);
}

const packingOf = (first: Buffer): Packing | undefined =>
  PACKINGS.find(({ magic }) => magic.every((byte, at) => first[at] === byte));

/** Whether it is compressed, and can be read here. */
export const isUnpackable = (first: Buffer): boolean => packingOf(first)?.open !== undefined;

/** The same of a file. */
export function isPackedFile(path: string): boolean {
  const fd = openSync(path, 'r');
  try {
    const first = Buffer.alloc(8);
    return isUnpackable(first.subarray(0, readSync(fd, first, 0, first.length, 0)));
  } finally {
    closeSync(fd);
  }
}

/** Whether more bytes are needed to tell. */
export const mayBePacked = (first: Buffer): boolean =>
  PACKINGS.some(({ magic }) => first.length < magic.length && first.every((byte, at) => byte === magic[at]));

/** `data.csv` for `data.csv.gz`: what a name says of what is within. */
export const nameWithin = (name: string): string => name.replace(/\.(?:gz|zst)$/i, '');

export class Unpacker {
  readonly #kind: string;
  readonly #stream: Decompressing;
  readonly #raw: Raw;
  readonly #name: string;
  /** bytes that were given to it, and the last of them */
  #given = 0;
  #last: Buffer = Buffer.alloc(0);
  #isBusy = false;
  #isOver = false;
  #error: NodeJS.ErrnoException | null = null;
  /** set while somebody waits */
  #wake: (() => void) | null = null;

  constructor(kind: string, stream: Decompressing, raw: Raw, name: string) {
    this.#kind = kind;
    this.#stream = stream;
    this.#raw = raw;
    this.#name = name;
    const woken = (): void => this.#wake?.();
    stream.on('readable', woken).on('end', () => {
      this.#isOver = true;
      woken();
    });
    stream.on('error', error => {
      this.#error = error;
      woken();
    });
  }

  /** The next bytes; null at the end. Rejects with 65 where the compressed ones are damaged. */
  async read(): Promise<Buffer | null> {
    for (;;) {
      const got: Buffer | null = this.#stream.read();
      if (got !== null) return got;
      if (this.#error !== null) throw this.#damage(this.#error);
      if (this.#isOver) {
        await this.#expectNoMore();
        return null;
      }
      if (!this.#isBusy) await this.#give();
      if (this.#stream.readableLength === 0 && this.#error === null && !this.#isOver)
        await new Promise<void>(resolve => {
          this.#wake = resolve;
        });
    }
  }

  close(): void {
    this.#stream.destroy();
  }

  async #give(): Promise<void> {
    const block = await this.#raw();
    this.#isBusy = true;
    if (block === null) {
      this.#stream.end();
      return;
    }
    this.#given += block.length;
    this.#last = block;
    this.#stream.write(block, () => {
      this.#isBusy = false;
      this.#wake?.();
    });
  }

  #damage({ code, message }: NodeJS.ErrnoException): Error {
    const found =
      code === 'Z_BUF_ERROR' || message.includes('unexpected end') ? 'it cut off' : `damage: ${message}`;
    return dataError(`${this.#name}: expected ${this.#kind} up to its end, found ${found}`);
  }

  /** zlib ends at a zero byte behind the data, which tapes leave there; anything else would be lost in silence. */
  async #expectNoMore(): Promise<void> {
    const unread = this.#given - this.#stream.bytesWritten;
    let left: Buffer | null = this.#last.subarray(this.#last.length - unread);
    for (; left !== null; left = await this.#raw())
      if (left.some(byte => byte !== 0))
        throw dataError(
          `${this.#name}: expected nothing behind the end of the ${this.#kind} data, found other bytes`,
        );
  }
}
