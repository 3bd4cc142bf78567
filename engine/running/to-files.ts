/**
 * A run whose lines go to files: they, and the files beside the stream, get their names once it has ended. Before anything is
 * opened, a run is refused that would write over what it reads.
 */
import { existsSync, readlinkSync, realpathSync, rmSync, statSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { besideOf, besidesOf, expandPaths, identityOf, isRemote } from '../core/files/input-files.ts';
import { clearLeftovers, isLonger, replace, unfinished } from '../core/files/saving.ts';
import { EXIT, Fatal, usageError } from '../core/item/failure.ts';
import { visible } from '../core/json/visible.ts';
import type { FilesOutput } from './outputs.ts';
import type { Run } from './run.ts';
import {
  checkWritten,
  filesOfStage,
  isWritten,
  type NamedFile,
  type OptionsOfStage,
  sideFilesOf,
} from './stage-options.ts';

/** What stays open of a run: where its lines go. */
export type Unplaced = Omit<Run, 'say' | 'progress' | 'stoppable' | 'toNext' | 'target' | 'output'>;
/** Runs it, and resolves to the exit code. */
export type Start = (run: Unplaced & Pick<Run, 'toNext' | 'target' | 'output'>) => Promise<number>;

/**
 * Refuses (64), before anything is opened, what would write over something that the run reads, or into folders that
 * cannot be written. `target` is a path, with `{ordering}` in it for one file each; absent for a stream.
 */
export async function refuseOutputs(
  { row, files, base }: Unplaced,
  target: string | undefined,
  reads: readonly string[],
): Promise<void> {
  await refuseOverwriting({ row, files, base, reads, ...(target && { target }), atEnd: true });
  const output = target === undefined ? [] : [{ option: 'output', path: target, use: 'write' as const }];
  checkWritten([...row.flatMap(sideFilesOf), ...output]);
}

interface Writing {
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

/** Outputs get their names first: a run that is killed in between can be run again from its side files. */
export async function runToFiles(
  run: Unplaced,
  { target, start, say }: { target: string; start: Start; say(message: string): void },
): Promise<number> {
  const { namer, toFiles } = await import('./outputs.ts');
  const isElsewhere = isRemote(target);
  const targets = namer(target, run.row, run.base);
  const store = isElsewhere
    ? await import('./to-store.ts').then(({ storeOf }) => storeOf(target))
    : undefined;
  const sides = openSides(run.row);
  let outputs: FilesOutput | undefined; // none where the run ended before it had any
  const code = await start({
    ...run,
    row: sides.row,
    toNext: false,
    // nobody looks into it, or waits for its reader, as into a file
    ...(!isElsewhere && { target }),
    output: (onBroken, frame) => {
      outputs = toFiles(targets, onBroken, frame, store);
      return outputs;
    },
  }).catch(abandon(sides));
  if (code > EXIT.failed) {
    for (const path of [...((await outputs?.partial()) ?? []), ...sides.partial()])
      say(`left unfinished: ${path}`);
    if (outputs === undefined) await store?.leave();
    if (isElsewhere) say(`wrote no ${target}: the run ended before it was whole`);
    return code;
  }
  await finish(outputs, { sides, target, say });
  return code;
}

async function finish(
  outputs: FilesOutput | undefined,
  { sides, target, say }: { sides: Sides; target: string; say(message: string): void },
): Promise<void> {
  const { paths = [], said = [] } = (await outputs?.finish()) ?? {};
  for (const path of paths)
    say(`wrote ${path}${isEmpty(path) ? ', which is empty: there were no lines' : ''}`);
  for (const line of [...said, ...sides.finish()]) say(line);
  for (const line of clearLeftovers([...paths, ...sides.paths])) say(line);
  const { othersOf } = await import('./outputs.ts');
  const others = await othersOf(target, [...paths, ...sides.paths]);
  if (others.length === 0) return;
  const more = others.length > MAX_NAMED_FILES ? ` and ${others.length - MAX_NAMED_FILES} more` : '';
  say(`left as they were, not from this run: ${others.slice(0, MAX_NAMED_FILES).join(', ')}${more}`);
}

/** Files that are named one by one. */
const MAX_NAMED_FILES = 24;

function isEmpty(path: string): boolean {
  const stat = statSync(path, { throwIfNoEntry: false });
  return stat?.isFile() === true && stat.size === 0;
}

/** A run whose lines go to a stream: the files beside it get their names once it has ended. */
export async function runToStream(
  run: Unplaced & Pick<Run, 'output'>,
  { start, say }: { start: Start; say(message: string): void },
): Promise<number> {
  const sides = openSides(run.row);
  const code = await start({ ...run, row: sides.row, toNext: true }).catch(abandon(sides));
  for (const line of sides.end(code)) say(line);
  return code;
}

/**
 * The files beside the stream (failures, provenance, report): as the outputs of `fw run` they get their names when the
 * run has ended. So a run may read the failures of an earlier one and leave its own in their place, and so may the last
 * process of a pipe whose first one reads them.
 */
type Sides = ReturnType<typeof openSides>;

function openSides(row: readonly OptionsOfStage[]) {
  const names = new Map<string, string>(); // the partial one → its own
  const named = row.map(({ stage, options }) => {
    const own = { ...options };
    for (const { option, path: name } of sideFilesOf({ stage, options })) {
      const { path, partial } = unfinished(name, `--${option}`);
      if (partial === null) continue;
      names.set(partial, path);
      own[option] = partial;
    }
    return { stage, options: own };
  });
  const written = (): [string, string][] => [...names].filter(([partial]) => existsSync(partial));
  const holding = (): [string, string][] =>
    written().filter(([partial]) => {
      if (statSync(partial).size > 0) return true;
      rmSync(partial, { force: true });
      return false;
    });
  const paths = [...names.values()];
  const finish = (): string[] => written().flatMap(([partial, path]) => replace(partial, path));
  const left = (partial: string): string => `left unfinished: ${partial}`;
  return {
    /** the row, with the names under which its side files are written */
    row: named,
    /** the names of the files in the end */
    paths,
    /** Gives every file its name; returns what there is to say of old ones. */
    finish,
    /** The paths of what was written so far; those without a byte are removed. */
    partial: () => holding().map(([partial]) => partial),
    /** What becomes of the files of lines that went to standard output, after exit code `code`; returns what to say. */
    end(code: number): string[] {
      if (code <= EXIT.failed) return [...finish(), ...clearLeftovers(paths)];
      // who stops a run has the lines that went out, and looks for those that did not where they were to be
      const wasStopped = code > SIGNALLED;
      return holding().flatMap(([partial, path]) =>
        wasStopped && !isLonger(path, partial) ? replace(partial, path) : [left(partial)],
      );
    },
  };
}

/** Nothing was written yet where a run could not begin. */
function abandon(sides: Sides): (error: unknown) => never {
  return error => {
    sides.partial();
    throw error;
  };
}

/** Exit codes beyond it: ended by a signal, or because the reader has gone away. */
const SIGNALLED = 128;
