/**
 * A server that is started here, in a process group of its own, and stopped again. That it is a new one is known: nothing
 * answered at its address before. A start that fails is an outcome, not an error of this program.
 *
 *   nothing listens ─> start ─> /health ─> /v1/models ─> ready ─> … ─> TERM ─> KILL ─> those left behind ─> nothing listens
 */
import { spawn } from 'node:child_process';
import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import { connect } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import { systemClock, TIMING } from '../../../engine/asking/endpoints/pool-clock.ts';
import { metricsPath, pageOf, sumOf } from '../../../engine/asking/endpoints/server-load.ts';
import type { Endpoint } from '../../../engine/asking/pool/pool-state.ts';
import { type Asking, askingOf } from '../../../engine/asking/pool/probe.ts';
import { unavailable } from '../../../engine/core/item/failure.ts';
import { cut, timeWords } from '../../../engine/core/item/wording.ts';
import { visible } from '../../../engine/core/json/visible.ts';
import {
  isGroupAlive,
  isMarkedAlive,
  MARK,
  type Marked,
  markedBy,
  signalMarked,
  signal as signalTo,
} from './processes.ts';

/** Why there is no server, or none any more. */
export const FAILURES = [
  'does-not-start',
  'out-of-memory',
  'never-healthy',
  'died',
  'old-server',
  'requests-failed',
] as const;
export type FailureKind = (typeof FAILURES)[number];

export interface Failure {
  kind: FailureKind;
  message: string;
  /** the last lines of its output */
  lines: string[];
}

export interface Times {
  /** between two looks at a server that starts or stops */
  poll: number;
  /** from TERM to KILL */
  grace: number;
  /** before a failed start is tried again: memory of the server before may still be held */
  pause: number;
}

export const TIMES: Times = { poll: 250, grace: 20_000, pause: 10_000 };

export interface Starting {
  command: string;
  endpoint: Endpoint;
  /** of the folder: children carry it */
  mark: string;
  log: string;
  readyMs: number;
  times: Times;
  signal: AbortSignal;
}

export interface Server {
  endpoint: Endpoint;
  log: string;
  /** ms from its start until it was ready */
  readyMs: number;
  /** how it is known to be the one that was started */
  proof: string;
  /** why it has ended by itself; null while it runs */
  ended(): Failure | null;
  /** Resolves to the processes that it had left behind, which were ended too. */
  stop(): Promise<Marked[]>;
}

export class StartFailed extends Error {
  override name = 'StartFailed';
  readonly failure: Failure;
  readonly left: readonly Marked[];
  constructor(failure: Failure, left: readonly Marked[]) {
    super(failure.message);
    this.failure = failure;
    this.left = left;
  }
}

/** Process groups of servers that run. */
const groups = new Set<number>();

/** Ends them without a word, before this process ends for whatever reason. */
export function killServers(): void {
  for (const group of groups) signalTo(-group, 'SIGKILL');
}

/** @throws StartFailed, after which nothing of it runs; Fatal 69 where something listens at its address already */
export async function startServer(starting: Starting): Promise<Server> {
  const { command, endpoint, mark, log, readyMs, times, signal } = starting;
  const { hostname, port, host } = addressOf(endpoint.url);
  if (await listens(hostname, port))
    throw unavailable(
      `expected ${host} to be free, found a server there: fw tune starts its own, and stops no other. Stop it, or set another port in serve and endpoint`,
    );
  const began = Date.now();
  const from = performance.now();
  const output = openSync(log, 'a', 0o600);
  const child = spawn('/bin/sh', ['-c', command], {
    detached: true, // a group of its own: what it starts is stopped with it
    stdio: ['ignore', output, output],
    env: { ...process.env, [MARK]: mark },
  });
  closeSync(output);
  let exit: string | null = null;
  child.once('exit', (code, name) => {
    exit = name === null ? `with code ${code}` : `by ${name}`;
  });
  child.once('error', error => {
    exit = `before it began: ${error.message}`;
  });
  const group = child.pid;
  if (group !== undefined) groups.add(group);
  const stop = async (): Promise<Marked[]> => {
    const left = group === undefined ? [] : await stopAll(group, mark, times);
    if (group !== undefined) groups.delete(group);
    for (let tries = 0; tries < 40 && (await listens(hostname, port)); tries++) await wait(times.poll);
    return left;
  };
  const failed = async (kind: FailureKind, message: string): Promise<never> => {
    const lines = lastLines(log);
    const left = await stop();
    const isMemory = kind !== 'old-server' && isOutOfMemory(lines);
    throw new StartFailed({ kind: isMemory ? 'out-of-memory' : kind, message, lines }, left);
  };

  const asking = askingOf(endpoint, { clock: systemClock, timing: TIMING }, Number.POSITIVE_INFINITY);
  let isHealthy = false;
  while (!isHealthy) {
    if (signal.aborted) {
      await stop();
      signal.throwIfAborted();
    }
    if (exit !== null) return failed('does-not-start', `it ended ${exit} before it was ready`);
    if (performance.now() - from > readyMs)
      return failed('never-healthy', `it was not ready within ${timeWords(readyMs)}`);
    isHealthy = (await listens(hostname, port)) && (await isReady(asking, endpoint));
    if (!isHealthy) await wait(times.poll, undefined, { signal }).catch(() => {});
  }
  const started = await startOf(asking, endpoint);
  // clocks of one machine, but a server may round its start down
  if (started !== null && started * 1000 < began - 2_000)
    return failed(
      'old-server',
      `a server that began ${Math.round(began / 1000 - started)} s earlier answers`,
    );
  return {
    endpoint,
    log,
    readyMs: performance.now() - from,
    proof: `nothing listened at ${host} before${started === null ? '' : `, and process_start_time_seconds is ${started}`}`,
    ended: () => {
      if (exit === null) return null;
      const lines = lastLines(log);
      return { kind: isOutOfMemory(lines) ? 'out-of-memory' : 'died', message: `it ended ${exit}`, lines };
    },
    stop,
  };
}

