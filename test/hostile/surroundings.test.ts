/** What a run stands in: a working folder that is gone, options named like parts of JavaScript, prompts for a terminal. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { folder } from '../fw.ts';
import { fw } from '../here.ts';

test('every verb in a folder that was deleted says so, without a stack', async () => {
  const at = join(folder(), 'gone');
  mkdirSync(at);
  const verbs = ['chain', 'ingest', 'verify', 'run p.yaml', 'ledger ls', 'plan', '--help'];
  const line = verbs.map(verb => `fw ${verb} < /dev/null; echo $?`).join('; ');
  const ran = await fw(`rmdir ../gone; ${line}`, { cwd: at });
  expect(ran.stdout.trim().split('\n')).toEqual(verbs.map(() => '74'));
  const told = ran.stderr.split('\n').filter(text => text.startsWith('fw: '));
  expect(told).toHaveLength(verbs.length);
  for (const text of told) expect(text).toContain('expected a current folder, found that it was removed');
  expect(ran.stderr).not.toMatch(/^ +at /m);
});

test.each(['__proto__', 'constructor', 'toString', 'hasOwnProperty', '__defineGetter__'])(
  'an option %s is none, wherever it is said',
  async name => {
    const at = folder();
    writeFileSync(join(at, 'p.yaml'), 'stages: [{ chain: {} }]\noutput: out.ndjson\n');
    writeFileSync(join(at, 'q.yaml'), `stages: [{ chain: { ${name}: 1 } }]\noutput: out.ndjson\n`);
    for (const line of [`fw run p.yaml --set chain.${name}=1`, 'fw run q.yaml', `fw chain --${name}=1`]) {
      const ran = await fw(`${line} --endpoint http://127.0.0.1:9/v1 < /dev/null`, { cwd: at });
      expect(ran.stderr, line).toMatch(/no option '|Unknown argument|expected an option/);
      expect([64, 65], line).toContain(ran.code);
    }
  },
);

/** What steers a terminal, in every place that a person reads. */
const ESCAPE = '\u001b]0;owned\u0007\u001b[2J\u202e';
const OBEYED = ['\u001b', '\u0007', '\u202e'];
const obeyedIn = (text: string): string[] => OBEYED.filter(sign => text.includes(sign));

test('a dry run and an error show what would steer a terminal', async () => {
  const at = folder();
  const item = { id: `a${ESCAPE}`, prompt: `May they?\n${ESCAPE}` };
  writeFileSync(join(at, 'p.yaml'), 'stages: [{ chain: {} }]\noutput: out.ndjson\n');
  const dry = await fw('fw run p.yaml --dry-run', { cwd: at, stdin: JSON.stringify(item) });
  expect(dry.code, dry.stderr).toBe(0);
  expect(obeyedIn(dry.stdout + dry.stderr)).toEqual([]);
  expect(dry.stdout).toContain('May they?\n<U+001B>]0;owned<U+0007><U+001B>[2J<U+202E>\n---');
  writeFileSync(join(at, 'q.yaml'), `stages: [{ ${JSON.stringify(ESCAPE.replaceAll('\u0007', ''))}: {} }]\n`);
  for (const line of ['fw run q.yaml', `fw validate '${ESCAPE}'`, `fw run p.yaml '${ESCAPE}' --dry-run`]) {
    const ran = await fw(line, { cwd: at });
    expect(ran.code, line).toBeGreaterThanOrEqual(64);
    expect(obeyedIn(ran.stderr), line).toEqual([]);
  }
});
