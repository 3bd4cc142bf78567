/**
 * A text in all rows: a pass over the bytes of the files, block by block, which marks the rows that have it. Capitals of
 * ASCII do not matter. It goes on behind what it has seen as the index grows.
 */
import type { JsonObject } from '../../../engine/core/json/pointer.ts';
import type { OpenFile } from './open-file.ts';
import type { RowIndex } from './row-index.ts';

const BLOCK = 1 << 20;

export interface Searching {
  done: boolean;
  /** bytes that were looked at */
  bytes: number;
}

/** What `text` looks like in a file: as it is in a table, and in JSON with its escapes, of which Python writes more. */
function formsOf(text: string): Buffer[] {
  const json = JSON.stringify(text).slice(1, -1);
  const escaped = json.replace(
    /[\u0080-\uffff]/g,
    character => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
  return [...new Set([json, escaped, text, text.replaceAll('"', '""')])].map(form => Buffer.from(form));
}

/** Bytes read as Latin-1, so that places in the text are places in the bytes; letters of ASCII in both their forms. */
function patternOf(bytes: Buffer): RegExp {
  const parts = Array.from(bytes, byte => {
    const character = String.fromCharCode(byte);
    if (/[a-z]/i.test(character)) return `[${character.toLowerCase()}${character.toUpperCase()}]`;
    return `\\x${byte.toString(16).padStart(2, '0')}`;
  });
  return new RegExp(parts.join(''), 'g');
}

interface Needle {
  bytes: number;
  pattern: RegExp;
}

export class TextSearch {
  readonly #index: RowIndex;
  readonly #files: readonly OpenFile[];
  readonly #maxLine: number;
  readonly #needles: Needle[];
  readonly #longest: number;
  /** 1 where a row has it */
  hits = new Uint8Array(0);
  #chunk = 0; // chunks before this one are done
  #rowsDone = 0; // rows of it that are done
  #version = -1;
  #running: Promise<void> | null = null;
  #stopped = false;
  bytes = 0;

  constructor(index: RowIndex, files: readonly OpenFile[], text: string, maxLine: number) {
    this.#maxLine = maxLine;
    this.#index = index;
    this.#files = files;
    this.#needles = formsOf(text).map(bytes => ({ bytes: bytes.length, pattern: patternOf(bytes) }));
    this.#longest = Math.max(...this.#needles.map(({ bytes }) => bytes));
  }

  get done(): boolean {
    return this.#version === this.#index.version;
  }

  stop(): void {
    this.#stopped = true;
  }

  /** Looks at what it has not seen yet; resolves when it is through. */
  run(): Promise<void> {
    this.#running ??= this.#run().finally(() => {
      this.#running = null;
    });
    return this.#running;
  }

  async #run(): Promise<void> {
    while (!this.#stopped && this.#version !== this.#index.version) await this.#rest();
  }

  async #rest(): Promise<void> {
    const version = this.#index.version;
    const rows = this.#index.rows;
    if (this.hits.length < rows) {
      const more = new Uint8Array(Math.max(rows, 2 * this.hits.length));
      more.set(this.hits);
      this.hits = more;
    }
    while (!this.#stopped && this.#chunk < this.#index.chunks.length) {
      const chunk = this.#index.chunks[this.#chunk]!;
      if (this.#rowsDone < chunk.rows) await this.#searchChunk(chunk.rows);
      if (this.#chunk === this.#index.chunks.length - 1) break; // it may still grow
      if (this.#rowsDone < this.#index.chunks[this.#chunk]!.rows) continue;
      this.#chunk += 1;
      this.#rowsDone = 0;
    }
    this.#version = version;
  }

  /** Rows of the chunk up to `upTo`, whose bytes follow each other in the file. */
  async #searchChunk(upTo: number): Promise<void> {
    const { file, offsets, lengths, first } = this.#index.chunks[this.#chunk]!;
    const start = offsets[this.#rowsDone]!;
    const end = offsets[upTo - 1]! + lengths[upTo - 1]!;
    const opened = this.#files[file] as OpenFile;
    const searching = opened.each(start, this.#maxLine, (row, at) => {
      if (row !== null && this.#isIn(row)) this.hits[first + this.#rowsDone + at - start] = 1;
      return at < end && !this.#stopped;
    });
    if (searching !== null) {
      try {
        await searching;
      } catch (error) {
        opened.trouble = (error as Error).message; // the rest of the chunk is not searched, and the page says why
      }
      this.#rowsDone = upTo;
      return;
    }
    let row = this.#rowsDone;
    const overlap = this.#longest - 1;
    const block = Buffer.allocUnsafe(Math.min(BLOCK, end - start) + overlap);
    for (let at = start; at < end && !this.#stopped; at += BLOCK) {
      const wanted = Math.min(block.length, end - at);
      const { bytesRead } = await opened.handle.read(block, 0, wanted, at);
      const text = block.toString('latin1', 0, bytesRead);
      this.bytes += Math.min(BLOCK, bytesRead);
      row = this.#mark(text, at, { offsets, lengths, first, row, upTo });
      if (bytesRead < wanted) break;
    }
    this.#rowsDone = upTo;
  }

  /** A row that is no text in its file is searched as the JSON that a page shows of it. */
  #isIn(row: JsonObject): boolean {
    const text = Buffer.from(JSON.stringify(row)).toString('latin1');
    this.bytes += text.length;
    return this.#needles.some(({ pattern }) => text.search(pattern) >= 0);
  }

  /** Marks the rows that `text`, which begins at byte `at`, has the needles in; returns the row at byte `at`. */
  #mark(text: string, at: number, { offsets, lengths, first, row: from, upTo }: Marking): number {
    let start = from;
    while (start + 1 < upTo && offsets[start + 1]! <= at) start += 1;
    for (const { bytes, pattern } of this.#needles) {
      let row = start;
      pattern.lastIndex = 0;
      for (let found = pattern.exec(text); found !== null; found = pattern.exec(text)) {
        const place = at + found.index;
        while (row + 1 < upTo && offsets[row + 1]! <= place) row += 1;
        const end = offsets[row]! + lengths[row]!;
        const isInside = place >= offsets[row]! && place + bytes <= end;
        if (isInside) this.hits[first + row] = 1;
        // the rest of a row that has it need not be looked at
        pattern.lastIndex = isInside ? Math.max(found.index + 1, end - at) : found.index + 1;
      }
    }
    return start;
  }
}

interface Marking {
  offsets: Float64Array;
  lengths: Uint32Array;
  /** row of the chunk's first row */
  first: number;
  /** from which row of the chunk on */
  row: number;
  upTo: number;
}
