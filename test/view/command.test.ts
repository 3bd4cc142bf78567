/** fw view as a process: what it prints, how it ends, what it refuses, and the folder of pages that needs no server. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { environment, folder, ROOT } from '../fw.ts';
import { fw } from '../here.ts';
import { fileOf, itemsOf, WICKED } from './viewing.ts';

async function started(args: readonly string[]) {
  const child = spawn(process.execPath, [join(ROOT, 'dist/bin/fw.js'), 'view', ...args], {
    env: environment({ DISPLAY: ':1' }),
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  const stderr = child.stderr as NodeJS.ReadableStream;
  let said = '';
  stderr.on('data', block => {
    said += block;
  });
  /** Resolves once it has said so. */
  const told = async (words: RegExp): Promise<string> => {
    for (;;) {
      const found = words.exec(said);
      if (found !== null) return found[1] ?? found[0];
      await once(stderr, 'data');
    }
  };
  return { child, told, address: await told(/^fw view: (http:\S+)$/m) };
}

test('it prints an address and serves until a signal; what was judged stays', async () => {
  const path = fileOf(itemsOf(20));
  const { child, address } = await started([path, '--no-open', '--where', 'rung=failed', '--by', 'anna']);
  expect(address).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/\?token=[\w-]{43}&rung=failed$/);
  const { origin } = new URL(address);
  const cookie = (await fetch(address, { redirect: 'manual' })).headers
    .get('set-cookie')
    ?.split(';')[0] as string;
  for (;;) {
    const rows = await fetch(`${origin}/rows?rung=failed&count=9`, { headers: { cookie } });
    const { done, selected } = (await rows.json()) as { done: boolean; selected: number };
    if (!done) continue;
    expect(selected).toBe(2);
    break;
  }
  expect(existsSync(`${path}.labels.ndjson`)).toBe(false);
  const body = new URLSearchParams({ row: '7', verdict: 'wrong' });
  await fetch(`${origin}/label`, { method: 'POST', body, headers: { cookie, origin }, redirect: 'manual' });
  child.kill('SIGINT');
  expect((await once(child, 'exit'))[0]).toBe(0);
  expect(JSON.parse(readFileSync(`${path}.labels.ndjson`, 'utf8'))).toMatchObject({
    fw: 'label',
    id: 'id-7',
    verdict: 'wrong',
    by: 'anna',
  });
  expect(readdirSync(dirname(path)).sort()).toEqual(['items.ndjson', 'items.ndjson.labels.ndjson']);
});

test('on another address it says plainly who can read', async () => {
  const { told, address } = await started([fileOf(itemsOf(2)), '--listen', '0.0.0.0:0']);
  await told(/whoever has this address and reaches this machine reads all of it; no TLS/);
  expect(address).toMatch(/^http:\/\/127\.0\.0\.1:/);
});

test('what is refused, with its exit code', async () => {
  const path = fileOf(itemsOf(30));
  const at = folder();
  mkdirSync(join(at, 'full', 'of'), { recursive: true });
  const notLabels = fileOf(['{"a":1}']);
  const cases: [string, number, string][] = [
    ['', 64, 'expected files, found none'],
    [at, 65, 'expected a file, found a pipe, folder or device'],
    [join(at, 'none.ndjson'), 65, 'found none'],
    ['-', 64, 'found - (standard input)'],
    [`${path} --where rung`, 64, "--where: expected COLUMN=VALUE, found 'rung'"],
    [`${path} --listen nowhere`, 64, '--listen: expected HOST:PORT or PORT'],
    [`${path} --listen 127.0.0.1:99999`, 64, '--listen: expected HOST:PORT or PORT'],
    [`${path} --stratify group`, 64, '--stratify: expected --sample too'],
    [`${path} --sample 0`, 64, '--sample: expected a whole number'],
    [`${path} --html ${at}/full`, 64, 'expected a new or an empty folder'],
    [
      `${path} --html ${at}/b --stratify nothing --sample 5`,
      64,
      '--stratify: expected a column of these files',
    ],
    [`${path} --labels ${notLabels}`, 65, 'expected a label'],
    [`${path} --ledger ${at}/none`, 65, ''],
  ];
  for (const [args, code, words] of cases) {
    const ran = await fw(`fw view ${args}`);
    expect([args, ran.code], ran.stderr).toEqual([args, code]);
    expect(ran.stderr).toContain(words);
  }
});

test('--html: a page for each row of a sample, no script, no address out of the folder, nothing hidden in it', async () => {
  const wicked = {
    id: WICKED,
    input: { group: 'elm', [WICKED]: WICKED },
    prompt: `of the elm group ${WICKED}`,
  };
  const path = fileOf([wicked, ...itemsOf(60)]);
  const at = join(folder(), 'pages');
  const { code, stderr } = await fw(`fw view ${path} --html ${at} --sample 500 --hide group`);
  expect([code, stderr]).toEqual([0, expect.stringContaining('61 rows in')]);
  const names = readdirSync(at);
  expect(names.length).toBe(63);
  for (const name of names) {
    const text = readFileSync(join(at, name), 'utf8');
    expect([
      name,
      /<script|\bon\w+=|javascript:|https?:/i.exec(text.replaceAll(/&[^;]+;[^<]*/g, '')),
    ]).toEqual([name, null]);
    expect([name, /\b(ash|birch|cedar|elm)\b/.exec(text)]).toEqual([name, null]);
    if (!name.endsWith('.html')) continue;
    expect(text).toContain('default-src &#39;none&#39;');
    for (const [, to = ''] of text.matchAll(/href="([^"]*)"/g))
      if (to !== 'data:,' && !to.startsWith('#'))
        expect([name, to, names.includes(to)]).toEqual([name, to, true]);
  }
  const again = await fw(`fw view ${path} --html ${at}`);
  expect(again.code).toBe(64);
  const drawn = async (seed: number): Promise<string[]> => {
    const to = join(folder(), 'pages');
    await fw(`fw view ${path} --html ${to} --sample 5 --seed ${seed} --where rung=!failed`);
    return readdirSync(to).sort();
  };
  expect(await drawn(7)).toEqual(await drawn(7));
  expect(await drawn(7)).not.toEqual(await drawn(8));
});
