/**
 * A shell beside the tests, in which short lines run one after the other. To start a process out of this one takes 10 ms
 * or more of a processor, for all of its memory is mapped anew; out of a shell it takes one.
 */
import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface, type Interface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';
import { binFolder, environment, type RanBytes, ROOT, type ShellOptions } from './fw.ts';

let scratch: string | undefined;

/**
 * Files for what a line reads and writes, in one folder of this process: thousands of lines need no thousand folders. Those
 * of the line before are gone: ext4 would write the old bytes to the disk before it cuts a file.
 */
export function streams(): { given: string; out: string; err: string } {
  scratch ??= mkdtempSync(join(binFolder, 'streams-'));
  const at = { given: join(scratch, 'in'), out: join(scratch, 'out'), err: join(scratch, 'err') };
  for (const path of Object.values(at)) rmSync(path, { force: true });
  return at;
}

let shell: { input: Writable; codes: Interface } | undefined;

/** Runs a line as `shellBytes` does; one at a time. */
export async function runBeside(
  line: string,
  { cwd = ROOT, env = {}, stdin = '' }: ShellOptions,
): Promise<RanBytes> {
  shell ??= open();
  const { input, codes } = shell;
  const { given, out, err } = streams();
  writeFileSync(given, stdin);
  const set = Object.entries(env).map(([name, value]) => `export ${name}=${quoted(value)};`);
  input.write(
    `(cd ${quoted(cwd)}; ${set.join(' ')} eval ${quoted(line)}) < ${given} > ${out} 2> ${err}; echo $?\n`,
  );
  const [code] = (await once(codes, 'line')) as [string];
  return { code: Number(code), stdout: readFileSync(out), stderr: readFileSync(err) };
}

function open(): { input: Writable; codes: Interface } {
  const child: ChildProcessByStdio<Writable, Readable, null> = spawn('bash', ['--norc', '-o', 'pipefail'], {
    env: environment({}),
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  return { input: child.stdin, codes: createInterface(child.stdout) };
}

const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;
