/** Who answers which batch: workers where there is a queue, else the endpoints of the pool; and whether they are there. */
import type { EndpointPool } from '../../../engine/asking/pool/part.ts';
import type { Desk } from '../../workers/desk.ts';
import type { Workers } from '../serve-workers.ts';
import { answeredByWorkers, hasBegunByWorkers } from './answer-by-workers.ts';
import { answeredHere, hasBegunHere } from './answer-here.ts';
import type { Answering, AnsweringOptions } from './answerer.ts';
import type { BatchRecord } from './batch-state.ts';

export interface Answerers {
  /** Whether they serve its models. While an endpoint was never seen, nobody knows that it does not. */
  areThere(record: BatchRecord): boolean;
  /** Whether it may begin: what is there for workers to do is to be seen before there is a worker. */
  mayBegin(record: BatchRecord): boolean;
  /** Why nobody answers it now, in words; null where somebody may. */
  missing(record: BatchRecord): string | null;
  answering(asked: AnsweringOptions & Own): Answering;
}

interface Own {
  input: string;
  /** bytes of a line; ms for calls in flight at a stop */
  maxLine: number;
  grace: number;
  /** of the places of the pool */
  share(): number;
}

/** models that a message names */
const MOST_NAMED = 3;

export function createAnswerers(
  pool: EndpointPool,
  workers: Workers | null,
  { folderOf, now }: { folderOf(id: string): string; now(): number },
): Answerers {
  /** Of its workers; null where the pool answers it. It stays with those who have begun it. */
  function deskOf({ id }: Pick<BatchRecord, 'id'>): Desk | null {
    if (workers === null) return null;
    const folder = folderOf(id);
    if (hasBegunByWorkers(folder)) return workers.desk;
    const isOurs = hasBegunHere(folder) && pool.stats().endpoints.length > 0;
    return workers.takesNew && !isOurs ? workers.desk : null;
  }

  function isServedHere(models: readonly string[]): boolean {
    const { endpoints } = pool.stats();
    const served = new Set(endpoints.flatMap(one => one.models));
    if (models.every(model => served.has(model))) return served.size > 0;
    return endpoints.every(one => one.models.length > 0 || one.state === 'unusable') && served.size > 0;
  }

  function missingAt(desk: Desk, models: readonly string[]): string | null {
    if (workers?.takesNew === false) return 'workers have begun it, and wait for a server with --redis';
    const { isQueueUp, alive } = desk.stats();
    if (!isQueueUp) return 'Redis is away: workers get nothing new';
    if (alive === 0) return 'no worker is there';
    return desk.isServed(models) ? null : `no worker serves ${named(models)}`;
  }

  return {
    areThere(record) {
      const desk = deskOf(record);
      return desk === null ? isServedHere(record.models) : desk.isServed(record.models);
    },
    mayBegin: record => deskOf(record) !== null || isServedHere(record.models),
    missing(record) {
      const { status, models } = record;
      const desk = deskOf(record);
      if (desk !== null) return status === 'in_progress' ? missingAt(desk, models) : null;
      if (pool.stats().endpoints.every(({ state }) => state !== 'up')) return 'no endpoint is up';
      if (status !== 'in_progress') return null;
      return isServedHere(models) ? null : `no endpoint serves ${named(models)}`;
    },
    answering({ share, ...asked }) {
      const desk = deskOf(asked.record);
      return desk === null
        ? answeredHere({ ...asked, pool, share })
        : answeredByWorkers({ ...asked, desk, now });
    },
  };
}

const named = (models: readonly string[]): string => models.slice(0, MOST_NAMED).join(', ');
