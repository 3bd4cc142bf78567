/**
 * Where the package lies: its schemas and its pipelines are files, found from here both in the sources and in dist/.
 */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { ValidateFunction } from 'ajv';
import type { JsonObject } from '../json/pointer.ts';

let root: string | undefined;

/** The folder whose package.json is named fairwatch, at or above this file. A package without one is a bug. */
export function packageRoot(): string {
  if (root !== undefined) return root;
  for (let folder = dirname(fileURLToPath(import.meta.url)); ; folder = dirname(folder)) {
    if (nameOfPackage(folder) === 'fairwatch') {
      root = folder;
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

export function version(): string {
  return JSON.parse(readFileSync(join(packageRoot(), 'package.json'), 'utf8')).version;
}

/** Our own schemas as functions, as they were compiled when fw was built (schemas/validators.ts). */
const load = createRequire(import.meta.url);

const validators = new Map<string, ValidateFunction>();

/** Reports all that is wrong with a value, or the first thing alone. Asked for each line: to load it again takes 1 µs. */
export function ownValidator(name: string, reports: 'all' | 'first'): ValidateFunction {
  const key = `${name}.${reports}`;
  let validator = validators.get(key);
  if (!validator) {
    const file = join(packageRoot(), 'dist', 'validators', `${moduleOf(name)}.cjs`);
    validator = load(file)[key] as ValidateFunction;
    validators.set(key, validator);
  }
  return validator;
}

/** What is bundled into files of their own (build.mjs): their loading takes as long as all else that a stage of text needs. */
interface Libraries {
  ajv: Pick<typeof import('ajv'), '_' | 'str' | 'Ajv'> &
    Pick<typeof import('ajv/dist/2019.js'), 'Ajv2019'> &
    Pick<typeof import('ajv/dist/2020.js'), 'Ajv2020'> & { formats: typeof import('ajv-formats') };
  yaml: typeof import('yaml');
}

/** A library, for who needs it now. To load it again takes 1 µs. */
export function library<Name extends keyof Libraries>(name: Name): Libraries[Name] {
  return load(join(packageRoot(), 'dist', 'chunks', `${name}.cjs`));
}

/** The file that holds it: the small ones share one, for most runs need most of them. */
export function moduleOf(name: string): string {
  return name === 'legacy' || name.startsWith('dialect-') ? name : 'own';
}
