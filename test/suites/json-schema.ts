/**
 * JSON-Schema-Test-Suite, draft 7, from Debian's json-schema-test-suite: every required test through compileSchema, and
 * those whose value is an object also through `fw validate --schema`, with every coercion left out. Tests that refer to
 * schemas elsewhere are left out: a schema here is whole in itself, and nothing is fetched.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { compileSchema } from '../../engine/answers/schema.ts';
import { COERCIONS } from '../../engine/answers/written-forms.ts';
import { isObject } from '../../engine/core/json/pointer.ts';
import { conclude, fromDebian, fw, jsonFiles, nameOf, temporary, type Verdict, wrongEnd } from './suite.ts';

interface Group {
  description: string;
  schema: unknown;
  tests: { description: string; data: unknown; valid: boolean }[];
}

const EXCEPTIONS = {
  'ref: ref overrides any sibling keywords: ref valid, maxItems ignored':
    'what stands beside $ref is judged as in 2019-09 and later, as ajv 8 does: the stricter reading of what was written',
};

const folder = join(fromDebian('json-schema-test-suite'), 'usr/share/json-schema-test-suite/tests/draft7');
const scratch = temporary('schemas');
const verdicts: Verdict[] = [];
let elsewhere = 0;
for (const file of jsonFiles(folder)) {
  for (const group of JSON.parse(readFileSync(file, 'utf8')) as Group[]) {
    if (nameOf(file) === 'refRemote' || JSON.stringify(group.schema).includes('http://localhost:1234')) {
      elsewhere += group.tests.length;
    } else verdicts.push(...judge(nameOf(file), group));
  }
}
console.log(`left out: ${elsewhere} tests that refer to schemas elsewhere`);
conclude('JSON-Schema-Test-Suite, draft 7 (Debian json-schema-test-suite)', verdicts, EXCEPTIONS);

function judge(file: string, { description, schema, tests }: Group): Verdict[] {
  const named = isObject(schema) ? { $schema: 'http://json-schema.org/draft-07/schema#', ...schema } : schema;
  const name = (test: string): string => `${file}: ${description}: ${test}`;
  let check: ReturnType<typeof compileSchema>;
  try {
    check = compileSchema(named, 'schema');
  } catch (error) {
    return tests.map(test => ({ name: name(test.description), problem: (error as Error).message }));
  }
  const byProcess = judgeByProcess(
    named,
    tests.filter(({ data }) => isObject(data)),
  );
  return tests.map(test => {
    const found = check(test.data).length === 0;
    const problem =
      found === test.valid ? (byProcess.get(test) ?? null) : `expected ${test.valid}, found ${found}`;
    return { name: name(test.description), problem };
  });
}

/** What `fw validate --schema` says otherwise than the suite. */
function judgeByProcess(schema: unknown, tests: Group['tests']): Map<object, string> {
  const problems = new Map<object, string>();
  if (tests.length === 0) return problems;
  const path = join(scratch, 'one.schema.json');
  writeFileSync(path, JSON.stringify(schema));
  const lines = tests.map(({ data }) => JSON.stringify(data));
  const skip = Object.keys(COERCIONS).join(',');
  const ran = fw(['validate', '--schema', path, '--skip', skip], lines.map(line => `${line}\n`).join(''));
  const end = wrongEnd(ran);
  for (const [index, test] of tests.entries()) {
    const found = ran.lines[index]?.toString() === lines[index];
    if (end !== null || ran.lines.length !== tests.length) problems.set(test, end ?? 'lines were lost');
    else if (found !== test.valid) problems.set(test, `fw validate: expected ${test.valid}, found ${found}`);
  }
  return problems;
}
