/**
 * The files beside the stream (failures, provenance, report): as the outputs of `fw run` they get their names when the
 * run has ended. So a run may read the failures of an earlier one and leave its own in their place, and so may the last
 * process of a pipe whose first one reads them.
 */
import { existsSync, rmSync, statSync } from 'node:fs';
import { clearLeftovers, isLonger, replace, unfinished } from '../core/files/saving.ts';
import { EXIT } from '../core/item/failure.ts';
import { type OptionsOfStage, sideFilesOf } from './named-files.ts';

export interface Sides {
  /** the row, with the names under which its side files are written */
  row: OptionsOfStage[];
  /** the names of the files in the end */
  paths: string[];
  /** Gives every file its name; returns what there is to say of old ones. */
  finish(): string[];
  /** The paths of what was written so far; those without a byte are removed. */
  partial(): string[];
  /** What becomes of the files of lines that went to standard output, after exit code `code`; returns what to say. */
  end(code: number): string[];
}

export function openSides(row: readonly OptionsOfStage[]): Sides {
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
    row: named,
    paths,
    finish,
    partial: () => holding().map(([partial]) => partial),
    end(code) {
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
export function abandon(sides: Sides): (error: unknown) => never {
  return error => {
    sides.partial();
    throw error;
  };
}

/** Exit codes beyond it: ended by a signal, or because the reader has gone away. */
const SIGNALLED = 128;
