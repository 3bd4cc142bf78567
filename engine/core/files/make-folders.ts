/** Folders that are made when something is to be written into them. */
import { mkdirSync, statSync } from 'node:fs';
import { dirname } from 'node:path';

/**
 * Makes the folder, with `mode` where it has one, and those above it that are missing; throws the error of the system where one cannot be made. Node's
 * own `recursive` never returns where making a folder ends with ENOENT though the one above it is there, as in /proc.
 */
export function makeFolder(path: string, mode?: number): void {
  if (isFolder(path)) return;
  if (!isFolder(dirname(path)) && dirname(path) !== path) makeFolder(dirname(path));
  try {
    mkdirSync(path, mode === undefined ? undefined : { mode });
  } catch (error) {
    if (!isFolder(path)) throw error; // another run may have made it in between
  }
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
}
