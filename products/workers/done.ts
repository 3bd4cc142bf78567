/**
 * What became of the parts of a work: FOLDER/done/ROOT.PART, made once and for all. The first line says which lines it has
 * and which parts follow it; behind it are the lines. Whoever makes the file first has closed the part: `link` is exclusive
 * (on NFS too), so a second result, and one of a part that was cut meanwhile, finds the name taken.
 */
import { randomBytes } from 'node:crypto';
import { closeSync, fsyncSync, linkSync, openSync, readdirSync, readSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { OWNER_ONLY, openKept, readKept, syncFolder } from '../../engine/core/files/durable.ts';
import { makeFolder } from '../../engine/core/files/make-folders.ts';
import { writeWhole } from '../../engine/core/files/ndjson-out.ts';
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

const UNFINISHED = '.unfinished';
/** bytes of a first line are read in pieces of this */
const PIECE = 8 * 1024;

export function openDone(work: string): DoneBook {
  const folder = join(work, 'done');
  makeFolder(folder, OWNER_ONLY.folder);
  for (const name of readdirSync(folder))
    if (name.endsWith(UNFINISHED)) rmSync(join(folder, name), { force: true });
  const pathOf = ({ root, part }: Pick<Done, 'root' | 'part'>): string => join(folder, `${root}.${part}`);

  return {
    close(done, lines) {
      const path = pathOf(done);
      const beside = `${path}.${randomBytes(4).toString('hex')}${UNFINISHED}`;
      try {
        const fd = openSync(beside, 'wx', OWNER_ONLY.file);
        try {
          writeWhole(fd, Buffer.concat([Buffer.from(`${JSON.stringify(done)}\n`), ...lines]), beside);
          fsyncSync(fd);
        } finally {
          closeSync(fd);
        }
        linkSync(beside, path);
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
        // over NFS the answer to our own link may be lost, and the second try finds the first
        if (statSync(beside).nlink !== 2) return false;
      } finally {
        rmSync(beside, { force: true });
      }
      syncFolder(folder);
      return true;
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
