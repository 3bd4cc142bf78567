/** docs/ledger.md is for who reads a ledger without fw: its console, its program and its tables are held to what is so. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { packagedSchema } from '../../engine/core/config/package.ts';
import { folder, ROOT } from '../fw.ts';
import { fw } from '../here.ts';
import { callsOf, linesOf } from './reading.ts';

const page = readFileSync(join(ROOT, 'docs', 'ledger.md'), 'utf8');
const saved = join(ROOT, 'fixtures', 'ledger', 'replay', 'ledger.ndjson');
const blocks = (language: string): string[] =>
  [...page.matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\`$`, 'gms'))].map(
    match => match[1] as string,
  );

const sessions = blocks('console').flatMap(block => block.split(/^(?=\$ )/m));
test.each(sessions.map(session => session.split('\n')))('%s', async (command, ...printed) => {
  const { stdout, stderr } = await fw((command as string).slice(2));
  expect(stdout.trimEnd(), stderr).toBe(printed.join('\n').trimEnd());
});

test('the program of the page reads a ledger by the rules of the page alone', async () => {
  const program = join(folder(), 'read.mjs');
  writeFileSync(program, blocks('js')[0] as string);
  const ran = await fw(`node ${program} ${saved}`);
  const calls = callsOf(saved).length;
  expect(JSON.parse(ran.stdout), ran.stderr).toEqual({ lines: linesOf(saved).length, calls, keys: calls });
});

const kinds = { header: 'Header', stage: 'Stage', text: 'Text', call: 'Call', verdict: 'Verdict' };

test.each(Object.entries(kinds))('the table of a %s line has its keys', (kind, name) => {
  const table = page.slice(page.indexOf(`**${name}**`)).split('\n\n')[1] as string;
  const told = table
    .split('\n')
    .flatMap(row => [...(row.split(' | ')[0] ?? '').matchAll(/`(\w+)`/g)].map(match => match[1]));
  const { $defs } = packagedSchema('ledger') as { $defs: Record<string, { properties: object }> };
  const keys = Object.keys($defs[kind]?.properties ?? {}).filter(key => key !== 'crc');
  expect(told.sort()).toEqual(keys.sort());
});
