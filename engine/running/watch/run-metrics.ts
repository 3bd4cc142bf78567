/**
 * --metrics: what a run does, for Prometheus. Values are taken at the moment they are asked for; only the latency of
 * calls is counted as they are answered. Labels are endpoints and names of this program, never ids or texts of items.
 */
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import { type EndpointStats, isThere, type PoolStats } from '../../asking/pool/pool-stats.ts';
import type { Account } from '../../core/item/account.ts';
import { CODES } from '../../core/item/codes.ts';
import { usageError } from '../../core/item/failure.ts';
import { RUNGS } from '../../core/item/item.ts';
import { doneOf, type Facts } from './run-facts.ts';

export interface Metered {
  account: Account;
  /** null as long as nothing is asked */
  stats(): PoolStats | null;
  facts(): Facts | null;
}

export type Metrics = Awaited<ReturnType<typeof serveMetrics>>;

/** Those of vLLM's end-to-end latency, and some below; seconds. */
const LATENCIES = [0.05, 0.1, 0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480];
const MOST_CONNECTIONS = 16;
const HEADERS_WITHIN = 5_000;

/** `at` is PORT or HOST:PORT. Exit 64 where nothing can listen there. */
export async function serveMetrics(at: string, metered: Metered) {
  const { host, port } = placeOf(at);
  const registry = new Registry();
  const latency = new Histogram({
    name: 'fw_call_duration_seconds',
    help: 'Time from sending a call to its answer.',
    labelNames: ['endpoint'],
    buckets: LATENCIES,
    registers: [registry],
  });
  const fill = metricsIn(registry, metered);
  const server = createServer((request, response) => {
    if (request.method !== 'GET') return void response.writeHead(405).end();
    if (request.url?.split('?')[0] !== '/metrics') return void response.writeHead(404).end('see /metrics\n');
    fill();
    registry.metrics().then(
      page => response.writeHead(200, { 'content-type': registry.contentType }).end(page),
      (error: Error) => notToldOf(response, error),
    );
  });
  server.maxConnections = MOST_CONNECTIONS;
  server.headersTimeout = HEADERS_WITHIN;
  await new Promise<void>((resolve, reject) => {
    server.once('error', ({ code }: NodeJS.ErrnoException) => {
      const found = code === 'EADDRINUSE' ? 'one in use' : code === 'EACCES' ? 'one that is not ours' : code;
      reject(
        usageError(
          `--metrics: expected a free port of this machine, found ${found}: ${host}:${port}; 0 takes any`,
        ),
      );
    });
    server.listen(port, host, resolve);
  });
  server.on('error', () => {}); // an accepted connection that breaks is no matter of the run
  server.unref();
  const { port: taken } = server.address() as AddressInfo;
  return {
    /** where they are */
    url: `http://${host.includes(':') ? `[${host}]` : host}:${taken}/metrics`,
    onAnswer: (endpoint: string, ms: number): void => latency.observe({ endpoint }, ms / 1000),
    close(): void {
      server.close();
      server.closeAllConnections();
    },
  };
}

function notToldOf(response: ServerResponse, { message }: Error): void {
  response.writeHead(500).end(`${message}\n`);
}

function placeOf(at: string): { host: string; port: number } {
  const match = /^(?:(.{1,255}):)?(\d{1,5})$/.exec(at);
  const port = Number(match?.[2]);
  if (!match || port > 65_535) {
    throw usageError(`--metrics: expected PORT or HOST:PORT, such as 9400, found '${at.slice(0, 100)}'`);
  }
  return { host: match[1]?.replace(/^\[|\]$/g, '') ?? '127.0.0.1', port };
}

type Labels = Record<string, string>;
type Values = readonly (readonly [labels: Labels, value: number])[];

type Declare = (name: string, help: string, labelNames: string[], values: () => Values) => void;

/** Metrics, with where their values come from; `fill` gives them the values of this moment. */
class Families {
  readonly #registry: Registry;
  readonly #fills: (() => void)[] = [];
  stats: PoolStats | null = null;
  endpoints: readonly EndpointStats[] = [];

  constructor(registry: Registry) {
    this.#registry = registry;
  }

