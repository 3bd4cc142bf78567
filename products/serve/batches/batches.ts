/**
 * The batches of a server, each driven through its states. Each change is on disk before anybody sees it, so that a killed
 * server finds where each batch was: it is validated again, runs again with its ledger, or has its files placed again.
 * What the disk does not take pauses a batch, which is looked at again.
 */
import { statfsSync } from 'node:fs';
import type { EndpointPool } from '../../../engine/asking/pool/part.ts';
import { isFull } from '../../../engine/core/files/durable.ts';
import { Fatal } from '../../../engine/core/item/failure.ts';
import type { Access } from '../access.ts';
import { badRequest } from '../errors.ts';
import type { FileStore } from '../file-store.ts';
import type { Settings } from '../serve-config.ts';
import type { Workers } from '../serve-workers.ts';
import type { Webhooks } from '../webhooks.ts';
import { createAnswerers } from './answerers.ts';
import { type Ending, withTally } from './batch-output.ts';
import { startRun } from './batch-run.ts';
import { type BatchRecord, expiresAt, isFinal, moved, type Outputs } from './batch-state.ts';
import type { BatchStore } from './batch-store.ts';
import { createTurns, MOST_RUNNING } from './batch-turns.ts';
import { outputsIn, placeOutputs } from './placing.ts';
import { validate } from './validate-lines.ts';

type Last = 'completed' | 'failed' | 'expired' | 'cancelled';

export interface BatchesOptions {
  data: string;
  settings: Settings;
  pool: EndpointPool;
  workers: Workers | null;
  access: Access;
  files: FileStore;
  store: BatchStore;
  webhooks: Pick<Webhooks, 'tell'>;
  now(): number;
  /** of what is made and will expire; `now` unless given */
  stamp?(): number;
  say(message: string): void;
}

export interface Batches {
  /** as it is now, with what has come back since its last change */
  seen(record: BatchRecord): BatchRecord;
  /** Takes a new batch, which is then on disk. */
  add(record: BatchRecord): BatchRecord;
  /** 400 where it has ended otherwise, or is ending. */
  cancel(record: BatchRecord): BatchRecord;
  /** Why one that has not ended is not asked now, in words; null where it is. */
  waits(record: BatchRecord): string | null;
  /** how many wait for the disk */
  readonly paused: number;
  /** Stops all of them where they are; resolves when nothing is under way. */
  drain(): Promise<void>;
}

/** ms between two looks at windows, models and the disk; between two savings of counts */
const LOOK = 250;
const SAVE = 10_000;
/** ms until a batch that was broken off is tried again, and bytes that the disk has to have then */
const AGAIN = 5_000;
const ROOM = 32 * 1024 * 1024;
/** Batches that are validated at once: each has blocks of its file in memory. */
const MOST_VALIDATING = 4;

