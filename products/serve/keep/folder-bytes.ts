/** How many bytes a folder has, and taking it away without holding anybody up. */
import { readdirSync, statSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';

/** Levels of folders that this server makes. */
const DEEPEST = 6;

/** Of all of its files. A file with two names is counted where its other name is: a batch has a link to its input. */
export function bytesIn(folder: string, depth = DEEPEST): number {
  let sum = 0;
  for (const entry of entriesOf(folder)) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) sum += depth > 0 ? bytesIn(path, depth - 1) : 0;
    else if (entry.isFile()) {
      const stat = statSync(path, { throwIfNoEntry: false });
      sum += stat?.nlink === 1 ? stat.size : 0;
    }
  }
  return sum;
}

/** none where it is gone */
function entriesOf(folder: string) {
  try {
    return readdirSync(folder, { withFileTypes: true });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}

/** Off the thread of the calls: to unlink some GB takes the system a while. */
export const removeFolder = (path: string): Promise<void> => rm(path, { recursive: true, force: true });
