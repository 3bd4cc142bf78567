/**
 * The files beside the stream (failures, provenance, report) of a pipeline file: as its outputs they get their names when
 * the run has ended, so that a run may read the failures of an earlier one and leave its own in their place.
 */
import { existsSync, renameSync } from 'node:fs';
import { unfinished } from '../engine/flow/files.ts';
import type { Values } from '../engine/flow/options.ts';
import type { Stage } from '../engine/flow/stage.ts';
import { sideFilesOf } from './overwriting.ts';

export interface Sides {
  /** the row, with the names under which its side files are written */
  row: { stage: Stage; options: Values }[];
  /** Gives every file its name. */
  finish(): void;
  /** The paths of what was written so far. */
  partial(): string[];
}

export function openSides(row: readonly { stage: Stage; options: Values }[]): Sides {
  const names = new Map<string, string>(); // the partial one → its own
  const named = row.map(({ stage, options }) => {
    const own = { ...options };
    for (const option of sideFilesOf({ stage, options })) {
      const { path, partial } = unfinished(own[option] as string, `--${option}`);
      if (partial === null) continue;
      names.set(partial, path);
      own[option] = partial;
    }
    return { stage, options: own };
  });
  const written = (): [string, string][] => [...names].filter(([partial]) => existsSync(partial));
  return {
    row: named,
    finish() {
      for (const [partial, path] of written()) renameSync(partial, path);
    },
    partial: () => written().map(([partial]) => partial),
  };
}
