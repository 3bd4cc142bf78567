/** Lines of every kind that the fixtures know, and those that only matter where an input is cut. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import glob from 'fast-glob';
import { ROOT } from '../fw.ts';

const NEWLINE = 10;

function linesIn(bytes: Buffer): Buffer[] {
  const lines: Buffer[] = [];
  for (let from = 0; from < bytes.length; ) {
    const at = bytes.indexOf(NEWLINE, from);
    const to = at < 0 ? bytes.length : at;
    lines.push(bytes.subarray(from, to));
    from = to + 1;
  }
  return lines;
}

const fixtures = glob.sync(['fixtures/*.ndjson', 'fixtures/*/*/*.ndjson'], { cwd: ROOT }).sort();

const odd: (string | Buffer)[] = [
  '',
  '\r',
  ' ',
  '\t\t',
  '\ufeff{"id":"marked"}',
  '\ufeff',
  '{"torn":',
  '{"a": 1.0, "a": 1e400, "__proto__": {"b": -0}}',
  '{"id":"i","failure":{"stage":"x","code":"not-json","message":"m","text":"{\\"a\\": \\"\\\\$\\"}"}}',
  '{ "note" : "illegal \\$ escape" }',
  '{ "note": "suspect \\frac and \\times" }',
  '[1]',
  'null',
  Buffer.from([0x7b, 0x22, 0x61, 0x22, 0x3a, 0x22, 0xff, 0x22, 0x7d]),
  Buffer.from([0xe2, 0x82]),
  `{"deep":${'['.repeat(5000)}${']'.repeat(5000)}}`,
  `{"long":"${'é'.repeat(2000)}"}`,
  '{"id":"twice","prompt":"?"}',
  '{"id":"twice","prompt":"?"}',
  ...Array.from({ length: 60 }, (_line, n) =>
    JSON.stringify({ id: `f${n}`, failure: { stage: `stage${n % 50}`, code: `code${n}`, message: 'm' } }),
  ),
];

export const corpus: readonly Buffer[] = [
  ...fixtures.flatMap(path => linesIn(readFileSync(join(ROOT, path)))),
  ...odd.map(line => Buffer.from(line)),
];