  readonly counter: Declare = (name, help, labelNames, values) => {
    const metric = new Counter({ name, help, labelNames, registers: [this.#registry] });
    this.#fills.push(() => {
      metric.reset();
      for (const [labels, value] of values()) metric.inc(labels, value);
    });
  };

  readonly gauge: Declare = (name, help, labelNames, values) => {
    const metric = new Gauge({ name, help, labelNames, registers: [this.#registry] });
    this.#fills.push(() => {
      metric.reset();
      // without labels reset makes it 0, and what is not known is no 0
      if (labelNames.length === 0) metric.remove();
      for (const [labels, value] of values()) metric.set(labels, value);
    });
  };

  /** With one value, where it is known. */
  readonly one = (kind: Kind, name: string, help: string, of: () => number | null | undefined): void =>
    this[kind](name, help, [], () => valued({}, of()));

  /** With a value for each endpoint that has one. */
  readonly each = (
    kind: Kind,
    name: string,
    help: string,
    of: (stats: EndpointStats) => number | null | undefined,
  ): void =>
    this[kind](name, help, ['endpoint'], () =>
      this.endpoints.flatMap(stats => valued({ endpoint: stats.url }, of(stats))),
    );

  fill(stats: PoolStats | null): void {
    this.stats = stats;
    this.endpoints = stats?.endpoints ?? [];
    for (const fill of this.#fills) fill();
  }
}

type Kind = 'counter' | 'gauge';

const valued = (labels: Labels, value: number | null | undefined): Values =>
  value == null ? [] : [[labels, value]];

/** Declares the metrics; the returned function gives them their values. */
function metricsIn(registry: Registry, metered: Metered): () => void {
  const families = new Families(registry);
  addItems(families, metered);
  addCalls(families);
  addServers(families);
  return () => families.fill(metered.stats());
}

function addItems({ counter, one }: Families, { account, facts }: Metered): void {
  counter('fw_items_total', 'Items written, by rung.', ['outcome'], () =>
    RUNGS.map(rung => [{ outcome: rung }, account.rungs[rung]]),
  );
  counter(
    'fw_item_failures_total',
    'Failed items, by code, and by what was wrong with their last answer.',
    ['code', 'answer'],
    () => failuresOf(account),
  );
  const share = 'Share of the needed calls that are done, as the progress bar shows it.';
  const inFlight = () => account.read - doneOf(account) - account.aside;
  const work = 'Estimated time for the calls of all items known so far, at the rate of the last minutes.';
  const seconds = (ms: number | null | undefined) => (ms == null ? null : ms / 1000);
  const busy = 'Time that the main thread of this process was busy.';
  const active = () => performance.eventLoopUtilization().active / 1000;
  one('counter', 'fw_items_read_total', 'Items read.', () => account.read);
  one('gauge', 'fw_items_expected', 'Items expected in all, where known.', () => facts()?.total);
  one('gauge', 'fw_progress_ratio', share, () => facts()?.share);
  one('gauge', 'fw_items_in_flight', 'Items in this process.', inFlight);
  one('gauge', 'fw_queued_work_seconds', work, () => seconds(facts()?.work));
  one('counter', 'fw_event_loop_busy_seconds_total', busy, active);
}

function addCalls(families: Families): void {
  const { counter, each, one } = families;
  counter('fw_calls_total', 'Tries of calls, by endpoint and outcome.', ['endpoint', 'outcome'], () =>
    families.endpoints.flatMap(({ url: endpoint, answered, failed }) => [
      [{ endpoint, outcome: 'answer' }, answered] as const,
      ...Object.entries(failed).map(([outcome, times]) => [{ endpoint, outcome }, times] as const),
    ]),
  );
  counter('fw_call_failures_total', 'Calls given up, by code.', ['code'], () =>
    Object.entries(families.stats?.failed ?? {}).map(([code, times]) => [{ code }, times]),
  );
  const cached = 'Tokens of prompts that came from a prefix cache.';
  const waiting = 'Calls that wait for a place at an endpoint.';
  const again = 'Tries of calls that had failed before.';
  one('counter', 'fw_retries_total', again, () => families.stats?.retries);
  one(
    'counter',
    'fw_replayed_calls_total',
    'Calls that the ledger answered.',
    () => families.stats?.replayed,
  );
  each('counter', 'fw_prompt_tokens_total', 'Tokens of prompts.', ({ usage }) => usage.prompt);
  each('counter', 'fw_cached_prompt_tokens_total', cached, ({ usage }) => usage.cached);
  each('counter', 'fw_completion_tokens_total', 'Tokens of answers.', ({ usage }) => usage.completion);
  each('gauge', 'fw_calls_in_flight', 'Calls in flight at an endpoint.', ({ inFlight }) => inFlight);
  each('gauge', 'fw_calls_limit', 'Concurrency limit of an endpoint.', ({ limit }) => limit);
  one('gauge', 'fw_calls_waiting', waiting, () => families.stats?.waiting);
}

function addServers({ each }: Families): void {
  const up = 'Whether an endpoint is available: 1 or 0.';
  const running = 'Requests in the batch, as the server says.';
  const waiting = 'Requests that wait in the server, as it says.';
  const kv = 'Share of the KV cache in use, as the server says.';
  const use = 'Share of the time in which the GPUs of an endpoint are busy.';
  const memory = 'Share of the memory of the GPUs of an endpoint.';
  each('gauge', 'fw_endpoint_up', up, stats => (isThere(stats) ? 1 : 0));
  each('gauge', 'fw_server_requests_running', running, ({ load }) => load?.running);
  each('gauge', 'fw_server_requests_waiting', waiting, ({ load }) => load?.waiting);
  each('gauge', 'fw_server_kv_cache_usage_ratio', kv, ({ load }) => load?.kv);
  each('gauge', 'fw_gpu_use_ratio', use, ({ gpu }) => gpu?.use);
  each('gauge', 'fw_gpu_memory_used_ratio', memory, ({ gpu }) => gpu?.memory);
}

/** A failed item that came in may name any code: those that are none of ours are one. */
function failuresOf({ failures }: Account): Values {
  const ours = (code: string): string => (Object.hasOwn(CODES, code) ? code : 'other');
  const sums = new Map<string, [Labels, number]>();
  for (const { code, problem, times } of failures.values()) {
    const labels = { code: ours(code), answer: problem === undefined ? '' : ours(problem) };
    const name = `${labels.code} ${labels.answer}`;
    sums.set(name, [labels, (sums.get(name)?.[1] ?? 0) + times]);
  }
  return [...sums.values()];
}