/** Those of a run that was killed: a group that nobody stopped, or what it had left behind. */
export async function stopMarked(mark: string, times: Times): Promise<Marked[]> {
  const left = markedBy(mark);
  for (const one of left) signalMarked(one, 'SIGTERM');
  await until(() => !left.some(isMarkedAlive), times.grace, times.poll);
  for (const one of left) signalMarked(one, 'SIGKILL');
  await until(() => !left.some(isMarkedAlive), LAST_MS, times.poll);
  return left;
}

const BY_ITSELF_MS = 1_000;
/** After KILL a process ends as soon as the system lets it. */
const LAST_MS = 5_000;

async function stopAll(group: number, mark: string, times: Times): Promise<Marked[]> {
  signalTo(-group, 'SIGTERM');
  await until(() => !isGroupAlive(group), times.grace, times.poll);
  signalTo(-group, 'SIGKILL');
  await until(() => !isGroupAlive(group), LAST_MS, times.poll);
  // a helper in a group of its own may see that its server has gone, and end by itself
  await until(() => markedBy(mark).length === 0, BY_ITSELF_MS, times.poll);
  return stopMarked(mark, times);
}

async function until(isOver: () => boolean, ms: number, poll: number): Promise<void> {
  const end = performance.now() + ms;
  while (!isOver() && performance.now() < end) await wait(Math.min(poll, 50));
}

function addressOf(url: string): { hostname: string; port: number; host: string } {
  const { hostname, port, protocol, host } = new URL(url);
  return {
    hostname: hostname.replace(/^\[|\]$/g, ''),
    port: Number(port || (protocol === 'https:' ? 443 : 80)),
    host,
  };
}

const CONNECT_MS = 2_000;

function listens(host: string, port: number): Promise<boolean> {
  return new Promise(resolve => {
    const socket = connect({ host, port, timeout: CONNECT_MS });
    const end = (is: boolean) => (): void => {
      socket.destroy();
      resolve(is);
    };
    socket.once('connect', end(true)).once('error', end(false)).once('timeout', end(false));
  });
}

/** Beside /v1, as /metrics. */
const beside = (endpoint: Endpoint, name: string): string =>
  metricsPath(endpoint.prefix).replace(/metrics$/, name);

async function isReady(asking: Asking, endpoint: Endpoint): Promise<boolean> {
  const health = await asking.get(beside(endpoint, 'health'));
  // some front ends have no such page: their list of models is enough
  if (health instanceof Error || (health.status !== 200 && health.status !== 404)) return false;
  const models = await asking.get(`${endpoint.prefix}/models`);
  return !(models instanceof Error) && models.status === 200;
}

async function startOf(asking: Asking, endpoint: Endpoint): Promise<number | null> {
  const page = await asking.get(metricsPath(endpoint.prefix));
  if (page instanceof Error || page.status !== 200) return null;
  return sumOf(pageOf(page.body), ['process_start_time_seconds']) ?? null;
}

/** What CUDA, PyTorch and vLLM say where memory is too small, and the shell where the system has ended a process for it. */
const MEMORY_WORDS = [
  'outofmemoryerror',
  'out of memory',
  'no available memory for the cache blocks',
  'is larger than the available kv cache memory',
  'kv cache is needed, which is larger than',
  'is less than desired gpu memory utilization',
  'memory for the kv cache, found none left',
];

function isOutOfMemory(lines: readonly string[]): boolean {
  const text = lines.join('\n').toLowerCase();
  return MEMORY_WORDS.some(words => text.includes(words));
}

const TAIL_BYTES = 64 * 1024;
const TAIL_LINES = 20;

/** The last lines of a file, as a terminal may show them. */
export function lastLines(path: string): string[] {
  let file: number | undefined;
  try {
    file = openSync(path, 'r');
    const { size } = fstatSync(file);
    const bytes = Buffer.alloc(Math.min(size, TAIL_BYTES));
    const read = readSync(file, bytes, 0, bytes.length, size - bytes.length);
    const lines = bytes.toString('utf8', 0, read).split('\n');
    return lines
      .filter(line => line.trim() !== '')
      .slice(-TAIL_LINES)
      .map(line => visible(cut(line, 400)));
  } catch {
    return [];
  } finally {
    if (file !== undefined) closeSync(file);
  }
}
