/**
 * Retention: what `keep` of the config gives up, by age and by bytes, oldest first. Never a batch that has not ended, and of
 * the gateway's record never today: budgets are added up from it. A sweep does so much and no more; what is left comes a
 * moment later. Each says what it took.
 */
import { readdirSync, rmdirSync, rmSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { syncFolder } from '../../../engine/core/files/durable.ts';
import { counted } from '../../../engine/core/item/wording.ts';
import { type BatchRecord, endedAt } from '../batches/batch-state.ts';
import type { BatchStore } from '../batches/batch-store.ts';
import { isStopping } from '../errors.ts';
import type { FileStore } from '../file-store.ts';
import type { Parts } from '../server-context.ts';
import type { Eraser } from './eraser.ts';
import { bytesWords } from './keep-settings.ts';
import type { Storage } from './storage.ts';

/** ms between two sweeps, and until the next one where something is left */
const SWEEP = 60_000;
const SOON = 1_000;
/** What one sweep removes: each is some unlinks and syncs. */
const MOST_FILES = 100;
const MOST_BATCHES = 20;
const MOST_RECORD_FILES = 100;
/** Folders of batches whose bytes it counts: some 0.1 ms each. */
const MOST_LOOKED_AT = 500;

const DAY_NAME = /^\d{4}-\d{2}-\d{2}$/;
const DAY = 24 * 3_600_000;

interface Stores {
  files: FileStore;
  store: BatchStore;
  eraser: Eraser;
  storage: Storage;
}

export type RetentionParts = Pick<Parts, 'data' | 'settings' | 'now' | 'say'>;

export class Retention {
  readonly #parts: RetentionParts;
  readonly #stores: Stores;
  #timer: NodeJS.Timeout | undefined;
  #sweeping: Promise<unknown> = Promise.resolve();
  #isStopped = false;

  constructor(parts: RetentionParts, stores: Stores) {
    this.#parts = parts;
    this.#stores = stores;
  }

  /** Sweeps now and then until `stop`, which resolves when nothing is under way. */
  start(): void {
    this.#next(SOON);
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    clearTimeout(this.#timer);
    await this.#sweeping;
  }

  #next(ms: number): void {
    if (this.#isStopped) return;
    this.#timer = setTimeout(() => {
      this.#sweeping = this.sweep().then(
        isLeft => this.#next(isLeft ? SOON : SWEEP),
        error => {
          if (isStopping(error)) return;
          this.#parts.say(
            `what is over could not all be removed, and is tried again: ${(error as Error).message}`,
            { event: 'disk', level: 'warn' },
          );
          this.#next(SWEEP);
        },
      );
    }, ms).unref();
  }

  /** One sweep; whether something is left for the next one. */
  async sweep(): Promise<boolean> {
    const { eraser, files } = this.#stores;
    const over = files.sweep(MOST_FILES);
    this.#told('file', over.length, sumOf(over), 'their time is over');
    const bare = await eraser.forgetBare(MOST_BATCHES);
    if (bare.length > 0)
      this.#parts.say(
        `removed ${counted(bare.length, 'ledger')} of ended batches whose files are all deleted`,
        { event: 'removed', ledgers: bare.length },
      );
    const isMoreAged = await this.#aged();
    const isMoreExcess = await this.#excess();
    const isMoreRecord = await this.#record();
    const isMore = over.length === MOST_FILES || bare.length === MOST_BATCHES;
    return isMore || isMoreAged || isMoreExcess || isMoreRecord;
  }

  /** Batches that ended long ago. */
  async #aged(): Promise<boolean> {
    const { settings, now } = this.#parts;
    const { batches: age } = settings.keep;
    if (age === null) return false;
    const limit = (now() - age) / 1000;
    const over = this.#ended().filter(one => endedAt(one) <= limit);
    return this.#removeBatches(
      over,
      `they ended more than ${age / DAY} days ago`,
      this.#stores.eraser.overdue,
    );
  }

  /** Those beyond the bytes that all may have together, with their files. */
  async #excess(): Promise<boolean> {
    const { storage, files } = this.#stores;
    const { batchBytes: most } = this.#parts.settings.keep;
    if (most === null) return false;
    const ended = this.#ended();
    if (!storage.knows(ended, MOST_LOOKED_AT)) return true;
    const bytesOf = (record: BatchRecord): number => {
      const { output, error } = record.outputs ?? {};
      const own = [output, error].map(id => (id ? (files.kept(id)?.bytes ?? 0) : 0));
      return own.reduce((sum, bytes) => sum + bytes, storage.ofBatch(record));
    };
    const bytes = new Map(ended.map(record => [record.id, bytesOf(record)]));
    let sum = [...bytes.values()].reduce((all, one) => all + one, 0);
    const over: BatchRecord[] = [];
    for (const record of ended) {
      if (sum <= most) break;
      sum -= bytes.get(record.id) as number;
      over.push(record);
    }
    const why = `batches that have ended may have ${bytesWords(most)}`;
    return this.#removeBatches(over, why, this.#stores.eraser.excess);
  }

  /** oldest end first */
  #ended(): BatchRecord[] {
    const ended = this.#stores.store.ended();
    return ended.sort((one, other) => endedAt(one) - endedAt(other));
  }

  async #removeBatches(
    over: readonly BatchRecord[],
    why: string,
    erase: (record: BatchRecord) => Promise<{ bytes: number }>,
  ): Promise<boolean> {
    let [count, bytes] = [0, 0];
    try {
      for (const record of over.slice(0, MOST_BATCHES)) {
        const now = this.#stores.store.get(record.owner, record.id);
        if (now === null) continue; // deleted by its owner meanwhile
        bytes += (await erase(now)).bytes;
        count += 1;
      }
    } finally {
      this.#told('ended batch', count, bytes, why);
    }
    return over.length > MOST_BATCHES;
  }

  /** Days of the gateway's record: by age, and the oldest files of what is too much. */
  async #record(): Promise<boolean> {
    const { settings, data, now } = this.#parts;
    const { record: age, recordBytes: most } = settings.keep;
    if (age === null && most === null) return false;
    const root = join(data, 'gateway');
    const all = recordFiles(root);
    const today = dayOf(now());
    const first = age === null ? '' : dayOf(now() - age);
    let sum = sumOf(all);
    const over: RecordFile[] = [];
    for (const file of all) {
      if (file.day >= today || (file.day >= first && (most === null || sum <= most))) break;
      sum -= file.bytes;
      over.push(file);
    }
    const some = over.slice(0, MOST_RECORD_FILES);
    for (const { path, day } of some) {
      await this.#stores.eraser.sumUp(`gateway/${day}/${basename(path)}`, [path]);
      rmSync(path, { force: true });
    }
    for (const day of new Set(some.map(file => file.day))) removeEmpty(join(root, day));
    if (some.length > 0) syncFolder(root);
    const days = new Set(some.map(file => file.day)).size;
    const why = `${counted(days, 'day')} up to ${some.at(-1)?.day}`;
    this.#told("file of the gateway's record", some.length, sumOf(some), why);
    return over.length > some.length;
  }

  #told(what: keyof typeof PLURALS, count: number, bytes: number, why: string): void {
    if (count > 0)
      this.#parts.say(`removed ${counted(count, what, PLURALS[what])} (${bytesWords(bytes)}): ${why}`, {
        ...{ event: 'removed', count, bytes },
      });
  }
}

