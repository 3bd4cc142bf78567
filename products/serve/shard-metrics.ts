/** What Prometheus is told of workers and of what they have: by state, never by worker, batch or owner. */
import { Gauge } from 'prom-client';
import type { Desk } from '../workers/desk.ts';
import type { Parts } from './server-context.ts';

export function shardMetrics(
  { metrics: { registry }, now }: Pick<Parts, 'metrics' | 'now'>,
  desk: Desk,
): void {
  const registers = [registry];
  // the first that is asked: it sets the others
  new Gauge({
    name: 'fw_workers',
    help: 'Workers that were heard of within a lease.',
    registers,
    collect() {
      const { alive, shards, lastResult, isQueueUp, ...work } = desk.stats();
      this.set(alive);
      queueUp.set(isQueueUp ? 1 : 0);
      for (const [state, count] of Object.entries(shards)) states.set({ state }, count);
      lines.set({ state: 'queued' }, work.queuedLines);
      lines.set({ state: 'running' }, work.runningLines);
      seconds.reset();
      // a sum over both is not to be taken for all where one is not known
      if (work.queuedSeconds !== null && work.runningSeconds !== null) {
        seconds.set({ state: 'queued' }, work.queuedSeconds);
        seconds.set({ state: 'running' }, work.runningSeconds);
      }
      last.remove();
      if (lastResult !== null) last.set(Math.max(0, now() - lastResult) / 1000);
    },
  });
  const states = new Gauge({
    name: 'fw_shards',
    help: 'Shards of open batches, or the parts that they were cut into: planned, offered in the queue, with a worker, done.',
    labelNames: ['state'],
    registers,
  });
  const lines = new Gauge({
    name: 'fw_shard_lines',
    help: 'Lines of open batches without an answer: queued, and with workers.',
    labelNames: ['state'],
    registers,
  });
  const seconds = new Gauge({
    name: 'fw_shard_work_seconds',
    help: 'Time that one worker would need for the lines that are queued, and that workers have.',
    labelNames: ['state'],
    registers,
  });
  const queueUp = new Gauge({
    name: 'fw_queue_up',
    help: 'Whether the queue (Redis) is connected: 1 or 0.',
    registers,
  });
  const last = new Gauge({
    name: 'fw_shard_last_result_seconds',
    help: 'Time since a worker handed in a result.',
    registers,
  });
}
