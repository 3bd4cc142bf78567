/** docs/integrity.md is for those who must rely on it: its tables and its console are run here. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { fill, parseDefaults } from '../engine/answers/defaults.ts';
import { readAnswer } from '../engine/answers/read-answer.ts';
import { RULES } from '../engine/answers/rules.ts';
import { compileSchema, textCheck } from '../engine/answers/schema.ts';
import type { JsonObject } from '../engine/core/json/pointer.ts';
import { ROOT } from './fw.ts';
import { fw } from './here.ts';

const page = readFileSync(join(ROOT, 'docs/integrity.md'), 'utf8');
const blocks = (language: string): string[] =>
  [...page.matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\`$`, 'gms'))].map(
    match => match[1] as string,
  );

const check = compileSchema(JSON.parse(blocks('json')[0] as string), 'the schema of the page');
const defaults = parseDefaults(blocks('yaml')[0] as string, 'the defaults of the page').get('example') ?? [];

/** The rows of the table whose header begins with `head`, their code spans without the ticks. */
function rowsOf(head: string): string[][] {
  const lines = page.split('\n');
  const rows: string[][] = [];
  for (let at = lines.findIndex(line => line.startsWith(head)) + 2; lines[at]?.startsWith('|'); at++) {
    const cells = (lines[at] as string).slice(2, -2).split(' | ');
    rows.push(
      cells.map(cell =>
        (/^(`+) ?(.*?) ?\1$/.exec(cell)?.[2] ?? cell).replaceAll('⏎', '\n').replaceAll('⍽', '\u00a0'),
      ),
    );
  }
  return rows;
}

const rules = rowsOf('| rule | the model says');

test.each(rules)('the rule %s reads %s', (rule, says, reads) => {
  const read = readAnswer(says as string, check, { finish: 'stop' });
  const { rung, output, repairs } = rule === 'null-default' ? filled(read.output as JsonObject) : read;
  expect(rung).toBe(RULES.get(rule as string)?.rung);
  expect(JSON.stringify(output)).toBe(reads);
  expect(repairs.map(entry => entry.rule)).toContain(rule);
});

function filled(output: JsonObject | undefined) {
  const { value, repairs } = fill(output as JsonObject, defaults, check);
  return { rung: check(value).length === 0 ? 'defaulted' : 'failed', output: value, repairs };
}

test('every rule has an example, and fw lists the same ones', async () => {
  expect(new Set(rules.map(([rule]) => rule))).toEqual(new Set(RULES.keys()));
  const listed = (await fw('fw validate --rules')).stdout.trim().split('\n');
  expect(listed.map(line => line.split(' ')[0])).toEqual([...RULES.keys()]);
});

const never = rowsOf('| the model says | ended');

test.each(never)('never: %s', (says, finish, code) => {
  const { rung, problem } = readAnswer(says as string, check, { finish: finish as string });
  expect([rung, problem?.code]).toEqual(['failed', code]);
});

const texts = rowsOf('| text of the model');

test.each(texts)('in text: %s', (says, finish, expected) => {
  const { rung, problem } = readAnswer(says as string, textCheck({}, 'test'), { finish: finish as string });
  expect(problem?.code ?? rung).toBe(expected);
});

describe('the console', () => {
  const sessions = blocks('console').flatMap(block => block.split(/^(?=\$ )/m));
  test.each(sessions.map(session => session.split('\n')))('%s', async (command, ...printed) => {
    const { stdout, stderr } = await fw((command as string).slice(2));
    expect(stdout.trimEnd(), stderr).toBe(printed.join('\n').trimEnd());
  });
});

test('the page has what this test looks for', () => {
  expect(rules.length).toBeGreaterThanOrEqual(RULES.size);
  expect(never.length).toBeGreaterThan(10);
  expect(texts.length).toBeGreaterThan(5);
  expect(blocks('console').length).toBeGreaterThan(3);
});
