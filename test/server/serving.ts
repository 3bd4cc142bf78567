/** A server of the API in this process, over simulated servers; the official client on it; and fw serve as a process. */
import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';
import OpenAI from 'openai';
import { onTestFinished } from 'vitest';
import type { Fatal } from '../../engine/core/item/failure.ts';
import { openLasting } from '../../engine/running/open-pool.ts';
import { type KeyRules, makeKey, readKeys, type Scope, writeKeys } from '../../products/serve/api-keys.ts';
import type { Serving } from '../../products/serve/open-parts.ts';
import { type Server, startServer } from '../../products/serve/serve.ts';
import { type Settings, settingsOf } from '../../products/serve/serve-config.ts';
import type { Standing } from '../../products/serve/standby.ts';
import type { OtlpSettings } from '../../products/serve/traces/otlp-settings.ts';
import type { Clocks } from '../../products/serve/wall-clock.ts';
import { type SimulatorOptions, startSimulator } from '../../products/simulator/simulator.ts';
import { binFolder, environment, folder } from '../fw.ts';

export const MODEL = 'simulated-3b';

export async function simulated(options: Partial<SimulatorOptions> = {}) {
  const simulator = await startSimulator({ port: 0, latency: '1ms', model: MODEL, ...options });
  onTestFinished(() => simulator.close());
  return { simulator, url: simulator.url };
}

export interface ServedOptions {
  data?: string;
  endpoints?: string[];
  settings?: Partial<Settings>;
  limits?: Partial<Settings['limits']>;
  gateway?: Partial<Settings['gateway']>;
  limit?: number;
  now?: () => number;
  clocks?: Clocks;
  disk?: Serving['disk'];
  otlp?: OtlpSettings | null;
  standing?: Standing;
}

export interface Served extends Server {
  data: string;
  said: string[];
  broken: Fatal[];
  client(key?: string): OpenAI;
}

/** Stopped at the end of the test; its folder is gone then. */
export async function served(options: ServedOptions = {}): Promise<Served> {
  const data = options.data ?? join(folder(), 'data');
  const told = settingsOf({ data, listen: '127.0.0.1:0', grace: '200ms' });
  const said: string[] = [];
  const broken: Fatal[] = [];
  const endpoint = options.endpoints ?? [(await simulated()).url];
  const values = { endpoint, wait: '0s', 'max-body': 4 * 1024 * 1024, 'endpoint-limit': options.limit };
  const say = (message: string): void => void said.push(message);
  const settings = {
    ...told.settings,
    ...options.settings,
    limits: { ...told.settings.limits, ...options.limits },
    gateway: { ...told.settings.gateway, ...options.gateway },
  };
  const server = await startServer({
    data,
    settings,
    openPool: signal =>
      openLasting(values, {
        reserve: settings.gateway.reserve,
        needsNone: settings.queue !== null,
        warn: say,
        signal,
      }),
    say,
    onBroken: error => void broken.push(error),
    ...(options.now && { now: options.now }),
    ...(options.clocks && { clocks: options.clocks }),
    ...(options.disk && { disk: options.disk }),
    ...(options.otlp && { otlp: options.otlp }),
    ...(options.standing && { standing: options.standing }),
  });
  let stopping: Promise<void> | undefined;
  const stop = (): Promise<void> => {
    stopping ??= server.stop();
    return stopping;
  };
  onTestFinished(stop);
  const client = (key = 'none'): OpenAI =>
    new OpenAI({ apiKey: key, baseURL: `${server.url}/v1`, maxRetries: 0 });
  return { ...server, stop, data, said, broken, client };
}

/** A key of the server at `data`, as fw keys makes it. */
export function keyOf(
  data: string,
  name: string,
  scopes: readonly Scope[] = ['batch', 'chat'],
  limits: KeyRules = {},
): string {
  const { key, record } = makeKey(name, scopes, limits, Date.now());
  writeKeys(data, [...(readKeys(data) ?? []), record]);
  return key;
}

/**
 * `fw serve` as a process of its own, on a free port unless `args` say another; resolves to it and its URL. `before` is
 * what the shell does first, such as `ulimit -n 256`.
 */
export async function serveProcess(
  args: readonly string[],
  before = ':',
): Promise<{ child: ChildProcess; url: string }> {
  const place = args.includes('--listen') ? [] : ['--listen', '127.0.0.1:0'];
  const own = [join(binFolder, 'fw'), 'serve', ...place, ...args];
  const child = spawn('bash', ['-c', `${before}; exec "$@"`, 'bash', ...own], {
    env: environment({}),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  let errors = '';
  child.stderr?.on('data', chunk => {
    errors += chunk;
  });
  const url = await new Promise<string>((resolve, reject) => {
    let out = '';
    child.stdout?.on('data', chunk => {
      out += chunk;
      if (out.includes('\n')) resolve(JSON.parse(out.split('\n', 1)[0] as string).url);
    });
    child.on('exit', code => reject(new Error(`fw serve ended with ${code}: ${errors}`)));
  });
  return { child, url };
}
