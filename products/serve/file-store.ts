/**
 * The files of a server: DIR/files/<id>.data with the bytes, and <id>.json, which says what it is. A file is there when
 * its .json is: that is written last and removed first. What a killed process left without one is removed at the start.
 */
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import {
  DISK,
  type Disk,
  makeFolder,
  OWNER_ONLY,
  placeFile,
  removeFile,
  removeUnfinished,
  replaceFile,
} from '../../engine/core/files/durable.ts';
import type { Say } from '../../engine/core/item/say.ts';
import { FILE_ID, noteId } from './ids.ts';
import { createOwned } from './owned.ts';
import { readRecord } from './small-files.ts';

export type Purpose = 'batch' | 'batch_output';

export interface FileRecord {
  id: string;
  owner: string;
  filename: string;
  purpose: Purpose;
  bytes: number;
  /** Unix seconds */
  created_at: number;
  expires_at: number;
}

/** Exit 74 where the folder cannot be read. */
export function openFiles(data: string, { now, say, disk = DISK }: { now(): number; say: Say; disk?: Disk }) {
  const folder = join(data, 'files');
  makeFolder(folder, OWNER_ONLY.folder);
  const known = createOwned<FileRecord>();
  const metaOf = (id: string): string => join(folder, `${id}.json`);
  /** where its bytes are */
  const pathOf = (id: string): string => join(folder, `${id}.data`);
  /** where to write the bytes of a file that is to be added; what is left there is removed at the next start */
  const spoolOf = (id: string): string => join(folder, `${id}.spool`);
  load();

  function load(): void {
    removeUnfinished(folder);
    const names = readdirSync(folder).sort();
    for (const name of names.filter(each => each.endsWith('.json'))) {
      const id = name.slice(0, -'.json'.length);
      const record = readRecord<FileRecord>(metaOf(id), one => isOne(one, id, pathOf(id)));
      if (record === null)
        say(
          `${join(folder, name)}: expected a file of this server, found something else; it is left as it is`,
          { event: 'file-ignored', level: 'error' },
        );
      else {
        known.set(record);
        noteId(record.id);
      }
    }
    for (const name of names) {
      const [id = '', ending] = name.split('.');
      if (ending === 'spool' || (ending === 'data' && known.get(id) === undefined))
        disk.remove(join(folder, name));
    }
  }

  const isOver = ({ expires_at }: FileRecord): boolean => expires_at * 1000 <= now();

  /** null where there is none, or it is another owner's */
  function get(owner: string, id: string): FileRecord | null {
    const record = known.get(id);
    return record === undefined || record.owner !== owner || isOver(record) ? null : record;
  }

  function remove(id: string): void {
    known.delete(id);
    removeFile(metaOf(id), disk);
    removeFile(pathOf(id), disk);
  }

  return {
    /** of an owner, oldest first; without those whose time is over */
    list: (owner: string): FileRecord[] => known.ids(owner).flatMap(id => get(owner, id) ?? []),
    /** the same, and those whose time is over */
    ids: (owner: string): readonly string[] => known.ids(owner),
    get,
    /** of whatever is kept, also where its time is over */
    kept: (id: string): FileRecord | null => known.get(id) ?? null,
    pathOf,
    spoolOf,
    /** Takes the finished file at `spoolOf(id)`, which was forced to disk. One that is there is replaced. */
    add(record: FileRecord): void {
      placeFile(spoolOf(record.id), pathOf(record.id), disk);
      replaceFile(metaOf(record.id), JSON.stringify(record), disk);
      known.set(record);
    },
    /** Removes what is left at `spoolOf(id)`. */
    discard: (id: string): void => disk.remove(spoolOf(id)),
    remove,
    /** bytes of all files of an owner */
    bytesOf: (owner: string): number =>
      known.ids(owner).reduce((sum, id) => sum + (known.get(id)?.bytes ?? 0), 0),
    /** Removes what has expired, at most so many; what it was. */
    sweep(most = Number.POSITIVE_INFINITY): FileRecord[] {
      const over: FileRecord[] = [];
      for (const record of known.values()) {
        if (over.length >= most) break;
        if (isOver(record)) over.push(record);
      }
      for (const { id } of over) remove(id);
      return over;
    },
  };
}

export type FileStore = ReturnType<typeof openFiles>;

/** Whether it is a record of `id`, whose bytes are at `path`. */
function isOne(record: FileRecord | null, id: string, path: string): boolean {
  if (!FILE_ID.test(id) || record?.id !== id || typeof record.owner !== 'string') return false;
  if (!Number.isInteger(record.bytes)) return false;
  return statSync(path, { throwIfNoEntry: false })?.size === record.bytes;
}
