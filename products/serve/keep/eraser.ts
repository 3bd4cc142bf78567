/**
 * Taking away what a server keeps, with all prompts and answers. What its calls used is added up first, so that it can still be
 * billed (spent.ts). Then a batch is renamed: that is the step after which it is gone. What it had is removed then, or by the
 * next start, so that a kill in between leaves nothing that is half there.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { ledgerFiles } from '../../../engine/asking/ledger/read-ledger.ts';
import { isFull, replaceFile } from '../../../engine/core/files/durable.ts';
import { counted } from '../../../engine/core/item/wording.ts';
import { isObject } from '../../../engine/core/json/pointer.ts';
import { alikeIn } from '../../records/cost-by.ts';
import { appendRemoved, type Removed, removedIn } from '../../records/spent.ts';
import { type Outcomes, outcomesOf } from '../batches/batch-output.ts';
import { type BatchRecord, isFinal } from '../batches/batch-state.ts';
import type { BatchStore } from '../batches/batch-store.ts';
import { badRequest } from '../errors.ts';
import type { FileRecord, FileStore } from '../file-store.ts';
import type { Parts } from '../server-context.ts';
import { recalled } from '../small-files.ts';
import { bytesIn } from './folder-bytes.ts';

export interface Erased {
  /** those that went with the batch */
  files: string[];
  bytes: number;
  /** the input, where another batch needs it; and that batch */
  kept: { input: string; batch: string } | null;
}

/** Of batches that are gone, so that counters never fall; and those of them whose files may still be there. */
interface Gone {
  batches: number;
  items: Outcomes;
  leaving: string[];
}

const NONE: Gone = { batches: 0, items: { completed: 0, failed: 0, refused: 0, not_asked: 0 }, leaving: [] };

type EraserParts = Pick<Parts, 'data' | 'say' | 'now'> & { journal: Pick<Parts['journal'], 'flush'> };

export class Eraser {
  readonly #parts: EraserParts;
  readonly #files: FileStore;
  readonly #store: BatchStore;
  readonly #path: string;
  #gone: Gone;
  /** by id, while they are under way: nobody removes one twice */
  readonly #erasing = new Map<string, Promise<Omit<Erased, 'kept'>>>();
  /** ledgers that are added up; null until somebody asks. And what a full disk did not take of it. */
  #summed: Set<string> | null = null;
  #owed: Removed[] = [];

  constructor(parts: EraserParts, { files, store }: { files: FileStore; store: BatchStore }) {
    this.#parts = parts;
    this.#files = files;
    this.#store = store;
    this.#path = join(parts.data, 'gone.json');
    this.#gone = goneIn(this.#path);
  }

  /** lines of batches that are gone, by outcome */
  get items(): Outcomes {
    return this.#gone.items;
  }

  /** Goes on with what an earlier server had begun. */
  async finish(): Promise<void> {
    for (const { id, record } of this.#store.leaving()) {
      // an earlier version did not
      await this.#sumUpBatch(id, `${this.#store.folderOf(id)}.gone`);
      if (record !== null) {
        this.#count(record);
        // it was deleted by somebody or for its bytes: else its files are to stay for as long as they were to
        for (const file of record.leaving ?? []) this.#removeFile(file);
      }
      await this.#removeRest(id);
    }
  }

  /**
   * An ended batch and what it has: ledger, output and error file, and its input, unless another batch of its owner names
   * that. 400 for one that has not ended. Throws what the disk says.
   */
  async batch(record: BatchRecord): Promise<Erased> {
    const { id, status, owner, input_file_id } = record;
    if (!isFinal(status))
      throw badRequest(
        `Cannot delete a batch with status '${status}': cancel it first (POST /v1/batches/${id}/cancel), and delete it once it is 'cancelled'.`,
        null,
        'invalid_status',
      );
    const other = this.#store.list(owner).find(one => one.input_file_id === input_file_id && one.id !== id);
    const isInput = this.#files.kept(input_file_id)?.owner === owner;
    const named = [...outputsOf(record), ...(other === undefined && isInput ? [input_file_id] : [])];
    const erased = await this.#erase(record, named);
    const kept = other && isInput ? { input: input_file_id, batch: other.id } : null;
    return { ...erased, kept };
  }

