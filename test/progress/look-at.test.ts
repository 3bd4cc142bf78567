/** A run whose output is a file says by what command those that failed can be looked at; any other says nothing of it. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { folder } from '../fw.ts';
import { fw } from '../here.ts';

const failed = (code: string): string =>
  JSON.stringify({ id: code, prompt: 'p', failure: { stage: 'chain', code, message: 'm' } });
const GOOD = JSON.stringify({ id: 'good', prompt: 'p', ordering: ['risk_manager'] });

async function said(lines: readonly string[], more = 'output: "a b.ndjson"', flags = ''): Promise<string[]> {
  const cwd = folder();
  writeFileSync(join(cwd, 'in.ndjson'), `${lines.join('\n')}\n`);
  writeFileSync(join(cwd, 'p.yaml'), `stages: [ { fix-escapes: {} } ]\ninput: in.ndjson\n${more}\n`);
  const { stderr } = await fw(`fw run p.yaml ${flags}`, { cwd });
  return stderr.split('\n').filter(line => line.includes('look at them'));
}

test('one code by its name, several by the rung; a name as a shell reads it', async () => {
  const one = failed('no-valid-answer');
  expect(await said([GOOD, one, one])).toEqual([
    "p.yaml: look at them: fw view 'a b.ndjson' --where failure=no-valid-answer",
  ]);
  expect(await said([one, failed('cut-off')])).toEqual([
    "p.yaml: look at them: fw view 'a b.ndjson' --where rung=failed",
  ]);
  expect(await said([failed('$(rm x) \u202e')])).toEqual([
    "p.yaml: look at them: fw view 'a b.ndjson' --where rung=failed",
  ]);
  expect(await said([GOOD, one], 'output: "{ordering}.ndjson"')).toEqual([
    "p.yaml: look at them: fw view '*.ndjson' --where failure=no-valid-answer",
  ]);
});

test('nothing where none failed, and nothing of standard output', async () => {
  expect(await said([GOOD])).toEqual([]);
  expect(await said([failed('no-valid-answer')], '')).toEqual([]);
});
