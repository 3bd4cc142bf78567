/**
 * The batches of a server: DIR/batches/<id>/state.json, replaced whole at each change before anybody is told of it. Beside
 * it are the input (a link to the uploaded file, which may be deleted meanwhile), the ledger, and the lines that are being
 * written. One without a state.json was never answered for, and is removed at the start. One that was deleted is
 * <id>.gone until all that it had is removed.
 */
import { copyFileSync, existsSync, linkSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import {
  DISK,
  type Disk,
  makeFolder,
  OWNER_ONLY,
  removeUnfinished,
  replaceFile,
  syncFolder,
} from '../../../engine/core/files/durable.ts';
import type { Say } from '../../../engine/core/item/say.ts';
import { BATCH_ID, noteId } from '../ids.ts';
import { removeFolder } from '../keep/folder-bytes.ts';
import { createOwned } from '../owned.ts';
import { readRecord } from '../small-files.ts';
import { type BatchRecord, isFinal, STATUSES } from './batch-state.ts';

const STATE = 'state.json';
const INPUT = 'input.jsonl';
const LEDGER = 'ledger';
const GONE = '.gone';

export class BatchStore {
  readonly #root: string;
  /** by which it changes what is kept */
  readonly disk: Disk;
  readonly #records = createOwned<BatchRecord>();
  /** ids of those that have not ended, and of those that are remembered otherwise than they are on disk */
  readonly #open = new Set<string>();
  readonly #behind = new Set<string>();

  /** oldest first */
  readonly all = (): BatchRecord[] => [...this.#records.values()];
  readonly list = (owner: string): BatchRecord[] => this.ids(owner).map(this.of);
  /** of an owner, or of all (null); oldest first */
  readonly ids = (owner: string | null): readonly string[] => this.#records.ids(owner);
  readonly ended = (): BatchRecord[] => this.all().filter(({ status }) => isFinal(status));
  /** those that have not ended, oldest first */
  readonly open = (): BatchRecord[] => [...this.#open].map(this.of);
  readonly of = (id: string): BatchRecord => this.#records.get(id) as BatchRecord;
  readonly folderOf = (id: string): string => join(this.#root, id);
  readonly inputOf = (id: string): string => join(this.folderOf(id), INPUT);
  /** Whether something is remembered that is not on disk. */
  readonly isBehind = (id: string): boolean => this.#behind.has(id);

  readonly #onMoved: (record: BatchRecord) => void;

  /** `onMoved` is told each record that is on disk with another status than before. */
  constructor(
    data: string,
    {
      say,
      disk = DISK,
      onMoved = () => {},
    }: { say: Say; disk?: Disk; onMoved?: (record: BatchRecord) => void },
  ) {
    this.#onMoved = onMoved;
    this.#root = join(data, 'batches');
    this.disk = disk;
    makeFolder(this.#root, OWNER_ONLY.folder);
    const ids = readdirSync(this.#root).filter(name => BATCH_ID.test(name));
    for (const id of ids.sort()) this.#load(id, say);
  }

  /** Those that were deleted, of which not all is removed. One whose state is gone, too, has no record. */
  leaving(): { id: string; record: BatchRecord | null }[] {
    const ids = readdirSync(this.#root).filter(name => name.endsWith(GONE));
    return ids.map(name => {
      const path = join(this.#root, name, STATE);
      const record = existsSync(path) ? readRecord<BatchRecord>(path, isBatch) : null;
      return { id: name.slice(0, -GONE.length), record };
    });
  }

  /** Takes a batch away, in one step: it is not there from then on, also after a crash. */
  leave(id: string): void {
    this.disk.rename(this.folderOf(id), this.folderOf(id) + GONE);
    this.#records.delete(id);
    this.#open.delete(id);
    this.#behind.delete(id);
    syncFolder(this.#root, this.disk);
  }

  /** Removes what there still is of one that was taken away. */
  async removeRest(id: string): Promise<void> {
    await removeFolder(this.folderOf(id) + GONE);
    syncFolder(this.#root, this.disk);
  }

  /** Removes the ledger of one whose record says so already. */
  async removeLedger(id: string): Promise<void> {
    await removeFolder(join(this.folderOf(id), LEDGER));
    syncFolder(this.folderOf(id), this.disk);
  }

  /** null where there is none, or it is another owner's */
  get(owner: string, id: string): BatchRecord | null {
    const record = this.#records.get(id);
    return record?.owner === owner ? record : null;
  }

  /** Makes its folder with its input, and then its state. */
  create(record: BatchRecord, input: string): void {
    const { id } = record;
    const folder = this.folderOf(id);
    try {
      makeFolder(folder, OWNER_ONLY.folder);
      linked(input, join(folder, INPUT));
      this.save(record);
      syncFolder(this.#root, this.disk);
    } catch (error) {
      this.#records.delete(id);
      this.#open.delete(id);
      rmSync(folder, { recursive: true, force: true });
      throw error;
    }
  }

  /** Whether its input is there. In a copy that was made while it ended it may not be: it is then taken from `file` again. */
  hasInput({ id }: BatchRecord, file: string): boolean {
    const input = this.inputOf(id);
    if (existsSync(input)) return true;
    if (!existsSync(file)) return false;
    linked(file, input);
    return true;
  }

  /** Throws the error of the disk; what was there is then there still. */
  save(record: BatchRecord): void {
    replaceFile(join(this.folderOf(record.id), STATE), JSON.stringify(record), this.disk);
    const before = this.#records.get(record.id)?.status;
    this.#behind.delete(record.id);
    this.#note(record);
    if (record.status !== before) this.#onMoved(record);
  }

  /** What has been seen of it by now, for as long as this process lives: the disk may take nothing. */
  remember(record: BatchRecord): void {
    if (JSON.stringify(record) !== JSON.stringify(this.of(record.id))) this.#behind.add(record.id);
    this.#note(record);
  }

  /** Removes what only a batch that runs needs; its ledger stays, unless it is forgotten. */
  clean(id: string): void {
    const folder = this.folderOf(id);
    const isForgotten = typeof this.of(id).forgotten === 'number';
    for (const name of readdirSync(folder))
      if (name !== STATE && (name !== LEDGER || isForgotten))
        rmSync(join(folder, name), { recursive: true, force: true });
  }

  #note(record: BatchRecord): void {
    this.#records.set(record);
    if (isFinal(record.status)) this.#open.delete(record.id);
    else this.#open.add(record.id);
  }

  #load(id: string, say: Say): void {
    const folder = this.folderOf(id);
    const path = join(folder, STATE);
    if (!existsSync(path)) return rmSync(folder, { recursive: true, force: true });
    removeUnfinished(folder);
    const record = readRecord<BatchRecord>(path, one => isBatch(one) && one?.id === id);
    if (record === null)
      return say(
        `${path}: expected the state of a batch, found something else; the batch is left out, and its folder kept: ` +
          'restore that file and start again',
        { event: 'file-ignored', level: 'error', batch: id },
      );
    this.#note(record);
    noteId(id);
    if (isFinal(record.status)) this.clean(id);
  }
}

const isBatch = (one: BatchRecord | null): boolean =>
  BATCH_ID.test(one?.id ?? '') && typeof one?.owner === 'string' && STATUSES.includes(one.status);

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
