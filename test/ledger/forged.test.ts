/** Lines whose checksum fits and that say what no fw wrote: a run uses them as they are meant, or refuses them with 65. */
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { EXIT, Fatal } from '../../engine/core/item/failure.ts';
import { folder } from '../fw.ts';
import { fw } from '../here.ts';
import { ndjson, sealed, textOf } from './reading.ts';
import { appended, holds, keyFor, opened, recordOf, written } from './records.ts';

const SAYS = ['one', 'two', 'three'];
const lines: string[] = [];
const path = join(folder(), 'l.ndjson');
await written(path, SAYS);
lines.push(...textOf(path).split('\n').slice(0, -1));

const anyValue = fc.constantFrom(
  'null',
  'true',
  '5',
  '"text"',
  '[]',
  '{}',
  '[[]]',
  '1e999',
  '-1',
  '{"__proto__":null}',
);

test('whatever a value is changed to, a run has a text for an answer or ends with 65', async () => {
  const at = join(folder(), 'l.ndjson');
  const names = [...new Set(lines.flatMap(line => Object.keys(JSON.parse(line))))].filter(
    name => name !== 'crc',
  );
  const change = fc.record({ line: fc.nat(lines.length - 1), name: fc.constantFrom(...names), to: anyValue });
  await holds(fc.array(change, { minLength: 1, maxLength: 3 }), async changes => {
    const forged = lines.map((line, index) => {
      const value = JSON.parse(line);
      for (const { line: changed, name, to } of changes) {
        if (changed === index && name in value) value[name] = JSON.parse(to === '1e999' ? '1e308' : to);
      }
      return sealed(JSON.stringify(value));
    });
    writeFileSync(at, `${forged.join('\n')}\n`);
    try {
      const ledger = opened(at);
      for (const says of SAYS) {
        const answer = ledger.find(keyFor(says));
        if (answer === null) continue;
        expect(typeof answer.text).toBe('string');
        expect(typeof answer.finish).toBe('string');
        expect(Number.isInteger(answer.usage.prompt)).toBe(true);
      }
      for (const { text } of ledger.acceptedBefore({ stage: 'other', agents: {}, options: {}, rules: 99 }))
        expect(typeof text).toBe('string');
      await ledger.close();
    } catch (error) {
      if (!(error instanceof Fatal)) throw error;
      expect(error.exit, error.message).toBe(EXIT.data);
      expect(error.message).toContain('l.ndjson: expected');
    }
  });
});

test('an answer of null ends the run with 65 and says where; a repair leaves it out', async () => {
  const at = folder();
  const led = join(at, 'led');
  const forged = lines.map(line => sealed(line.replace(/"answer":"(?:[^"\\]|\\.)*"/, '"answer":null')));
  mkdirSync(led);
  writeFileSync(join(led, 'x.ndjson'), `${forged.join('\n')}\n`);
  const ledger = opened(led);
  expect(() => ledger.find(keyFor('one'))).toThrow(
    /x\.ndjson: expected a call as docs\/ledger\.md has it, found none at byte \d+\nfw ledger repair/,
  );
  await ledger.close();
  const ran = await fw('fw ledger repair --ledger led --out new', { cwd: at });
  expect(ran).toMatchObject({ code: 0, stdout: expect.stringContaining('tries 0') });
  const repaired = opened(join(at, 'new'));
  expect(repaired.find(keyFor('one'))).toBe(null);
  await repaired.close();
});

test('a ledger of another version is 65 to a run and to every verb, and nothing of it is copied', async () => {
  const at = folder();
  const later = sealed('{"fw":"ledger 9","new":true}');
  writeFileSync(join(at, 'led.ndjson'), `${[later, ...lines.slice(1)].join('\n')}\n`);
  const item = '{"id":"a","prompt":"?"}\n';
  for (const verb of ['check', 'cost', 'show a', 'export', 'repair --out new']) {
    const ran = await fw(`fw ledger ${verb} --ledger led.ndjson`, { cwd: at });
    expect([ran.code, ran.stderr + ran.stdout], verb).toEqual([
      65,
      expect.stringContaining('found one of "ledger 9"'),
    ]);
  }
  expect(readdirSync(at)).toEqual(['led.ndjson']);
  const ran = await fw('fw chain --ledger led.ndjson', { cwd: at, stdin: item });
  expect([ran.code, ran.stderr]).toEqual([65, expect.stringContaining('found one of "ledger 9"')]);
});

test('a repair that finds nothing to copy says so, and is no success', async () => {
  const at = folder();
  await fw('mkdir empty; echo no > none.ndjson; : > nothing.ndjson', { cwd: at });
  for (const name of ['empty', 'none.ndjson', 'nothing.ndjson']) {
    const ran = await fw(`fw ledger repair --ledger ${name} --out new`, { cwd: at });
    expect(ran.code, name).toBe(65);
    expect(ran.stderr, name).toContain(
      `expected whole lines of a ledger in ${name}, found none: nothing was copied`,
    );
    expect(readdirSync(at)).not.toContain('new');
  }
});

test('every status that a server may send is one that a check knows', async () => {
  const at = join(folder(), 'l.ndjson');
  const ledger = opened(at);
  for (const status of [408, 429, 500, 599, 600, 777, 999])
    await appended(ledger, recordOf({ outcome: `HTTP ${status}`, detail: 'no', answer: undefined }));
  await ledger.close();
  expect(ndjson(textOf(at)).filter(({ outcome }) => outcome === 'HTTP 999')).toHaveLength(1);
  const ran = await fw(`fw ledger check --read-data --ledger ${at}`);
  expect(ran.stdout + ran.stderr).not.toContain('outcome');
});
