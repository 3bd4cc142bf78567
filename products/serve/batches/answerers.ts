/** Who answers which batch: workers where there is a queue, else this server, over its pool; and whether they are there. */
import { existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { type Ledger, openLedger } from '../../../engine/asking/ledger/ledger.ts';
import type { EndpointPool } from '../../../engine/asking/pool/part.ts';
import { isSettled } from '../../../engine/asking/pool/pool-stats.ts';
import { version } from '../../../engine/core/config/package.ts';
import { type Answer, type Call, CallFailure } from '../../../engine/core/item/call.ts';
import { COMMON } from '../../../engine/flow/join.ts';
import type { PoolAsked } from '../../../engine/running/run.ts';
import { type OptionsOfStage, placed } from '../../../engine/running/stage-options.ts';
import request from '../../../stages/request.ts';
import type { Desk } from '../../workers/desk.ts';
import type { PlannedWork } from '../../workers/shard-work.ts';
import { remotePool, sharding } from '../../workers/sharding.ts';
import type { CallMetrics } from '../call-metrics.ts';
import { shardsIn } from '../serve-workers.ts';
import type { Parts } from '../server-context.ts';
import type { Ending } from './batch-output.ts';
import type { BatchRecord } from './batch-state.ts';
import type { BatchStore } from './batch-store.ts';
import { lineBudget } from './line-budget.ts';
import type { Waiting } from './waiting.ts';

/** What answers the lines of one batch. */
export interface Answering {
  /** the stage behind ingest */
  placed: OptionsOfStage;
  openPool(asked: PoolAsked): EndpointPool;
  /** Asks nothing more; what is under way may finish. */
  stop(): void;
  /** Nothing is waited for any more. */
  abort(): void;
  /** It is run again: lines that wait for a place at a server are asked then. Workers keep what they have. */
  pause?(): void;
  /** Of workers: they get nothing new until then (ms since 1970), and hand in what they have. */
  hold?(until: number): void;
}

export interface AnsweringOptions {
  record: BatchRecord;
  /** of the batch, and the file of its lines */
  folder: string;
  input: string;
  /** bytes of a line; ms for calls in flight at a stop */
  maxLine: number;
  grace: number;
  /** why the rest is not asked; null while it is */
  ending(): Ending | null;
  /** told when its key has used its tokens of the day */
  onSpent(): void;
  /** told the id of each line whose answer was asked for now, and is on no record of before */
  onFresh(id: string): void;
  /** its part of all places of the pool, where every batch has requests: 1 of one that is alone */
  share(): number;
  /** … and beside other batches of its owner, as it is at the moment */
  weight(): number;
}

/** bytes that an answer may have on the wire at most, and of an item beside its request and its answer */
const MOST_ANSWER = 16 * 1024 * 1024;
const ROOM = 64 * 1024;
/** Items in flight of a batch, however many others there are. */
const LEAST_ITEMS = 32;
/** Of the SHA-256 of the lines: another version of fw may read them otherwise, and then begins anew. */
const NAMED = 16;
/** models that a message names */
const MOST_NAMED = 3;

/** Bytes of a line with its answer; `maxLine` without. */
const withAnswer = (maxLine: number): number =>
  Math.min(COMMON['max-line'].maximum, maxLine + MOST_ANSWER + ROOM);
const ledgerIn = (folder: string): string => join(folder, 'ledger');
const named = (models: readonly string[]): string => models.slice(0, MOST_NAMED).join(', ');

export interface AnswererParts extends Pick<Parts, 'pool' | 'workers' | 'now'> {
  access: Pick<Parts['access'], 'budgets' | 'rulesOf'>;
  journal: Pick<Parts['journal'], 'settleBatch' | 'settle' | 'flush'>;
  metrics: { calls: Pick<CallMetrics, 'tried' | 'tokens'> };
}

export class Answerers {
  readonly #parts: AnswererParts;
  readonly #store: BatchStore;

  constructor(parts: AnswererParts, store: BatchStore) {
    this.#parts = parts;
    this.#store = store;
  }

  /** Whether they serve its models. While an endpoint was never seen, nobody knows that it does not. */
  areThere(record: BatchRecord): boolean {
    return this.#deskOf(record)?.isServed(record.models) ?? this.#isServedHere(record.models);
  }

  /** Whether it may begin: what is there for workers to do is to be seen before there is a worker. */
  mayBegin(record: BatchRecord): boolean {
    return this.#deskOf(record) !== null || this.#isServedHere(record.models);
  }

  /** Why nobody answers it now; null where somebody may. */
  missing(record: BatchRecord): Waiting | null {
    const { status, models } = record;
    const desk = this.#deskOf(record);
    if (desk !== null) return status === 'in_progress' ? this.#missingAt(desk, record) : null;
    if (this.#parts.pool.stats().endpoints.every(({ state }) => state !== 'up'))
      return { reason: 'endpoint', words: 'no endpoint is up' };
    if (status !== 'in_progress') return null;
    if (!this.#isServedHere(models)) return { reason: 'model', words: `no endpoint serves ${named(models)}` };
    return this.#isUpHere(models)
      ? null
      : { reason: 'endpoint', words: `no endpoint that serves ${named(models)} is up` };
  }

  /** The models of each endpoint, and of each worker. */
  servers(): readonly (readonly string[])[] {
    const { pool, workers } = this.#parts;
    const here = workers?.desk.stats().here ?? [];
    return [...pool.stats().endpoints, ...here].map(({ models }) => models);
  }

  answering(options: AnsweringOptions): Answering {
    const desk = this.#deskOf(options.record);
    return desk === null ? answeredHere(options, this.#parts) : answeredByWorkers(options, desk, this.#parts);
  }

  /** Of its workers; null where the pool answers it. It stays with those who have begun it. */
  #deskOf({ id }: BatchRecord): Desk | null {
    const { pool, workers } = this.#parts;
    if (workers === null) return null;
    const { desk, takesNew } = workers;
    const folder = this.#store.folderOf(id);
    if (existsSync(shardsIn(folder))) return desk;
    const isOurs = existsSync(ledgerIn(folder)) && pool.stats().endpoints.length > 0;
    return takesNew && !isOurs ? desk : null;
  }

  #isServedHere(models: readonly string[]): boolean {
    const { pool } = this.#parts;
    const { endpoints } = pool.stats();
    const served = new Set(endpoints.flatMap(one => one.models));
    if (models.every(model => served.has(model))) return served.size > 0;
    // one whose endpoint was taken out may be back within the window
    if (models.some(pool.wasServed)) return false;
    return endpoints.every(one => one.models.length > 0 || isSettled(one)) && served.size > 0;
  }

  /** Whether one of them can be asked now; of models that nobody names lines fail, which is no waiting. */
  #isUpHere(models: readonly string[]): boolean {
    const { endpoints } = this.#parts.pool.stats();
    const those = endpoints.filter(one => one.models.some(model => models.includes(model)));
    return those.length === 0 || those.some(({ state }) => state === 'up');
  }

  #missingAt(desk: Desk, { id, models }: BatchRecord): Waiting | null {
    if (this.#parts.workers?.takesNew === false)
      return { reason: 'queue', words: 'workers have begun it, and wait for a server with --redis' };
    const { isQueueUp, alive, works } = desk.stats();
    if (!isQueueUp) return { reason: 'queue', words: 'Redis is away: workers get nothing new' };
    if (alive === 0) return { reason: 'worker', words: 'no worker is there' };
    // what is left of it may be of one model, while others of its models are served
    const { isStuck = !desk.isServed(models), lacking = models } = works.find(one => one.id === id) ?? {};
    return isStuck ? { reason: 'model', words: `no worker serves ${named(lacking ?? models)}` } : null;
  }
}

/** A batch over its part of the pool, with a ledger of its own: killed and run again it asks only what is not on record. */
function answeredHere(
  options: AnsweringOptions,
  { pool, access, journal, metrics }: AnswererParts,
): Answering {
  const { record, folder, input, maxLine, grace, ending, onSpent, onFresh, share, weight } = options;
  const budget = lineBudget(record, access, onSpent);
  let isStopped = false;
  let part: EndpointPool | undefined;

  function openPool({ asksWith, onGivenUp }: PoolAsked): EndpointPool {
    const path = ledgerIn(folder);
    // whoever held them is gone: the folder of the server is ours
    rmSync(join(path, 'locks'), { recursive: true, force: true });
    journal.settleBatch(record.key, record.id, path);
    const ledger = openLedger({
      ...{ path, fsync: 100, version: version(), label: record.id, files: [input] },
      ...{ asksWith, shard: undefined, warn: () => {} },
      onBroken: error => part?.giveUp(error),
    });
    const own = pool.part({
      ledger,
      model: record.model ?? '',
      share: {
        ...{ owner: record.owner, batch: record.id },
        get weight() {
          return weight();
        },
      },
      lasts: true,
      onTry: tried => metrics.calls.tried('batch', tried),
      onGivenUp,
    });
    part = own;
    if (ending() !== null) own.stop();
    const stopped = (act: () => void) => ({
      value() {
        act();
        letGo();
      },
    });
    // all else is the part's
    return Object.create(own, {
      call: { value: (asked: Call) => call(own, ledger, asked) },
      // who waits for a budget is to be told, too
      stop: stopped(own.stop),
      abort: stopped(own.abort),
      // many batches at once share the memory, too
      itemsInFlight: {
        get() {
          const all = own.itemsInFlight;
          return Math.max(Math.min(all, LEAST_ITEMS), Math.ceil(all * share()));
        },
      },
    }) as EndpointPool;
  }

  async function call(own: EndpointPool, ledger: Ledger, asked: Call): Promise<Answer> {
    const why = ending();
    if (why !== null) {
      const answer = ledger.find(asked.key);
      if (answer === null)
        throw new CallFailure('interrupted', `The batch was ${why} before this was asked.`);
      return answer;
    }
    const isKnown = record.key === null || ledger.find(asked.key) !== null;
    const release = isKnown ? null : await budget.begin(asked, own.maxModelLength, () => isStopped);
    try {
      const answer = await own.call(asked);
      if (!answer.replayed) {
        budget.charge(answer.usage.prompt + answer.usage.completion);
        onFresh(asked.item);
      }
      return answer;
    } finally {
      release?.();
    }
  }

  /** Nothing is asked any more: who waits for a budget hears that from the part. */
  function letGo(): void {
    isStopped = true;
    budget.wake();
  }

  function stop(): void {
    part?.stop();
    letGo();
  }

  return {
    // each line of a batch gets its answer or its error, as its client is told by the API
    placed: placed(request, { 'max-line': withAnswer(maxLine), grace: `${grace}ms`, 'max-failed': 'none' }),
    openPool,
    stop,
    pause: stop,
    abort() {
      part?.abort();
      letGo();
    },
  };
}

/** A batch that workers answer: its lines go to the desk, and come back as shards are done. Its ledgers are theirs. */
function answeredByWorkers(
  options: AnsweringOptions,
  desk: Desk,
  { access, journal, now, metrics }: AnswererParts,
): Answering {
  const { record, folder, maxLine, grace, ending, onSpent, weight } = options;
  const budget = lineBudget(record, access, onSpent);
  const { id, models, owner } = record;
  const most = { 'max-line': withAnswer(maxLine) };
  const task = {
    label: id,
    row: [{ stage: 'request', options: most }],
    files: null,
    models,
    owner,
    get weight() {
      return weight();
    },
  };
  const root = shardsIn(folder);
  let work: PlannedWork | null = null;
  const stage = sharding({
    desk,
    workOf: sha256 => ({
      ...{ id, task, files: null, folder: join(root, sha256.slice(0, NAMED)) },
      onAsked({ promptTokens, completionTokens, cachedTokens }, asked) {
        budget.charge(promptTokens + completionTokens);
        journal.flush(); // what workers hand in is on disk, and is not asked for again
        const usage = { prompt: promptTokens, completion: completionTokens, cached: cachedTokens };
        metrics.calls.tokens('batch', asked.length === 1 ? String(asked[0]) : 'several', usage);
      },
    }),
    spool: join(root, 'lines.unfinished'),
    modelOf({ request }) {
      const model = request?.body?.model;
      return typeof model === 'string' ? model : '';
    },
    onOpen(opened) {
      work = opened;
      journal.settle(record.key, id, opened.parts.tokens);
      if (ending() !== null) endWhenHeard(opened);
    },
  });
  /** It ended while the server was away: workers still hand in what they have, once they were heard of. */
  function endWhenHeard(opened: PlannedWork): void {
    const end = (): void => {
      opened.end();
      setTimeout(opened.abort, grace).unref();
    };
    setTimeout(end, Math.max(0, opened.opensAt - now())).unref();
  }

  return {
    placed: placed(stage, most),
    openPool: () => remotePool(desk, () => work),
    stop: () => work?.end(),
    abort: () => work?.abort(),
    hold(until) {
      if (work !== null) work.opensAt = Math.max(work.opensAt, until);
    },
  };
}
