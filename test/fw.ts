/** Runs shell lines with `fw` on the PATH, as a user would. */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll } from 'vitest';

export const ROOT = fileURLToPath(new URL('..', import.meta.url));

const made: string[] = [];
afterAll(() => {
  for (const path of made) rmSync(path, { recursive: true, force: true });
});

/** A folder of its own for a test, gone when the file's tests are over. */
export function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'fw-test-'));
  made.push(path);
  return path;
}

export const binFolder = folder();
const cli = join(ROOT, 'dist', 'bin', 'fw.js');
writeFileSync(join(binFolder, 'fw'), `#!/bin/sh\nexec "${process.execPath}" "${cli}" "$@"\n`, {
  mode: 0o755,
});

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

/** Runs a line under `bash -o pipefail`; nothing of the caller's FW_ variables comes through. */
export function shell(line: string, { cwd = ROOT, env = {}, stdin = '' }: ShellOptions = {}): Promise<Ran> {
  const inherited = Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !name.startsWith('FW_') && name !== 'OPENAI_API_KEY'),
  );
  return new Promise((resolve, reject) => {
    const child = spawn('bash', ['-o', 'pipefail', '-c', line], {
      cwd,
      env: { ...inherited, ...env, PATH: `${binFolder}:${process.env.PATH}` },
    });
    const out: Buffer[] = [];
    const err: Buffer[] = [];
    child.stdout.on('data', chunk => out.push(chunk));
    child.stderr.on('data', chunk => err.push(chunk));
    child.stdin.on('error', () => {}); // a command that does not read its input is no fault of the test
    child.on('error', reject);
    child.on('close', (code, signal) => {
      if (code === null) return reject(new Error(`${line}: ended by ${signal}`));
      resolve({ code, stdout: Buffer.concat(out).toString(), stderr: Buffer.concat(err).toString() });
    });
    child.stdin.end(stdin);
  });
}
