/**
 * A real redis-server (Debian: redis-server) on a free port, in a folder of its own: `kept` is whether its data survive it
 * (appendonly). It can be killed, started again, and stand still. `withRedis` in the place of `test` skips where none is installed.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { createConnection } from 'node:net';
import { onTestFinished, test } from 'vitest';
import { ALL } from '../all.ts';
import { freePort } from '../free-port.ts';
import { folder } from '../fw.ts';

const isThere = spawnSync('redis-server', ['--version']).error === undefined;
if (!isThere)
  console.log('redis-server is not there: the tests that need it are skipped; Debian has it as redis-server');

export const withRedis = test.runIf(isThere);
/** In `make test-all` alone. */
export const slowWithRedis = test.runIf(isThere && ALL);

export interface RealRedis {
  port: number;
  /** without a password, whatever `args` says */
  url: string;
  /** SIGKILL: what is not kept is gone */
  kill(): Promise<void>;
  /** after `kill`: on the same port, from the same folder */
  start(): Promise<void>;
  /** SIGSTOP: connections are taken and stay open, and nothing is answered */
  stop(): void;
  /** SIGCONT */
  go(): void;
  /** What redis-cli prints for a command. */
  cli(...command: string[]): string;
}

export interface RedisOptions {
  kept?: boolean;
  /** as redis-server takes them: ['--requirepass', 'secret'] */
  args?: string[];
}

/** Gone at the end of the test. */
export async function startRedis({ kept = false, args = [] }: RedisOptions = {}): Promise<RealRedis> {
  let port = await freePort();
  const dir = folder();
  // what it has said it has, also while its disk is busy: a write of `everysec` waits for a sync that is under way
  const log = ['--logfile', 'redis.log', '--appendonly', kept ? 'yes' : 'no', '--appendfsync', 'always'];
  let child: ChildProcess | null = null;
  const kill = async () => {
    const going = child;
    child = null;
    if (going === null || going.exitCode !== null || going.signalCode !== null) return;
    const ended = once(going, 'exit');
    going.kill('SIGKILL');
    await ended;
  };
  const start = async () => {
    const own = ['--port', `${port}`, '--bind', '127.0.0.1', '--dir', dir, '--save', ''];
    const started = spawn('redis-server', [...own, ...log, ...args], { stdio: 'ignore' });
    child = started;
    while (!(await answers(port))) {
      if (started.exitCode !== null) throw new Error(`redis-server ended with ${started.exitCode}`);
    }
  };
  onTestFinished(kill);
  // a port that was free may be another's by the time that redis-server listens
  for (let tries = 5; ; tries--) {
    try {
      await start();
      break;
    } catch (error) {
      if (tries === 1) throw error;
      port = await freePort();
    }
  }
  return {
    port,
    url: `redis://127.0.0.1:${port}`,
    kill,
    start,
    stop: () => void child?.kill('SIGSTOP'),
    go: () => void child?.kill('SIGCONT'),
    cli: (...command) =>
      spawnSync('redis-cli', ['-p', `${port}`, ...command], { encoding: 'utf8' }).stdout.trim(),
  };
}

/** Whether it answers at all, and has read what it kept: one that wants a password says so. */
async function answers(port: number): Promise<boolean> {
  const socket = createConnection(port, '127.0.0.1', () => socket.write('PING\r\n'));
  const answer = new Promise<string>(resolve => {
    socket.on('data', data => resolve(`${data}`));
    socket.on('error', () => setTimeout(resolve, 10, ''));
  });
  const text = await answer;
  socket.destroy();
  return text.startsWith('+PONG') || text.startsWith('-NOAUTH');
}
