/**
 * Our own schemas as code, made when fw is built: to compile them at a start takes longer than all the rest of it.
 * A schema of these must be one whose patterns are linear and whose references end; those of users are compiled, with
 * bounds, by engine/integrity/schema.ts.
 */
import { readFileSync } from 'node:fs';
import { Ajv2020, type AnySchema } from 'ajv/dist/2020.js';
import standalone from 'ajv/dist/standalone/index.js';

/** Those that runs check with, files that people write and legacy results, by what is asked of them. */
const REPORTS = {
  all: ['agent', 'defaults', 'legacy', 'orderings', 'pipeline', 'pool', 'schedule'],
  first: ['legacy', 'pool'],
};

/** CommonJS modules by their names: `<schema>.all` reports all that is wrong, `<schema>.first` the first thing. */
export function validators(folder: string): Map<string, string> {
  const modules = new Map<string, string>();
  for (const [reports, names] of Object.entries(REPORTS)) {
    // a test checks our schemas against the meta-schema
    const options = { strict: false, verbose: true, validateSchema: false, meta: false } as const;
    for (const name of names) {
      const schema: AnySchema = JSON.parse(readFileSync(`${folder}/${name}.schema.json`, 'utf8'));
      const ajv = new Ajv2020({ ...options, allErrors: reports === 'all', code: { source: true } });
      modules.set(`${name}.${reports}`, standalone.default(ajv, ajv.compile(schema)));
    }
  }
  return modules;
}
