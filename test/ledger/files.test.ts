/** Which files a ledger has: folders may hold anything. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, renameSync, symlinkSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { describe, expect, test } from 'vitest';
import { filesOf } from '../../engine/asking/ledger/scan-files.ts';
import { folder } from '../fw.ts';
import { fw } from '../here.ts';
import { serve } from '../pool/serving.ts';
import { linesOf, makeAgents } from './reading.ts';

test('regular files by date and start; folders, pipes and other names are none, and loops of links end', () => {
  const at = folder();
  const elsewhere = folder();
  for (const name of ['2026-01-02', '2026-01-01', 'locks', 'x.ndjson']) mkdirSync(join(at, name));
  mkdirSync(join(elsewhere, '2025'));
  const files = ['2026-01-02/0.ndjson', '2026-01-01/1.ndjson', '2026-01-01/0.ndjson', 'x.ndjson/y.ndjson'];
  for (const name of [...files, 'notes.txt', 'locks/a.lock']) writeFileSync(join(at, name), '');
  writeFileSync(join(elsewhere, '2025', 'old.ndjson'), '');
  execFileSync('mkfifo', [join(at, 'pipe.ndjson')]);
  symlinkSync(at, join(at, '2026-01-01', 'up'));
  symlinkSync(join(elsewhere, '2025'), join(at, '2025'));
  symlinkSync(join(elsewhere, '2025', 'old.ndjson'), join(at, 'same.ndjson'));
  symlinkSync('/dev/zero', join(at, 'zero.ndjson'));
  symlinkSync('nowhere', join(at, 'gone'));
  expect(filesOf(at).map(path => relative(at, path))).toEqual([
    '2025/old.ndjson',
    '2026-01-01/0.ndjson',
    '2026-01-01/1.ndjson',
    '2026-01-02/0.ndjson',
    'x.ndjson/y.ndjson',
  ]);
  expect(filesOf(join(at, 'missing'))).toEqual([]);

  symlinkSync('nowhere', join(at, 'gone.ndjson'));
  expect(() => filesOf(at)).toThrow('gone.ndjson: expected a readable part of the ledger, found a link');
  const told: string[] = [];
  expect(filesOf(at, path => void told.push(relative(at, path)))).toHaveLength(5);
  expect(told).toEqual(['gone.ndjson']);
});

describe('where a pipeline keeps its ledger', () => {
  const cases: [file: string, env: Record<string, string>, flag: string, where: string | null][] = [
    ['', {}, '', 'ledger'],
    ['', { FW_LEDGER: 'env' }, '', 'env'],
    ['ledger: file', { FW_LEDGER: 'env' }, '', 'file'],
    ['ledger: file', { FW_LEDGER: 'env' }, '--ledger flag', 'flag'],
    ['ledger: false', { FW_LEDGER: 'env' }, '', null],
    ['ledger: false', {}, '--ledger flag', 'flag'],
  ];
  test.each(cases)('%s, %o, %s: %s', async (file, env, flag, where) => {
    const at = folder();
    makeAgents(at);
    const fake = await serve(({ answer }) => answer('{"says":"yes"}'));
    writeFileSync(join(at, 'in.ndjson'), '{"id":"a","prompt":"?"}\n');
    writeFileSync(
      join(at, 'p.yaml'),
      `input: in.ndjson\nstages:\n  - chain: { agents: agents, decision: false }\n${file}\n`,
    );
    const ran = await fw(
      `fw run p.yaml --endpoint ${fake.url} ${flag}; find . -name '*.ndjson' | cut -d/ -f2`,
      {
        cwd: at,
        env,
      },
    );
    expect(ran.stderr).toContain('2 calls');
    expect(ran.stdout.trim().split('\n').slice(1).sort()).toEqual(
      [...(where ? [where] : []), 'in.ndjson'].sort(),
    );
    expect(ran.stderr.includes('not resumable')).toBe(where === null);
  });
});

test('old dates may be linked from another disk, and are replayed', async () => {
  const at = folder();
  const other = folder();
  const agents = makeAgents(at);
  const fake = await serve(({ answer }) => answer('{"says":"yes"}'));
  const line = `fw chain --agents ${agents} --no-decision --ledger led`;
  const stdin = '{"id":"a","prompt":"?"}\n';
  const ran = await fw(`${line} --endpoint ${fake.url}`, { cwd: at, stdin });
  const [path] = filesOf(join(at, 'led')) as [string];
  const date = join(path, '..');
  renameSync(date, join(other, 'moved'));
  symlinkSync(join(other, 'moved'), date);
  expect(linesOf(join(at, 'led')).length).toBeGreaterThan(4);
  expect(await fw(line, { cwd: at, stdin })).toMatchObject({ code: 0, stdout: ran.stdout });
  expect(fake.asked).toBe(2);
  expect(readFileSync(path, 'utf8')).toContain('"outcome":"answer"');
});

test('a device is no ledger', () => {
  for (const device of ['/dev/null', '/dev/full', '/dev/zero'])
    expect(() => filesOf(device)).toThrow(`--ledger ${device}: expected a folder, found a device`);
});
