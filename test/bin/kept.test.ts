/** What an earlier run has left is not lost to a later one: files beside the stream, longer files, standard input. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { expandPaths } from '../../engine/core/files/input-files.ts';
import { every } from '../all.ts';
import { folder, ROOT, until } from '../fw.ts';
import { fw } from '../here.ts';

const fine = (id: string): string => `{"id":"${id}","prompt":"?"}\n`;
const failed = (id: string): string =>
  `{"id":"${id}","prompt":"?","failure":{"stage":"s","code":"call-failed","message":"m"}}\n`;
const ids = (count: number): string[] => Array.from({ length: count }, (_none, index) => `i${index}`);
const read = (at: string, name: string): string => readFileSync(join(at, name), 'utf8');
const partials = (at: string): string[] => readdirSync(at).filter(name => name.endsWith('.partial'));

/** Stages with a side file that come behind another process, and what they write into it of one failed item. */
const LAST: [string, string, (text: string) => boolean][] = [
  ['select', '--failures', text => text === failed('i0')],
  ['fix-escapes', '--failures', text => text === failed('i0')],
  ['validate', '--failures', text => text === failed('i0')],
  ['legacy', '--failures', text => text === failed('i0')],
  ['legacy', '--provenance', text => text === ''],
  ['verify', '--failures', text => text.includes('i0')],
  ['verify', '--report', text => JSON.parse(text) !== null],
];

describe('the last process of a pipe writes the file that the first one reads', () => {
  test.each(every(3, LAST))('%s %s', async (verb, option, holds) => {
    const at = folder();
    writeFileSync(join(at, 'f.ndjson'), failed('i0'));
    // the first process opens the file once the last one has its stages open
    const line = `{ until [ -e gate ]; do sleep 0.05; done; cat f.ndjson; } | tee copy | fw ${verb} ${option} f.ndjson > out.ndjson`;
    const ran = fw(line, { cwd: at });
    const settled = ran.then(() => true);
    await until(at, () => existsSync(join(at, 'out.ndjson')));
    for (let opened = false; !opened; ) {
      opened =
        option === '--report' ||
        partials(at).length > 0 ||
        read(at, 'f.ndjson') === '' ||
        existsSync(join(at, 'gate'));
      if (!opened) await new Promise(resolve => setTimeout(resolve, 20));
    }
    writeFileSync(join(at, 'gate'), '');
    await settled;
    expect(read(at, 'copy'), 'what the first process read').toBe(failed('i0'));
    const text = read(at, 'f.ndjson');
    expect(holds(text), text).toBe(true);
    expect(partials(at)).toEqual([]);
  });
});

describe('a stage that ends early', () => {
  const yesterday = ids(3).map(failed).join('');
  const ALL: [string, (at: string) => void, RegExp][] = [
    ['none was there', () => {}, /^(?!.*left unfinished)/s],
    ['a shorter one was there', at => writeFileSync(join(at, 'f.ndjson'), ''), /^(?!.*left unfinished)/s],
    [
      'a longer one was there',
      at => writeFileSync(join(at, 'f.ndjson'), yesterday),
      /left unfinished: .*f\.ndjson\..*partial/,
    ],
  ];
  test.each(ALL)('by a signal: %s', async (_what, prepare, says) => {
    const at = folder();
    prepare(at);
    const had = existsSync(join(at, 'f.ndjson')) ? read(at, 'f.ndjson') : '';
    const child = spawn(
      process.execPath,
      [join(ROOT, 'dist/bin/fw.js'), 'select', '--failures', 'f.ndjson'],
      { cwd: at },
    );
    const stderr: Buffer[] = [];
    child.stderr.on('data', chunk => stderr.push(chunk));
    child.stdin.write(failed('new') + fine('b'));
    await once(child.stdout, 'data');
    const told = (): string => Buffer.concat(stderr).toString();
    // each is answered before the next one: two that come at once are one, and one more would kill what ends
    for (const words of ['reading the rest of the input (', 'reading the rest of the input for']) {
      child.kill('SIGINT');
      while (!told().includes(words)) await once(child.stderr, 'data');
    }
    child.kill('SIGINT');
    await once(child, 'close');
    const said = told();
    expect(child.exitCode, said).toBe(130);
    expect(said).toMatch(says);
    if (had === yesterday) {
      expect(read(at, 'f.ndjson')).toBe(yesterday);
      expect(read(at, partials(at)[0] as string)).toBe(failed('new'));
    } else {
      expect(read(at, 'f.ndjson')).toBe(failed('new'));
      expect(partials(at)).toEqual([]);
    }
  });

  test.each([
    ['fw select --failures f.ndjson x.ndjson folder', 65],
    ['fw select --failures f.ndjson x.ndjson > /dev/full', 74],
  ])('by an error: %s', async (line, code) => {
    const at = folder();
    mkdirSync(join(at, 'folder'));
    writeFileSync(join(at, 'f.ndjson'), yesterday);
    writeFileSync(join(at, 'x.ndjson'), failed('new') + fine('b'));
    const ran = await fw(line, { cwd: at });
    expect(ran.code, ran.stderr).toBe(code);
    expect(read(at, 'f.ndjson')).toBe(yesterday);
    expect(ran.stderr).toMatch(/select: left unfinished: f\.ndjson\..*\.partial\n/);
    expect(read(at, partials(at)[0] as string)).toBe(failed('new'));
  });

  test('before it began leaves no file', async () => {
    const at = folder();
    const ran = await fw('fw select --failures f.ndjson --failed --no-failed none.ndjson', { cwd: at });
    expect(ran.code).toBeGreaterThan(1);
    expect(readdirSync(at)).toEqual([]);
  });
});

