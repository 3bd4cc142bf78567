/** What bash offers at a press of Tab, by the script of fw completion. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { folder, shell } from '../fw.ts';
import { fw } from '../here.ts';

let at: string;
beforeAll(async () => {
  at = folder();
  mkdirSync(join(at, 'agents'));
  writeFileSync(join(at, 'a table.csv'), 'x');
  writeFileSync(join(at, 'fw.bash'), (await fw('fw completion bash')).stdout);
});

/** The words that the shell would offer for the last one, in a folder with `agents/` and `a table.csv`. */
async function offered(...words: string[]): Promise<string[]> {
  const quoted = words.map(word => `'${word}'`).join(' ');
  const { stdout, stderr } = await shell(
    `source ./fw.bash; complete -p fw >/dev/null; COMP_WORDS=(${quoted}); COMP_CWORD=${words.length - 1}; _fw; printf '%s\\n' "\${COMPREPLY[@]}"`,
    { cwd: at },
  );
  expect(stderr).toBe('');
  return stdout.split('\n').filter(Boolean).sort();
}

test.each([
  [
    ['fw', 'in'],
    ['ingest', 'init'],
  ],
  [
    ['fw', 'ingest', '--or'],
    ['--or-template', '--orderings'],
  ],
  [['fw', 'ingest', '--format', 'n'], ['ndjson']],
  [['fw', 'ingest', '--format', '=', 'cs'], ['csv']],
  [
    ['fw', 'chain', '--guided', '='],
    ['off', 'older', 'on'],
  ],
  [['fw', 'chain', '--agents', ''], ['agents']],
  [['fw', 'ingest', '--template', 'a '], ['a table.csv']],
  [['fw', 'ingest', 'a t'], ['a table.csv']],
  [['fw', 'chain', '--seed', ''], []],
  [['fw', 'chain', '--retry-failed', 'a t'], ['a table.csv']],
  [['fw', 'ledger', 'co'], ['cost']],
  [['fw', 'ledger', 'export', '--ou'], ['--outcome']],
  [
    ['fw', 'completion', ''],
    ['bash', 'zsh'],
  ],
  [['fw', 'unknown', '--x'], []],
])('%j', async (words, expected) => {
  expect(await offered(...words)).toEqual(expected);
});

test('for zsh it is the same, behind what makes zsh know it', async () => {
  const [bash, zsh] = [await fw('fw completion bash'), await fw('fw completion zsh')];
  expect(zsh.stdout.endsWith(bash.stdout)).toBe(true);
  expect(zsh.stdout).toMatch(/^autoload -Uz compinit bashcompinit$/m);
});

test.each(['fw completion', 'fw completion fish', 'fw completion bash zsh'])('%s is 64', async line => {
  const { code, stderr } = await fw(line);
  expect([code, stderr.includes('expected bash or zsh')]).toEqual([64, true]);
});
