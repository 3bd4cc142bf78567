/** A document beside the output: it gets its name when it is whole, and a longer one of that name is kept. */
import { writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { makeFolder } from '../../engine/core/files/make-folders.ts';
import { clearLeftovers, flagsFor, unfinished } from '../../engine/core/files/partial.ts';
import { replace } from '../../engine/core/files/replace.ts';
import { ioError } from '../../engine/core/item/failure.ts';

/** Returns what there is to say of an old file. Exit 74. */
export function writeDocument(name: string, text: string): string[] {
  const { path, partial } = unfinished(name, 'a file to write');
  const file = partial ?? path;
  try {
    makeFolder(dirname(path));
    writeFileSync(file, text, { flag: flagsFor(file) });
  } catch (error) {
    throw ioError(`expected to write ${name}, found ${(error as NodeJS.ErrnoException).code}`);
  }
  return partial === null ? [] : [...replace(partial, path), ...clearLeftovers([path])];
}