const PLURALS = {
  file: 'files',
  'ended batch': 'ended batches',
  "file of the gateway's record": "files of the gateway's record",
};

interface RecordFile {
  day: string;
  path: string;
  bytes: number;
}

const dayOf = (ms: number): string => new Date(ms).toISOString().slice(0, 10);
const sumOf = (files: readonly { bytes: number }[]): number => files.reduce((sum, one) => sum + one.bytes, 0);

/** Oldest first: days sort, and so do the times that names of files begin with. What is not the ledger's stays. */
function recordFiles(root: string): RecordFile[] {
  if (statSync(root, { throwIfNoEntry: false }) === undefined) return [];
  const days = readdirSync(root, { withFileTypes: true }).filter(
    one => one.isDirectory() && DAY_NAME.test(one.name),
  );
  return days
    .map(({ name }) => name)
    .sort()
    .flatMap(day =>
      readdirSync(join(root, day))
        .filter(name => name.endsWith('.ndjson'))
        .sort()
        .map(name => {
          const path = join(root, day, name);
          return { day, path, bytes: statSync(path, { throwIfNoEntry: false })?.size ?? 0 };
        }),
    );
}

function removeEmpty(folder: string): void {
  try {
    rmdirSync(folder);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== 'ENOTEMPTY' && code !== 'ENOENT') throw error;
  }
}
