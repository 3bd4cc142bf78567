/** Answers of megabytes: a ledger keeps of them what an item keeps, and a replay is the run, byte for byte. */

import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { saidOf } from '../../engine/answers/answers-of-line.ts';
import { compileSchema } from '../../engine/answers/schema.ts';
import { readReply } from '../../engine/asking/agents/form.ts';
import { every } from '../all.ts';
import { folder } from '../fw.ts';
import { fw } from '../here.ts';
import { serve } from '../pool/serving.ts';
import { callsOf, type Line, linesOf, makeAgents, ndjson, sealed } from './reading.ts';

const MIB = 1024 * 1024;
const LONG: Record<string, [text: string, finish: string]> = {
  prose: ['so it goes on '.repeat(MIB / 4), 'stop'],
  'an object that would fit': [`{"says":"${'x'.repeat(3 * MIB)}"}`, 'stop'],
  'what JSON escapes': ['"\\\u0001'.repeat(MIB), 'stop'],
  'cut off': [`{"says":"${'é'.repeat(2 * MIB)}`, 'length'],
  'halves of pairs': ['\ud800'.repeat(MIB), 'stop'],
};
const hashOf = (text: string): string => createHash('sha256').update(text).digest('hex');

test.each(every(3, Object.entries(LONG)))(
  '%s: refused as before, kept as prefix and hash, and replayed',
  async (_, [text, finish]) => {
    const at = folder();
    const agents = makeAgents(at);
    // the second of two attempts fits
    const bodies: string[] = [];
    const fake = await serve(ask => {
      bodies.push(ask.body);
      const isLong = bodies.length % 2 === 1;
      const choices = [
        {
          index: 0,
          message: { content: isLong ? text : '{"says":"yes"}' },
          finish_reason: isLong ? finish : 'stop',
        },
      ];
      ask.send(200, { choices });
    });
    const line = `fw chain --agents ${agents} --in-flight 1 --max-body 16777216`;
    const stdin = '{"id":"a","prompt":"?"}\n{"id":"b","prompt":"!"}\n';
    const first = await fw(`${line} --ledger led --endpoint ${fake.url}`, { cwd: at, stdin });
    expect(first.code, first.stderr).toBe(0);
    expect(bodies).toHaveLength(8);

    const answers = callsOf(join(at, 'led')).filter(({ whole }) => whole !== undefined);
    expect(answers).toHaveLength(4);
    for (const { answer, whole } of answers) {
      expect(whole).toEqual({
        bytes: Buffer.byteLength(text),
        sha256: hashOf(text),
        characters: text.length,
      });
      expect((answer as string).length).toBeGreaterThan(5_000);
    }
    for (const { steps } of ndjson(first.stdout) as { steps: Line[] }[]) {
      for (const { rejected } of steps as { rejected: Line[] }[]) {
        expect(rejected[0]?.whole).toEqual({ bytes: Buffer.byteLength(text), sha256: hashOf(text) });
        const found =
          finish === 'stop'
            ? /at most 1048576 bytes of its line, got \d+ characters/
            : /finish_reason "stop", got "length"/;
        expect(rejected[0]?.message).toMatch(found);
      }
    }
    expect(sizeOf(join(at, 'led'))).toBeLessThan(MIB);
    expect(await fw('fw ledger check --read-data --ledger led', { cwd: at })).toMatchObject({ code: 0 });

    // what version 0.1.0 wrote had all of the text: the same verdicts, the same next requests
    mkdirSync(join(at, 'old'));
    const old = linesOf(join(at, 'led')).map(({ whole, ...all }) => {
      if (whole !== undefined) all.answer = text;
      return sealed(JSON.stringify(all));
    });
    writeFileSync(join(at, 'old', 'x.ndjson'), `${old.join('\n')}\n`);
    for (const led of ['led', 'old']) {
      const again = await fw(`${line} --ledger ${led}`, { cwd: at, stdin });
      expect([again.code, again.stdout], led).toEqual([0, first.stdout]);
      expect(again.stderr, led).toContain('0 calls + 8 replayed');
    }
  },
);

function sizeOf(at: string): number {
  const names = readdirSync(at, { recursive: true }) as string[];
  return names
    .map(name => statSync(join(at, name)))
    .reduce((sum, stat) => sum + (stat.isFile() ? stat.size : 0), 0);
}

test('whatever is left out of an answer, it is judged as all of it was', () => {
  const check = compileSchema(
    { type: 'object', required: ['says'], properties: { says: { type: 'string' } } },
    's',
  );
  for (const [text] of every(2, Object.values(LONG))) {
    for (const finish of every(3, ['stop', 'length', 'unknown', 'content_filter'])) {
      const cut = saidOf({ text });
      expect(cut.text.length).toBeLessThan(66_000);
      expect(readReply({ ...cut, finish }, check)).toEqual(readReply({ text, finish }, check));
      expect(saidOf(cut)).toEqual(cut);
    }
  }
});

test('an answer that could be accepted is kept to the letter', () => {
  for (const text of ['', 'x'.repeat(MIB - 2), '"'.repeat(MIB / 2 - 1), LONG.prose![0].slice(0, 900_000)])
    expect(saidOf({ text })).toEqual({ text, whole: undefined });
});