export function createBatches(options: BatchesOptions): Batches {
  const { data, settings, pool, workers, access, files, store, webhooks, now, say } = options;
  const { stamp = now } = options;
  const answerers = createAnswerers(pool, workers, { folderOf: store.folderOf, now });
  const { running, ...turns } = createTurns(store, answerers.areThere);
  const driven = new Map<string, Promise<void>>();
  const paused = new Map<string, { until: number; why: string }>();
  const closing = new AbortController();
  const looking = setInterval(look, LOOK);
  looking.unref();
  let savedAt = performance.now();
  let validating = 0;

  function seen(record: BatchRecord): BatchRecord {
    const tally = running.get(record.id)?.tally;
    return tally === undefined ? record : withTally(record, tally);
  }

  /** Moves a batch on for as long as something can be done about it. */
  function drive(id: string): void {
    if (closing.signal.aborted || driven.has(id) || isFinal(store.of(id).status)) return;
    const driving = step(id)
      .then(
        goesOn => goesOn,
        error => {
          const { code, message, stack } = error as NodeJS.ErrnoException;
          const isExpected = error instanceof Fatal || code !== undefined;
          pause(id, isExpected ? message : `a bug, please report it: ${stack}`);
          return false;
        },
      )
      .then(goesOn => {
        driven.delete(id);
        if (goesOn) drive(id);
      });
    driven.set(id, driving);
  }

  function pause(id: string, why: string): void {
    const words = isFull({ code: /ENOSPC|EDQUOT/.exec(why)?.[0] }) ? 'the disk is full' : why;
    if (!paused.has(id)) say(`${id} is paused, and is tried again: ${words}`);
    paused.set(id, { until: performance.now() + AGAIN, why: words });
  }

  /** One step of a batch; whether there may be another one at once. */
  async function step(id: string): Promise<boolean> {
    const record = store.of(id);
    if (record.outputs !== null) return place(record, record.outputs);
    if (record.status === 'validating') return validated(record);
    if (record.status === 'cancelling' && record.counts.total === 0) {
      store.save({ ...record, outputs: { output: null, error: null } });
      return true;
    }
    return ran(record);
  }

  async function validated({ id, endpoint }: BatchRecord): Promise<boolean> {
    const { lines, line } = settings.limits;
    const { signal } = closing;
    if (validating === MOST_VALIDATING) return false; // it is looked at again
    validating += 1;
    const { total, models, errors } = await validate(store.inputOf(id), {
      endpoint,
      lines,
      line,
      signal,
    }).finally(() => {
      validating -= 1;
    });
    if (signal.aborted) return false;
    const record = store.of(id); // it may have been cancelled meanwhile
    const counts = { total, completed: 0, failed: 0 };
    const [model = null, ...others] = models;
    const found = { counts, models, model: others.length === 0 ? model : null };
    if (record.status !== 'validating') store.save({ ...record, ...(errors.length === 0 && found) });
    else if (errors.length === 0) store.save(moved(record, 'in_progress', now(), found));
    else finish(record, 'failed', { errors });
    return true;
  }

  function endingOf(record: BatchRecord): Ending | null {
    return record.status === 'cancelling' ? 'cancelled' : isOver(record) ? 'expired' : null;
  }
  function isOver(record: BatchRecord): boolean {
    return expiresAt(record) * 1000 <= now();
  }

  async function ran(record: BatchRecord): Promise<boolean> {
    const { id } = record;
    const ending = endingOf(record);
    if (ending === null && !(answerers.mayBegin(record) && turns.hasTurn(record))) return false;
    const own = { input: store.inputOf(id), maxLine: settings.limits.line, grace: settings.grace };
    const run = startRun({
      ...{ record, folder: store.folderOf(id), ending, ...own },
      answeredBy: asked => answerers.answering({ ...asked, ...own, share: () => turns.shareOf(record) }),
      onTokens: tokens => access.charge(record.key, tokens),
    });
    turns.begin(record, run);
    try {
      const outcome = await run.ended;
      if (outcome !== 'whole') {
        save(id);
        if (outcome !== 'paused') pause(id, outcome.broken);
        return false;
      }
      const { counts, usage, failures } = run.tally;
      const last = store.of(id);
      const whole = {
        counts: { total: last.counts.total, ...counts },
        usage,
        failures,
        outputs: outputsIn(store.folderOf(id), stamp()),
      };
      const isCompleted = last.status === 'in_progress' && run.ending === null;
      store.save(isCompleted ? moved(last, 'finalizing', now(), whole) : { ...last, ...whole });
      paused.delete(id);
      return true;
    } finally {
      // also where the disk did not take it: a run that is repeated counts from its beginning
      store.remember(seen(store.of(id)));
      turns.end(id);
    }
  }

  /** Gives the lines their place among the files, and then the batch its last state. */
  function place(record: BatchRecord, outputs: Outputs): boolean {
    placeOutputs(record, outputs, {
      files,
      folder: store.folderOf(record.id),
      keep: settings.keep,
      now: stamp(),
    });
    const last =
      record.status === 'finalizing' ? 'completed' : record.status === 'cancelling' ? 'cancelled' : 'expired';
    finish(record, last);
    return false;
  }

  /** Whoever is to be told of the end is noted before it is on disk: told twice is better than not at all. */
  function finish(record: BatchRecord, last: Last, more: Partial<BatchRecord> = {}): void {
    webhooks.tell(record.owner, `batch.${last}`, record.id);
    store.save(moved(record, last, now(), more));
    store.clean(record.id);
  }

  function waits(record: BatchRecord): string | null {
    const { id, status } = record;
    const broken = paused.get(id)?.why;
    if (isFinal(status)) return null;
    if (broken !== undefined) return `paused, and tried again: ${broken}`;
    const missing = answerers.missing(record);
    if (missing !== null || status !== 'in_progress' || running.has(id)) return missing;
    return turns.hasTurn(record) ? null : `waits until one of the ${MOST_RUNNING} that run has ended`;
  }

  function save(id: string): void {
    const record = store.of(id);
    const now = seen(record);
    if (store.isBehind(id) || JSON.stringify(now.counts) !== JSON.stringify(record.counts)) store.save(now);
  }

  /** What only time brings. */
  function look(): void {
    const time = performance.now();
    const isDue = time - savedAt >= SAVE;
    if (isDue) savedAt = time;
    turns.look();
    for (const record of store.open()) {
      const { id } = record;
      const run = running.get(id);
      try {
        if (run !== undefined && run.ending === null && isOver(record)) run.end('expired');
        if (run !== undefined && isDue) save(id);
        const until = paused.get(id)?.until;
        if (until === undefined || (time >= until && hasRoom(data))) drive(id);
      } catch (error) {
        pause(id, (error as Error).message);
      }
    }
  }

  for (const record of store.open()) drive(record.id);
  return {
    seen,
    add(record) {
      store.create(record, files.pathOf(record.input_file_id));
      drive(record.id);
      return record;
    },
    cancel(record) {
      const { id, status } = record;
      if (status === 'cancelling' || status === 'cancelled') return record;
      if (status !== 'validating' && status !== 'in_progress')
        throw badRequest(`Cannot cancel a batch with status '${status}'.`, null, 'invalid_status');
      if (record.outputs !== null)
        throw badRequest('Cannot cancel a batch that has expired.', null, 'invalid_status');
      store.save(moved(seen(record), 'cancelling', now()));
      running.get(id)?.end('cancelled');
      paused.delete(id);
      drive(id);
      return store.of(id);
    },
    waits,
    get paused() {
      return paused.size;
    },
    async drain() {
      clearInterval(looking);
      closing.abort();
      for (const run of running.values()) run.pause();
      await Promise.all(driven.values());
    },
  };
}

function hasRoom(folder: string): boolean {
  const { bavail, bsize } = statfsSync(folder);
  return bavail * bsize >= ROOM;
}
