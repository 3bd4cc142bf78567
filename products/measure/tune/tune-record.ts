/**
 * tune.ndjson: a line for each start, each measurement and each failure, written when it is there. The same command reads
 * them before it measures anything, so that a study which was killed goes on where it was.
 */

import { randomUUID } from 'node:crypto';
import {
  appendFileSync,
  closeSync,
  fsyncSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { makeFolder } from '../../../engine/core/files/durable.ts';
import { begunAt, isRunning, pidNamespace } from '../../../engine/core/files/process.ts';
import { dataError, Fatal, ioError, unavailable } from '../../../engine/core/item/failure.ts';
import { isObject } from '../../../engine/core/json/pointer.ts';
import type { Point } from './point.ts';
import { hashed, type Setting, settingKey } from './tune-file.ts';
import type { Failure } from './tuned-server.ts';

export type Phase = 'memory' | 'race' | 'confirm';

/** Which measurement it is: of a setting, in a phase, in a run of it. */
export interface Which {
  phase: Phase;
  setting: Setting;
  /** of a confirmation from 1; else 1 */
  run: number;
}

interface Common extends Which {
  tune: 1;
  study: string;
  key: string;
  at: string;
  /** of the server, as /version says it */
  version: string | null;
  log: string | null;
}

export interface StartLine extends Common {
  kind: 'start';
  /** its number in this file */
  start: number;
  ready_s: number;
  proof: string;
  command: string;
  /** flags and sizes that its metrics name */
  settings: { [name: string]: string };
  /** the body is that of the first request */
  asked: { source: string; model: string; body: string };
}

export interface PointLine extends Common {
  kind: 'point';
  start: number;
  /** `block 3`, `rate 12.4, seed 7` */
  what: string;
  point: Point;
}

export interface FailureLine extends Common {
  kind: 'failure';
  failure: Failure;
  /** processes that it had left behind */
  left: string[];
}

export type Line = StartLine | PointLine | FailureLine;

export interface Record {
  readonly lines: readonly Line[];
  starts(phase: Phase): number;
  point(which: Which, what: string): Point | undefined;
  failure(which: Which): Failure | undefined;
  /** the version of the server that the lines so far are about; undefined where there is none */
  version(): string | null | undefined;
  start(
    which: Which,
    more: Pick<StartLine, 'ready_s' | 'proof' | 'command' | 'version' | 'log' | 'settings' | 'asked'>,
  ): void;
  notePoint(which: Which, what: string, point: Point, more: Pick<Common, 'version' | 'log'>): void;
  noteFailure(which: Which, failure: Failure, left: readonly string[], log: string): void;
}

const MOST_BYTES = 256 * 1024 * 1024;

/** Lines of other studies in the same file stay, and are not looked at. Exit 65 where it is no such file, 74 where it cannot be written. */
export function openRecord(path: string, study: string): Record {
  const { lines, isTorn } = readLines(path, study);
  if (isTorn) appendFileSync(path, '\n'); // what a killed run had begun to write is a line of its own, and none of ours
  const byKey = new Map(lines.map(line => [line.key, line]));

  const keyOf = (kind: Line['kind'], { phase, setting, run }: Which, what = ''): string =>
    hashed([study, kind, phase, settingKey(setting), run, what]);

  function add(line: Line): void {
    lines.push(line);
    byKey.set(line.key, line);
    const text = `${JSON.stringify(line)}\n`;
    let file: number | undefined;
    try {
      file = openSync(path, 'a', 0o600);
      writeSync(file, text);
      fsyncSync(file);
    } catch (error) {
      throw ioError(`expected to write ${path}, found ${(error as NodeJS.ErrnoException).code}`);
    } finally {
      if (file !== undefined) closeSync(file);
    }
  }

  const common = (kind: Line['kind'], which: Which, what?: string) => ({
    tune: 1 as const,
    study,
    key: keyOf(kind, which, what),
    at: new Date().toISOString(),
    phase: which.phase,
    setting: which.setting,
    run: which.run,
  });
  const count = (): number => lines.filter(({ kind }) => kind === 'start').length;

  return {
    lines,
    starts: phase => lines.filter(line => line.kind === 'start' && line.phase === phase).length,
    point(which, what) {
      const line = byKey.get(keyOf('point', which, what));
      return line?.kind === 'point' ? line.point : undefined;
    },
    failure(which) {
      const line = byKey.get(keyOf('failure', which));
      return line?.kind === 'failure' ? line.failure : undefined;
    },
    version: () => lines.find(({ kind }) => kind !== 'failure')?.version,
    start(which, more) {
      // a start that is repeated after a kill is another one
      add({ ...common('start', which, String(count())), kind: 'start', start: count() + 1, ...more });
    },
    notePoint(which, what, point, more) {
      add({ ...common('point', which, what), kind: 'point', start: count(), what, point, ...more });
    },
    noteFailure(which, failure, left, log) {
      add({ ...common('failure', which), kind: 'failure', failure, left: [...left], version: null, log });
    },
  };
}

function readLines(path: string, study: string): { lines: Line[]; isTorn: boolean } {
  let text: string;
  try {
    const bytes = readFileSync(path);
    if (bytes.length > MOST_BYTES)
      throw dataError(
        `${path}: expected at most ${MOST_BYTES} bytes, found ${bytes.length}: name another --out`,
      );
    text = bytes.toString();
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return { lines: [], isTorn: false };
    if (code === undefined) throw error;
    throw dataError(`${path}: expected the measurements of fw tune, found ${code}`);
  }
  const lines: Line[] = [];
  for (const [index, one] of text.split('\n').entries()) {
    if (one === '') continue;
    let value: unknown;
    try {
      value = JSON.parse(one);
    } catch {
      continue; // the last line of a run that was killed
    }
    if (!isObject(value) || value.tune !== 1 || typeof value.key !== 'string' || !isObject(value.setting))
      throw dataError(`${path}:${index + 1}: expected a line of fw tune, found another: name another --out`);
    if (value.study === study) lines.push(value as unknown as Line);
  }
  return { lines, isTorn: text !== '' && !text.endsWith('\n') };
}

// The folder of a study: its record, the logs of its servers, its results. One process works in it at a time; the mark by
// which its servers are known is made once and kept, so that those of a run that was killed can be found and stopped.

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
