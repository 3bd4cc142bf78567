/** NDJSON files beside the stream (failures, provenance): few lines, so each is written at once, untouched ones as they came. */
import { openSync } from 'node:fs';
import { dirname } from 'node:path';
import ndjson from 'ndjson';
import { ioError } from '../item/failure.ts';
import { makeFolder } from './durable.ts';
import { writeWhole } from './ndjson-out.ts';
import { originOf, textOf } from './origin.ts';
import { flagsFor } from './saving.ts';

export interface SideFile {
  write(line: object): void;
  /** A line that is JSON already. */
  writeText(line: string): void;
}

/** Makes the file, or empties it. Exit 74. */
export function sideFile(path: string): SideFile {
  let fd: number;
  try {
    makeFolder(dirname(path));
    fd = openSync(path, flagsFor(path));
  } catch (error) {
    throw ioError(`expected to create ${path}, found ${(error as NodeJS.ErrnoException).code}`);
  }
  const lines = ndjson.stringify();
  lines.on('data', (line: string) => writeWhole(fd, Buffer.from(line), path));
  const writeText = (line: string): void => writeWhole(fd, Buffer.from(`${line}\n`), path);
  return {
    write(line) {
      const origin = originOf(line);
      if (origin === undefined) lines.write(line);
      else writeText(textOf(origin));
    },
    writeText,
  };
}
