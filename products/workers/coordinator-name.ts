/** The name of a coordinator among others that share a Redis: random, and kept in its folder, so that a restart finds its queues. */
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { readKept, replaceFile } from '../../engine/core/files/durable.ts';

const FORM = /^[0-9a-f]{12}$/;

/** One that is damaged is made anew: what was in its queues is offered again. */
export function coordinatorId(folder: string): string {
  const path = join(folder, 'coordinator');
  const known = read(path);
  if (FORM.test(known)) return known;
  const id = randomBytes(6).toString('hex');
  replaceFile(path, `${id}\n`);
  return id;
}

function read(path: string): string {
  try {
    return readKept(path).toString().trim();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return '';
    throw error;
  }
}
