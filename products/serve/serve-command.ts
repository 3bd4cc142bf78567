/**
 * fw serve: the OpenAI Batch API over a pool of servers. All that it keeps is files under DIR; killed and started again it
 * continues where it was.
 *
 *   fw serve --data serve --endpoint http://gpu1:8005/v1
 *
 * Prints one line of JSON with its URL, so that a script can take a free port (`--listen 127.0.0.1:0`), and serves until
 * SIGTERM or SIGINT: then it takes nothing new, and what is under way has --grace. A second signal ends it at once; either
 * way whoever still waits is told so. SIGHUP reads --config and --pool again. Without these it is a terminal that went away,
 * which ends a server that was started there; one without a terminal (nohup, systemd, a container) goes on. With --standby
 * it waits while another one has DIR, and takes over from it.
 */
import { constants } from 'node:os';
import { resolve } from 'node:path';
import { EXIT, type Fatal, fatalOf, usageError } from '../../engine/core/item/failure.ts';
import type { Say } from '../../engine/core/item/say.ts';
import { command } from '../../engine/flow/command.ts';
import type { Values } from '../../engine/flow/options.ts';
import { lastingSettings, openLasting, POOL_OPTIONS } from '../../engine/running/open-pool.ts';
import { expectManyRequests } from '../kit/execute.ts';
import { QUEUE_OPTIONS } from '../workers/queue-options.ts';
import type { ServeFlags, settingsOf, Told } from './serve-config.ts';
import type { Standing } from './standby.ts';

const NAME = 'serve';
const {
  endpoint,
  pool,
  'endpoint-limit': limit,
  'api-key-env': keyVariable,
  'max-body': maxBody,
  timeout,
} = POOL_OPTIONS;

export default command({
  name: NAME,
  summary: 'Serve the OpenAI Batch API over a pool of servers.',
  examples: [
    'fw serve --data serve --endpoint http://gpu1:8005/v1 --endpoint http://gpu2:8005/v1',
    'fw serve --config serve.yaml --listen 0.0.0.0:8080',
    'fw serve --data serve --redis redis://127.0.0.1:6379',
  ],
  options: {
    data: {
      type: 'string',
      file: 'write-folder',
      description: 'Folder for everything that the server stores.',
    },
    config: {
      type: 'string',
      file: 'read',
      description:
        'YAML file with listen, data, grace, keep, limits, pool, models, runaway, redis. Flags override it.',
    },
    listen: {
      type: 'string',
      description:
        'HOST:PORT or PORT to listen on; port 0 takes a free one. Needs keys (fw keys) if other machines can reach it. Default: 127.0.0.1:8080.',
    },
    grace: {
      type: 'string',
      description: 'Time for work in flight to finish after a stop signal. Default: 30s.',
    },
    log: {
      type: 'string',
      enum: ['text', 'json'],
      description: 'Form of the log on stderr. Default: text.',
    },
    'log-level': {
      type: 'string',
      enum: ['debug', 'info', 'warn', 'error'],
      description:
        'Leave out log lines below this level; warn leaves out requests that went well. Default: info.',
    },
    ...{ endpoint, pool, 'endpoint-limit': limit, 'api-key-env': keyVariable, 'max-body': maxBody, timeout },
    standby: {
      type: 'boolean',
      description:
        'Wait while another server has --data, and take over within seconds when it ends. Give it to both.',
    },
    ...QUEUE_OPTIONS,
  },

  async refused(argv, error) {
    const { saidAsJson } = await import('./log/refused.ts');
    return saidAsJson(`fw ${NAME}`, argv, error);
  },

  async run(options, positionals) {
    const { openStderr } = await import('./log/log.ts');
    const label = `fw ${NAME}`;
    let { log: format = 'text' } = options;
    let log: ReturnType<typeof openStderr> | undefined;
    try {
      if (positionals.length > 0) throw usageError(`expected options only, found "${positionals[0]}"`);
      expectManyRequests();
      const { settingsOf } = await import('./serve-config.ts');
      const told = settingsOf(options, process.env);
      log = openStderr(label, told.log);
      format = told.log.format;
      const read = async (warn: Say): Promise<Told> => {
        const { pool: file, otlp: _otlp, ...now } = settingsOf(options, process.env);
        const { queue, discover } = now.settings;
        // workers have endpoints of their own
        const needsNone = queue !== null || discover.length > 0;
        const pool = await lastingSettings(options, { ...(file && { file }), needsNone, warn });
        return { ...now, data: resolve(now.data), pool };
      };
      return await serve(options, { read, otlp: told.otlp }, log.say);
    } catch (error) {
      // who reads lines of JSON gets no line of text, whatever it ends with
      if (format !== 'json') throw error;
      const { exit, message } = fatalOf(error);
      log ??= openStderr(label, { format, level: 'error' });
      log.say(message, { event: 'ended', level: 'error', exit });
      return exit;
    } finally {
      await log?.close();
    }
  },
});

