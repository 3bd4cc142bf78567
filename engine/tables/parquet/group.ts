/** One row after the other of a Parquet file: a page of each column is held at a time. */
import { dataError, Fatal } from '../../core/item/failure.ts';
import type { JsonObject } from '../../core/json/pointer.ts';
import type { Values } from './encoded.ts';
import type { Chunk, Codec, Footer, Group } from './footer.ts';
import { Entries, Leaf } from './leaf.ts';
import { Pages, type Part, Room } from './pages.ts';
import { type Assemble, assembling, type Node } from './schema.ts';
import { isText, shapeOf } from './shapes.ts';

const MOST_ROOM = 1 << 30;
/** bytes that are read at once, of all columns together and of one */
const AT_ONCE = 32 << 20;
const LEAST_WINDOW = 1 << 16;
const MOST_WINDOW = 1 << 20;
/** a group that is elsewhere and no longer than this is asked for as one */
const ONE_REQUEST = 8 << 20;

export interface Opened {
  name: string;
  part: Part;
  /** each part takes as long as a request */
  isRemote: boolean;
  footer: Footer;
  columns: readonly Node[];
  leaves: readonly Node[];
  note(column: string, words: string): void;
}

/** A column, at the row that was taken last. */
export class Column {
  readonly name: string;
  readonly isText: boolean;
  readonly #node: Node;
  /** nothing in it comes again, and it has no parts */
  readonly #isFlat: boolean;
  #leaves: readonly Leaf[] = [];
  #assemble: Assemble = () => null;
  #value: unknown = null;
  isNull = true;

  constructor(node: Node) {
    this.#node = node;
    this.name = node.element.name;
    this.#isFlat = node.children.length === 0 && node.levels.deepest === 0;
    this.isText = this.#isFlat && isText(node.element);
  }

  /** Of another group of rows. */
  turn(leaves: readonly Leaf[]): void {
    this.#leaves = this.#node.leaves.map(at => leaves[at]!);
    this.#assemble = assembling(this.#node, leaves);
  }

  row(): void {
    if (this.#isFlat) {
      const leaf = this.#leaves[0]!;
      leaf.row();
      this.isNull = leaf.definition < leaf.most;
      return;
    }
    for (const leaf of this.#leaves) leaf.row();
    this.#value = this.#assemble();
    this.isNull = this.#value === null;
  }

  /** null for nothing */
  value(): unknown {
    if (this.isNull) return null;
    return this.#isFlat ? this.#leaves[0]!.value() : this.#value;
  }

  /** Of a text that is not null: its bytes, until the next row. */
  bytes(): Values {
    return this.#leaves[0]!.values!;
  }
}

export class RowReader {
  readonly #file: Opened;
  readonly columns: readonly Column[];
  #group = -1;
  /** rows of the groups before, and of this one that were taken */
  #before = 0;
  #taken = 0;
  #rows = 0;
  #leaves: readonly Leaf[] = [];
  readonly #entries: Entries;
  #at = 0; // the column that is looked at, for messages

  /** `most`: characters of the lists and structs of a row that are made of it. */
  constructor(file: Opened, most: number) {
    this.#file = file;
    this.#entries = new Entries(most);
    this.columns = file.columns.map(node => new Column(node));
  }

  /** the number of the next row, from 0 */
  get next(): number {
    return this.#before + this.#taken;
  }

