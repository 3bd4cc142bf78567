/** The mock server of the folder RIG: every call gets the same answer of an agent after the same time. */
import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';

export interface Mock {
  process: ChildProcess;
  port: number;
}

/** `delay` in milliseconds. */
export async function startMock(rig: string, delay: number): Promise<Mock> {
  const mock = spawn(join(rig, 'mockd'), ['0', String(delay)], { stdio: ['ignore', 'pipe', 'ignore'] });
  const [line] = await new Promise<string[]>((resolve, reject) => {
    mock.once('error', reject);
    mock.stdout.once('data', (bytes: Buffer) => resolve(bytes.toString().split('\n')));
  });
  const { port } = JSON.parse(line as string) as { port: number };
  return { process: mock, port };
}
