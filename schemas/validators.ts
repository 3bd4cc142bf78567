/**
 * Our own schemas as code, made when fw is built, and the schemas of JSON Schema itself, which those of users are checked
 * against: to compile them at a start takes longer than all the rest of it. A schema of these must be one whose patterns are linear and whose references end; those of users are compiled, with
 * bounds, by engine/answers/schema.ts.
 */
import { readFileSync } from 'node:fs';
import { _, Ajv, type CodeKeywordDefinition, type Options } from 'ajv';
import { Ajv2019 } from 'ajv/dist/2019.js';
import { Ajv2020, type AnySchema } from 'ajv/dist/2020.js';
import { and, getProperty } from 'ajv/dist/compile/codegen/index.js';
import standalone from 'ajv/dist/standalone/index.js';
import formats from 'ajv-formats';
import { type SumRule, TOLERANCE } from '../engine/answers/sum.ts';
import { moduleOf } from '../engine/core/config/package.ts';

/** Those that runs check with, files that people write and legacy results, by what is asked of them. */
const REPORTS = {
  all: [
    'agent',
    'bench-models',
    'defaults',
    'folder',
    'legacy',
    'models',
    'orderings',
    'pipeline',
    'pool',
    'schedule',
    'serve',
    'tune',
  ],
  first: ['batch', 'label', 'legacy', 'part-result', 'part-take', 'worker-hello'],
};

/** The dialects of JSON Schema that users may write in; a default schema of each instance is that of the dialect. */
const DIALECTS: { [name: string]: new (options: Options) => Ajv } = {
  '2020-12': Ajv2020,
  '2019-09': Ajv2019,
  '07': Ajv,
};

/** What engine/answers/sum.ts says of `x-fw-sum`, as code: a function could not be written to a file. */
const SUM: CodeKeywordDefinition = {
  keyword: 'x-fw-sum',
  type: 'object',
  code(cxt) {
    const { of, is, within = 0 } = cxt.schema as SumRule;
    const parts = of.map(key => _`${cxt.data}${getProperty(key)}`);
    const sum = parts.reduce((before, part) => _`${before} + ${part}`);
    const areNumbers = and(...parts.map(part => _`typeof ${part} == "number"`));
    cxt.fail(_`${areNumbers} && Math.abs(${sum} - ${is}) > ${within + TOLERANCE}`);
  },
};

/**
 * CommonJS modules by their names, each an object of validators: `<schema>.all` reports all that is wrong with a value,
 * `<schema>.first` the first thing.
 */
export function validators(folder: string): Map<string, string> {
  const modules = new Map<string, string>();
  const add = (module: string, name: string, code: string): void => {
    const wrapped = `exports['${name}'] = (module => { const { exports } = module;\n${code}\nreturn module.exports; })({ exports: {} });`;
    modules.set(module, `${modules.get(module) ?? ''}${wrapped}\n`);
  };
  for (const [reports, names] of Object.entries(REPORTS)) {
    // a test checks our schemas against the meta-schema
    const options = { strict: false, verbose: true, validateSchema: false, meta: false } as const;
    for (const name of names) {
      const schema: AnySchema = JSON.parse(readFileSync(`${folder}/${name}.schema.json`, 'utf8'));
      const ajv = new Ajv2020({ ...options, allErrors: reports === 'all', code: { source: true } });
      ajv.addKeyword(SUM);
      add(moduleOf(name), `${name}.${reports}`, standalone.default(ajv, ajv.compile(schema)));
    }
  }
  for (const [name, Dialect] of Object.entries(DIALECTS)) {
    const ajv = new Dialect({ strict: false, verbose: true, code: { source: true } });
    formats.default(ajv);
    const validate = ajv.getSchema(ajv.defaultMeta() as string);
    const dialect = `dialect-${name}`;
    add(moduleOf(dialect), `${dialect}.first`, standalone.default(ajv, validate));
  }
  return modules;
}
