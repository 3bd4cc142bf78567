/**
 * An index that is kept for the next time, in a folder of the system for temporary files that nobody else can read: a
 * million rows are then there at once. It is taken where the files are the same ones, and as far as they are.
 */
import { createHash } from 'node:crypto';
import { lstatSync, mkdirSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { deserialize, serialize } from 'node:v8';
import { version } from '../../../engine/core/config/package.ts';
import { type ColumnKind, type ColumnNews, type Data, emptyData } from './chunk.ts';
import type { FileState } from './indexer.ts';
import type { PlacedChunk, RowIndex } from './row-index.ts';

/** Smaller files are read again faster than anybody notices. */
const WORTH_KEEPING = 32 << 20;
/** Of all that is kept; the oldest goes. */
const MOST_BYTES = 2 ** 31;
/** Bytes of the beginning of a file, and before where its index ends, that must be the same. */
const COMPARED = 64 * 1024;
/** A longer piece is no chunk of ours. */
const LONGEST_PIECE = 256 << 20;

/** Raised when line-fields.ts makes other columns of a line: an index of before then lacks them. */
const COLUMNS = 2;
const made = (): string => `${version()} ${COLUMNS}`;

interface About {
  version: string;
  options: string;
  files: (FileState & { dev: number; ino: number; mtimeMs: number; marks: string })[];
  columns: ColumnNews[];
  chunks: number;
  leftOut: number;
}

export interface KeptIndex {
  files: FileState[];
  columns: ColumnNews[];
  chunks: PlacedChunk[];
  leftOut: number;
}

/** `handles`: of the files of `paths`, in order. */
export interface Subject {
  paths: readonly string[];
  handles: readonly FileHandle[];
  /** where indexes are kept */
  folder: string;
  /** what else the index depends on */
  options: string;
}

/** One of each user's own. */
export const usualFolder = (): string => join(tmpdir(), `fw-view-${process.getuid?.() ?? 0}`);

/** null: there is none, or it is of other files. */
export async function readKept(subject: Subject): Promise<KeptIndex | null> {
  let file: FileHandle;
  try {
    file = await open(pathOf(subject), 'r');
  } catch {
    return null; // none is kept, or the folder is not ours
  }
  try {
    const pieces = new Pieces(file);
    const about = (await pieces.next()) as About;
    if (about.version !== made() || about.options !== subject.options) return null;
    for (const [at, { dev, ino, mtimeMs, read, marks }] of about.files.entries()) {
      const handle = subject.handles[at] as FileHandle;
      const facts = await handle.stat();
      if (facts.dev !== dev || facts.ino !== ino || facts.size < read) return null;
      // of the same length and written since: somewhere it is another
      if (facts.size === read && facts.mtimeMs !== mtimeMs) return null;
      if ((await marksOf(handle, read)) !== marks) return null;
    }
    const chunks: PlacedChunk[] = [];
    for (let at = 0; at < about.chunks; at++) chunks.push(await readChunk(pieces));
    return {
      files: about.files.map(({ read, line }) => ({ read, line })),
      columns: about.columns,
      chunks,
      leftOut: about.leftOut,
    };
  } catch {
    return null; // torn, or of another kind: it is made again
  } finally {
    await file.close();
  }
}

/** Best effort: a disk that takes nothing costs the next start some seconds. */
export async function writeKept(
  subject: Subject,
  index: RowIndex,
  files: readonly FileState[],
  leftOut: number,
): Promise<void> {
  const bytes = files.reduce((sum, { read }) => sum + read, 0);
  if (bytes < WORTH_KEEPING || index.gone.size > 0) return;
  let partial = '';
  try {
    const path = pathOf(subject);
    partial = `${path}.${process.pid}`;
    const about: About = {
      version: made(),
      options: subject.options,
      files: await Promise.all(
        files.map(async (state, at) => {
          const handle = subject.handles[at] as FileHandle;
          const { dev, ino, mtimeMs } = await handle.stat();
          return { ...state, dev, ino, mtimeMs, marks: await marksOf(handle, state.read) };
        }),
      ),
      columns: index.news(),
      chunks: index.chunks.length,
      leftOut,
    };
    const file = await open(partial, 'wx', 0o600);
    try {
      await writePiece(file, about);
      for (const chunk of [...index.chunks]) await writeChunk(file, chunk);
    } finally {
      await file.close();
    }
    renameSync(partial, path);
    forgetOld(subject.folder);
  } catch {
    if (partial !== '') rmSync(partial, { force: true });
  }
}

async function writePiece(file: FileHandle, value: unknown): Promise<void> {
  const bytes = serialize(value);
  const length = Buffer.alloc(8);
  length.writeDoubleLE(bytes.length);
  await file.write(length);
  await file.write(bytes);
}

interface ChunkHead {
  file: number;
  rows: number;
  first: number;
  hasHashes: boolean;
  columns: { column: number; kind: ColumnKind; width: number }[];
}

/** Its arrays as they are, so that reading needs no second copy of them. */
async function writeChunk(file: FileHandle, chunk: PlacedChunk): Promise<void> {
  const { rows, first, decided, said } = chunk;
  const columns = chunk.columns.map(({ column, kind, data }) => ({
    column,
    kind,
    width: data.BYTES_PER_ELEMENT,
  }));
  const head: ChunkHead = { file: chunk.file, rows, first, hasHashes: decided !== null, columns };
  await writePiece(file, head);
  const hashes = decided !== null && said !== null ? [decided, said] : [];
  const datas = chunk.columns.map(({ data }) => data);
  for (const { buffer, byteOffset, byteLength } of [
    chunk.offsets,
    chunk.lengths,
    chunk.lines,
    chunk.ids,
    ...hashes,
    ...datas,
  ])
    await file.write(new Uint8Array(buffer, byteOffset, byteLength));
}

async function readChunk(pieces: Pieces): Promise<PlacedChunk> {
  const { file, rows, first, hasHashes, columns } = (await pieces.next()) as ChunkHead;
  const [offsets, lengths, lines, ids] = [
    await pieces.into(new Float64Array(rows)),
    await pieces.into(new Uint32Array(rows)),
    await pieces.into(new Uint32Array(rows)),
    await pieces.into(new Float64Array(rows)),
  ];
  const decided = hasHashes ? await pieces.into(new Float64Array(rows)) : null;
  const said = hasHashes ? await pieces.into(new Float64Array(rows)) : null;
  const read: PlacedChunk['columns'] = [];
  for (const { column, kind, width } of columns)
    read.push({ column, kind, data: await pieces.into(emptyData(width, rows)) });
  return { file, rows, first, offsets, lengths, lines, ids, decided, said, columns: read };
}

class Pieces {
  readonly #file: FileHandle;
  #at = 0;

  constructor(file: FileHandle) {
    this.#file = file;
  }

  async next(): Promise<unknown> {
    const length = (await this.#read(8)).readDoubleLE();
    if (!(length >= 0 && length <= LONGEST_PIECE)) throw new Error('no index');
    return deserialize(await this.#read(length));
  }

  /** Fills an array. */
  async into<A extends Data>(array: A): Promise<A> {
    const { byteLength } = array;
    const { bytesRead } = await this.#file.read(new Uint8Array(array.buffer), 0, byteLength, this.#at);
    if (bytesRead < byteLength) throw new Error('a torn index');
    this.#at += byteLength;
    return array;
  }

  async #read(bytes: number): Promise<Buffer> {
    const { buffer } = await this.into(new Uint8Array(bytes));
    return Buffer.from(buffer);
  }
}

/** A hash of the first bytes of a file, and of those before `end`. */
async function marksOf(handle: FileHandle, end: number): Promise<string> {
  const hash = createHash('sha256');
  for (const from of [0, Math.max(0, end - COMPARED)]) {
    const block = Buffer.alloc(Math.min(COMPARED, end));
    const { bytesRead } = await handle.read(block, 0, block.length, from);
    hash.update(block.subarray(0, bytesRead));
  }
  return hash.digest('hex');
}

/** Makes the folder; throws where it is not ours alone. */
function own(folder: string): string {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const facts = lstatSync(folder); // a link would lead to a folder of other files
  const { uid, mode } = facts;
  if (!facts.isDirectory() || uid !== (process.getuid?.() ?? 0) || (mode & 0o077) !== 0)
    throw new Error('the folder is open to others');
  return folder;
}

function pathOf({ paths, folder, options }: Subject): string {
  const name = createHash('sha256').update(JSON.stringify([paths.map(path => resolve(path)), options]));
  return join(own(folder), `${name.digest('hex').slice(0, 32)}.index`);
}

/** Nothing else is ever removed. */
const OWN_FILE = /^[0-9a-f]{32}\.index(?:\.\d{1,10})?$/;

function forgetOld(at: string): void {
  const names = readdirSync(at).filter(name => OWN_FILE.test(name));
  const files = names.map(name => {
    const { size, mtimeMs } = statSync(join(at, name));
    return { path: join(at, name), size, mtimeMs };
  });
  let bytes = 0;
  for (const { path, size } of files.sort((a, b) => b.mtimeMs - a.mtimeMs)) {
    bytes += size;
    if (bytes > MOST_BYTES) rmSync(path, { force: true });
  }
}