  /** How many rows can be taken now; 0 behind the last. Rejects with 65 where they cannot be read. */
  async ready(): Promise<number> {
    while (this.#taken === this.#rows) {
      if (this.#group >= 0) this.#end();
      if (this.#group + 1 >= this.#file.footer.groups.length) return 0;
      await this.#turn(this.#group + 1);
    }
    let least = this.#rows - this.#taken;
    for (const [at, leaf] of this.#leaves.entries()) {
      try {
        const ready = await leaf.ready();
        if (ready === 0) throw new Error(`fewer rows than the ${this.#rows} of the group`);
        least = Math.min(least, ready);
      } catch (error) {
        throw this.#trouble(error, this.#file.leaves[at]!.path);
      }
    }
    return least;
  }

  /** The next row; as many as are ready. */
  take(): void {
    const { columns } = this;
    this.#entries.row();
    try {
      for (this.#at = 0; this.#at < columns.length; this.#at++) columns[this.#at]!.row();
    } catch (error) {
      throw this.#trouble(error, [columns[this.#at]!.name]);
    }
    this.#taken += 1;
  }

  /** Of the lists and structs of the row that was taken last, in characters: JSON needs no less. */
  get weight(): number {
    return this.#entries.weight;
  }

  /** They are longer than they may be: what the row has of them is their beginning. */
  get isLong(): boolean {
    return this.#entries.isOver;
  }

  /** The values of the row that was taken last. */
  row(absent: null | ''): JsonObject {
    const values: JsonObject = {};
    for (const column of this.columns) values[column.name] = this.valueOf(column) ?? absent;
    return values;
  }

  /** null for nothing; exit 65 where it cannot be read */
  valueOf(column: Column): unknown {
    try {
      return column.value();
    } catch (error) {
      throw this.#trouble(error, [column.name]);
    }
  }

  /** Goes on to row `to`, which is behind the next one or the same. */
  async skipTo(to: number): Promise<void> {
    const { groups } = this.#file.footer;
    if (this.#group < 0 || to >= this.#before + this.#rows) {
      let before = this.#group < 0 ? 0 : this.#before + this.#rows;
      let group = this.#group + 1;
      for (; group < groups.length && before + groups[group]!.rows <= to; group++)
        before += groups[group]!.rows;
      this.#before = before;
      this.#taken = 0;
      this.#rows = 0;
      this.#leaves = [];
      this.#group = group - 1;
      if (group < groups.length) await this.#turn(group, before);
    }
    while (this.next < to) {
      const ready = await this.ready();
      if (ready === 0) return;
      for (let left = Math.min(ready, to - this.next); left > 0; left--) this.take();
    }
  }

  async #turn(at: number, before = this.#before + this.#rows): Promise<void> {
    const group = this.#file.footer.groups[at]!;
    this.#before = before;
    this.#taken = 0;
    this.#rows = group.rows;
    this.#group = at;
    this.#leaves = group.rows === 0 ? [] : await this.#leavesOf(group);
    if (group.rows > 0) for (const column of this.columns) column.turn(this.#leaves);
  }

  async #leavesOf({ chunks }: Group): Promise<Leaf[]> {
    const { part, isRemote, leaves, note } = this.#file;
    const room = new Room(MOST_ROOM);
    const reading = { part, room, window: windowOf(chunks, isRemote) };
    if (isRemote) reading.part = await together(chunks, part);
    return chunks.map((chunk, at) => {
      const { element, levels, path } = leaves[at]!;
      const kind = { kind: element.kind!, length: element.length };
      const pages = new Pages(chunk as Chunk & { codec: Codec }, kind, levels, reading);
      return new Leaf(
        pages,
        levels,
        { room, entries: this.#entries },
        shapeOf(element, words => note(path[0]!, words)),
      );
    });
  }

  #end(): void {
    for (const [at, leaf] of this.#leaves.entries()) {
      try {
        leaf.end();
      } catch (error) {
        throw this.#trouble(error, this.#file.leaves[at]!.path);
      }
    }
    this.#leaves = [];
  }

  #trouble(error: unknown, path: readonly string[]): unknown {
    if (error instanceof Fatal) return error; // it could not be fetched
    const { name, footer } = this.#file;
    const where = `row group ${this.#group + 1} of ${footer.groups.length}, the column '${path.join('.').slice(0, 120)}'`;
    const why = (error as Error).message.slice(0, 200);
    return dataError(`${name}: expected a Parquet file that can be read, found in ${where}: ${why}`);
  }
}

function windowOf(chunks: readonly Chunk[], isRemote: boolean): number {
  const share = Math.floor(AT_ONCE / Math.max(1, chunks.length));
  return Math.max(LEAST_WINDOW, Math.min(isRemote ? 4 * MOST_WINDOW : MOST_WINDOW, share));
}

/** One request for a small group, whose columns stand side by side. */
async function together(chunks: readonly Chunk[], part: Part): Promise<Part> {
  const first = Math.min(...chunks.map(({ from }) => from));
  const last = Math.max(...chunks.map(({ to }) => to));
  if (last - first > ONE_REQUEST) return part;
  const all = await part(first, last);
  return (from, to) => all.subarray(from - first, to - first);
}