test('a log that the shell has opened is neither replaced nor emptied', async () => {
  const at = folder();
  writeFileSync(join(at, 'x.ndjson'), failed('a') + fine('b'));
  writeFileSync(join(at, 'log'), 'yesterday\n');
  const ran = await fw('fw select --failures /dev/stderr x.ndjson 2>> log', { cwd: at });
  expect(ran.code).toBe(0);
  expect(read(at, 'log')).toMatch(/^yesterday\n/);
  expect(read(at, 'log')).toContain(failed('a'));
  expect(read(at, 'log')).toMatch(/1 failed/);
});

describe('a longer file is kept', () => {
  const run = (at: string, count: number, more = ''): ReturnType<typeof fw> => {
    writeFileSync(
      join(at, 'p.yaml'),
      'stages: [ { select: { failures: out/f.ndjson } } ]\noutput: out/x.ndjson\n',
    );
    const lines = ids(count).map(id => failed(`f${id}`) + fine(id));
    writeFileSync(join(at, 'in.ndjson'), lines.join(''));
    return fw(`fw run p.yaml in.ndjson ${more}`, { cwd: at });
  };

  test('by fw run, the output and what is beside it', async () => {
    const at = folder();
    await run(at, 40);
    const whole = [read(at, 'out/x.ndjson'), read(at, 'out/f.ndjson')];
    const ran = await run(at, 40, '--limit 32');
    expect(ran.code, ran.stderr).toBe(0);
    expect(ran.stderr).toContain(
      'out/x.ndjson had 40 lines and has 16 now; the old one is out/x.ndjson.before\n',
    );
    expect(ran.stderr).toContain(
      'out/f.ndjson had 40 lines and has 16 now; the old one is out/f.ndjson.before\n',
    );
    expect([read(at, 'out/x.ndjson.before'), read(at, 'out/f.ndjson.before')]).toEqual(whole);
    // as long, and longer: nothing is kept, and nothing said
    for (const count of [16, 17]) expect((await run(at, count)).stderr).not.toMatch(/before/);
    expect(read(at, 'out/x.ndjson.before')).toBe(whole[0]);
    // a second pilot does not cost the whole either
    const again = await run(at, 3);
    expect(again.stderr).toContain('had 17 lines and has 3 now; the old one is out/x.ndjson.before.2\n');
    expect(read(at, 'out/x.ndjson.before')).toBe(whole[0]);
    // an older one that is shorter gives way
    await run(at, 50);
    expect((await run(at, 1)).stderr).toContain(
      'had 50 lines and has 1 now; the old one is out/x.ndjson.before\n',
    );
    expect(read(at, 'out/x.ndjson.before').split('\n')).toHaveLength(51);
  });

  test('by a stage, and the last line may lack its newline', async () => {
    const at = folder();
    writeFileSync(join(at, 'in.ndjson'), failed('a'));
    for (const [old, isKept] of [
      ['x\ny', true],
      ['x', false],
      ['x\n', false],
      ['', false],
    ] as const) {
      writeFileSync(join(at, 'f.ndjson'), old);
      const ran = await fw('rm -f *.before; fw select --failures f.ndjson in.ndjson', { cwd: at });
      expect(existsSync(join(at, 'f.ndjson.before')), `${JSON.stringify(old)}: ${ran.stderr}`).toBe(isKept);
      expect(read(at, 'f.ndjson')).toBe(failed('a'));
    }
  });

  test('of a document by its bytes', async () => {
    const at = folder();
    writeFileSync(
      join(at, 'p.yaml'),
      'stages: [ { legacy-convert: { document: true } } ]\noutput: out.json\n',
    );
    writeFileSync(join(at, 'out.json'), ' '.repeat(100_000));
    const ran = await fw('fw run p.yaml', { cwd: at });
    expect(ran.stderr).toMatch(
      /out\.json had 100,000 bytes and has \d+ now; the old one is out\.json\.before/,
    );
    expect(read(at, 'out.json.before')).toHaveLength(100_000);
  });

  test('and is none of the files of a glob, nor is an unfinished one, unless the glob says so', async () => {
    const at = folder();
    const names = ['a.jsonl', 'a.jsonl.before', 'a.jsonl.before.2', 'a.jsonl.1-2-3-4@h.partial', 'before'];
    for (const name of names) writeFileSync(join(at, name), fine(name));
    const found = async (pattern: string): Promise<string[]> =>
      (await expandPaths([join(at, pattern)])).map(path => path.slice(at.length + 1));
    expect(await found('*')).toEqual(['a.jsonl', 'before']);
    expect(await found('*.before')).toEqual(['a.jsonl.before']);
    expect(await found('a.jsonl.before.2')).toEqual(['a.jsonl.before.2']);
    expect(await found('*.partial')).toEqual(['a.jsonl.1-2-3-4@h.partial']);
    writeFileSync(join(at, 'p.yaml'), 'stages: [ { select: {} } ]\noutput: "out/{ordering}"\n');
    mkdirSync(join(at, 'out'));
    for (const name of ['x', 'x.before']) writeFileSync(join(at, 'out', name), '');
    const ran = await fw(`echo '${fine('a').trim()}' | fw run p.yaml`, { cwd: at });
    expect(ran.stderr).toMatch(/left as they were, not from this run: out\/x\n/);
  });
});

