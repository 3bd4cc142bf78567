/**
 * Bytes that come in pieces and are wanted whole. A piece is a Buffer of its own, which takes some 200 bytes beside its
 * content: whoever sends one byte at a time would make 16 MiB of them several gigabytes. So small pieces are copied
 * together, and what is held is at most about twice what came.
 */

/** Bytes from which a piece is kept as it is. */
const LARGE = 16 * 1024;
/** Bytes of the first room that small pieces are copied into; each further one is as large as all before it … */
const FIRST_ROOM = 4 * 1024;
/** … but no larger than this. */
const LARGEST_ROOM = 256 * 1024;

export interface Pieces {
  add(piece: Buffer): void;
  /** of all that was added */
  readonly bytes: number;
  /** All of it, in one Buffer; it is empty after that. One piece alone is given back as it came. */
  take(): Buffer;
}

export function createPieces(): Pieces {
  let whole: Buffer[] = [];
  let bytes = 0;
  let room: Buffer = Buffer.alloc(0);
  let used = 0;
  /** the only one so far, not copied yet */
  let first: Buffer | null = null;

  function endRoom(): void {
    if (used > 0) whole.push(room.subarray(0, used));
    room = room.subarray(used);
    used = 0;
  }

  function keep(piece: Buffer): void {
    if (piece.length >= LARGE) {
      endRoom();
      whole.push(piece);
      return;
    }
    let at = 0;
    while (at < piece.length) {
      if (used === room.length) {
        endRoom();
        room = Buffer.allocUnsafe(Math.min(LARGEST_ROOM, Math.max(FIRST_ROOM, bytes)));
      }
      const copied = piece.copy(room, used, at);
      used += copied;
      at += copied;
    }
  }

  return {
    add(piece) {
      if (piece.length === 0) return;
      if (bytes === 0) first = piece;
      else {
        if (first !== null) keep(first);
        first = null;
        keep(piece);
      }
      bytes += piece.length;
    },
    get bytes() {
      return bytes;
    },
    take() {
      if (first === null) endRoom();
      const all = first ?? (whole.length === 1 ? (whole[0] as Buffer) : Buffer.concat(whole, bytes));
      whole = [];
      first = null;
      bytes = 0;
      room = Buffer.alloc(0);
      return all;
    },
  };
}
