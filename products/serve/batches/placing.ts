/** The lines of a batch that are all written become files of its owner; done again, it is the same files. */
import { statSync } from 'node:fs';
import type { FileStore } from '../file-store.ts';
import { newFileId } from '../ids.ts';
import { pathsIn } from './batch-run.ts';
import type { BatchRecord, Outputs } from './batch-state.ts';
import { linked } from './batch-store.ts';

/** Ids for what is there: a file without a line is none. `now` in ms. */
export function outputsIn(folder: string, now: number): Outputs {
  const { output, error } = pathsIn(folder);
  const idFor = (path: string): string | null => (statSync(path).size === 0 ? null : newFileId(now));
  return { output: idFor(output), error: idFor(error) };
}

/** `folder` is that of the batch; `keep` and `now` in ms. */
export function placeOutputs(
  { id, owner, outputs_kept }: BatchRecord,
  outputs: Outputs,
  { files, folder, keep, now }: { files: FileStore; folder: string; keep: number; now: number },
): void {
  const created_at = Math.floor(now / 1000);
  const expires_at = created_at + (outputs_kept ?? Math.floor(keep / 1000));
  for (const kind of ['output', 'error'] as const) {
    const file = outputs[kind];
    if (file === null || files.get(owner, file) !== null) continue;
    const path = pathsIn(folder)[kind];
    linked(path, files.spoolOf(file));
    const bytes = statSync(path).size;
    files.add({
      ...{ id: file, owner, filename: `${id}_${kind}.jsonl`, purpose: 'batch_output', bytes },
      ...{ created_at, expires_at },
    });
  }
}