  /** The same for its time is over: files have an end of their own, and stay until then. */
  overdue = (record: BatchRecord): Promise<Omit<Erased, 'kept'>> => this.#erase(record, []);
  /** The same for there is too much: its outputs go as well. */
  excess = (record: BatchRecord): Promise<Omit<Erased, 'kept'>> => this.#erase(record, outputsOf(record));

  #erase(record: BatchRecord, named: readonly string[]): Promise<Omit<Erased, 'kept'>> {
    const { id } = record;
    const known = this.#erasing.get(id);
    if (known !== undefined) return known;
    const erasing = this.#eraseOnce(record, named).finally(() => this.#erasing.delete(id));
    this.#erasing.set(id, erasing);
    return erasing;
  }

  async #eraseOnce(record: BatchRecord, named: readonly string[]): Promise<Omit<Erased, 'kept'>> {
    const { id } = record;
    await this.#sumUpBatch(id, this.#store.folderOf(id));
    const files = named.flatMap(file => this.#files.kept(file) ?? []);
    const bytes = bytesIn(this.#store.folderOf(id)) + files.reduce((sum, one) => sum + one.bytes, 0);
    // what was spent is counted by what is on record, until it is written down
    this.#parts.journal.flush();
    const ids = files.map(one => one.id);
    if (ids.length > 0 || record.leaving !== undefined) this.#note({ ...record, leaving: ids });
    this.#store.leave(id);
    this.#count(record);
    for (const file of ids) this.#removeFile(file);
    await this.#removeRest(id);
    this.#writeOwed(); // there is room now
    return { files: ids, bytes };
  }

  #sumUpBatch(id: string, folder: string): Promise<void> {
    const ledger = join(folder, 'ledger');
    return this.sumUp(`batches/${id}/ledger`, existsSync(ledger) ? ledgerFiles(ledger, () => {}) : []);
  }

  /**
   * Adds up what the files of a ledger say that is going to be removed, once, and has it on disk. `ledger`: its path below the
   * folder of the server. Throws what the disk says, but that it is full: removing is what makes room.
   */
  async sumUp(ledger: string, paths: readonly string[]): Promise<void> {
    this.#summed ??= new Set(removedIn(this.#parts.data).map(one => one.ledger));
    if (this.#summed.has(ledger)) return;
    const sums = await alikeIn(paths, slices());
    if (sums.length === 0 || this.#summed.has(ledger)) return;
    this.#summed.add(ledger);
    this.#owed.push({ ledger, sums });
    this.#writeOwed();
  }

  #writeOwed(): void {
    try {
      for (let [next] = this.#owed; next !== undefined; [next] = this.#owed) {
        appendRemoved(this.#parts.data, next);
        this.#owed.shift();
      }
    } catch (error) {
      if (!isFull(error)) {
        for (const { ledger } of this.#owed.splice(0)) this.#summed?.delete(ledger);
        throw error;
      }
      this.#parts.say(
        `what ${counted(this.#owed.length, 'removed ledger')} cost is not on disk, which is full: it is written once there is room`,
        { event: 'disk', level: 'warn' },
      );
    }
  }

  /** A full disk does not take even this, and deleting is what makes room: the files go first then. */
  #note(record: BatchRecord): void {
    try {
      this.#store.save(record);
    } catch (error) {
      if (!isFull(error)) throw error;
      for (const file of record.leaving ?? []) this.#removeFile(file);
    }
  }

  /**
   * A file was deleted by its owner. Of a batch that has ended the ledger has what its files had: it goes with the last of
   * them. The ids of those batches.
   */
  async afterFile({ id, owner }: FileRecord): Promise<string[]> {
    const forgotten: BatchRecord[] = [];
    for (const record of this.#store.list(owner)) {
      const isInput = record.input_file_id === id;
      if (!isFinal(record.status) || typeof record.forgotten === 'number') continue;
      if (!isInput && !outputsOf(record).includes(id)) continue;
      if (this.#isBare(record)) forgotten.push(record);
      else if (!isInput) this.#store.save({ ...record, forgotten: null });
    }
    for (const record of forgotten) await this.#forget(record);
    for (const record of forgotten)
      this.#parts.say(`the ledger of ${record.id} was removed: ${owner} has deleted its files`, {
        ...{ event: 'removed', batch: record.id, owner },
      });
    return forgotten.map(record => record.id);
  }

  /** Batches whose owner deleted a file of theirs, and whose last one is gone now; at most so many. */
  async forgetBare(most: number): Promise<string[]> {
    const all = this.#store.all().filter(one => one.forgotten === null && this.#isBare(one));
    const some = all.slice(0, most);
    for (const record of some) await this.#forget(record);
    return some.map(({ id }) => id);
  }

  /** None of its files is there. */
  #isBare(record: BatchRecord): boolean {
    const { owner, input_file_id } = record;
    return [input_file_id, ...outputsOf(record)].every(file => this.#files.get(owner, file) === null);
  }

  async #forget(record: BatchRecord): Promise<void> {
    await this.#sumUpBatch(record.id, this.#store.folderOf(record.id));
    if (this.#store.get(record.owner, record.id) === null) return; // deleted meanwhile
    this.#parts.journal.flush();
    // an example quotes what a server said, which may quote the prompt
    const failures = record.failures.map(group => ({ ...group, examples: [] }));
    const forgotten = Math.floor(this.#parts.now() / 1000);
    this.#store.save({ ...record, failures, forgotten });
    await this.#store.removeLedger(record.id);
  }

  #removeFile(id: string): void {
    if (this.#files.kept(id) !== null) this.#files.remove(id);
  }

  /** Once for each batch, whatever is killed in between. */
  #count(record: BatchRecord): void {
    const { batches, items, leaving } = this.#gone;
    if (leaving.includes(record.id)) return;
    const own = outcomesOf(record);
    this.#gone = {
      batches: batches + 1,
      items: {
        completed: items.completed + own.completed,
        failed: items.failed + own.failed,
        refused: items.refused + own.refused,
        not_asked: items.not_asked + own.not_asked,
      },
      leaving: [...leaving, record.id],
    };
    this.#keep();
  }

  async #removeRest(id: string): Promise<void> {
    await this.#store.removeRest(id);
    this.#gone = { ...this.#gone, leaving: this.#gone.leaving.filter(one => one !== id) };
  }

  /** What the disk does not take now is written with the next one. */
  #keep(): void {
    try {
      replaceFile(this.#path, JSON.stringify(this.#gone));
    } catch (error) {
      this.#parts.say(`${this.#path} could not be written: ${(error as Error).message}`, {
        ...{ event: 'disk', level: 'warn' },
      });
    }
  }
}

/** ms for which the process is held up at a time */
const SLICE = 5;

/** Called after each line: lets others have a turn now and then. */
function slices(): () => Promise<void> | null {
  let from = performance.now();
  return () => {
    if (performance.now() - from < SLICE) return null;
    return new Promise(resolve =>
      setImmediate(() => {
        from = performance.now();
        resolve();
      }),
    );
  };
}

const outputsOf = ({ outputs }: BatchRecord): string[] =>
  [outputs?.output, outputs?.error].filter((id): id is string => typeof id === 'string');

function goneIn(path: string): Gone {
  const isGone = (one: unknown): boolean =>
    isObject(one) && isObject(one.items) && Array.isArray(one.leaving);
  const read = recalled<Gone>(path, isGone);
  // an earlier version told fewer outcomes apart
  return read === null ? NONE : { ...read, items: { ...NONE.items, ...read.items } };
}
