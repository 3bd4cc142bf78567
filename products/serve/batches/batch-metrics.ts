/** What Prometheus is told of batches: by state, never by id or owner; and how fast they go. */

import type { Eraser } from '../keep/eraser.ts';
import type { Parts } from '../server-context.ts';
import { outcomesOf } from './batch-output.ts';
import { type BatchRecord, expiresAt, isFinal, STATUSES } from './batch-state.ts';
import type { BatchStore } from './batch-store.ts';
import type { Batches } from './batches.ts';
import { REASONS } from './waiting.ts';

interface Measured {
  store: BatchStore;
  batches: Batches;
  rates: Rates;
  /** of those that were deleted: a counter never falls */
  eraser: Pick<Eraser, 'items'>;
}

export function batchMetrics(
  { metrics, room, now }: Pick<Parts, 'metrics' | 'room' | 'now'>,
  measured: Measured,
): void {
  metrics.measure(
    {
      fw_batches: ['Batches by state.', 'state'],
      fw_batch_items_left: ['Lines of batches that have not ended, and have not come back.'],
      fw_batch_left_seconds: ['Time until all of these have come back, at the rate of the last minute.'],
      fw_data_free_bytes: ['Room on the disk of the folder that the server keeps all in.'],
      fw_data_reserve_bytes: [
        'Below so much room new files and batches are refused, and below half of it batches wait.',
      ],
      fw_batch_oldest_seconds: ['Age of the oldest batch in a state that is not final.', 'state'],
      fw_batch_deadline_seconds: [
        'Time until the first window of a batch that has not ended is over; of those that can be kept, and wait for nothing of their users.',
      ],
      fw_batch_items_total: [
        'Lines of batches that have come back: completed; refused, for what their users wrote; not_asked, since the batch had ended; failed otherwise.',
        'outcome',
      ],
      fw_batches_waiting: [
        'Batches of which nothing is asked now, by why: disk, keys (what theirs may do is not known), endpoint, worker, queue, model (nobody serves theirs), budget (of their key), turn.',
        'reason',
      ],
      fw_batches_paused: ['Batches that wait because the disk is full or something else was broken.'],
      fw_batch_least_slack_seconds: [
        'Least time that a batch has between its forecast end and the end of its window; below 0 where it is late. Of the same batches.',
      ],
      fw_batch_deadline_out_of_reach: [
        'Batches that will end behind their windows: too short from the beginning (window), or by what else there is to do or fewer servers (load).',
        'reason',
      ],
    },
    () => {
      const { counts, items, waiting, left, rate, oldest, deadline } = sumsOf(measured, now() / 1000);
      const { late, leastSlack } = measured.batches.forecasts.sums();
      return {
        fw_batches: counts,
        fw_batch_items_left: left,
        // while nothing comes back nobody knows
        fw_batch_left_seconds: left === 0 ? 0 : rate > 0 ? left / rate : null,
        fw_data_free_bytes: room.free,
        fw_data_reserve_bytes: room.reserve,
        fw_batch_oldest_seconds: oldest,
        fw_batch_deadline_seconds: deadline === Number.POSITIVE_INFINITY ? null : deadline,
        fw_batch_items_total: items,
        fw_batches_waiting: waiting,
        fw_batches_paused: measured.batches.paused,
        fw_batch_least_slack_seconds: leastSlack,
        fw_batch_deadline_out_of_reach: late,
      };
    },
  );
}

/** Over all batches; `seconds` is now. */
function sumsOf({ store, batches, rates, eraser }: Measured, seconds: number) {
  const counts = new Map<string, number>(STATUSES.map(state => [state, 0]));
  const waiting = new Map<string, number>(REASONS.map(reason => [reason, 0]));
  const items = new Map<string, number>(Object.entries(eraser.items));
  const oldest = new Map<string, number>();
  let [left, rate, deadline] = [0, 0, Number.POSITIVE_INFINITY];
  const add = (to: Map<string, number>, key: string, count: number): void =>
    void to.set(key, (to.get(key) ?? 0) + count);
  for (const record of store.all().map(one => batches.seen(one))) {
    const { id, status, created_at } = record;
    const { total, completed, failed } = record.counts;
    add(counts, status, 1);
    for (const [outcome, count] of Object.entries(outcomesOf(record))) add(items, outcome, count);
    if (isFinal(status)) continue;
    const why = batches.waiting(record);
    if (why !== null) add(waiting, why.reason, 1);
    left += total - completed - failed;
    rate += rates.of(id) ?? 0;
    oldest.set(status, Math.max(oldest.get(status) ?? 0, seconds - created_at));
    if (!batches.forecasts.isUsers(record)) deadline = Math.min(deadline, expiresAt(record) - seconds);
  }
  return { counts, items, waiting, left, rate, oldest, deadline };
}

/** ms that are looked back on, and notes in them */
const BACK = 60_000;
const NOTES = 30;

/** How fast batches go: what of each had come back at a few moments of the last minute, noted all the time, so that who looks first sees them too. */
export function createRates(now: () => number) {
  const seen = new Map<string, { at: number; done: number }[]>();
  return {
    /** To be called once a second or so. */
    note(records: readonly BatchRecord[]): void {
      const at = now();
      const live = new Set<string>();
      for (const { id, status, counts } of records) {
        if (isFinal(status) || counts.total === 0) continue;
        live.add(id);
        const before = seen.get(id) ?? [];
        const last = before.at(-1);
        // of a clock that was set back the notes say nothing
        const notes = last === undefined || last.at > at ? [] : before;
        if (last !== undefined && at >= last.at && at - last.at < BACK / NOTES) continue;
        notes.push({ at, done: counts.completed + counts.failed });
        while (notes.length > 2 && at - (notes[0]?.at ?? at) > BACK) notes.shift();
        seen.set(id, notes);
      }
      for (const id of seen.keys()) if (!live.has(id)) seen.delete(id);
    },
    /** lines a second; null before two notes, and of a batch that has ended */
    of(id: string): number | null {
      const notes = seen.get(id) ?? [];
      const [first] = notes;
      const last = notes.at(-1);
      if (first === undefined || last === undefined || last.at <= first.at) return null;
      return ((last.done - first.done) * 1000) / (last.at - first.at);
    },
  };
}

export type Rates = ReturnType<typeof createRates>;
