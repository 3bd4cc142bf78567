/**
 * Where bytes come from: files, globs or standard input, as blocks on demand. Regular files and character devices are
 * read synchronously, a MiB at a time; pipes through a socket, since a pending fs.read on a pipe keeps a process from
 * ending.
 */
import { closeSync, existsSync, fstatSync, openSync, readSync, statSync } from 'node:fs';
import { Socket } from 'node:net';
import { resolve } from 'node:path';
import { isatty } from 'node:tty';
import { dataError, ioError, usageError } from '../item/failure.ts';
import type { RemoteFile } from '../remote/reading.ts';
import { isAside } from './saving.ts';
import { mayBePacked, type Unpacker, unpackerOf } from './unpacked.ts';

const BLOCK = 1 << 20;
/** room for the rest of a line, so that a block which began without one can be used again */
const SLACK = 1 << 17;
const STDIN = 0;

export interface ByteInput {
  /** for messages: the path as it was given, or `stdin` */
  name: string;
  /** a file that ends by itself: on a stop signal it is left, while a pipe is drained to its end */
  regular: boolean;
  /** a file on disk */
  readonly isFile?: boolean;
  /** whether its bytes were compressed, so that their places are not those of the file; known once something was read */
  readonly isPacked?: boolean;
  /**
   * The next block, beginning with the `rest` of the last one; null at the end. `spare` is an earlier block, other than
   * the last one, whose memory may be used.
   */
  read(rest: Buffer | null, spare?: Buffer): Buffer | null | Promise<Buffer | null>;
  /** The same bytes from their beginning, for a file that has a name; null for what can be read but once. */
  reopened?(): ByteInput | null;
  /** of a file that is elsewhere: its first bytes, which are read again, and what gives any part of it */
  readonly remote?: { begins(bytes: number): Promise<Buffer>; file(): Promise<RemoteFile> };
  close(): void;
}

/** Whether a path is the address of a file that is elsewhere. */
export const isRemote = (path: string): boolean => /^(?:s3|hf|https?):\/\//i.test(path);

