/** What of a server somebody may see: an owner its own batches and files, the scope admin all of them. */
import { statSync } from 'node:fs';
import type { PoolStats } from '../../../engine/asking/pool/pool-stats.ts';
import type { Caller } from '../access.ts';
import type { Rates } from '../batches/batch-metrics.ts';
import { pathsIn } from '../batches/batch-output.ts';
import type { BatchRecord } from '../batches/batch-state.ts';
import type { BatchStore } from '../batches/batch-store.ts';
import type { Batches } from '../batches/batches.ts';
import { notFound } from '../errors.ts';
import type { FileRecord, FileStore } from '../file-store.ts';
import { BATCH_ID } from '../ids.ts';
import { pageOf } from '../paging.ts';
import type { Parts } from '../server-context.ts';
import { type OneBatch, oneBatch } from './batch-page.ts';
import { hookWords, type Overview } from './overview.ts';
import type { KeyTraffic } from './traffic.ts';
import { batchView, endpointView, keyView, nameOf, poolWords, type Seen } from './view-texts.ts';
import {
  NO_SHARDS,
  type ShardsView,
  shardsView,
  type WorkersMore,
  workersView,
  workersWords,
} from './workers-view.ts';

export interface Stores {
  files: FileStore;
  store: BatchStore;
  batches: Batches;
  rates: Rates;
}

export type Kind = 'output' | 'error';

export const isAdmin = ({ scopes }: Caller): boolean => scopes.has('admin');

const PAGE = { id: BATCH_ID, most: 25, usual: 25 };

export function lookingAt(
  { pool, webhooks, workers, access, now }: Pick<Parts, 'pool' | 'webhooks' | 'workers' | 'access' | 'now'>,
  { files, store, batches, rates }: Stores,
  traffic: () => KeyTraffic[],
) {
  function seenOf(record: BatchRecord): Seen {
    const there = (kind: Kind): string | null => fileOf(record, kind)?.id ?? null;
    return {
      ...{ rate: rates.of(record.id), why: batches.waits(record), now: now() },
      ...{ output: there('output'), error: there('error') },
    };
  }

  /** One of its finished files; null where it has none, or it is gone. */
  function fileOf({ owner, outputs, status }: BatchRecord, kind: Kind): FileRecord | null {
    const id = status === 'finalizing' ? null : outputs?.[kind];
    return id ? files.get(owner, id) : null;
  }

  const workersMore = (): WorkersMore => ({
    lease: workers?.lease ?? 0,
    now: now(),
    nameOf(work) {
      const record = store.of(work);
      return record === undefined ? work : nameOf(record);
    },
  });

  /** Workers first; endpoints are then those of the gateway. */
  function howItGoes(stats: PoolStats): string {
    const own = poolWords(stats);
    if (workers === null) return own;
    const words = workersWords(workers.desk.stats(), workersMore());
    return stats.endpoints.length > 0 ? `${words}; the gateway: ${own}` : words;
  }

  function shardsOf({ id }: BatchRecord, mayAll: boolean): ShardsView {
    const stats = workers?.desk.stats();
    const work = stats?.works.find(one => one.id === id);
    return work === undefined ? NO_SHARDS : shardsView(work, id, stats?.workers ?? [], mayAll);
  }

  /** The lines of a batch, finished or not; null where there are none. */
  function linesOf(record: BatchRecord, kind: Kind): string | null {
    const file = fileOf(record, kind);
    if (file !== null) return files.pathOf(file.id);
    const path = pathsIn(store.folderOf(record.id))[kind];
    return (statSync(path, { throwIfNoEntry: false })?.size ?? 0) > 0 ? path : null;
  }

  return {
    fileOf,
    linesOf,
    /** 404 where it is not there, or not this caller's. */
    batch(caller: Caller, id: string): BatchRecord {
      const found = !BATCH_ID.test(id)
        ? null
        : isAdmin(caller)
          ? (store.of(id) ?? null)
          : store.get(caller.owner, id);
      if (found === null) throw notFound(`No batch found with id '${id.slice(0, 100)}'.`);
      return batches.seen(found);
    },
    /** A page of batches, newest first, and what else the overview says. */
    overview(caller: Caller, after: string | undefined): { values: Overview; next: string | null } {
      const ids = store.ids(isAdmin(caller) ? null : caller.owner);
      const page = pageOf(ids, store.of, { after }, PAGE);
      const stats = pool.stats();
      const mine = traffic().filter(({ owner }) => isAdmin(caller) || owner === caller.owner);
      const values: Overview = {
        pool: `${howItGoes(stats)}.`,
        batches: page.data.map(one => batches.seen(one)).map(one => batchView(one, seenOf(one))),
        none: page.data.length === 0 ? 'No batch is here.' : '',
        keys: mine.map(one => keyView(one, access.usedToday(one.key), now())),
        noKeys: mine.length === 0 ? 'Nobody has asked.' : '',
        endpoints: isAdmin(caller) ? stats.endpoints.map(endpointView) : [],
        hooks: isAdmin(caller) ? hookWords(webhooks.counts()) : '',
        ...(isAdmin(caller) && workers !== null
          ? workersView(workers.desk.stats(), workersMore())
          : { workers: [], noWorkers: '', moreWorkers: '' }),
      };
      return { values, next: page.has_more ? page.last_id : null };
    },
    one(record: BatchRecord, caller: Caller): OneBatch {
      const has = { output: linesOf(record, 'output') !== null, error: linesOf(record, 'error') !== null };
      return { ...oneBatch(record, seenOf(record), has), ...shardsOf(record, isAdmin(caller)) };
    },
    hasWorkers: workers !== null,
    /** where batches go to workers there may be none */
    hasEndpoints: (): boolean => workers === null || pool.stats().endpoints.length > 0,
    files: (caller: Caller): FileRecord[] =>
      files
        .list(caller.owner)
        .filter(({ purpose }) => purpose === 'batch')
        .reverse(),
    note: (): void => rates.note(store.open().map(one => batches.seen(one))),
  };
}

export type Looking = ReturnType<typeof lookingAt>;
