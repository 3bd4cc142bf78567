/** fw as processes that run beside a test: a run over workers, and workers. Killed at its end. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { binFolder, environment, folder } from '../fw.ts';
import { until } from './queueing.ts';

export interface Process {
  pid: number;
  /** what it has said on stderr so far */
  said(): string;
  /** Until it says so, or has ended: then it throws. Resolves to what was found. */
  says(words: RegExp): Promise<RegExpExecArray>;
  signal(name: NodeJS.Signals): void;
  /** its exit code; -1 where a signal ended it */
  ended: Promise<number>;
}

export function startFw(
  args: readonly string[],
  { cwd = folder(), env = {} }: { cwd?: string; env?: Record<string, string> } = {},
): Process {
  // not through the shell script of the other tests: a signal is for fw itself
  const child = spawn(join(binFolder, 'fw'), args, { cwd, env: environment(env) });
  let text = '';
  child.stderr.on('data', chunk => {
    text += chunk;
  });
  child.stdout.resume();
  let isOver = false;
  const ended = once(child, 'close').then(([code]) => {
    isOver = true;
    return (code as number | null) ?? -1;
  });
  onTestFinished(async () => {
    child.kill('SIGKILL');
    await ended;
  });
  return {
    pid: child.pid as number,
    said: () => text,
    async says(words) {
      await until(() => {
        if (isOver && !words.test(text)) throw new Error(`expected ${words}, found the end: ${text}`);
        return words.test(text);
      });
      return words.exec(text) as RegExpExecArray;
    },
    signal: name => void child.kill(name),
    ended,
  };
}

/** A worker of a run, with a folder of its own. */
export function startWork(
  { redis, server, endpoint }: { redis: string; server: string; endpoint: string },
  { data = join(folder(), 'work'), key = '' }: { data?: string; key?: string } = {},
): Process {
  const args = ['work', '--redis', redis, '--server', server, '--endpoint', endpoint, '--data', data];
  return startFw([...args, '--grace', '1s'], { env: key === '' ? {} : { FW_WORKER_KEY: key } });
}
