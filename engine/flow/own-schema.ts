/** Our own schemas as functions, as they were compiled when fw was built (schemas/validators.ts). */
import { createRequire } from 'node:module';
import { join } from 'node:path';
import type { ValidateFunction } from 'ajv';
import { packageRoot } from './root.ts';

const load = createRequire(import.meta.url);

/** Reports all that is wrong with a value, or the first thing alone. */
export function ownValidator(name: string, reports: 'all' | 'first'): ValidateFunction {
  return load(join(packageRoot(), 'dist', 'validators', `${name}.${reports}.cjs`));
}
