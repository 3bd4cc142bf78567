/** `fw ledger` on folders and files that mean harm, or just are no ledger. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { keyOf } from '../../engine/asking/agents/request-body.ts';
import type { LedgerDamage } from '../../engine/asking/ledger/read-ledger.ts';
import { filesOf } from '../../engine/asking/ledger/scan-files.ts';
import { Fatal } from '../../engine/core/item/failure.ts';
import { readAnswers } from '../../products/records/answer-outcomes.ts';
import { checkLedger } from '../../products/records/check-verb.ts';
import { exported } from '../../products/records/export-verb.ts';
import { costOf } from '../../products/records/ledger-cost.ts';
import { runsOf } from '../../products/records/ls-verb.ts';
import { repairLedger } from '../../products/records/repair-verb.ts';
import { findTries } from '../../products/records/show-verb.ts';
import { runs } from '../all.ts';
import { folder } from '../fw.ts';
import { fw } from '../here.ts';
import { seed } from '../integrity/property.ts';
import { serve } from '../pool/serving.ts';
import { makeAgents, sealed, textOf } from './reading.ts';

/** The lines of a ledger with answers, a rejected one, and a try that failed. */
async function recorded(): Promise<string[]> {
  const at = folder();
  const agents = makeAgents(at);
  const fake = await serve(({ n, answer, send }) =>
    n === 2 ? send(500, 'no') : answer(n === 3 ? 'no JSON' : '{"says":"yes"}'),
  );
  await fw(`fw chain --agents ${agents} --no-decision --ledger led --in-flight 1 --endpoint ${fake.url}`, {
    cwd: at,
    stdin: '{"id":"a","prompt":"?"}\n{"id":"b","prompt":"!"}\n',
  });
  const lines = textOf(join(at, 'led')).split('\n').slice(0, -1);
  expect(lines.length).toBeGreaterThan(10);
  return lines;
}

const ESCAPE = '\u001b]0;owned\u0007\u001b[2J\u202e';

