/** A compressed file, or text in another encoding, is said by name wherever lines are read: it is not one broken line. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { beforeAll, expect, test } from 'vitest';
import { folder } from '../fw.ts';
import { fw } from '../here.ts';

const at = folder();
const LINE =
  '{"custom_id":"1","id":"1","prompt":"x","method":"POST","url":"/v1/chat/completions","body":{}}\n';
beforeAll(() => {
  writeFileSync(join(at, 'a.jsonl.gz'), gzipSync(LINE));
  writeFileSync(join(at, 'wide.jsonl'), Buffer.from(LINE, 'utf16le'));
  writeFileSync(join(at, 'a.jsonl'), LINE);
  writeFileSync(join(at, 'p.yaml'), 'stages:\n  - validate: {}\noutput: out.jsonl\n');
});

test.each([
  ...[
    'verify FILE',
    'select --failed FILE',
    'validate < FILE',
    'export --format csv FILE',
    'run p.yaml FILE',
  ],
  ...[
    'ingest --format legacy FILE',
    'ingest --format openai-batch FILE',
    'ingest < FILE',
    'merge FILE a.jsonl',
  ],
  ...['report --outcome x --approve y --group g FILE', 'compare FILE a.jsonl --outcome x --approve y'],
  ...['explain 1 FILE', 'legacy-convert FILE'],
])('fw %s', async line => {
  for (const [name, found] of [
    [
      'a.jsonl.gz',
      /found gzip, which is compressed; decompress it first: gunzip -c (?:a\.jsonl\.gz|FILE) \| fw …/,
    ],
    ['wide.jsonl', /found UTF-16LE; iconv -f UTF-16LE -t UTF-8 (?:wide\.jsonl|FILE) converts it/],
  ] as const) {
    const ran = await fw(`fw ${line.replace('FILE', name)}`, { cwd: at });
    expect(ran.code, ran.stderr).toBe(65);
    expect(ran.stderr).toMatch(found);
  }
});