/** What stands before a host and behind a path may be a key, which is not for messages. */
export const withoutKeys = (path: string): string =>
  /^http/i.test(path) ? path.replace(/[?#].*$/s, '').replace(/^([a-z]*:\/\/)[^/]*@/i, '$1') : path;

/** What is said of an address where a file is read in any order. */
export function notOnDisk(address: string): Error {
  return usageError(
    `expected a file on disk, which can be read in any order, found an address: ${withoutKeys(address)}; copy it first`,
  );
}

/**
 * The paths that a list of files and globs names, in order; a glob's matches are sorted. A file of provenance beside another
 * of them is left out: it is read with that. Exit 65 where none exists.
 */
export async function expandPaths(patterns: readonly string[]): Promise<string[]> {
  const paths: string[] = [];
  for (const pattern of patterns) {
    if (pattern === '-' || existsSync(pattern)) {
      paths.push(pattern);
      continue;
    }
    const globbed =
      isRemote(pattern) && !ENDPOINT.test(pattern) ? await elsewhere(pattern) : await onDisk(pattern);
    const matches = isAside(pattern) ? globbed : globbed.filter(path => !isAside(path));
    if (matches.length === 0) {
      const hint = ENDPOINT.test(pattern) ? ' (if it is an endpoint, repeat --endpoint before each URL)' : '';
      throw dataError(`expected a file or files that match, found none: ${pattern}${hint}`);
    }
    paths.push(...matches.sort());
  }
  return withoutBesides(paths);
}

/** No file has such an address. */
const ENDPOINT = /^https?:\/\/[^/]*(?:\/v\d+)?\/?$/;

async function onDisk(pattern: string): Promise<string[]> {
  const { default: glob } = await import('fast-glob');
  return glob.isDynamicPattern(pattern) ? glob(pattern) : [];
}

async function elsewhere(pattern: string): Promise<string[]> {
  const { expandRemote } = await import('../remote/listing.ts');
  return expandRemote(pattern);
}

let atTerminal: (() => void) | undefined;

/** `tell` is called when a terminal is about to be read for the first time: whoever sits there may not know that it waits. */
export function onTerminalRead(tell: () => void): void {
  atTerminal = tell;
}

/**
 * Inputs for expanded paths, `-` and an empty list meaning standard input. They open one after the other. What is compressed
 * is read as what is within.
 */
export function inputsOf(paths: readonly string[]): ByteInput[] {
  return (paths.length === 0 ? ['-'] : paths).map(path =>
    unpacked(isRemote(path) ? remoteInput(path) : inputOf(path)),
  );
}

function unpacked(input: ByteInput): ByteInput {
  let within: Unpacker | null | undefined; // known once something was read
  const raw = () => input.read(null);
  const begin = (first: Buffer | null): Buffer | null | Promise<Buffer | null> => {
    if (first === null) return null;
    if (mayBePacked(first)) {
      const more = input.read(first);
      if (more instanceof Promise) return more.then(got => begin(got) ?? asItIs(first));
      if (more !== null) return begin(more);
      return asItIs(first);
    }
    within = unpackerOf(first, raw, input.name);
    return within === null ? first : within.read();
  };
  const asItIs = (bytes: Buffer): Buffer => {
    within = null;
    return bytes;
  };
  return {
    name: input.name,
    get regular() {
      return input.regular;
    },
    ...(input.isFile !== undefined && { isFile: input.isFile }),
    ...(input.remote && { remote: input.remote }),
    get isPacked() {
      return within !== null && within !== undefined;
    },
    read(rest, spare) {
      if (within === null) return input.read(rest, spare);
      if (within !== undefined) {
        return within.read().then(got => (got === null || rest === null ? got : Buffer.concat([rest, got])));
      }
      const first = input.read(null);
      return first instanceof Promise ? first.then(begin) : begin(first);
    },
    reopened() {
      const again = input.reopened?.() ?? null;
      return again && unpacked(again);
    },
    close() {
      within?.close();
      input.close();
    },
  };
}

/** What is read again is the same `file`, so that it is noticed where that has changed. */
function remoteInput(path: string, file?: Promise<RemoteFile>): ByteInput {
  let opened = file;
  let flow: Promise<ReturnType<RemoteFile['flow']>> | undefined;
  const open = (): Promise<RemoteFile> => {
    opened ??= import('../remote/reading.ts').then(({ openRemote }) => openRemote(path));
    return opened;
  };
  const flowing = () => {
    flow ??= open().then(remote => remote.flow());
    return flow;
  };
  return {
    name: withoutKeys(path),
    regular: true,
    remote: { begins: async bytes => (await flowing()).begins(bytes), file: open },
    read: async rest => (await flowing()).block(rest),
    reopened: () => remoteInput(path, open()),
    close: () =>
      void flow?.then(
        one => one.close(),
        () => {},
      ),
  };
}

function inputOf(path: string): ByteInput {
  const name = path === '-' ? 'stdin' : path;
  let opened: { fd: number; piped: boolean } | undefined; // asked once: a socket that has ended has closed its fd
  let socket: Socket | undefined;
  const open = (): { fd: number; piped: boolean } => {
    if (opened) return opened;
    const fd = path === '-' ? STDIN : openFile(path);
    const kind = fstatSync(fd);
    if (kind.isDirectory()) throw dataError(`expected a file, found a folder: ${name}`);
    const isTerminal = kind.isCharacterDevice() && isatty(fd);
    const piped = kind.isFIFO() || kind.isSocket() || (fd === STDIN && isTerminal);
    opened = { fd, piped };
    if (isTerminal) {
      atTerminal?.();
      atTerminal = undefined;
    }
    return opened;
  };
  return {
    name,
    get regular() {
      return !open().piped;
    },
    // asked without opening it: inputs open one after the other
    isFile: isFile(path),
    read(rest, spare) {
      const { fd, piped } = open();
      if (!piped) {
        const needed = (rest?.length ?? 0) + BLOCK;
        const isRoomy = spare && spare.buffer.byteLength >= needed;
        const block = isRoomy ? Buffer.from(spare.buffer) : Buffer.allocUnsafeSlow(needed + SLACK);
        return readBlock(fd, name, rest, block);
      }
      socket ??= fd === STDIN ? (process.stdin as Socket) : new Socket({ fd, writable: false });
      return readSocket(socket, name, rest);
    },
    reopened: () =>
      path !== '-' && statSync(path, { throwIfNoEntry: false })?.isFile() ? inputOf(path) : null,
    close() {
      socket?.destroy();
      if (opened && !opened.piped && opened.fd !== STDIN) closeSync(opened.fd);
    },
  };
}

function isFile(path: string): boolean {
  try {
    return (path === '-' ? fstatSync(STDIN) : statSync(path)).isFile();
  } catch {
    return false; // whoever reads it says what is wrong
  }
}

function openFile(path: string): number {
  try {
    return openSync(path, 'r');
  } catch (error) {
    throw dataError(`expected a readable file, found ${describe(error)}: ${path}`);
  }
}

function describe(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  if (code === 'ENOENT') return 'none';
  return code ?? message;
}

function readBlock(fd: number, name: string, rest: Buffer | null, block: Buffer): Buffer | null {
  const kept = rest?.length ?? 0;
  rest?.copy(block);
  try {
    const got = readSync(fd, block, kept, BLOCK, null);
    return got === 0 ? null : block.subarray(0, kept + got);
  } catch (error) {
    throw ioError(`${name}: expected to read on, found ${describe(error)}`);
  }
}

function readSocket(
  socket: Socket,
  name: string,
  rest: Buffer | null,
): Buffer | null | Promise<Buffer | null> {
  const chunk = socket.read() as Buffer | null;
  if (chunk !== null) return rest === null ? chunk : Buffer.concat([rest, chunk]);
  if (socket.readableEnded || socket.destroyed) return null;
  return new Promise((resolve, reject) => {
    const settle = (act: () => void) => () => {
      socket.off('readable', onReadable).off('end', onEnd).off('close', onEnd).off('error', onError);
      act();
    };
    const onReadable = settle(() => resolve(readSocket(socket, name, rest)));
    const onEnd = settle(() => resolve(null));
    const onError = (error: unknown) =>
      settle(() => reject(ioError(`${name}: expected to read on, found ${describe(error)}`)))();
    socket.on('readable', onReadable).on('end', onEnd).on('close', onEnd).on('error', onError);
  });
}

/**
 * The file of provenance beside a file of results has the whole name of that file, so that no two share one:
 * `out.jsonl.provenance.ndjson` beside `out.jsonl`. Version 0.1.0 wrote `out.provenance.ndjson` for `out.jsonl` and for
 * `out.json`; it is still read where there is none of the whole name. A line vouches for its own result alone (its hash
 * says which), so that reading such a file for the wrong results does no harm.
 */
const ENDING = '.provenance.ndjson';

/** The path beside a file of results; null for what is beside one itself. */
export function besideOf(path: string): string | null {
  return path.endsWith(ENDING) ? null : `${path}${ENDING}`;
}

function namesBeside(path: string): string[] {
  const today = besideOf(path);
  const older = path.replace(/\.(?:jsonl|ndjson|json)$/, '') + ENDING;
  return today === null ? [] : [...new Set([today, older])];
}

/** Without the files that are beside others of the list: whoever reads the results reads those too. */
function withoutBesides(paths: readonly string[]): string[] {
  const besides = new Set(paths.flatMap(namesBeside).map(path => resolve(path)));
  return paths.filter(path => !besides.has(resolve(path)));
}

/** The files beside `paths` that are there. */
export function besidesOf(paths: readonly string[]): string[] {
  const besides = paths.flatMap(path => {
    const beside = path === '-' ? undefined : namesBeside(path).find(name => existsSync(name));
    return beside === undefined ? [] : [beside];
  });
  return [...new Set(besides)]; // the older name may be beside several
}

/** `paths`, all of which are to be read as lines; exit 65 where one is a file of provenance without its results. */
export function expectResults(paths: readonly string[]): readonly string[] {
  const alone = paths.find(path => path.endsWith(ENDING));
  if (alone === undefined) return paths;
  throw dataError(
    `${alone}: expected results, found only the provenance file beside them; name the results too, or leave it out`,
  );
}

/**
 * Which file a path or a descriptor leads to, by links of both kinds and from any folder: device and inode. Null for
 * what is not there, and for devices: anyone may write to /dev/null.
 */
export function identityOf(file: string | number): string | null {
  try {
    const stat = typeof file === 'number' ? fstatSync(file) : statSync(file);
    return stat.isFile() || stat.isFIFO() ? `${stat.dev}:${stat.ino}` : null;
  } catch {
    return null;
  }
}