/** What the pool says of itself where it says no more. */
const POOL = { event: 'endpoints', level: 'warn' } as const;

interface Start extends Pick<ReturnType<typeof settingsOf>, 'otlp'> {
  /** Reads flags and files; `warn` hears what is odd in them. */
  read(warn: Say): Promise<Told>;
}

async function serve(options: ServeFlags & Values, { read, otlp }: Start, say: Say): Promise<number> {
  const { startServer } = await import('./serve.ts');
  const warn: Say = (message, about = POOL) => say(message, about);
  let first = await read(warn);
  const { data } = first;
  const files = [options.config, options.pool].filter(path => typeof path === 'string');
  const hasTerminal = process.stdin.isTTY === true;
  let reload = (): void =>
    say('SIGHUP: it does not serve yet; the files are read when it begins', { event: 'reload' });
  const ending = stopped(signal => {
    if (signal !== 'SIGHUP' || (files.length === 0 && hasTerminal)) return true;
    reload();
    return false;
  });
  let broken: Fatal | undefined;
  const onBroken = (error: Fatal): void => {
    broken ??= error;
    ending.end();
  };
  const listening = (url: string): void => void process.stdout.write(`${JSON.stringify({ url })}\n`);
  let standing: Standing | null | undefined;
  if (options.standby) {
    const { expectKeys } = await import('./open-parts.ts');
    const { createAccess } = await import('./access.ts');
    const access = createAccess(expectKeys({ data, settings: first.settings, say }), Date.now);
    const { waitInStandby } = await import('./standby.ts');
    const { asked: signal } = ending;
    const { settings: place } = first;
    standing = await waitInStandby({ data, place, access, say, listening, onLost: onBroken, signal });
  }
  if (standing === null) return exitOf(await ending.first);
  // the files may have changed while it stood by
  if (standing !== undefined)
    first = await read(warn).catch(({ message }: Error) => {
      say(`it serves with what it read when it was started: ${message}`, {
        event: 'reload-failed',
        level: 'error',
      });
      return first;
    });
  const settings = { ...first.settings };
  const server = await startServer({
    ...{ data, settings, otlp, say, onBroken },
    ...(standing && { standing }),
    told: { first, sources: { files, read: () => read(() => {}) } },
    openPool: signal =>
      openLasting(options, {
        ...{ settings: first.pool, reserve: settings.gateway.reserve, liveTtft: settings.gateway.ttft },
        ...{ warn, signal },
      }),
  });
  reload = () => {
    if (server.reload !== null) void server.reload('SIGHUP');
    else
      say('SIGHUP: there is no --config and no --pool to read again; the server goes on', {
        event: 'reload',
      });
  };
  if (standing === undefined) listening(server.url);
  say(`listening at ${server.url}, data in ${data}`, { event: 'listening', url: server.url });
  const signal = await ending.first;
  if (signal !== null)
    say(`${signal}: no new work; work in flight has ${settings.grace / 1000} s (again: stop at once)`, {
      ...{ event: 'stopping', signal },
    });
  const again = broken ? null : await Promise.race([server.stop(), ending.again]);
  if (broken !== undefined) {
    // whoever waits is told so, and nothing more is written: what is there is another's
    void server.stopAtOnce();
    throw broken;
  }
  if (typeof again === 'string') {
    say(`${again} again: stopping at once`, { event: 'stopping', signal: again });
    await server.stopAtOnce();
    return 128 + constants.signals[again];
  }
  return exitOf(signal);
}

/** A terminal that went away is no end that somebody asked for. */
const exitOf = (signal: Signal | null): number =>
  signal === 'SIGHUP' ? 128 + constants.signals.SIGHUP : EXIT.ok;

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
type Signal = (typeof SIGNALS)[number];

/** The first and the second signal by which it ends, and whether there was one; `end` stops without one. */
function stopped(ends: (signal: Signal) => boolean) {
  const asked = new AbortController();
  const first = deferred<Signal | null>();
  const again = deferred<Signal | null>();
  let count = 0;
  const onSignal = (signal: Signal): void => {
    if (!ends(signal)) return;
    asked.abort();
    (count++ === 0 ? first : again).resolve(signal);
  };
  for (const signal of SIGNALS) process.on(signal, onSignal);
  const end = (): void => {
    for (const one of [first, again]) one.resolve(null);
  };
  return { first: first.promise, again: again.promise, asked: asked.signal, end };
}

function deferred<T>(): { promise: Promise<T>; resolve(value: T): void } {
  let resolve: (value: T) => void = () => {};
  const promise = new Promise<T>(done => {
    resolve = done;
  });
  return { promise, resolve };
}
