/**
 * The published cases of repairers and extractors of JSON through our reader, under a schema that allows any object. Every
 * text with a brace in the tests of six packages from npm is a case. Two repairers keep their tests out of their packages:
 *
 *   test/suites/run.sh json-repair       also with JSONREPAIR and JSON_REPAIR naming checkouts of josdejong/jsonrepair
 *                                        and mangiucugna/json_repair
 *
 * One rule for all: each leaf of what is read stands in the text to the letter, or has an entry; nothing else is `clean`.
 * Behind the object that was read nothing else opens. A text that is an object already comes back as that object; another
 * JSON text is refused, unless it is a list of objects. The entries make what was read, and lead back to the text. What we
 * read otherwise than the repairer is counted, and what we refuse: they guess, and we do not.
 */
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { runInNewContext } from 'node:vm';
import { applyEdits, editsOf, undoEdits } from '../../engine/answers/entries.ts';
import { readAnswer } from '../../engine/answers/read-answer.ts';
import { compileSchema } from '../../engine/answers/schema.ts';
import { isObject } from '../../engine/core/json/pointer.ts';
import { isSaid, leavesOf } from '../integrity/leaves.ts';
import { conclude, fromNpm, type Verdict } from './suite.ts';

/** What goes in, and the text that the repairer makes of it, where the test says so. */
type Case = [input: string, expected: string | null];

const check = compileSchema(true, 'any');
/** Packages whose tests are in what npm delivers, and where in it. */
const PACKAGES: { [spec: string]: string[] } = {
  'dirty-json@0.9.2': ['test/parser_test.js', 'test/lexer_test.js'],
  'extract-json-from-string@1.0.1': ['test/extract-json-from-string.js'],
  '@axync/extract-json@1.1.3': ['src/internal/__tests__/extract-json.spec.ts'],
  'loose-json@1.1.2': ['test/index.spec.js'],
  'partial-json-parser@1.2.2': ['test.js'],
  'really-relaxed-json@0.3.2': [
    'test/testParser.js',
    'test/testPrinter.js',
    'test/testConveter.js',
    'test/testUnicode.js',
  ],
};

/** A string of JavaScript of any kind, as it stands in a source. */
const TEXT = /'(?:[^'\\\n]|\\[\s\S])*'|"(?:[^"\\\n]|\\[\s\S])*"|`(?:[^`\\]|\\[\s\S])*`/g;
const LITERAL = String.raw`('(?:[^'\\\n]|\\[^])*'|"(?:[^"\\\n]|\\[^])*")`;
const SUITES: { [variable: string]: (folder: string) => Case[] } = {
  JSONREPAIR: casesOfTypeScript,
  JSON_REPAIR: casesOfPython,
};

function judge(title: string, cases: readonly Case[]): void {
  const counts = { valid: 0, same: 0, other: 0, refused: 0 };
  const verdicts = cases.map(([input, expected]): Verdict => {
    const before = parsed(input);
    const { rung, output, repairs } = readAnswer(input, check, { finish: 'stop' });
    const name = JSON.stringify(input);
    const isList = Array.isArray(before) && before.length > 0 && before.every(isObject);
    if (isObject(before)) {
      counts.valid += 1;
      const isSame = rung === 'clean' && repairs.length === 0 && isDeepStrictEqual(output, before);
      return { name, problem: isSame ? null : `expected it unchanged, found ${rung}` };
    }
    if (rung === 'failed') counts.refused += 1;
    else counts[expected !== null && isDeepStrictEqual(output, parsed(expected)) ? 'same' : 'other'] += 1;
    if (before !== undefined && !isList && rung !== 'failed')
      return { name, problem: `expected no object of what is none, found ${JSON.stringify(output)}` };
    const edits = editsOf(repairs);
    const mended = applyEdits(input, edits);
    if (undoEdits(mended, edits) !== input) return { name, problem: 'its entries do not lead back to it' };
    if (rung !== 'failed') {
      const unsaid = leavesOf(output).find(leaf => !isSaid(leaf, input, repairs));
      if (unsaid) return { name, problem: `nobody said ${JSON.stringify(unsaid.value)} at ${unsaid.at}` };
      if ((rung === 'clean') !== (repairs.length === 0))
        return { name, problem: `${rung} with ${repairs.length} entries` };
      const behind = edits.at(-1);
      if (
        behind &&
        behind.offset + behind.cut.length === input.length &&
        behind.cut.includes('{') &&
        !behind.cut.includes('<')
      )
        return { name, problem: `what stands last was left out: ${behind.cut}` };
    }
    if (rung !== 'failed' && !(edits.length === repairs.length && isDeepStrictEqual(parsed(mended), output)))
      return { name, problem: `its entries make ${mended}, found ${JSON.stringify(output)}` };
    return { name, problem: null };
  });
  const { valid, same, other, refused } = counts;
  console.log(
    `${valid} objects already, ${same} read as the repairer does, ${other} otherwise, ${refused} refused`,
  );
  conclude(title, verdicts, {});
}

