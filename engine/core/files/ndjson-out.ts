/**
 * NDJSON out. Untouched lines leave as the bytes that came in, neighbours in one write; changed ones are serialised
 * into a buffer that leaves when it is full or when the event loop comes round, so a reader never waits for more.
 */

import { fstatSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname } from 'node:path';
import type { Writable } from 'node:stream';
import { EXIT, Fatal, ioError, usageError } from '../item/failure.ts';
import type { Item } from '../item/item.ts';
import { letGo, type Origin, originOf } from './origin.ts';

const ROOM = 256 * 1024;
const NEWLINE = 10;
/** a run of untouched lines this long is written from its block; a shorter one is copied beside its neighbours */
const WORTH_A_WRITE = 32 * 1024;

export interface Output {
  /** Takes a line; false when the reader is behind: wait for `ready` before the next. */
  write(line: Item): boolean;
  ready(act: () => void): void;
  /** Takes lines that are written already; as `write`. The bytes may change afterwards. Absent where a line is looked at. */
  pass?(bytes: Buffer): boolean;
  /** Resolves once everything was handed to the system. A document says whether it is `complete`, and which model was asked. */
  end(complete?: boolean, model?: string): Promise<void>;
}

/** Lines of items that did not fail, written already; the bytes may change once more of them are asked for. */
export interface Lines {
  bytes: Buffer;
  count: number;
}

export type Batch = readonly Item[] | Lines;

/** Bytes on their way out. A device or file takes them at once; a pipe may ask to wait. */
export interface Drain {
  /** holds on to what was put, after `put` returned */
  keeps: boolean;
  put(bytes: Buffer): boolean;
  ready(act: () => void): void;
  end(): Promise<void>;
}

/** Where the output is not the lines of the items: one document, or lines of another format. */
export interface Frame {
  isDocument: boolean;
  /** the model that answered, where somebody says so */
  model?: string | undefined;
  /** no terminal can show it */
  isBinary?: boolean;
  /** what there is to say of it, once the output has ended */
  notes?: readonly string[];
  /** `folder` is for what is put aside; `onBroken` hears of what breaks between two writes. */
  open(drain: Drain, folder: string, onBroken: OnBroken): Output;
}

/** `onBroken` is told once when the reader has gone away or the disk is full; what is written after that is dropped. */
export type OnBroken = (error: Fatal) => void;

export function toFile(fd: number, name: string, onBroken: OnBroken, frame?: Frame): Output {
  return toDrain(fileDrain(fd, name), fstatSync(fd).isFile() ? dirname(name) : tmpdir(), onBroken, frame);
}

/** `folder` is for what a frame puts aside. */
export function toDrain(drain: Drain, folder: string, onBroken: OnBroken, frame?: Frame): Output {
  return frame === undefined ? new LineOutput(drain, onBroken) : frame.open(drain, folder, onBroken);
}

export function toStdout(onBroken: OnBroken, frame?: Frame): Output {
  const kind = fstatSync(1);
  if (frame?.isBinary && process.stdout.isTTY) {
    throw usageError('expected a file or a pipe for the output, found a terminal; add > FILE');
  }
  const drain =
    kind.isFile() || (kind.isCharacterDevice() && !process.stdout.isTTY)
      ? fileDrain(1, 'stdout')
      : streamDrain(process.stdout, 'stdout', onBroken);
  return toDrain(drain, tmpdir(), onBroken, frame);
}

/** For stages that only look (verify). */
export function toNowhere(): Output {
  return {
    write(line) {
      letGo(line);
      return true;
    },
    ready: act => act(),
    pass: () => true,
    end: async () => {},
  };
}

/** A function that calls `flush` once at the end of the turn, however often it is called before. */
export function onceATurn(flush: () => void, onBroken: OnBroken): () => void {
  let isDue = false;
  return () => {
    if (isDue) return;
    isDue = true;
    setImmediate(() => {
      isDue = false;
      try {
        flush();
      } catch (error) {
        onBroken(error as Fatal);
      }
    });
  };
}

/** Lines into a drain. */
class LineOutput implements Output {
  readonly #drain: Drain;
  readonly #flushSoon: () => void;
  readonly #buffer = Buffer.allocUnsafeSlow(ROOM);
  #filled = 0;
  /** untouched lines that are side by side in their block; it holds that block */
  #run: Origin | null = null;
  /** the drain takes more without waiting */
  #open = true;

  constructor(drain: Drain, onBroken: OnBroken) {
    this.#drain = drain;
    this.#flushSoon = onceATurn(() => this.#flush(), onBroken);
  }

