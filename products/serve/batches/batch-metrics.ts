/** What Prometheus is told of batches: by state, never by id or owner. */
import { statfsSync } from 'node:fs';
import { Counter, Gauge } from 'prom-client';
import type { Parts } from '../server-context.ts';
import { isNotAsked } from './batch-output.ts';
import type { Rates } from './batch-rates.ts';
import { expiresAt, isFinal, STATUSES } from './batch-state.ts';
import type { BatchStore } from './batch-store.ts';
import type { Batches } from './batches.ts';

export function batchMetrics(
  { metrics: { registry }, data, now }: Parts,
  { store, batches, rates }: { store: BatchStore; batches: Batches; rates: Rates },
): void {
  const registers = [registry];
  // the first that is asked: it sets the others
  new Gauge({
    name: 'fw_batches',
    help: 'Batches by state.',
    labelNames: ['state'],
    registers,
    collect() {
      for (const one of [this, oldest, deadline, items]) one.reset();
      deadline.remove();
      time.remove();
      let open = 0;
      let rate = 0;
      const seconds = now() / 1000;
      let next = Number.POSITIVE_INFINITY;
      const ages = new Map<string, number>();
      const counts = new Map<string, number>(STATUSES.map(state => [state, 0]));
      for (const record of store.all().map(one => batches.seen(one))) {
        const { status, created_at } = record;
        counts.set(status, (counts.get(status) ?? 0) + 1);
        items.inc({ outcome: 'completed' }, record.counts.completed);
        // what was cancelled or expired before it was asked says nothing of servers or answers
        const unasked = record.failures.reduce(
          (sum, { code, count }) => sum + (isNotAsked(code) ? count : 0),
          0,
        );
        items.inc({ outcome: 'failed' }, record.counts.failed - unasked);
        items.inc({ outcome: 'not_asked' }, unasked);
        if (isFinal(status)) continue;
        open += record.counts.total - record.counts.completed - record.counts.failed;
        rate += rates.of(record.id) ?? 0;
        ages.set(status, Math.max(ages.get(status) ?? 0, seconds - created_at));
        next = Math.min(next, expiresAt(record) - seconds);
      }
      for (const [state, count] of counts) this.set({ state }, count);
      for (const [state, age] of ages) oldest.set({ state }, age);
      if (next < Number.POSITIVE_INFINITY) deadline.set(next);
      paused.set(batches.paused);
      left.set(open);
      // while nothing comes back nobody knows
      if (open === 0 || rate > 0) time.set(open === 0 ? 0 : open / rate);
      const { bavail, bsize } = statfsSync(data);
      free.set(bavail * bsize);
    },
  });
  const left = new Gauge({
    name: 'fw_batch_items_left',
    help: 'Lines of batches that have not ended, and have not come back.',
    registers,
  });
  const time = new Gauge({
    name: 'fw_batch_left_seconds',
    help: 'Time until all of these have come back, at the rate of the last minute.',
    registers,
  });
  const free = new Gauge({
    name: 'fw_data_free_bytes',
    help: 'Room on the disk of the folder that the server keeps all in.',
    registers,
  });
  const oldest = new Gauge({
    name: 'fw_batch_oldest_seconds',
    help: 'Age of the oldest batch in a state that is not final.',
    labelNames: ['state'],
    registers,
  });
  const deadline = new Gauge({
    name: 'fw_batch_deadline_seconds',
    help: 'Time until the first window of a batch that has not ended is over.',
    registers,
  });
  const items = new Counter({
    name: 'fw_batch_items_total',
    help: 'Lines of batches that have come back.',
    labelNames: ['outcome'],
    registers,
  });
  const paused = new Gauge({
    name: 'fw_batches_paused',
    help: 'Batches that wait because the disk is full or something else was broken.',
    registers,
  });
}
