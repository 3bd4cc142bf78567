/**
 * What became of the parts of a work: FOLDER/done/ROOT.PART, made once and for all. The first line says which lines it has
 * and which parts follow it; behind it are the lines. Whoever makes the file first has closed the part: `link` is exclusive
 * (on NFS too), so a second result, and one of a part that was cut meanwhile, finds the name taken.
 */
import { closeSync, readdirSync, readSync } from 'node:fs';
import { join } from 'node:path';
import {
  makeFolder,
  OWNER_ONLY,
  openKept,
  readKept,
  removeUnfinished,
  writeOnce,
} from '../../engine/core/files/durable.ts';
import type { AskedTotals } from '../../engine/core/item/account.ts';
import { dataError } from '../../engine/core/item/failure.ts';

/** Lines of a shard, counted from 0. */
export type Ordinals = readonly number[];

export interface Done {
  root: number;
  part: number;
  /** the lines that it has, in this order */
  answered: Ordinals;
  /** what is left of it, as new parts */
  into: { part: number; lines: Ordinals }[];
  /** who did it; null for the coordinator */
  worker: string | null;
  asked: AskedTotals | null;
  model: string | null;
}

export interface DoneBook {
  /** False where the part was closed before. Throws what the disk says. */
  close(done: Done, lines: readonly Buffer[]): boolean;
  /** all that is there, without lines */
  all(): Done[];
  /** the lines of `done` */
  linesOf(done: Done): Buffer;
}

/** bytes of a first line are read in pieces of this */
const PIECE = 8 * 1024;

export function openDone(work: string): DoneBook {
  const folder = join(work, 'done');
  makeFolder(folder, OWNER_ONLY.folder);
  removeUnfinished(folder);
  const pathOf = ({ root, part }: Pick<Done, 'root' | 'part'>): string => join(folder, `${root}.${part}`);

  return {
    close(done, lines) {
      return writeOnce(pathOf(done), Buffer.concat([Buffer.from(`${JSON.stringify(done)}\n`), ...lines]));
    },
    all: () => readdirSync(folder).map(name => readHead(join(folder, name))),
    linesOf(done) {
      const bytes = readKept(pathOf(done));
      return bytes.subarray(bytes.indexOf(0x0a) + 1);
    },
  };
}

function readHead(path: string): Done {
  const fd = openKept(path);
  let head = Buffer.alloc(0);
  try {
    for (;;) {
      const piece = Buffer.allocUnsafe(PIECE);
      const got = readSync(fd, piece, 0, PIECE, head.length);
      head = Buffer.concat([head, piece.subarray(0, got)]);
      const end = head.indexOf(0x0a);
      if (end >= 0) return JSON.parse(head.toString('utf8', 0, end)) as Done;
      if (got === 0) throw new Error('no whole first line');
    }
  } catch (error) {
    throw dataError(`${path}: expected a result that fw wrote, found ${(error as Error).message}`);
  } finally {
    closeSync(fd);
  }
}
