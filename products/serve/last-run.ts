/** `run.json` of DIR: that a server runs there, or how the last one ended, for the line with which the next one begins. */
import { join } from 'node:path';
import { version } from '../../engine/core/config/package.ts';
import { replaceFile } from '../../engine/core/files/durable.ts';
import type { Say } from '../../engine/core/item/say.ts';
import { isObject } from '../../engine/core/json/pointer.ts';
import { recalled } from './small-files.ts';

interface Run {
  version: string;
  pid: number;
  /** ISO 8601; `stopped` is null while it runs, and where it was killed */
  started: string;
  stopped: string | null;
}

/** Says how the last one ended, and notes that this one runs; `end` notes that it was stopped in order. */
export function beginRun(data: string, { now, say }: { now(): number; say: Say }): { end(): void } {
  const path = join(data, 'run.json');
  const time = (): string => new Date(now()).toISOString();
  const run: Run = { version: version(), pid: process.pid, started: time(), stopped: null };
  const last = readRun(path);
  say(`fw ${run.version} begins; ${lastWords(last, run.version)}`, {
    ...{ event: 'started', version: run.version, pid: run.pid },
    ...(last !== null && { last: last.stopped === null ? 'killed' : 'stopped', last_version: last.version }),
  });
  keep(path, run);
  return {
    end() {
      keep(path, { ...run, stopped: time() });
      say('stopped', { event: 'stopped' });
    },
  };
}

/** null at the first start, and where nobody knows */
function readRun(path: string): Run | null {
  const last = recalled<Run>(
    path,
    one =>
      isObject(one) &&
      [one.version, one.started].every(text => typeof text === 'string') &&
      typeof one.pid === 'number',
  );
  return last && { ...last, stopped: typeof last.stopped === 'string' ? last.stopped : null };
}

/** What the disk does not take costs nothing but the words of the next start. */
function keep(path: string, run: Run): void {
  try {
    replaceFile(path, JSON.stringify(run));
  } catch {
    // a disk that is full is told of by those who need it
  }
}

function lastWords(last: Run | null, version: string): string {
  if (last === null) return 'nothing is known of an earlier one in its folder';
  const of = last.version === version ? '' : ` (${last.version})`;
  return last.stopped === null
    ? `the last one${of}, started ${last.started}, was killed or lost its machine`
    : `the last one${of} was stopped ${last.stopped}`;
}
