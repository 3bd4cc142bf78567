/** Refuses, before anything is opened, a run that would write into what it reads, or twice into one file. */
import { fstatSync, statSync } from 'node:fs';
import { resolve } from 'node:path';
import { usageError } from '../engine/flow/failure.ts';
import type { Values } from '../engine/flow/options.ts';
import type { Stage } from '../engine/flow/stage.ts';

export interface Writing {
  row: readonly OptionsOfStage[];
  files: readonly string[];
  /** the path of the output; absent for standard output */
  target?: string;
  /** what is written takes the place of what is there when all is read */
  atEnd?: boolean;
}

/** Options that name a file to write, but for those of a source, and options that name files to read. */
const SIDE_FILES = ['failures', 'provenance', 'report'];
const READ = ['old', 'source', 'provenance'];

interface OptionsOfStage {
  stage: Stage;
  options: Values;
}

export function sideFilesOf({ stage, options }: OptionsOfStage): string[] {
  const names = stage.source ? ['failures'] : SIDE_FILES;
  return names.filter(name => typeof options[name] === 'string');
}

function readBy(placed: OptionsOfStage): string[] {
  const written = sideFilesOf(placed);
  return READ.filter(name => !written.includes(name)).flatMap(
    name => (placed.options[name] ?? []) as string[],
  );
}

/** A file that is also an input would be emptied before it was read, and two writers of one file cut into each other. */
export function refuseOverwriting({ row, files, target, atEnd = false }: Writing): void {
  const inputs = [0, ...row.flatMap(readBy), ...files.filter(path => path !== '-')]
    .map(identityOf)
    .filter(Boolean);
  if (target === undefined && inputs.includes(identityOf(1))) {
    throw usageError('expected another output than the input, which would never end');
  }
  const writers = new Map<string, string>(target === undefined ? [] : [[resolve(target), 'output']]);
  for (const placed of row) {
    for (const name of sideFilesOf(placed)) {
      const path = placed.options[name] as string;
      if (!atEnd && inputs.includes(identityOf(path))) {
        throw usageError(`--${name} ${path}: expected another file than the input, which it would empty`);
      }
      const other = writers.get(resolve(path)) ?? name;
      if (other !== name)
        throw usageError(`--${name} ${path}: expected a file of its own, found that of ${other}`);
      writers.set(resolve(path), name);
    }
  }
}

/** Device and inode of a regular file; undefined for anything else. */
function identityOf(file: string | number): string | undefined {
  try {
    const stat = typeof file === 'number' ? fstatSync(file) : statSync(file);
    return stat.isFile() ? `${stat.dev}:${stat.ino}` : undefined;
  } catch {
    return undefined; // not there yet
  }
}
