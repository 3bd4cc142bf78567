/** The index as it lies in memory: chunks of rows in the order in which they were read, and what their columns hold. */
import { CHUNK, type Chunk, type ColumnKind, type ColumnNews, type Data, emptyData } from './chunk.ts';

export interface StoredColumn {
  group: string;
  key: string;
  /** both */
  name: string;
  kind: ColumnKind;
  /** the dictionary; where there are too many values, those of the rows before that was known */
  values: string[];
  /** of numbers: values that are none, and count as absent */
  odd: number;
}

/** A chunk in its place: its first row is row `first` of all. */
export interface PlacedChunk extends Chunk {
  first: number;
}

export class RowIndex {
  readonly chunks: PlacedChunk[] = [];
  readonly columns: StoredColumn[] = [];
  readonly #byName = new Map<string, number>();
  /** rows that were read again, longer */
  readonly #gone = new Set<number>();
  /** grows with each change, so that what was made of the index knows whether it is of today */
  version = 0;

  get rows(): number {
    const last = this.chunks.at(-1);
    return last === undefined ? 0 : last.first + last.rows;
  }

  /** Rows that are none any more. */
  get gone(): ReadonlySet<number> {
    return this.#gone;
  }

  /** Place of a column by its name; undefined where no row has it. */
  column(name: string): number | undefined {
    return this.#byName.get(name);
  }

  /** All that is known of the columns, for a thread that goes on with the index. */
  news(): ColumnNews[] {
    return this.columns.map(({ group, key, kind, values, odd }, column) => ({
      column,
      group,
      key,
      kind,
      values,
      odd,
    }));
  }

  /** An index that was kept, into this one, which is empty. */
  take(chunks: readonly PlacedChunk[], columns: readonly ColumnNews[]): void {
    this.#know(columns);
    for (const chunk of chunks) this.chunks.push(chunk);
    this.version += 1;
  }

  add(chunk: Chunk, news: readonly ColumnNews[]): void {
    this.version += 1;
    this.#know(news);
    this.#dropReread(chunk);
    const last = this.chunks.at(-1);
    if (last !== undefined && last.file === chunk.file && last.rows + chunk.rows <= CHUNK)
      this.chunks[this.chunks.length - 1] = { ...joinedChunks(last, chunk), first: last.first };
    else this.chunks.push({ ...chunk, first: this.rows });
  }

  #know(news: readonly ColumnNews[]): void {
    for (const { column, group, key, kind, values, odd } of news) {
      const known = this.columns[column];
      if (known === undefined) {
        const name = `${group}${key}`;
        this.columns[column] = { group, key, name, kind, values: [...values], odd };
        if (!this.#byName.has(name)) this.#byName.set(name, column);
        continue;
      }
      for (const value of values) known.values.push(value);
      Object.assign(known, { kind, odd });
    }
  }

  /** A last line without an end is read again once the file grows: the row that it was is gone. */
  #dropReread({ file, offsets }: Chunk): void {
    const before = this.chunks.findLast(each => each.file === file);
    if (before === undefined || before.offsets[before.rows - 1] !== offsets[0]) return;
    this.#gone.add(before.first + before.rows - 1);
  }

  /** The chunk that has the row, which must be there. */
  chunkOf(row: number): PlacedChunk {
    let low = 0;
    let high = this.chunks.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.chunks[middle]!.first <= row) low = middle;
      else high = middle - 1;
    }
    return this.chunks[low]!;
  }
}

/** Two chunks of one file as one. */
function joinedChunks(a: Chunk, b: Chunk): Chunk {
  const rows = a.rows + b.rows;
  const columns = a.columns.map(({ column, kind, data }) => {
    const more = b.columns.find(each => each.column === column && each.kind === kind);
    return { column, kind, data: joined(data, a.rows, more?.data, b.rows, kind) };
  });
  for (const { column, kind, data } of b.columns)
    if (!a.columns.some(each => each.column === column && each.kind === kind))
      columns.push({ column, kind, data: joined(undefined, a.rows, data, b.rows, kind) });
  return {
    file: a.file,
    rows,
    offsets: joinedNumbers(a.offsets, b.offsets),
    lengths: joinedWhole(a.lengths, b.lengths),
    lines: joinedWhole(a.lines, b.lines),
    ids: joinedNumbers(a.ids, b.ids),
    decided: a.decided && b.decided && joinedNumbers(a.decided, b.decided),
    said: a.said && b.said && joinedNumbers(a.said, b.said),
    columns,
  };
}

const joinedNumbers = (a: Float64Array, b: Float64Array): Float64Array =>
  endToEnd(new Float64Array(a.length + b.length), a, b, a.length);

const joinedWhole = (a: Uint32Array, b: Uint32Array): Uint32Array =>
  endToEnd(new Uint32Array(a.length + b.length), a, b, a.length);

function joined(
  a: Data | undefined,
  aRows: number,
  b: Data | undefined,
  bRows: number,
  kind: ColumnKind,
): Data {
  const width = Math.max(a?.BYTES_PER_ELEMENT ?? 1, b?.BYTES_PER_ELEMENT ?? 1);
  const room = emptyData(width, aRows + bRows);
  return endToEnd(kind === 'values' ? room : room.fill(Number.NaN), a, b, aRows);
}

/** `a` at the beginning of `room`, and `b` from `from` on; rows of what is not there stay as they are. */
function endToEnd<D extends Data>(room: D, a: Data | undefined, b: Data | undefined, from: number): D {
  if (a !== undefined) room.set(a);
  if (b !== undefined) room.set(b, from);
  return room;
}