  write(line: Item): boolean {
    const origin = originOf(line);
    if (origin === undefined) {
      this.#endRun();
      this.#append(JSON.stringify(line), '\n');
    } else this.#addUntouched(line, origin);
    this.#flushSoon();
    return this.#open;
  }

  ready(act: () => void): void {
    this.#drain.ready(() => {
      this.#open = true;
      act();
    });
  }

  pass(bytes: Buffer): boolean {
    this.#flush();
    this.#put(this.#drain.keeps ? Buffer.from(bytes) : bytes);
    return this.#open;
  }

  async end(): Promise<void> {
    this.#flush();
    await this.#drain.end();
  }

  #addUntouched(line: Item, origin: Origin): void {
    let run = this.#run;
    if (run !== null && run.block === origin.block && run.to === origin.from) run.to = origin.to;
    else {
      this.#endRun();
      run = this.#run = { ...origin };
      if (run.lease) run.lease.holders += 1;
    }
    letGo(line);
    if (run.to - run.from >= ROOM) this.#endRun();
  }

  #endRun(): void {
    if (this.#run === null) return;
    const { block, from, to, lease } = this.#run;
    this.#run = null;
    const isWorth = to - from >= WORTH_A_WRITE;
    if (isWorth) {
      this.#flushBuffer();
      this.#put(block.subarray(from, to));
    } else {
      this.#makeRoom(to - from + 1);
      this.#filled += block.copy(this.#buffer, this.#filled, from, to);
    }
    if (lease && !(isWorth && this.#drain.keeps)) lease.holders -= 1;
    if (block[to - 1] !== NEWLINE) this.#append('\n'); // the last line of a file may lack its newline
  }

  /** `end`: apart, for to join it to a text copies that text once more. */
  #append(text: string, end = ''): void {
    const most = (text.length + end.length) * 3; // UTF-16 units to UTF-8 bytes
    if (most > ROOM) {
      this.#flushBuffer();
      this.#put(Buffer.from(text + end));
      return;
    }
    this.#makeRoom(most);
    this.#filled += this.#buffer.write(text, this.#filled);
    if (end !== '') this.#filled += this.#buffer.write(end, this.#filled);
  }

  #makeRoom(bytes: number): void {
    if (this.#filled + bytes > ROOM) this.#flushBuffer();
  }

  #flushBuffer(): void {
    if (this.#filled === 0) return;
    const full = this.#buffer.subarray(0, this.#filled);
    this.#filled = 0;
    // what a drain keeps until the reader comes is copied to its size: most flushes are far from full
    this.#put(this.#drain.keeps ? Buffer.from(full) : full);
  }

  #put(bytes: Buffer): void {
    this.#open = this.#drain.put(bytes);
  }

  #flush(): void {
    this.#endRun();
    this.#flushBuffer();
  }
}

export function fileDrain(fd: number, name: string): Drain {
  return {
    keeps: false,
    put(bytes) {
      writeWhole(fd, bytes, name);
      return true;
    },
    ready: act => act(),
    async end() {},
  };
}

/** A write may take less than it was given (a disk that fills up), and the rest must not be forgotten. */
export function writeWhole(fd: number, bytes: Buffer, name: string): void {
  let at = 0;
  while (at < bytes.length) {
    try {
      at += writeSync(fd, bytes, at, bytes.length - at);
    } catch (error) {
      throw broken(error, name);
    }
  }
}

function streamDrain(stream: Writable, name: string, onBroken: OnBroken): Drain {
  let gone = false;
  stream.on('error', error => {
    if (gone) return;
    gone = true;
    onBroken(broken(error, name));
  });
  return {
    keeps: true,
    put: bytes => gone || stream.write(bytes),
    ready: act => (gone || !stream.writableNeedDrain ? act() : stream.once('drain', act)),
    end: () =>
      new Promise(resolve => {
        if (gone || stream.writableLength === 0) return resolve();
        stream.write('', () => resolve());
      }),
  };
}

/** A closed reader is no error: it ends the run quietly, as `yes | head -1` does. */
export function broken(error: unknown, name: string): Fatal {
  const { code, message } = error as NodeJS.ErrnoException;
  if (code === 'EPIPE' || code === 'ECONNRESET') return new Fatal(EXIT.pipe, '');
  return ioError(`${name}: expected to write, found ${code ?? message}`);
}

/** Writes a page to stdout; resolves once the system has it. Rejects with Fatal: 141 where the reader went away, 74. */
export function writePage(text: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const fail = (error: Error): void => reject(broken(error, 'stdout'));
    process.stdout.once('error', fail);
    process.stdout.write(text, error => {
      if (error) return; // told above
      process.stdout.off('error', fail);
      resolve();
    });
  });
}
