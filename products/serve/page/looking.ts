/** What of a server somebody may see: an owner its own batches and files, the scope admin all of them. */
import { statSync } from 'node:fs';
import type { FastifyInstance } from 'fastify';
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
import { pageOf } from '../owned.ts';
import type { Parts } from '../server-context.ts';
import { type OneBatch, oneBatch } from './batch-page.ts';
import { hookWords, type Overview } from './overview.ts';
import {
  batchView,
  endpointView,
  type KeyTraffic,
  keyView,
  nameOf,
  poolWords,
  type Seen,
} from './view-texts.ts';
import {
  NO_SHARDS,
  NO_WORKERS,
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

type LookedAt = Pick<Parts, 'pool' | 'webhooks' | 'workers' | 'access' | 'now' | 'room'>;

export class Looking {
  readonly #parts: LookedAt;
  readonly #stores: Stores;
  readonly #traffic: () => KeyTraffic[];

  constructor(parts: LookedAt, stores: Stores, traffic: () => KeyTraffic[]) {
    this.#parts = parts;
    this.#stores = stores;
    this.#traffic = traffic;
  }

  /** 404 where it is not there, or not this caller's. */
  batch(caller: Caller, id: string): BatchRecord {
    const { store, batches } = this.#stores;
    const found = !BATCH_ID.test(id)
      ? null
      : isAdmin(caller)
        ? (store.of(id) ?? null)
        : store.get(caller.owner, id);
    if (found === null) throw notFound(`No batch found with id '${id.slice(0, 100)}'.`);
    return batches.seen(found);
  }

  /** A page of batches, newest first, and what else the overview says. */
  overview(caller: Caller, after: string | undefined): { values: Overview; next: string | null } {
    const { pool, webhooks, workers, access, now, room } = this.#parts;
    const { store, batches } = this.#stores;
    const mayAll = isAdmin(caller);
    const ids = store.ids(mayAll ? null : caller.owner);
    const page = pageOf(ids, store.of, { after }, PAGE);
    const stats = pool.stats();
    const mine = this.#traffic().filter(({ owner }) => mayAll || owner === caller.owner);
    const values: Overview = {
      pool: `${this.#howItGoes(stats)}.`,
      disk: room.notice,
      batches: page.data.map(one => batches.seen(one)).map(one => batchView(one, this.#seenOf(one))),
      none: page.data.length === 0 ? 'No batch is here.' : '',
      keys: mine.map(one => keyView(one, access.budgets.usedToday(one.key), now())),
      noKeys: mine.length === 0 ? 'Nobody has asked.' : '',
      endpoints: mayAll ? stats.endpoints.map(endpointView) : [],
      hooks: mayAll ? hookWords(webhooks.counts()) : '',
      ...(mayAll && workers !== null ? workersView(workers.desk.stats(), this.#workersMore()) : NO_WORKERS),
    };
    return { values, next: page.has_more ? page.last_id : null };
  }

  one(record: BatchRecord, caller: Caller): OneBatch {
    const has = {
      output: this.linesOf(record, 'output') !== null,
      error: this.linesOf(record, 'error') !== null,
    };
    const stats = this.#parts.workers?.desk.stats();
    const work = stats?.works.find(one => one.id === record.id);
    return {
      ...oneBatch(record, this.#seenOf(record), has),
      ...(work ? shardsView(work, record.id, stats?.workers ?? [], isAdmin(caller)) : NO_SHARDS),
    };
  }

  /** One of its finished files; null where it has none, or it is gone. */
  fileOf({ owner, outputs, status }: BatchRecord, kind: Kind): FileRecord | null {
    const id = status === 'finalizing' ? null : outputs?.[kind];
    return id ? this.#stores.files.get(owner, id) : null;
  }

  /** The lines of a batch, finished or not; null where there are none. */
  linesOf(record: BatchRecord, kind: Kind): string | null {
    const file = this.fileOf(record, kind);
    if (file !== null) return this.#stores.files.pathOf(file.id);
    const path = pathsIn(this.#stores.store.folderOf(record.id))[kind];
    return (statSync(path, { throwIfNoEntry: false })?.size ?? 0) > 0 ? path : null;
  }

  get hasWorkers(): boolean {
    return this.#parts.workers !== null;
  }

  /** where batches go to workers there may be none */
  hasEndpoints(): boolean {
    return !this.hasWorkers || this.#parts.pool.stats().endpoints.length > 0;
  }

  files({ owner }: Caller): FileRecord[] {
    const all = this.#stores.files.list(owner);
    return all.filter(({ purpose }) => purpose === 'batch').reverse();
  }

  note(): void {
    const { rates, store, batches } = this.#stores;
    rates.note(store.open().map(one => batches.seen(one)));
  }

  #seenOf(record: BatchRecord): Seen {
    const { rates, batches } = this.#stores;
    const there = (kind: Kind): string | null => this.fileOf(record, kind)?.id ?? null;
    return {
      ...{ rate: rates.of(record.id), why: batches.waiting(record)?.words ?? null, now: this.#parts.now() },
      ...{ output: there('output'), error: there('error') },
      forecast: batches.forecasts.of(record),
    };
  }

  #workersMore(): WorkersMore {
    return {
      lease: this.#parts.workers?.lease ?? 0,
      now: this.#parts.now(),
      nameOf: work => {
        const record = this.#stores.store.of(work);
        return record === undefined ? work : nameOf(record);
      },
    };
  }

  /** Workers first; endpoints are then those of the gateway. */
  #howItGoes(stats: PoolStats): string {
    const { workers } = this.#parts;
    const own = poolWords(stats);
    if (workers === null) return own;
    const words = workersWords(workers.desk.stats(), this.#workersMore());
    return stats.endpoints.length > 0 ? `${words}; the gateway: ${own}` : words;
  }
}

/** What each key has asked the gateway since the start: counted, with no text of a request, and sorted by owner. */
export function countTraffic(app: FastifyInstance, now: () => number): () => KeyTraffic[] {
  const known = new Map<string, KeyTraffic>();
  app.addHook('onResponse', async (request, reply) => {
    const caller: Caller | null = request.caller;
    if (caller === null || request.routeOptions.config.scope !== 'chat') return;
    const { owner, key } = caller;
    const name = key ?? '';
    const traffic = known.get(name) ?? { owner, key, requests: 0, refused: 0, last: 0 };
    traffic.requests += 1;
    if (reply.statusCode >= 400) traffic.refused += 1;
    traffic.last = now();
    known.set(name, traffic);
  });
  return () => [...known.values()].sort((one, other) => (one.owner < other.owner ? -1 : 1));
}
