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
}

const origins = new WeakMap<object, Origin>();

export function remember(line: object, origin: Origin): void {
  origins.set(line, origin);
}

export function originOf(line: object): Origin | undefined {
  return origins.get(line);
}

/** Asking stages forget at entry: a kept line would pin its whole block for as long as the item is in flight. */
export function forget(line: object): void {
  origins.delete(line);
}

export function textOf({ block, from, to }: Origin): string {
  return block.toString('utf8', from, to).trimEnd();
}
