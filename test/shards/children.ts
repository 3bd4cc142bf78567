/** Workers in processes of their own: child.ts, made into one file once for a file of tests. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { onTestFinished } from 'vitest';
import { folder, ROOT } from '../fw.ts';
import { until } from './queueing.ts';

/** To be called before the tests of a file: folders are removed behind them. */
export function childFile(): string {
  const file = join(folder(), 'child.cjs');
  const esbuild = join(ROOT, 'node_modules', '.bin', 'esbuild');
  const flags = ['--bundle', '--format=cjs', '--platform=node', '--log-level=error', `--outfile=${file}`];
  execFileSync(esbuild, [join(ROOT, 'test', 'shards', 'child.ts'), ...flags]);
  return file;
}

export interface Child {
  process: ChildProcess;
  said: string[];
  /** until it has said this line */
  says(line: string | RegExp): Promise<void>;
  /** lets it end the part that it holds */
  goOn(): void;
  kill(): Promise<void>;
}

export async function startChild(
  file: string,
  kind: 'ours' | 'defaults',
  { url, lock, env = {} }: { url: string; lock: number; env?: Record<string, string> },
): Promise<Child> {
  const child = spawn(process.execPath, [file, kind, url, `${lock}`], {
    stdio: ['pipe', 'pipe', 'inherit'],
    env: { ...process.env, ...env },
  });
  const said: string[] = [];
  createInterface(child.stdout).on('line', line => said.push(line));
  const says = (line: string | RegExp) =>
    until(() => {
      if (child.exitCode !== null)
        throw new Error(`expected '${line}', found the end after: ${said.join(', ')}`);
      return said.some(one => (typeof line === 'string' ? one === line : line.test(one)));
    });
  const kill = async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, 'exit');
    child.kill('SIGKILL');
    await ended;
  };
  onTestFinished(kill);
  await says('ready');
  return { process: child, said, says, goOn: () => void child.stdin.write('\n'), kill };
}
