/**
 * The outputs of a pipeline file: one path, or one for each value of `{ordering}` in it. Lines go to a partial file
 * (engine/core/files/saving.ts), which gets its name when the run has ended.
 */
import { closeSync, fstatSync, fsyncSync, openSync, rmSync } from 'node:fs';
import { dirname } from 'node:path';
import { makeFolder } from '../core/files/durable.ts';
import { besideOf } from '../core/files/input-files.ts';
import { type Frame, type OnBroken, type Output, toFile } from '../core/files/ndjson-out.ts';
import { flagsFor, replace, type Unfinished, unfinished } from '../core/files/saving.ts';
import { Fatal, ioError } from '../core/item/failure.ts';
import type { Item } from '../core/item/item.ts';
import { provenanceCarried } from '../flow/provenance.ts';

/** Files that a run may have open; 24 orderings are the most that anyone has asked for. */
const MAX_OPEN_OUTPUTS = 256;

export interface FilesOutput extends Output {
  /** Gives every file its name; returns their paths, and what there is to say of old ones and of leftovers. */
  finish(): { paths: string[]; said: string[] };
  /** The paths of what was written so far, under names that end in .partial; those without a byte are removed. */
  partial(): string[];
}

interface Target extends Unfinished {
  fd: number;
  output: Output;
}

export interface Targets {
  /** the one path of all lines, which is made at the start: a run without lines leaves an empty file, and no old one */
  always: string | null;
  /** the path for a line */
  of(line: Item): string;
}

/** Exit 74 where the one path cannot be made. */
export function toFiles(targets: Targets, onBroken: OnBroken, frame?: Frame): FilesOutput {
  const open = new Map<string, Target>();
  const outputFor = (name: string, around: Frame | undefined): Output => {
    const known = open.get(name);
    if (known) return known.output;
    if (open.size === MAX_OPEN_OUTPUTS) {
      throw ioError(
        `expected at most ${MAX_OPEN_OUTPUTS} output files, found one more: ${name}; look at {ordering} in output`,
      );
    }
    const { path, partial, fd } = opened(name);
    const output = toFile(fd, partial ?? path, onBroken, around);
    open.set(name, { path, partial, fd, output });
    return output;
  };
  if (targets.always !== null) outputFor(targets.always, frame);
  return {
    write(line) {
      const path = targets.of(line);
      const said = provenanceCarried(line);
      const beside = said && besideOf(path);
      // the frame is that of the results: a file beside a document has lines, which verify and merge read back
      if (beside) outputFor(beside, undefined).write(said as Item);
      return outputFor(path, frame).write(line);
    },
    ready: act => act(),
    async end(complete, model) {
      for (const { output } of open.values()) await output.end(complete, model);
    },
    finish() {
      const said: string[] = [];
      for (const { path, partial, fd } of open.values()) {
        if (partial === null) continue;
        fsyncSync(fd);
        closeSync(fd);
        said.push(...replace(partial, path));
      }
      return { paths: [...open.keys()], said };
    },
    partial: () =>
      [...open.values()].flatMap(({ partial, fd }) => {
        if (partial === null) return [];
        if (fstatSync(fd).size > 0) return [partial];
        rmSync(partial, { force: true });
        return [];
      }),
  };
}

function opened(name: string): Unfinished & { fd: number } {
  try {
    makeFolder(dirname(name));
    const place = unfinished(name, 'output');
    return { ...place, fd: openSync(place.partial ?? place.path, flagsFor(place.partial ?? place.path)) };
  } catch (error) {
    if (error instanceof Fatal) throw error;
    throw ioError(`output: expected to create ${name}, found ${(error as NodeJS.ErrnoException).code}`);
  }
}
