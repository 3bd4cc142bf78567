/** A run whose lines go to files: they, and the files beside the stream, get their names once it has ended. */
import { statSync } from 'node:fs';
import { clearLeftovers } from '../core/files/saving.ts';
import { EXIT } from '../core/item/failure.ts';
import { checkWritten, sideFilesOf } from './named-files.ts';
import type { FilesOutput } from './outputs.ts';
import { refuseOverwriting } from './overwriting.ts';
import type { Run } from './run-options.ts';
import { abandon, openSides, type Sides } from './side-files.ts';

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

/** Outputs get their names first: a run that is killed in between can be run again from its side files. */
export async function runToFiles(
  run: Unplaced,
  { target, start, say }: { target: string; start: Start; say(message: string): void },
): Promise<number> {
  const { namer } = await import('./output-paths.ts');
  const { toFiles } = await import('./outputs.ts');
  const sides = openSides(run.row);
  let outputs: FilesOutput | undefined; // none where the run ended before it had any
  const targets = namer(target, run.row, run.base);
  const code = await start({
    ...run,
    row: sides.row,
    toNext: false,
    target,
    output: (onBroken, frame) => {
      outputs = toFiles(targets, onBroken, frame);
      return outputs;
    },
  }).catch(abandon(sides));
  if (code > EXIT.failed) {
    for (const path of [...(outputs?.partial() ?? []), ...sides.partial()]) say(`left unfinished: ${path}`);
    return code;
  }
  await finish(outputs, { sides, target, say });
  return code;
}

async function finish(
  outputs: FilesOutput | undefined,
  { sides, target, say }: { sides: Sides; target: string; say(message: string): void },
): Promise<void> {
  const { paths = [], said = [] } = outputs?.finish() ?? {};
  for (const path of paths)
    say(`wrote ${path}${isEmpty(path) ? ', which is empty: there were no lines' : ''}`);
  for (const line of [...said, ...sides.finish()]) say(line);
  for (const line of clearLeftovers([...paths, ...sides.paths])) say(line);
  const { othersOf } = await import('./output-paths.ts');
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
