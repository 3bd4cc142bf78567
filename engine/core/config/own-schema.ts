/** Our own schemas as functions, as they were compiled when fw was built (schemas/validators.ts). */
import { createRequire } from 'node:module';
import { join } from 'node:path';
import type { ValidateFunction } from 'ajv';
import { packageRoot } from './package.ts';

const load = createRequire(import.meta.url);

const known = new Map<string, ValidateFunction>();

/** Reports all that is wrong with a value, or the first thing alone. Asked for each line: to load it again takes 1 µs. */
export function ownValidator(name: string, reports: 'all' | 'first'): ValidateFunction {
  const key = `${name}.${reports}`;
  let validator = known.get(key);
  if (!validator) {
    const file = join(packageRoot(), 'dist', 'validators', `${moduleOf(name)}.cjs`);
    validator = load(file)[key] as ValidateFunction;
    known.set(key, validator);
  }
  return validator;
}

/** The file that holds it: the small ones share one, for most runs need most of them. */
export function moduleOf(name: string): string {
  return name === 'legacy' || name.startsWith('dialect-') ? name : 'own';
}
