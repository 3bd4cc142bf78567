/** Texts put aside on disk, to be read again in another order: for outputs that are sorted and longer than memory. */
import { closeSync } from 'node:fs';
import { writeWhole } from './ndjson-out.ts';
import { openUnnamed, readBack } from './unnamed-file.ts';

export interface Aside {
  readonly count: number;
  /** Texts of the same rank stay in their order. Throws (74) where the disk is full. */
  add(rank: number, text: string): void;
  /** The texts by rank, as UTF-8. */
  sorted(): Generator<Buffer>;
  close(): void;
}

/** Bytes that leave in one write. */
const ROOM = 256 * 1024;

/** A file in `folder` that loses its name at once, so that nothing of it stays whatever becomes of the process. */
export function openAside(folder: string): Aside {
  const fd = openUnnamed(folder, 'results');

  let ranks = new Float64Array(1024);
  let offsets = new Float64Array(1025); // the next text begins where one ends
  let count = 0;
  let safe = 0; // texts that the system has taken
  let waiting: Buffer[] = [];
  let waitingBytes = 0;

  return {
    get count() {
      return count;
    },
    add(rank, text) {
      if (count === ranks.length) grow();
      const bytes = Buffer.from(text);
      ranks[count] = rank;
      offsets[count + 1] = (offsets[count] as number) + bytes.length;
      count += 1;
      waiting.push(bytes);
      waitingBytes += bytes.length;
      if (waitingBytes >= ROOM) flush();
    },
    *sorted() {
      flush();
      const order = new Uint32Array(count);
      for (let index = 0; index < count; index++) order[index] = index;
      // two that have no rank differ by NaN
      order.sort((a, b) => (ranks[a] as number) - (ranks[b] as number) || a - b);
      for (const index of order) {
        const offset = offsets[index] as number;
        const length = (offsets[index + 1] as number) - offset;
        yield readBack(fd, offset, length);
      }
    },
    close: () => closeSync(fd),
  };

  /** What could not be written is not there: what is counted can be read. */
  function flush(): void {
    const bytes = Buffer.concat(waiting);
    waiting = [];
    waitingBytes = 0;
    try {
      writeWhole(fd, bytes, `results put aside in ${folder}`);
      safe = count;
    } finally {
      count = safe;
    }
  }

  function grow(): void {
    ranks = larger(ranks, ranks.length * 2);
    offsets = larger(offsets, ranks.length + 1);
  }
}

function larger(from: Float64Array, length: number): Float64Array<ArrayBuffer> {
  const to = new Float64Array(length);
  to.set(from);
  return to;
}
