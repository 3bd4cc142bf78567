/**
 * The batches of a server: DIR/batches/<id>/state.json, replaced whole at each change before anybody is told of it. Beside
 * it are the input (a link to the uploaded file, which may be deleted meanwhile), the ledger, and the lines that are being
 * written. One without a state.json was never answered for, and is removed at the start.
 */
import { copyFileSync, existsSync, linkSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import {
  DISK,
  type Disk,
  makeFolder,
  OWNER_ONLY,
  readKept,
  removeUnfinished,
  replaceFile,
  syncFolder,
} from '../../../engine/core/files/durable.ts';
import { ioError } from '../../../engine/core/item/failure.ts';
import { BATCH_ID, noteId } from '../ids.ts';
import { createOwned } from '../owned.ts';
import { type BatchRecord, isFinal, STATUSES } from './batch-state.ts';

export interface BatchStore {
  /** oldest first */
  all(): BatchRecord[];
  list(owner: string): BatchRecord[];
  /** of an owner, or of all (null); oldest first */
  ids(owner: string | null): readonly string[];
  /** those that have not ended, oldest first */
  open(): BatchRecord[];
  /** null where there is none, or it is another owner's */
  get(owner: string, id: string): BatchRecord | null;
  of(id: string): BatchRecord;
  folderOf(id: string): string;
  inputOf(id: string): string;
  /** Makes its folder with its input, and then its state. */
  create(record: BatchRecord, input: string): void;
  /** Throws the error of the disk; what was there is then there still. */
  save(record: BatchRecord): void;
  /** What has been seen of it by now, for as long as this process lives: the disk may take nothing. */
  remember(record: BatchRecord): void;
  /** Whether something is remembered that is not on disk. */
  isBehind(id: string): boolean;
  /** Removes what only a batch that runs needs; its ledger stays. */
  clean(id: string): void;
}

const STATE = 'state.json';
const INPUT = 'input.jsonl';

export function openBatches(
  data: string,
  { say, disk = DISK }: { say(message: string): void; disk?: Disk },
): BatchStore {
  const root = join(data, 'batches');
  makeFolder(root, OWNER_ONLY.folder);
  const known = createOwned<BatchRecord>();
  const open = new Set<string>();
  const behind = new Set<string>();
  const folderOf = (id: string): string => join(root, id);
  for (const id of readdirSync(root)
    .filter(name => BATCH_ID.test(name))
    .sort())
    load(id);

  function load(id: string): void {
    const folder = folderOf(id);
    const path = join(folder, STATE);
    if (!existsSync(path)) return rmSync(folder, { recursive: true, force: true });
    removeUnfinished(folder);
    const record = readRecord(path, id);
    if (record === null)
      say(`${path}: expected the state of a batch, found something else; the batch is left out`);
    else {
      note(record);
      noteId(id);
      if (isFinal(record.status)) clean(id);
    }
  }

  const of = (id: string): BatchRecord => known.get(id) as BatchRecord;

  function clean(id: string): void {
    const folder = folderOf(id);
    for (const name of readdirSync(folder))
      if (name !== STATE && name !== 'ledger') rmSync(join(folder, name), { recursive: true, force: true });
  }

  function save(record: BatchRecord): void {
    replaceFile(join(folderOf(record.id), STATE), JSON.stringify(record), disk);
    behind.delete(record.id);
    note(record);
  }

  function note(record: BatchRecord): void {
    known.set(record);
    if (isFinal(record.status)) open.delete(record.id);
    else open.add(record.id);
  }

  return {
    all: () => [...known.values()],
    list: owner => known.ids(owner).map(of),
    ids: known.ids,
    open: () => [...open].map(of),
    get(owner, id) {
      const record = known.get(id);
      return record?.owner === owner ? record : null;
    },
    of,
    folderOf,
    inputOf: id => join(folderOf(id), INPUT),
    create(record, input) {
      const folder = folderOf(record.id);
      try {
        makeFolder(folder, OWNER_ONLY.folder);
        linked(input, join(folder, INPUT));
        save(record);
        syncFolder(root, disk);
      } catch (error) {
        known.delete(record.id);
        open.delete(record.id);
        rmSync(folder, { recursive: true, force: true });
        throw error;
      }
    },
    save,
    remember(record) {
      if (JSON.stringify(record) !== JSON.stringify(of(record.id))) behind.add(record.id);
      note(record);
    },
    isBehind: id => behind.has(id),
    clean,
  };
}

/** A second name of the same bytes; a copy where the file system has no such names. */
export function linked(from: string, to: string): void {
  rmSync(to, { force: true });
  try {
    linkSync(from, to);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOSPC') throw error;
    copyFileSync(from, to);
  }
}

function readRecord(path: string, id: string): BatchRecord | null {
  let text: string;
  try {
    text = readKept(path).toString();
  } catch (error) {
    throw ioError(`expected to read ${path}, found ${(error as Error).message}`);
  }
  try {
    const record = JSON.parse(text) as BatchRecord;
    const isOne = record?.id === id && typeof record.owner === 'string' && STATUSES.includes(record.status);
    return isOne ? record : null;
  } catch {
    return null;
  }
}
