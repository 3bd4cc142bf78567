/** Refuses, before anything is opened, a run that would write over what it reads. */
import { readlinkSync, realpathSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { besideOf, besidesOf, expandPaths, identityOf } from '../core/files/input-files.ts';
import { EXIT, Fatal, usageError } from '../core/item/failure.ts';
import { visible } from '../core/json/visible.ts';
import { filesOfStage, isWritten, type NamedFile, type OptionsOfStage } from './named-files.ts';

export interface Writing {
  row: readonly OptionsOfStage[];
  files: readonly string[];
  base: string;
  /** what was read before this: the pipeline file, its pool file */
  reads?: readonly string[];
  /** the path of the output; absent for standard output */
  target?: string;
  /** what is written takes the place of the input when all is read */
  atEnd?: boolean;
  /** nothing goes to the output */
  silent?: boolean;
}

/** Standard output is an input: not even that the run did not begin may be written there. */
export class OwnInput extends Fatal {
  constructor(message: string) {
    super(EXIT.usage, message);
  }
}

/**
 * Refuses, before anything is opened, a run that would write into what it reads, or twice into one file. A run that
 * replaces its own input could not be run again, and two writers of one file cut into each other.
 */
export async function refuseOverwriting({
  row,
  files,
  base,
  reads = [],
  target,
  atEnd = false,
  silent = false,
}: Writing): Promise<void> {
  const named = row.map(placed => filesOfStage(placed, base));
  const { once, many } = await readIn(named.flat());
  const lines = [...files.filter(path => path !== '-'), ...many];
  const inputs = identitiesOf([0, ...lines, ...besidesOf(lines), ...once]);
  // what says how to work is no input, and no run means to put its lines in the place of that
  const places = [
    target ?? '',
    ...named
      .flat()
      .filter(isWritten)
      .map(({ path }) => path),
  ];
  const isThere = places.some(path => identityOf(path) !== null);
  const kept = new Set(isThere ? identitiesOf([...once, ...reads, ...(await agentFilesOf(row, base))]) : []);
  const stdout = target === undefined && !silent ? identityOf(1) : null;
  if (stdout !== null && inputs.has(stdout)) {
    const input = [...lines, ...once].find(path => identityOf(path) === stdout) ?? behindStdout();
    const named = input === null ? '' : `: ${visible(input)}`;
    throw new OwnInput(`output and input are the same file${named}; write to another one`);
  }
  const writers = new Map<string, string>();
  if (stdout !== null) writers.set(stdout, 'standard output');
  if (target !== undefined && !target.includes('{ordering}')) {
    const place = placeOf(target);
    if (kept.has(place)) throw usageError(`--output ${target}: ${READ}`);
    writers.set(place, 'output');
    const beside = besideOf(target);
    if (beside !== null) writers.set(placeOf(beside), BESIDE);
  }
  for (const { option, path } of named.flatMap(files => files.filter(isWritten))) {
    const place = placeOf(path);
    if (!atEnd && inputs.has(place)) {
      throw usageError(`--${option} ${path}: expected a file other than the input, which it would overwrite`);
    }
    if (kept.has(place)) throw usageError(`--${option} ${path}: ${READ}`);
    const other = writers.get(place);
    // the failed items of several stages may share a file, which is opened once; where legacy-convert names a file of
    // provenance, no other is written beside the output
    const isShared =
      (other === 'failures' || other === BESIDE) && option === (other === BESIDE ? 'provenance' : other);
    if (other !== undefined && !isShared) {
      throw usageError(`--${option} ${path}: expected a file of its own, found that of ${other}`);
    }
    writers.set(place, option);
  }
}

const READ = 'expected a file other than those that this run is set up by, which it would overwrite';
const BESIDE = 'the provenance beside the output';

/** The files that are read once, and those that are read as input is. */
async function readIn(files: readonly NamedFile[]): Promise<{ once: string[]; many: string[] }> {
  const many = await Promise.all(
    files
      .filter(({ use }) => use === 'read-many')
      // where nothing fits, who reads it says so
      .map(({ path }) => expandPaths([path]).catch(() => [])),
  );
  return { once: files.filter(({ use }) => use === 'read').map(({ path }) => path), many: many.flat() };
}

/** The files of the agents folders of stages that have one, which they may have without an option. */
async function agentFilesOf(row: readonly OptionsOfStage[], base: string): Promise<string[]> {
  const folders = row.flatMap(({ stage, options }) => ('agents' in stage.options ? [options.agents] : []));
  if (folders.length === 0) return [];
  const { filesOfFolder, folderOfAgents } = await import('../asking/agents/load-agents.ts');
  return folders.flatMap(folder => {
    try {
      return filesOfFolder(folderOfAgents(folder as string | undefined, base));
    } catch {
      return []; // no such folder: who reads it says so
    }
  });
}

/** The file to which the shell sent standard output, where the system tells. */
function behindStdout(): string | null {
  try {
    return readlinkSync('/proc/self/fd/1');
  } catch {
    return null;
  }
}

function identitiesOf(files: readonly (string | number)[]): Set<string> {
  return new Set(files.map(identityOf).filter(identity => identity !== null));
}

/** What a file is, whatever it is called: device and inode; of one that is not there yet, its folder and name. */
function placeOf(path: string): string {
  const known = identityOf(path);
  if (known !== null) return known;
  const folder = dirname(resolve(path));
  try {
    return join(realpathSync(folder), basename(path));
  } catch {
    return resolve(path);
  }
}
