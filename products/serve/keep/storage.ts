/**
 * How much an owner has on the disk of a server: files, and what its batches have (ledgers, shards, lines that are being
 * written). What a key may have is asked before something new is taken; outputs of batches that run are written in any case.
 */
import { counted } from '../../../engine/core/item/wording.ts';
import type { KeyRules } from '../access.ts';
import { type BatchRecord, isFinal } from '../batches/batch-state.ts';
import type { BatchStore } from '../batches/batch-store.ts';
import { ApiError, comeAgain } from '../errors.ts';
import type { FileStore } from '../file-store.ts';
import { bytesIn } from './folder-bytes.ts';
import { bytesWords } from './keep-settings.ts';

/** ms that what a batch that runs has is taken for what it had */
const FRESH = 10_000;
/** seconds after which a batch may have ended */
const AGAIN = 60;

export class Storage {
  readonly #files: FileStore;
  readonly #store: BatchStore;
  readonly #elapsed: () => number;
  /** bytes by batch: of one that has ended they stay as they are */
  readonly #known = new WeakMap<BatchRecord, number>();
  readonly #open = new Map<string, { at: number; bytes: number }>();

  constructor(files: FileStore, store: BatchStore, elapsed: () => number = () => performance.now()) {
    this.#files = files;
    this.#store = store;
    this.#elapsed = elapsed;
  }

  /** bytes of its folder */
  ofBatch(record: BatchRecord): number {
    if (!isFinal(record.status)) return this.#ofOpen(record.id);
    this.#open.delete(record.id);
    const known = this.#known.get(record);
    if (known !== undefined) return known;
    const bytes = bytesIn(this.#store.folderOf(record.id));
    this.#known.set(record, bytes); // one that changes is another record
    return bytes;
  }

  /** Looks at the folders of some ended batches that it does not know yet; whether it knows all of these then. */
  knows(ended: readonly BatchRecord[], most: number): boolean {
    const unknown = ended.filter(record => !this.#known.has(record));
    for (const record of unknown.slice(0, most)) this.ofBatch(record);
    return unknown.length <= most;
  }

  of(owner: string): number {
    const batches = this.#store.list(owner).map(record => this.ofBatch(record));
    return batches.reduce((sum, bytes) => sum + bytes, this.#files.bytesOf(owner));
  }

  /** 413 where so many bytes more, or any where it is 0, are beyond what the key may have. */
  refuse(owner: string, { storage }: KeyRules, more: number): void {
    if (storage === undefined) return;
    const has = this.of(owner);
    if (more === 0 ? has < storage : has + more <= storage) return;
    throw new ApiError(
      413,
      `This key may store ${bytesWords(storage)}, and ${owner} has ${bytesWords(has)}` +
        `${more === 0 ? '' : `; this needs ${bytesWords(more)} more`}. ` +
        'Nothing was kept. Delete files or ended batches (DELETE /v1/files/ID, DELETE /v1/batches/ID), and try again.',
      { code: 'storage_limit_exceeded' },
    );
  }

  /** 429 where the key may have no further batch that has not ended. */
  refuseBatch(owner: string, { batches }: KeyRules): void {
    if (batches === undefined) return;
    const open = this.#store.open().filter(one => one.owner === owner).length;
    if (open < batches) return;
    throw comeAgain(
      429,
      `Rate limit reached: this key may have ${counted(batches, 'batch', 'batches')} that ${batches === 1 ? 'has' : 'have'} not ended, and ${owner} has ${open}. ` +
        'Try again when one has ended, or cancel one.',
      'batch_limit_exceeded',
      AGAIN,
      { type: 'requests' },
    );
  }

  #ofOpen(id: string): number {
    const known = this.#open.get(id);
    const now = this.#elapsed();
    if (known !== undefined && now - known.at < FRESH) return known.bytes;
    const bytes = bytesIn(this.#store.folderOf(id));
    this.#open.set(id, { at: now, bytes });
    return bytes;
  }
}
