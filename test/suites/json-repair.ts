/**
 * The published cases of two repairers through our reader, under a schema that allows any object:
 *
 *   test/suites/run.sh json-repair       with JSONREPAIR and JSON_REPAIR naming checkouts of josdejong/jsonrepair and
 *                                        mangiucugna/json_repair, whose packages do not hold their tests
 *
 * A text that is an object already comes back as that object, clean; another JSON text is refused, unless it is a list
 * of objects. Of any other, what came back is what its entries
 * make of the text, so that no scalar is changed without one, and undoing them gives the text. What we read otherwise
 * than the repairer is counted, and what we refuse: they guess, and we do not.
 */
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { runInNewContext } from 'node:vm';
import { applyEdits, editsOf, undoEdits } from '../../engine/integrity/edits.ts';
import { isObject } from '../../engine/integrity/pointer.ts';
import { readAnswer } from '../../engine/integrity/read-answer.ts';
import { compileSchema } from '../../engine/integrity/schema.ts';
import { conclude, type Verdict } from './suite.ts';

/** What goes in, and the text that the repairer makes of it, where the test says so. */
type Case = [input: string, expected: string | null];

const check = compileSchema(true, 'any');
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

for (const [variable, casesOf] of Object.entries(SUITES)) {
  const folder = process.env[variable];
  if (folder === undefined) console.log(`left out: ${variable} names no checkout`);
  else judge(variable, casesOf(folder));
}
