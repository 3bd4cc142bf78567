/**
 * The folder of a study: its record, the logs of its servers, its results. One process works in it at a time; the mark by
 * which its servers are known is made once and kept, so that those of a run that was killed can be found and stopped.
 */
import { randomUUID } from 'node:crypto';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { makeFolder } from '../../../engine/core/files/durable.ts';
import { begunAt, isRunning, pidNamespace } from '../../../engine/core/files/process.ts';
import { Fatal, ioError, unavailable } from '../../../engine/core/item/failure.ts';
import { isObject } from '../../../engine/core/json/pointer.ts';

export interface StudyFolder {
  path: string;
  mark: string;
  file(name: string): string;
  /** a new file for what a server says */
  log(): string;
  release(): void;
}

/** Exit 69 where another run works in it, 74 where it cannot be made. */
export function openFolder(path: string): StudyFolder {
  const lock = join(path, 'lock.json');
  const state = join(path, 'mark');
  try {
    makeFolder(path, 0o700);
    makeFolder(join(path, 'logs'), 0o700);
    const other = ownerIn(lock);
    if (other !== null && isRunning(other))
      throw unavailable(
        `expected ${path} for this run alone, found fw tune at work there (process ${other.pid} on ${other.host}): wait for it, or name another --out`,
      );
    rmSync(lock, { force: true });
    const mine = {
      host: hostname(),
      namespace: pidNamespace(),
      pid: process.pid,
      begun: begunAt(process.pid),
    };
    writeFileSync(lock, JSON.stringify(mine), { flag: 'wx', mode: 0o600 });
  } catch (error) {
    if (error instanceof Fatal) throw error;
    throw ioError(`expected to write into ${path}, found ${(error as NodeJS.ErrnoException).code}`);
  }
  const mark = markIn(state);
  let logs = 0;
  return {
    path,
    mark,
    file: name => join(path, name),
    log: () => join(path, 'logs', `${new Date().toISOString().replaceAll(/[:.]/g, '-')}-${++logs}.log`),
    release: () => rmSync(lock, { force: true }),
  };
}

type Owner = Parameters<typeof isRunning>[0];

function ownerIn(lock: string): Owner | null {
  try {
    const owner: unknown = JSON.parse(readFileSync(lock, 'utf8'));
    return isObject(owner) && typeof owner.pid === 'number' && typeof owner.host === 'string'
      ? (owner as unknown as Owner)
      : null;
  } catch {
    return null;
  }
}

function markIn(path: string): string {
  try {
    const mark = readFileSync(path, 'utf8');
    if (/^[0-9a-f-]{36}$/.test(mark)) return mark;
  } catch {
    // none yet
  }
  const mark = randomUUID();
  writeFileSync(path, mark, { mode: 0o600 });
  return mark;
}
