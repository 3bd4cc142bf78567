/**
 * What a stage understands, in flags and in pipeline files alike: its own options and those that come with its kind. And the
 * files that options name. An option's schema says what it is (`file: 'read' | 'write' | …`), and all that has to be known of
 * such files before a run follows from that here: what would be overwritten, what is made at the start, and what a dry run
 * and a plan leave out.
 */

import { accessSync, closeSync, constants, openSync, type Stats, statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { makeFolder } from '../core/files/durable.ts';
import { isRemote } from '../core/files/input-files.ts';
import { Fatal, ioError, usageError } from '../core/item/failure.ts';
import { ASKING, COMMON } from '../flow/join.ts';
import { type FileUse, type OptionSchemas, resolveOptions, type Values } from '../flow/options.ts';
import type { Stage } from '../flow/stage.ts';
import { POOL_OPTIONS } from './open-pool.ts';

export interface OptionsOfStage {
  stage: Stage;
  options: Values;
}

export function optionsOf(stage: Stage): OptionSchemas {
  return { ...stage.options, ...(stage.asks ? { ...ASKING, ...POOL_OPTIONS } : {}), ...COMMON };
}

/** A stage with options as flags would give them. Exit 64 for what it does not understand. */
export function placed(stage: Stage, given: Values): OptionsOfStage {
  const options = resolveOptions(optionsOf(stage), given, (name, message) => {
    throw usageError(`--${name}: ${message}`);
  });
  return { stage, options };
}

export interface NamedFile {
  option: string;
  path: string;
  use: FileUse;
}

/** The files that the values of `schemas` name; those that resolve from the folder of a pipeline file from `base`. */
export function filesOf(schemas: OptionSchemas, values: Values, base?: string): NamedFile[] {
  return Object.entries(schemas).flatMap(([option, schema]) => {
    if (!('file' in schema) || schema.file === undefined) return [];
    const { file: use, from } = schema;
    const paths = [values[option] ?? []].flat() as string[];
    return paths.map(path => ({ option, path: from === 'base' && base ? resolve(base, path) : path, use }));
  });
}

export function filesOfStage({ stage, options }: OptionsOfStage, base?: string): NamedFile[] {
  return filesOf(optionsOf(stage), options, base);
}

export const isWritten = ({ use }: NamedFile): boolean => use === 'write';

/** The files beside the stream that a stage writes. */
export function sideFilesOf(placed: OptionsOfStage): NamedFile[] {
  return filesOfStage(placed).filter(isWritten);
}

/** Without the files that it writes, for a dry run or a plan: those of the last run stay as they are. */
export function silent<P extends OptionsOfStage>(placed: P): P {
  const options = { ...placed.options };
  for (const [name, schema] of Object.entries(optionsOf(placed.stage))) {
    if ('file' in schema && (schema.file === 'write' || schema.file === 'write-folder')) delete options[name];
  }
  return { ...placed, options };
}

/**
 * Whether every written file can be made, told before anything is: exit 64 for what is no name of a file, 74 where none
 * may be made. `-` is standard output for the outputs of `fw run` alone; beside the stream it would be a file named so.
 */
export function checkWritten(files: readonly NamedFile[]): void {
  for (const { option, path } of files.filter(isWritten)) {
    if (path === '-' && option === 'output') continue;
    const wrong =
      path === ''
        ? 'an empty name'
        : path === '-'
          ? "'-'; for standard output, /dev/stdout"
          : path.endsWith('/')
            ? `the name of a folder: ${path}`
            : undefined;
    if (wrong !== undefined) throw usageError(`--${option}: expected a file to write, found ${wrong}`);
    if (isRemote(path)) {
      expectStore(option, path);
      continue;
    }
    const place = path.split('{ordering}')[0] as string;
    try {
      const found = statSync(path, { throwIfNoEntry: false });
      if (found?.isDirectory()) {
        throw usageError(`--${option}: expected a file to write, found a folder: ${path}`);
      }
      if (found) accessSync(path, constants.W_OK);
      else checkFolder(dirname(place === path ? place : `${place}x`));
    } catch (error) {
      if (error instanceof Fatal) throw error;
      throw ioError(`--${option}: expected to write ${path}, found ${(error as NodeJS.ErrnoException).code}`);
    }
  }
}

/** The lines of a run may go to a store; what is beside them is written on disk. */
function expectStore(option: string, path: string): void {
  const isOutput = option === 'output' || option === 'output-file';
  if (isOutput && /^s3:/i.test(path)) return;
  const other = isOutput ? 's3://BUCKET/KEY or a file' : 'a file on disk';
  throw usageError(
    `--${option}: expected ${other} to write, found an address: ${path.replace(/[?#].*$/s, '')}`,
  );
}

/** Throws where the folder is not there and cannot be made, or where nothing may be made in it. */
function checkFolder(folder: string): void {
  let stat: Stats | undefined;
  for (let at = resolve(folder); stat === undefined; at = dirname(at)) {
    stat = statSync(at, { throwIfNoEntry: false });
    if (stat && !stat.isDirectory()) throw ioError(`expected a folder, found a file: ${at}`);
    if (stat) accessSync(at, constants.W_OK | constants.X_OK);
  }
}

/** Makes the folders of the files beside the stream. */
export function makeFolders(row: readonly OptionsOfStage[]): void {
  for (const { option, path } of row.flatMap(sideFilesOf)) {
    try {
      makeFolder(dirname(path));
    } catch (error) {
      throw ioError(
        `--${option}: expected to create ${path}, found ${(error as NodeJS.ErrnoException).code}`,
      );
    }
  }
}

/** ms between two looks for a reader */
const LOOK = 50;

/**
 * Resolves when every named pipe among `paths` has a reader, to what lets go of them. To open one without a reader would
 * hold up the whole process, signals too.
 */
export async function withReaders(
  paths: readonly string[],
  { say, signal }: { say(message: string): void; signal: AbortSignal },
): Promise<() => void> {
  const open: number[] = [];
  for (const path of paths.filter(path => statSync(path, { throwIfNoEntry: false })?.isFIFO())) {
    for (let told = false; !signal.aborted; told = true) {
      const fd = openedNow(path);
      if (fd !== null) {
        open.push(fd);
        break;
      }
      if (!told) say(`waiting for a reader of the pipe ${path}`);
      await new Promise(resolve => setTimeout(resolve, LOOK));
    }
  }
  return () => {
    for (const fd of open) closeSync(fd);
  };
}

function openedNow(path: string): number | null {
  try {
    return openSync(path, constants.O_WRONLY | constants.O_NONBLOCK);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENXIO') return null;
    throw ioError(`expected to write to the pipe ${path}, found ${code}`);
  }
}
