/**
 * Where the package lies: its schemas and its pipelines are files, found from here both in the sources and in dist/.
 */
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { JsonObject } from '../json/pointer.ts';

let found: string | undefined;

/** The folder whose package.json is named fairwatch, at or above this file. A package without one is a bug. */
export function packageRoot(): string {
  if (found !== undefined) return found;
  for (let folder = dirname(fileURLToPath(import.meta.url)); ; folder = dirname(folder)) {
    if (nameOfPackage(folder) === 'fairwatch') {
      found = folder;
      return folder;
    }
    if (dirname(folder) === folder) throw new Error('no package.json named fairwatch at or above this file');
  }
}

function nameOfPackage(folder: string): unknown {
  try {
    return JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')).name;
  } catch {
    return undefined;
  }
}

/** One of our own schemas, as an object: `packagedSchema('agent')` is schemas/agent.schema.json. */
export function packagedSchema(name: string): JsonObject {
  return JSON.parse(readFileSync(join(packageRoot(), 'schemas', `${name}.schema.json`), 'utf8'));
}
