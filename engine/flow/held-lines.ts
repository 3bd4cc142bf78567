/** Lines that are held until it is their turn, in whatever order that comes. */
import { closeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { writeWhole } from '../core/files/ndjson-out.ts';
import { type InputLabels, letGo, type MadeOf, madeOf, originOf, remember } from '../core/files/origin.ts';
import { openUnnamed, readBack } from '../core/files/put-aside.ts';
import type { Item } from '../core/item/item.ts';
import { exact, small } from './numbers.ts';

/** Bytes that a window may hold, and what of a file waits in memory. */
export const IN_MEMORY = 32 * 1024 * 1024;
/** Bytes that are written to disk at once. */
const WRITTEN_AT_ONCE = 1 << 20;

/** Lines that wait: some MiB of them in memory; of the others it is known where they can be read again. */
export class HeldLines {
  /** in memory, by their lines */
  readonly #items = new Map<number, Item>();
  /** of all: where they are, in the files, of which the lines name one by its place among them */
  readonly #files: MadeOf['file'][] = [];
  readonly #fileOf = small();
  readonly #at = exact();
  readonly #lengths = small();
  readonly #rows = exact();
  #bytes = 0;
  #aside: Aside | null = null;

  get count(): number {
    return this.#at.count;
  }

  /** Returns how many bytes it is, about. */
  add(item: Item): number {
    const made = madeOf(item);
    if (made !== undefined) return this.#push(made);
    const origin = originOf(item);
    if (this.#aside === null && this.#bytes < IN_MEMORY) {
      const length = origin ? origin.to - origin.from : sizeOf(item);
      this.#bytes += length;
      this.#items.set(this.count, item);
      return this.#push({ file: null, at: 0, length, row: 0 });
    }
    this.#aside ??= new Aside();
    return this.#push(this.#aside.add(item));
  }

  #push({ file, at, length, row }: Omit<MadeOf, 'file'> & { file: MadeOf['file'] | null }): number {
    if (file !== null && this.#files.at(-1) !== file && !this.#files.includes(file)) this.#files.push(file);
    this.#fileOf.push(file === null ? 0 : this.#files.lastIndexOf(file));
    this.#at.push(at);
    this.#lengths.push(length);
    this.#rows.push(row);
    return length;
  }

  /** Each is taken once. */
  take(line: number): Item {
    const item = this.#items.get(line);
    if (item !== undefined) {
      this.#items.delete(line);
      return item;
    }
    const [at, length, row] = [this.#at.at(line), this.#lengths.at(line), this.#rows.at(line)];
    return this.#files[this.#fileOf.at(line)]?.again({ at, length, row }) as Item;
  }

  close(): void {
    this.#aside?.close();
  }
}

/** Lines that are put aside on disk, as they were read, or as they are written. */
class Aside {
  readonly #fd = openUnnamed(tmpdir(), 'lines that are read ahead');
  readonly #made: MadeOf['file'] = { again: place => JSON.parse(this.#bytesAt(place).toString()) as Item };
  /** of lines that were read: what makes them again, by what is said of all lines of their input */
  readonly #ofSources = new Map<InputLabels | undefined, MadeOf['file']>();
  #unwritten: Buffer[] = [];
  #written = 0;
  #end = 0;
  #isOpen = true;

  add(item: Item): MadeOf {
    const origin = originOf(item);
    const bytes = origin
      ? Buffer.from(origin.block.subarray(origin.from, origin.to))
      : Buffer.from(JSON.stringify(item));
    if (origin) letGo(item);
    const at = this.#end;
    this.#unwritten.push(bytes);
    this.#end += bytes.length;
    if (this.#end - this.#written >= WRITTEN_AT_ONCE) this.#write();
    const file = origin ? this.#fileOf(origin.source) : this.#made;
    return { file, at, length: bytes.length, row: origin?.number ?? 0 };
  }

  close(): void {
    if (this.#isOpen) closeSync(this.#fd);
    this.#isOpen = false;
  }

  #fileOf(source: InputLabels | undefined): MadeOf['file'] {
    let file = this.#ofSources.get(source);
    if (file === undefined) {
      file = {
        again: place => {
          const block = this.#bytesAt(place);
          const item = JSON.parse(block.toString()) as Item;
          remember(item, { block, from: 0, to: block.length, number: place.row, ...(source && { source }) });
          return item;
        },
      };
      this.#ofSources.set(source, file);
    }
    return file;
  }

  #bytesAt({ at, length }: { at: number; length: number }): Buffer {
    this.#write();
    return readBack(this.#fd, at, length);
  }

  #write(): void {
    if (this.#unwritten.length === 0) return;
    writeWhole(this.#fd, Buffer.concat(this.#unwritten), `lines put aside in ${tmpdir()}`);
    this.#unwritten = [];
    this.#written = this.#end;
  }
}

/** Bytes of an item that was made here, about: most of it are its texts. */
function sizeOf({ prompt, request, messages, input }: Item): number {
  let bytes = 512 + (prompt?.length ?? 0);
  for (const value of [request, messages, input])
    if (value !== undefined) bytes += JSON.stringify(value).length;
  return bytes;
}
