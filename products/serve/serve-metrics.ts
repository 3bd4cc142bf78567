/**
 * /metrics of a server, for Prometheus. Labels are routes, states and endpoints, never a key, an owner, a batch or a file:
 * those have no bound.
 */
import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import { isThere, type PoolStats } from '../../engine/asking/pool/pool-stats.ts';
import type { Webhooks } from './webhooks.ts';

export interface ServerMetrics {
  /** for further metrics */
  registry: Registry;
  answered(route: string, status: number, seconds: number): void;
  countHooks(counts: Webhooks['counts']): void;
  page(): Promise<string>;
}

/** seconds: answers of a model take long */
const TIMES = [0.005, 0.01, 0.05, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300];

export function createMetrics(stats: () => PoolStats): ServerMetrics {
  const registry = new Registry();
  const registers = [registry];
  const requests = new Counter({
    name: 'fw_http_requests_total',
    help: 'Requests that were answered.',
    labelNames: ['route', 'status'],
    registers,
  });
  const times = new Histogram({
    name: 'fw_http_request_seconds',
    help: 'Time from the headers of a request to the end of its answer.',
    labelNames: ['route'],
    buckets: TIMES,
    registers,
  });
  const up = new Gauge({
    name: 'fw_endpoint_up',
    help: 'Whether an endpoint is available: 1 or 0.',
    labelNames: ['endpoint'],
    registers,
  });
  const inFlight = new Gauge({
    name: 'fw_calls_in_flight',
    help: 'Calls in flight at an endpoint.',
    labelNames: ['endpoint'],
    registers,
  });
  const limit = new Gauge({
    name: 'fw_calls_limit',
    help: 'Concurrency limit of an endpoint.',
    labelNames: ['endpoint'],
    registers,
  });
  const waiting = new Gauge({
    name: 'fw_calls_waiting',
    help: 'Calls that wait for a place at an endpoint.',
    registers,
    collect() {
      const now = stats();
      this.set(now.waiting);
      // endpoints of workers come and go, under any name: what is no more is not shown for ever
      for (const gauge of [up, inFlight, limit]) gauge.reset();
      for (const one of now.endpoints) {
        const { url: endpoint, inFlight: calls, limit: most } = one;
        up.set({ endpoint }, isThere(one) ? 1 : 0);
        inFlight.set({ endpoint }, calls);
        limit.set({ endpoint }, most);
      }
    },
  });
  return {
    registry,
    answered(route, status, seconds) {
      requests.inc({ route, status: String(status) });
      times.observe({ route }, seconds);
    },
    countHooks(counts) {
      new Gauge({
        name: 'fw_webhook_deliveries',
        help: 'Deliveries of webhooks since the start, and those that have not arrived.',
        labelNames: ['outcome'],
        registers,
        collect() {
          const { waiting: left, delivered, givenUp } = counts();
          this.set({ outcome: 'waiting' }, left);
          this.set({ outcome: 'delivered' }, delivered);
          this.set({ outcome: 'given_up' }, givenUp);
        },
      });
    },
    async page() {
      await waiting.get(); // before the others are written, which it sets
      return registry.metrics();
    },
  };
}
