/** What is paid for is on record, once: the file before the first call, one call a key, a ledger that vanishes. */
import {
  chmodSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { filesOf } from '../../engine/asking/ledger/scan-files.ts';
import { every } from '../all.ts';
import { folder } from '../fw.ts';
import { fw } from '../here.ts';
import { type Ask, serve } from '../pool/serving.ts';
import { callsOf, makeAgents, ndjson } from './reading.ts';

const says = (n: number): string => JSON.stringify({ says: `answer ${n}` });
const items = (...ids: string[]): string =>
  ids.map(id => `${JSON.stringify({ id, prompt: 'May they?' })}\n`).join('');
const sorted = (stdout: string): string => stdout.split('\n').sort().join('\n');

/** A server that never gives the same answer twice. */
const counting = () => serve(ask => setImmediate(() => ask.answer(says(ask.n))));

test.each([
  ['at once', 8],
  ['one after the other', 1],
])('lines with one id and prompt, %s: asked once, and a replay gives the same bytes', async (_, inFlight) => {
  const at = folder();
  const agents = makeAgents(at);
  const fake = await counting();
  const stdin = items('a', 'b', 'a', 'c', 'a', 'b');
  const line = `fw chain --agents ${agents} --ledger led --in-flight ${inFlight} --endpoint ${fake.url}`;
  const first = await fw(line, { cwd: at, stdin });
  expect(first.code, first.stderr).toBe(0);
  // two agents, three ids
  expect(fake.asked).toBe(6);
  expect(first.stderr).toContain('6 calls + 6 replayed');
  const again = await fw(line, { cwd: at, stdin });
  expect(again.stderr).toContain('0 calls + 12 replayed');
  expect(sorted(again.stdout)).toBe(sorted(first.stdout));
  expect((await fw('fw ledger check --read-data --ledger led', { cwd: at })).code).toBe(0);
});

test('without a ledger, who asks the same at the same time hears the same', async () => {
  const at = folder();
  const agents = makeAgents(at);
  const held: Ask[] = [];
  const fake = await serve(ask => {
    held.push(ask);
    setTimeout(() => ask.answer(says(ask.n)), 50);
  });
  const ran = await fw(`fw chain --agents ${agents} --endpoint ${fake.url}`, {
    cwd: at,
    stdin: items('a', 'a', 'a'),
  });
  expect(ran.code, ran.stderr).toBe(0);
  expect(new Set(ran.stdout.trim().split('\n')).size).toBe(1);
  expect(fake.asked).toBe(2);
});

test('a call that fails fails for all who wait for it', async () => {
  const at = folder();
  const agents = makeAgents(at);
  const fake = await serve(ask => ask.send(400, { error: { message: 'no' } }));
  const ran = await fw(`fw chain --agents ${agents} --ledger led --endpoint ${fake.url}`, {
    cwd: at,
    stdin: items('a', 'a'),
  });
  expect(
    ndjson(ran.stdout)
      .slice(0, 2)
      .map(line => (line.failure as { code: string }).code),
  ).toEqual(['call-refused', 'call-refused']);
  expect(fake.asked).toBe(1);
});

test('ids that UTF-8 cannot write are refused, each with its code, and nothing is asked for them', async () => {
  const at = folder();
  const agents = makeAgents(at);
  const fake = await counting();
  const stdin = ['\\ud800', '\\ud801', 'x\\udc00', '\\udc00\\ud800', '\\ud83d\\ude00']
    .map(id => `{"id":"${id}","prompt":"?"}\n`)
    .join('');
  for (const stage of ['chain', 'agent-step --agent first']) {
    const ran = await fw(`fw ${stage} --agents ${agents} --ledger led --endpoint ${fake.url}`, {
      cwd: at,
      stdin,
    });
    expect(ran.code).toBe(1);
    const codes = ndjson(ran.stdout).map(({ id, failure }) => [
      id,
      (failure as { code?: string } | undefined)?.code,
    ]);
    expect(
      codes
        .filter(([, code]) => code === 'id-not-utf8')
        .map(([id]) => id)
        .sort(),
    ).toEqual(['\ud800', '\ud801', 'x\udc00', '\udc00\ud800'].sort());
    expect(codes.filter(([, code]) => code === undefined)).toEqual([['😀', undefined]]);
  }
  expect(fake.asked).toBe(2);
});

test('a ledger whose file cannot be made ends the run before the first call', async () => {
  const at = folder();
  const agents = makeAgents(at);
  const fake = await counting();
  const led = join(at, 'led');
  const as = process.getuid?.() === 0 ? 'setpriv --bounding-set=-dac_override --inh-caps=-dac_override' : '';
  mkdirSync(join(led, 'locks'), { recursive: true });
  chmodSync(led, 0o500);
  const ran = await fw(`${as} fw chain --agents ${agents} --ledger led --endpoint ${fake.url}`, {
    cwd: at,
    stdin: items('a', 'b'),
  });
  chmodSync(led, 0o700);
  expect(ran.code, ran.stderr).toBe(74);
  expect(ran.stderr).toContain('the ledger cannot be written: EACCES');
  expect(fake.asked).toBe(0);
});

test('the ledger is for its owner alone; outputs follow the umask', async () => {
  const at = folder();
  makeAgents(at);
  const fake = await counting();
  writeFileSync(
    join(at, 'p.yaml'),
    `stages: [{ chain: { agents: agents } }]\noutput: out/items.ndjson\nledger: out/ledger\n`,
  );
  writeFileSync(join(at, 'i.ndjson'), items('a'));
  for (const [umask, open, folderMode] of every(2, [
    ['000', 0o666, 0o777],
    ['022', 0o644, 0o755],
    ['077', 0o600, 0o700],
  ] as const)) {
    rmSync(join(at, 'out'), { recursive: true, force: true });
    const copy = 'fw ledger repair --ledger out/ledger --out out/copy/new';
    const run = `fw run p.yaml i.ndjson --endpoint ${fake.url}`;
    const ran = await fw(`umask ${umask}; ${run} && ${copy}`, { cwd: at });
    expect(ran.code, ran.stderr).toBe(0);
    const mode = (path: string): number => statSync(path).mode & 0o777;
    for (const led of ['out/ledger', 'out/copy', 'out/copy/new']) {
      const all = ['.', ...(readdirSync(join(at, led), { recursive: true }) as string[])];
      expect(all.filter(name => name.endsWith('.ndjson'))).toHaveLength(1);
      for (const name of all) {
        const path = join(at, led, name);
        expect([name, mode(path)]).toEqual([name, statSync(path).isDirectory() ? 0o700 : 0o600]);
      }
    }
    expect([mode(join(at, 'out')), mode(join(at, 'out/items.ndjson'))]).toEqual([folderMode, open]);
  }
});

const VANISHED: [what: string, how: (led: string) => void, says: RegExp][] = [
  ['removed', led => rmSync(led, { recursive: true }), /removed or moved|removed or taken over/],
  ['moved', led => renameSync(led, `${led}-2`), /removed or moved|removed or taken over/],
  ['without its file', led => rmSync(filesOf(led)[0] as string), /removed or moved/],
  ['emptied', led => truncateSync(filesOf(led)[0] as string), /was cut to \d+ of \d+ bytes/],
  ['cut by a byte', led => cut(filesOf(led)[0] as string), /was cut to \d+ of \d+ bytes/],
  [
    'in the place of another',
    led => {
      const [path] = filesOf(led) as [string];
      const bytes = readFileSync(path);
      rmSync(path);
      writeFileSync(path, bytes);
    },
    /removed or moved/,
  ],
];

function cut(path: string): void {
  truncateSync(path, statSync(path).size - 1);
}

test.each(VANISHED)(
  'a ledger that is %s in the middle of a run ends it with 74, and says so',
  async (_, vanish, told) => {
    const at = folder();
    const agents = makeAgents(at);
    const led = join(at, 'led');
    // the last of the calls is held until the ledger has gone, and that is the end of the run
    const fake = await serve(ask => {
      if (ask.n === 4) {
        while (callsOf(led).length < 3) {}
        vanish(led);
      }
      ask.answer(says(ask.n));
    });
    const ran = await fw(`fw chain --agents ${agents} --in-flight 1 --ledger led --endpoint ${fake.url}`, {
      cwd: at,
      stdin: items('a', 'b'),
    });
    expect(ran.code, ran.stderr).toBe(74);
    expect(ran.stderr).toMatch(told);
    expect(ran.stderr).toContain('run the same command again');
  },
);
