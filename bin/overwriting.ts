/** Refuses, before anything is opened, a run that would write into what it reads, or twice into one file. */
import { fstatSync, statSync } from 'node:fs';
import { resolve } from 'node:path';
import { usageError } from '../engine/flow/failure.ts';
import type { Values } from '../engine/flow/options.ts';

export interface Writing {
  row: readonly { options: Values }[];
  files: readonly string[];
  /** the path of the output; absent for standard output */
  target?: string;
}

const SIDE_FILES = ['failures', 'provenance', 'report'];

/** A file that is also an input would be emptied before it was read, and two writers of one file cut into each other. */
export function refuseOverwriting({ row, files, target }: Writing): void {
  const read = row.flatMap(({ options }) => [options.old ?? [], options.source ?? []].flat() as string[]);
  const inputs = [0, ...read, ...files.filter(path => path !== '-')].map(identityOf).filter(Boolean);
  if (target === undefined && inputs.includes(identityOf(1))) {
    throw usageError('expected another output than the input, which would never end');
  }
  const writers = new Map<string, string>(target === undefined ? [] : [[resolve(target), 'output']]);
  for (const { options } of row) {
    for (const name of SIDE_FILES) {
      const path = options[name] as string | undefined;
      if (path === undefined) continue;
      if (inputs.includes(identityOf(path))) {
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