test('every verb survives any folder, and obeys no text in it', async () => {
  const lines = await recorded();
  const at = folder();
  const led = join(at, 'led');
  mkdirSync(join(led, 'x.ndjson'), { recursive: true });
  const put = (name: string, content: string | Buffer) => writeFileSync(join(led, name), content);
  const edit = (from: RegExp, to: string) => lines.map(line => sealed(line.replace(from, to))).join('\n');
  put(
    '1-escapes.ndjson',
    `${edit(/"(item|agent|model|endpoint|label|detail)":"[^"]*"/g, `"$1":${JSON.stringify(ESCAPE)}`)}\n`,
  );
  put('2-types.ndjson', `${edit(/"(item|time|ms|usage|answer|started|endpoints)":/g, '"$1":[[]],"was":')}\n`);
  put(
    '3-nested.ndjson',
    `${[lines[0], sealed(`{"key":"${'0'.repeat(32)}","outcome":"answer","answer":${'['.repeat(100_000)}`)].join('\n')}\n`,
  );
  put('4-foreign.ndjson', '{"id":1}\n{"id":2}\n');
  put('5-long.ndjson', Buffer.alloc(9 << 20, 'x'));
  put('6-empty.ndjson', '');
  put('7-binary.ndjson', Buffer.from(Array.from({ length: 4_000 }, (_, index) => (index * 7919) % 256)));
  put('8-later.ndjson', `${sealed('{"fw":"ledger 9","new":true}')}\n${lines.slice(1).join('\n')}\n`);
  put(`9-${ESCAPE.replaceAll('\u0007', '')}.ndjson`, `${lines.join('\n')}\n`);
  execFileSync('mkfifo', [join(led, 'pipe.ndjson')]);
  symlinkSync(led, join(led, 'loop'));
  symlinkSync('/proc/self/mem', join(led, 'unreadable.ndjson'));
  symlinkSync('gone', join(led, 'gone.ndjson'));

  const verbs: [verb: string, exits: number[]][] = [
    ['ls', [0, 74]],
    ['check', [74]],
    ['check --read-data', [74]],
    ['cost', [74]],
    ['cost --json', [74]],
    ['show a', [74]],
    [`show '${ESCAPE}'`, [74]],
    ['export', [74]],
    ['export --files out', [74]],
    ['repair --out new', [74]],
  ];
  for (const [verb, exits] of verbs) {
    const ran = await fw(`fw ledger ${verb} --ledger led`, { cwd: at });
    expect(exits, `${verb}: ${ran.code} ${ran.stderr}`).toContain(ran.code);
    // JSON escapes what a terminal obeys, and keeps the rest as data
    const isJson = /export|--json/.test(verb);
    for (const sign of ['\u001b', '\u0007', '\n    at ', ...(isJson ? [] : ['\u202e'])])
      expect((ran.stdout + ran.stderr).includes(sign), `${verb}: ${JSON.stringify(sign)}`).toBe(false);
    if (verb.startsWith('check')) expect(ran.stdout).toMatch(/unreadable\.ndjson: .*(EIO|cannot be read)/);
  }
  // what was repaired is a ledger that a run takes
  expect(await fw('fw ledger check --ledger new', { cwd: at })).toMatchObject({ code: 0 });
  const ran = await fw(`fw chain --agents ${makeAgents(at)} --no-decision --ledger new`, {
    cwd: at,
    stdin: '{"id":"a","prompt":"?"}\n',
  });
  expect(ran).toMatchObject({ code: 0 });
});

test('whatever a file holds, it is read to its end or refused', async () => {
  const lines = await recorded();
  const at = folder();
  const path = join(at, 'x.ndjson');
  const piece = fc.oneof(
    { weight: 4, arbitrary: fc.nat().map(index => lines[index % lines.length] as string) },
    {
      weight: 4,
      // a line that was cut, or has other characters in it, under a checksum that fits
      arbitrary: fc
        .tuple(
          fc.nat(),
          fc.nat(),
          fc.nat({ max: 40 }),
          fc.constantFrom('', '"', '}', '[]', 'null', '\\', '1e999', '"x":1,'),
        )
        .map(([index, start, length, put]) => {
          const line = lines[index % lines.length] as string;
          const from = start % line.length;
          return sealed(`${line.slice(0, from)}${put}${line.slice(from + length)}`);
        }),
    },
    { weight: 1, arbitrary: fc.string({ unit: 'binary' }) },
  );
  const property = fc.property(
    fc.record({ pieces: fc.array(piece, { maxLength: 8 }), cut: fc.nat({ max: 30 }) }),
    ({ pieces, cut }) => {
      const bytes = Buffer.from(`${pieces.join('\n')}\n`);
      writeFileSync(path, bytes.subarray(0, Math.max(0, bytes.length - cut)));
      const troubles: LedgerDamage[] = [];
      const tell = (trouble: LedgerDamage): void => void troubles.push(trouble);
      const to = join(at, 'new');
      try {
        const paths = [path];
        checkLedger(paths, keyOf, tell);
        const answers = readAnswers(paths, tell);
        const cost = costOf(paths, answers, tell);
        const wanted = { since: undefined, model: undefined, agent: undefined, outcome: undefined };
        const all = [...exported(paths, { answers, wanted, nameOf: () => '', tell })];
        expect(all.length).toBe(cost.groups.reduce((sum, { tries }) => sum + tries, 0));
        const tries = [...runsOf(path)].flatMap(({ outcomes }) => [...outcomes.values()]);
        expect(tries.reduce((sum, times) => sum + times, 0)).toBeGreaterThanOrEqual(all.length);
        findTries(paths, 'a', tell);
        repairLedger(path, paths, { to, version: '0', tell });
        const left: LedgerDamage[] = [];
        checkLedger(filesOf(to), null, trouble => void left.push(trouble));
        expect(left).toEqual([]);
      } catch (error) {
        if (!(error instanceof Fatal)) throw error;
      } finally {
        rmSync(to, { recursive: true, force: true });
      }
      for (const { length, at: place } of troubles) expect(place + length).toBeLessThanOrEqual(bytes.length);
    },
  );
  // each case is a file, and a repaired one
  fc.assert(property, { seed, numRuns: runs(50, 200) });
});
