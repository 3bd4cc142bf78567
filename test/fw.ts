/** Runs shell lines with `fw` on the PATH, as a user would. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, watch } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const ROOT = fileURLToPath(new URL('..', import.meta.url));

const made: string[] = [];

/** A folder of its own for a test, gone when the file's tests are over. */
export function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'fw-test-'));
  made.push(path);
  return path;
}

/** Called by clean.ts, since the tests of many files share this module. */
export function removeFolders(): void {
  for (const path of made.splice(0)) rmSync(path, { recursive: true, force: true });
}

/** Waits until something is so that changes with the files of a folder: to look again and again takes a processor. */
export async function until(at: string, isSo: () => boolean): Promise<void> {
  const watcher = watch(at);
  while (!isSo()) await once(watcher, 'change');
  watcher.close();
}

/** holds `fw`, made by build.ts */
export const binFolder = process.env.FW_TEST_BIN as string;

export interface Ran {
  code: number;
  stdout: string;
  stderr: string;
}

export interface ShellOptions {
  cwd?: string;
  env?: Record<string, string>;
  stdin?: string | Buffer;
}

export interface RanBytes {
  code: number;
  stdout: Buffer;
  stderr: Buffer;
}

/** Without --norc, bash reads the ~/.bashrc of whoever runs the tests where its input is a socket, as Node's pipes are. */
export const BASH = ['--norc', '-o', 'pipefail', '-c'];

/** Runs a line under `bash -o pipefail`; nothing of the caller's FW_ variables comes through. */
export async function shell(line: string, options: ShellOptions = {}): Promise<Ran> {
  const { code, stdout, stderr } = await shellBytes(line, options);
  return { code, stdout: stdout.toString(), stderr: stderr.toString() };
}

export function shellBytes(
  line: string,
  { cwd = ROOT, env = {}, stdin = '' }: ShellOptions = {},
): Promise<RanBytes> {
  return new Promise((resolve, reject) => {
    const child = spawn('bash', [...BASH, line], { cwd, env: environment(env) });
    const out: Buffer[] = [];
    const err: Buffer[] = [];
    child.stdout.on('data', chunk => out.push(chunk));
    child.stderr.on('data', chunk => err.push(chunk));
    child.stdin.on('error', () => {}); // a command that does not read its input is no fault of the test
    child.on('error', reject);
    child.on('close', (code, signal) => {
      if (code === null) return reject(new Error(`${line}: ended by ${signal}`));
      resolve({ code, stdout: Buffer.concat(out), stderr: Buffer.concat(err) });
    });
    child.stdin.end(stdin);
  });
}

/** What a line sees: `env`, and what the tests run with, but for their own FW_ variables. */
export function environment(env: Record<string, string>): NodeJS.ProcessEnv {
  const inherited = Object.entries(process.env).filter(
    ([name]) => !name.startsWith('FW_') && name !== 'OPENAI_API_KEY',
  );
  return { ...Object.fromEntries(inherited), ...env, PATH: `${binFolder}:${process.env.PATH}` };
}