/** Every text with a brace in the tests of a package. Expressions in templates are left out, but for JSON.stringify. */
function casesOfPackage(spec: string): Case[] {
  const folder = fromNpm(spec);
  const sources = (PACKAGES[spec] ?? []).map(file => readFileSync(join(folder, file), 'utf8'));
  const texts = sources
    .flatMap(source => source.match(TEXT) ?? [])
    .flatMap(source => {
      if (source.replaceAll('${JSON.stringify(', '').includes('${')) return [];
      try {
        return [literal(source)];
      } catch {
        return []; // quotes of two texts, and what stood between them
      }
    });
  return [...new Set(texts)].filter(text => text.includes('{')).map(text => [text, null]);
}

/** The literals that jsonrepair's tests hand to it, from the one file that holds its cases. */
function casesOfTypeScript(folder: string): Case[] {
  const text = readFileSync(join(folder, 'src', 'index.test.ts'), 'utf8');
  const call = new RegExp(
    String.raw`\b(?:assertRepair|jsonrepair)\(\s*${LITERAL}\s*\)(?:\)\s*\.toBe\(\s*${LITERAL})?`,
    'g',
  );
  return [...text.matchAll(call)].map(([, input, expected]) => [
    literal(input!),
    expected === undefined ? null : literal(expected),
  ]);
}

/** A literal of JavaScript is one of Python too, but only Python reads its own. */
function literal(source: string): string {
  return runInNewContext(source) as string;
}

const READ_PYTHON = `
import ast, json, sys
for path in sys.argv[1:]:
    for node in ast.walk(ast.parse(open(path, encoding="utf-8").read())):
        sides = [node.left, *node.comparators] if isinstance(node, ast.Compare) else [node]
        call = sides[0]
        if not (isinstance(call, ast.Call) and getattr(call.func, "id", "") == "repair_json" and call.args): continue
        given = call.args[0]
        if not (isinstance(given, ast.Constant) and isinstance(given.value, str)): continue
        expected = sides[1].value if len(sides) == 2 and isinstance(sides[1], ast.Constant) else None
        print(json.dumps([given.value, expected if isinstance(expected, str) else None]))
`;

function casesOfPython(folder: string): Case[] {
  const tests = join(folder, 'tests');
  const files = readdirSync(tests)
    .filter(name => name.endsWith('.py'))
    .sort();
  const { status, stdout, stderr } = spawnSync(
    'python3',
    ['-c', READ_PYTHON, ...files.map(name => join(tests, name))],
    {
      encoding: 'utf8',
    },
  );
  if (status !== 0) throw new Error(`expected python3 to read the tests, found ${stderr}`);
  const cases = stdout
    .split('\n')
    .filter(Boolean)
    .map(line => JSON.parse(line) as Case);
  // a comparison and the call in it are two nodes of one case
  return [...new Map(cases.sort((a, b) => (a[1] === null ? 0 : 1) - (b[1] === null ? 0 : 1))).entries()];
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

for (const spec of Object.keys(PACKAGES)) judge(spec, casesOfPackage(spec));
for (const [variable, casesOf] of Object.entries(SUITES)) {
  const folder = process.env[variable];
  if (folder === undefined) console.log(`left out: ${variable} names no checkout`);
  else judge(variable, casesOf(folder));
}
