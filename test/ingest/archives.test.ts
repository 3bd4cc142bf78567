/**
 * Lines that are compressed by gzip are read as they are, wherever lines are read. Other archives, and text in another
 * encoding, are said by name: they are not one broken line.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { beforeAll, expect, test } from 'vitest';
import { inputsOf } from '../../engine/core/files/input-files.ts';
import { runs } from '../all.ts';
import { folder } from '../fw.ts';
import { fw } from '../here.ts';

const at = folder();
const LINE =
  '{"custom_id":"1","id":"1","prompt":"x","method":"POST","url":"/v1/chat/completions","body":{}}\n';
beforeAll(() => {
  writeFileSync(join(at, 'a.jsonl.gz'), gzipSync(LINE));
  writeFileSync(
    join(at, 'a.jsonl.xz'),
    Buffer.concat([Buffer.from('fd377a585a00', 'hex'), Buffer.from(LINE)]),
  );
  writeFileSync(join(at, 'wide.jsonl'), Buffer.from(LINE, 'utf16le'));
  writeFileSync(join(at, 'a.jsonl'), LINE);
  writeFileSync(join(at, 'p.yaml'), 'stages:\n  - validate: {}\noutput: out.jsonl\n');
});

const LINES = [
  ...['verify FILE', 'select --failed FILE', 'validate < FILE', 'export --format csv FILE'],
  ...['ingest --format legacy FILE', 'ingest --format openai-batch FILE', 'ingest < FILE'],
  ...['explain 1 FILE', 'legacy-convert FILE', 'select --failed a.jsonl FILE'],
];

test.each([
  ...LINES,
  'run p.yaml FILE',
  'merge FILE a.jsonl',
  'compare FILE a.jsonl --outcome x --approve y',
])('fw %s: another archive, another encoding', async line => {
  for (const [name, found] of [
    [
      'a.jsonl.xz',
      /found xz, which is compressed; decompress it first: xz -d -c (?:a\.jsonl\.xz|FILE) \| fw …/,
    ],
    ['wide.jsonl', /found UTF-16LE; .*iconv -f UTF-16LE -t UTF-8 (?:wide\.jsonl|FILE) converts it/],
  ] as const) {
    const ran = await fw(`fw ${line.replace('FILE', name)}`, { cwd: at });
    expect(ran.code, ran.stderr).toBe(65);
    expect(ran.stderr).toMatch(found);
  }
});

test.each(LINES)('fw %s: gzip, as if it were not', async line => {
  const [plain, packed] = [
    await fw(`fw ${line.replace('FILE', 'a.jsonl')}`, { cwd: at }),
    await fw(`fw ${line.replace('FILE', 'a.jsonl.gz')}`, { cwd: at }),
  ];
  expect([packed.code, packed.stdout.replaceAll('a.jsonl.gz', 'a.jsonl')]).toEqual([
    plain.code,
    plain.stdout,
  ]);
});

test('what reads lines from where they stand says that it cannot', async () => {
  const ran = await fw('fw merge a.jsonl.gz a.jsonl', { cwd: at });
  expect([ran.code, ran.stderr], ran.stderr).toEqual([65, expect.stringContaining('gunzip -c a.jsonl.gz')]);
});

/** All that an input gives, as one buffer. */
async function allOf(path: string): Promise<Buffer> {
  const [input] = inputsOf([path]);
  const parts: Buffer[] = [];
  for (;;) {
    const rest = parts.length % 3 === 1 ? parts.pop()! : null; // sometimes a part is given back
    const got = await input!.read(rest);
    if (got === null) return Buffer.concat([...parts, ...(rest === null ? [] : [rest])]);
    parts.push(Buffer.from(got));
  }
}

test('members one behind the other, zeros behind them: the bytes within; cut off, damaged or with more behind: 65', async () => {
  const path = join(at, 'some.gz');
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.uint8Array({ maxLength: 300_000 }), { minLength: 1, maxLength: 3 }),
      fc.nat(3),
      fc.nat(),
      async (members, kind, where) => {
        const packed = Buffer.concat(members.map(bytes => gzipSync(bytes)));
        const cutAt = 3 + (where % (packed.length - 3));
        if (kind === 0) writeFileSync(path, packed.subarray(0, cutAt));
        else if (kind === 1)
          writeFileSync(path, Buffer.concat([packed, Buffer.alloc(1 + (where % 600)), Buffer.from('x')]));
        else writeFileSync(path, Buffer.concat([packed, Buffer.alloc(where % 600)]));
        // between two members it is whole
        let whole = 0;
        const ends = members.map(bytes => (whole += gzipSync(bytes).length));
        if (kind > 1 || (kind === 0 && ends.includes(cutAt))) {
          const count = kind > 1 ? members.length : ends.indexOf(cutAt) + 1;
          expect(await allOf(path)).toEqual(Buffer.concat(members.slice(0, count)));
        } else await expect(allOf(path)).rejects.toMatchObject({ exit: 65 });
      },
    ),
    { numRuns: runs(40, 400) },
  );
});
