/**
 * Untouched is untouched: a line that no stage changed leaves as the bytes that came in. The reader remembers for
 * each object the bytes it was parsed from; a stage that changes something returns a new object, which has none.
 * A WeakMap and not a property, so that `{ ...item }` can never carry old bytes into a changed item.
 */

/** Bytes `from` to `to` of `block` are the line, its newline included where it had one. */
export interface Origin {
  block: Buffer;
  from: number;
  to: number;
  /** where the reader would like the block back */
  lease?: Lease;
  /** the line has given its share in the lease back */
  gone?: boolean;
}

/**
 * Fresh memory for every block costs a tenth of a fast run, in page faults and collections. So a reader uses a block
 * again once nobody holds it. A request for the bytes of a line after that gets an error, never other bytes.
 */
export interface Lease {
  /** lines of the block that were not let go yet, and whoever else needs its bytes */
  holders: number;
  /** the block has been used again */
  over: boolean;
}

/** Where a line was read; `number` is the line's in its input, from 1, or the result's in a document. */
export interface LineOrigin extends Origin {
  number: number;
  source?: InputLabels;
}

/** What an input says of all its lines. */
export interface InputLabels {
  /** the file, or `stdin` */
  name: string;
  /** of a document: the ordering in the metadata before its results, as found */
  ordering?: unknown;
  /** of a document: the metadata before its results, as found; of another document another object */
  metadata?: unknown;
}

const origins = new WeakMap<object, LineOrigin>();

export function remember(line: object, origin: LineOrigin): void {
  origins.set(line, origin);
  if (origin.lease) origin.lease.holders += 1;
}

export function originOf(line: object): LineOrigin | undefined {
  const origin = origins.get(line);
  if (origin?.lease?.over) throw new Error('the bytes of a line were asked for after it had been let go');
  return origin;
}

/** The line needs its bytes no more: they were written, or another line took its place. */
export function letGo(line: object): void {
  const origin = origins.get(line);
  if (!origin?.lease || origin.gone) return;
  origin.gone = true;
  origin.lease.holders -= 1;
}

/** Asking stages forget at entry: a kept line would pin its whole block for as long as the item is in flight. */
export function forget(line: object): void {
  letGo(line);
  origins.delete(line);
}

/** Where an item that was made of a row can be made again, for who holds many and has no room for them. */
export interface MadeOf {
  file: { again(place: Omit<MadeOf, 'file'>): object };
  /** bytes of the file */
  at: number;
  length: number;
  row: number;
}

const made = new WeakMap<object, MadeOf>();

export function rememberMade(item: object, of: MadeOf): void {
  made.set(item, of);
}

export function madeOf(item: object): MadeOf | undefined {
  return made.get(item);
}

const results = new WeakSet<object>();

export function rememberResult(line: object): void {
  results.add(line);
}

/** Whether the line stood in the `results` of a document, and so claims to be a legacy result. */
export function isFromDocument(line: object): boolean {
  return results.has(line);
}

export function textOf({ block, from, to }: Origin): string {
  return block.toString('utf8', from, to).trimEnd();
}
