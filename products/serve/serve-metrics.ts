/**
 * /metrics of a server, for Prometheus. Labels are routes, states and endpoints, never a key, an owner, a batch or a file:
 * those have no bound.
 */
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import { type EndpointStats, isThere, type PoolStats } from '../../engine/asking/pool/pool-stats.ts';
import { CallMetrics } from './call-metrics.ts';
import type { EndpointList } from './endpoint-list.ts';
import type { Webhooks } from './webhooks.ts';

/** By name; one that ends in `_total` is a counter, all others are gauges. */
type Families<Name extends string> = Readonly<Record<Name, readonly [help: string, label?: string]>>;

/** Of a family now: its value, or those by its label. Null where nobody knows: it is not shown then. */
export type Values = number | null | Iterable<readonly [label: string, value: number]>;

/** seconds: answers of a model take long */
const TIMES = [0.005, 0.01, 0.05, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300];

/** Of the process: CPU, memory, how late the event loop is, under the names that all Node programs have; and what it is. */
function addOwn(register: Registry, isStandby: 0 | 1): void {
  collectDefaultMetrics({ register });
  const help = 'Whether this process stands by for another one that serves the folder: 1 or 0.';
  new Gauge({ name: 'fw_standby', help, registers: [register] }).set(isStandby);
}

/** What one that stands by says: that it is there, and how it does. */
export function standbyMetrics(): Pick<Registry, 'contentType' | 'metrics'> {
  const registry = new Registry();
  addOwn(registry, 1);
  return registry;
}

export class ServerMetrics {
  readonly #registry = new Registry();
  readonly calls = new CallMetrics(this.#registry);
  readonly #fills: (() => void)[] = [];
  readonly #requests = new Counter({
    name: 'fw_http_requests_total',
    help: 'Requests that were answered.',
    labelNames: ['route', 'status'],
    registers: [this.#registry],
  });
  readonly #times = new Histogram({
    name: 'fw_http_request_seconds',
    help: 'Time from the headers of a request to the end of its answer.',
    labelNames: ['route'],
    buckets: TIMES,
    registers: [this.#registry],
  });

  constructor(stats: () => PoolStats) {
    addOwn(this.#registry, 0);
    this.measure(
      {
        fw_endpoint_up: ['Whether an endpoint is available: 1 or 0.', 'endpoint'],
        fw_calls_in_flight: ['Calls in flight at an endpoint.', 'endpoint'],
        fw_calls_limit: ['Concurrency limit of an endpoint.', 'endpoint'],
        fw_calls_waiting: ['Calls that wait for a place at an endpoint.'],
        fw_server_requests_running: ['Requests in the batch, as the server says.', 'endpoint'],
        fw_server_requests_waiting: ['Requests that wait in the server, as it says.', 'endpoint'],
        fw_server_kv_cache_usage_ratio: ['Share of the KV cache in use, as the server says.', 'endpoint'],
        fw_gpu_use_ratio: ['Share of the time in which the GPUs of an endpoint are busy.', 'endpoint'],
        fw_gpu_memory_used_ratio: ['Share of the memory of the GPUs of an endpoint.', 'endpoint'],
        fw_batch_places: ['Places of an endpoint that batches may have beside live calls.', 'endpoint'],
        fw_live_ttft_aim_seconds: [
          'Time to the first token that batches leave to live calls at an endpoint; absent while those decide nothing.',
          'endpoint',
        ],
      },
      () => {
        const { endpoints, waiting } = stats();
        // what a server does not say is not shown
        const each = (of: (one: EndpointStats) => number | null | undefined): Values =>
          endpoints.flatMap(one => {
            const value = of(one);
            return value == null ? [] : [[one.url, value] as const];
          });
        return {
          fw_endpoint_up: each(one => (isThere(one) ? 1 : 0)),
          fw_calls_in_flight: each(({ inFlight }) => inFlight),
          fw_calls_limit: each(({ limit }) => limit),
          fw_calls_waiting: waiting,
          fw_server_requests_running: each(({ load }) => load?.running),
          fw_server_requests_waiting: each(({ load }) => load?.waiting),
          fw_server_kv_cache_usage_ratio: each(({ load }) => load?.kv),
          fw_gpu_use_ratio: each(({ gpu }) => gpu?.use),
          fw_gpu_memory_used_ratio: each(({ gpu }) => gpu?.memory),
          fw_batch_places: each(({ share, limit }) => Math.min(limit, share?.places ?? limit)),
          fw_live_ttft_aim_seconds: endpoints.flatMap(({ url, share }) =>
            share?.aim == null ? [] : [[url, share.aim / 1_000] as const],
          ),
        };
      },
    );
  }

  get contentType(): string {
    return this.#registry.contentType;
  }

  async page(): Promise<string> {
    for (const fill of this.#fills) fill();
    return this.#registry.metrics();
  }

  answered(route: string, status: number, seconds: number): void {
    this.#requests.inc({ route, status: String(status) });
    this.#times.observe({ route }, seconds);
  }

  /** Families whose values are read together, at the moment of asking. */
  measure<Name extends string>(families: Families<Name>, read: () => Readonly<Record<Name, Values>>): void {
    const all = Object.keys(families).map(key => {
      const name = key as Name;
      const [help, label] = families[name];
      const own = { name, help, labelNames: label === undefined ? [] : [label], registers: [this.#registry] };
      const metric = name.endsWith('_total') ? new Counter(own) : new Gauge(own);
      return { name, label, metric };
    });
    this.#fills.push(() => {
      const values = read();
      for (const { name, label, metric } of all) {
        const now: Values = values[name];
        metric.reset(); // endpoints of workers come and go, under any name: what is no more is not shown for ever
        if (label === undefined) metric.remove(); // reset made it 0, and what is not known is no 0
        const samples = typeof now === 'number' ? [['', now] as const] : (now ?? []);
        for (const [of, value] of samples) {
          const labels = label === undefined ? {} : { [label]: of };
          if (metric instanceof Counter) metric.inc(labels, value);
          else metric.set(labels, value);
        }
      }
    });
  }

  /** Times that are noted as they come, in seconds. */
  times(name: string, help: string, buckets: number[]): Histogram {
    return new Histogram({ name, help, buckets, registers: [this.#registry] });
  }

  pricesOf(endpoints: Pick<EndpointList, 'priceOf' | 'hourPrices'>): void {
    this.calls.priceOf = url => endpoints.priceOf(url);
    const fw_endpoint_hour_price = [
      'What an hour of an endpoint costs that is paid by the hour, as the pool file says.',
      'endpoint',
    ] as const;
    this.measure({ fw_endpoint_hour_price }, () => ({ fw_endpoint_hour_price: endpoints.hourPrices() }));
  }

  countHooks(webhooks: Webhooks): void {
    const fw_webhook_deliveries = [
      'Deliveries of webhooks since the start, and those that have not arrived.',
      'outcome',
    ] as const;
    this.measure({ fw_webhook_deliveries }, () => {
      const { waiting, delivered, givenUp } = webhooks.counts();
      return {
        fw_webhook_deliveries: Object.entries({ waiting, delivered, given_up: givenUp }),
      };
    });
  }
}