test('make recover hands RESULTS on as the glob that it is', async () => {
  const ran = await fw(`make -n recover RESULTS='old/* more/*.jsonl' CSV='my table.csv'`);
  expect(ran.stdout, ran.stderr).toContain(
    `recover-results.yaml 'old/*' 'more/*.jsonl' --set 'ingest.source=my table.csv'`,
  );
});

describe('standard input beside files that a glob without quotes has become', () => {
  const at = folder();
  for (const name of ['a', 'b', 'c']) writeFileSync(join(at, name), fine(name));
  writeFileSync(join(at, 'new'), fine('new'));
  writeFileSync(join(at, 'none'), '');
  test.each([
    ['cat new | fw merge --old [abc]', 64],
    ['fw merge --old [abc] < new', 64],
    ['fw merge --old [abc] < none', 0],
    ['fw merge --old [abc] < /dev/null', 0],
    [': | fw merge --old [abc]', 0],
    ["cat new | fw merge --old '[abc]'", 0],
    ['cat new | fw merge --old a -', 0],
    ['cat new | fw merge a b', 0],
    ['cat new | fw verify --provenance [abc]', 64],
    ['while read name; do fw merge --old $name b; done < list', 0],
  ])('%s', async (line, code) => {
    writeFileSync(join(at, 'list'), 'a\n');
    const ran = await fw(line, { cwd: at });
    expect(ran.code, ran.stderr).toBe(code);
    if (code === 64) expect(ran.stderr).toMatch(/quote the glob: --(?:old|provenance) 'out\/\*'/);
  });

  test('a pipe that stays open without a byte is told, and what comes late is an error', async () => {
    const open = await fw('mkfifo p; exec 3<>p; fw merge --old [abc] <&3 | wc -l', { cwd: at });
    expect(open.code, open.stderr).toBe(0);
    expect(open.stdout.trim()).toBe('3');
    expect(open.stderr).toMatch(/standard input was not read/);
    const late = await fw(
      'mkfifo q slow; exec 3<>q; (exec 4> slow; cat b >&4; cat new >&3) & fw merge --old a slow <&3',
      { cwd: at },
    );
    expect(late.code, late.stderr).toBe(64);
  });
});
