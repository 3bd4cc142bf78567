/** What Prometheus is told of batches: by state, never by id or owner. */
import { Counter, Gauge } from 'prom-client';
import type { Parts } from '../parts.ts';
import type { Batches } from './batches.ts';
import { expiresAt, isFinal, STATUSES } from './state.ts';
import type { BatchStore } from './store.ts';

export function batchMetrics(
  { metrics: { registry }, now }: Parts,
  store: BatchStore,
  batches: Batches,
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
      const seconds = now() / 1000;
      let next = Number.POSITIVE_INFINITY;
      const ages = new Map<string, number>();
      const counts = new Map<string, number>(STATUSES.map(state => [state, 0]));
      for (const record of store.all().map(batches.seen)) {
        const { status, created_at } = record;
        counts.set(status, (counts.get(status) ?? 0) + 1);
        items.inc({ outcome: 'completed' }, record.counts.completed);
        items.inc({ outcome: 'failed' }, record.counts.failed);
        if (isFinal(status)) continue;
        ages.set(status, Math.max(ages.get(status) ?? 0, seconds - created_at));
        next = Math.min(next, expiresAt(record) - seconds);
      }
      for (const [state, count] of counts) this.set({ state }, count);
      for (const [state, age] of ages) oldest.set({ state }, age);
      if (next < Number.POSITIVE_INFINITY) deadline.set(next);
      paused.set(batches.paused);
    },
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
