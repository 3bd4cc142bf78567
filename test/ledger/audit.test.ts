/** `fw ledger` over what real runs with faults have left: everything adds up with what the runs said themselves. */
import { createHash } from 'node:crypto';
import { cpSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { beforeAll, describe, expect, test } from 'vitest';
import { keyOf } from '../../engine/asking/agents/request-body.ts';
import { filesOf } from '../../engine/asking/ledger/scan-files.ts';
import { packagedSchema } from '../../engine/core/config/package.ts';
import { folder, ROOT } from '../fw.ts';
import { fw } from '../here.ts';
import { type Servers, servers } from '../pipe/servers.ts';
import { callsOf, type Line, linesOf, ndjson, sealed, textOf } from './reading.ts';

const CSV = join(ROOT, 'fixtures', 'applications-60.csv');
const FAULTS = 'null=0.2,fence=0.1,truncated=0.1,zero=0.1,429=0.05,500=0.1,drop=0.05';
const at = folder();
const ledger = join(at, 'ledger');
let two: Servers;
/** of the account of each run */
const runs = { calls: 0, retries: 0, in: 0, out: 0 };

const numberIn = (text: string, pattern: RegExp): number =>
  Number((pattern.exec(text)?.[1] ?? '0').replaceAll(',', ''));

function add(stderr: string): void {
  const account = stderr.split('\n').find(line => line.startsWith('chain: in ')) ?? '';
  runs.calls += numberIn(account, /([\d,]+) calls?/);
  runs.retries += numberIn(account, /\+ ([\d,]+) retr(?:y|ies)/);
  runs.in += numberIn(account, /tokens ([\d,]+) in/);
  runs.out += numberIn(account, /([\d,]+) out/);
}

beforeAll(async () => {
  two = await servers(2, { faults: FAULTS });
  const first = await fw(
    `fw ingest --limit 12 ${CSV} | fw chain --attempts 2 --ledger ledger ${two.flags} > items.ndjson`,
    { cwd: at },
  );
  add(first.stderr);
  const second = await fw(
    `fw select --failed items.ndjson | fw chain --retry-failed --attempts 2 --ledger ledger ${two.flags}`,
    { cwd: at },
  );
  add(second.stderr);
  expect(runs.calls, first.stderr + second.stderr).toBeGreaterThan(60);
  expect(runs.retries).toBeGreaterThan(3);
});

/** Runs `fw ledger …` in the folder that holds `ledger/`. */
const ledgered = (line: string, cwd = at) => fw(`fw ledger ${line}`, { cwd });
const exported = async (more = '', cwd = at): Promise<Line[]> =>
  ndjson((await ledgered(`export ${more}`, cwd)).stdout);
const sumOf = (calls: readonly Line[], side: 'in' | 'out' | 'cached'): number =>
  calls.reduce((sum, { tokens }) => sum + ((tokens as Record<string, number> | undefined)?.[side] ?? 0), 0);

describe('the format', () => {
  test('every line is one of the schema', () => {
    const validate = new Ajv2020({ allowUnionTypes: true }).compile(packagedSchema('ledger'));
    const lines = linesOf(ledger);
    const kinds = new Set(lines.map(line => Object.keys(line)[0]));
    expect(kinds).toEqual(new Set(['fw', 'stage', 'text', 'key', 'verdict', 'end']));
    for (const line of lines) expect(validate(line), JSON.stringify(validate.errors)).toBe(true);
  });

  test('requests put together by the recipe of docs/ledger.md have the keys of their calls', () => {
    let calls = 0;
    for (const path of filesOf(ledger)) {
      const texts = new Map<unknown, unknown>();
      for (const line of readFileSync(path, 'utf8').split('\n').filter(Boolean)) {
        const { text, content, key, request, item, agent, round, attempt } = JSON.parse(line);
        if (text !== undefined) texts.set(text, content);
        if (request === undefined) continue;
        const from = line.indexOf('"messages":[', line.indexOf(',"request":{')) + '"messages":['.length;
        const own = line.slice(from, line.lastIndexOf('},"crc":"'));
        const body = `${texts.get(request.head)}${own}${texts.get(request.tail)}`;
        expect(keyOf(body, { id: item, agent, round, attempt })).toBe(key);
        expect(JSON.parse(body).messages[0].role).toBe('system');
        calls += 1;
      }
    }
    expect(calls).toBe(runs.calls + runs.retries);
  });
});

describe('export', () => {
  test('validates, and adds up with the accounts of the runs to the token', async () => {
    const validate = new Ajv2020({ allowUnionTypes: true }).compile(packagedSchema('export'));
    const calls = await exported();
    for (const call of calls) expect(validate(call), JSON.stringify(validate.errors)).toBe(true);
    expect(calls).toHaveLength(runs.calls + runs.retries);
    expect([sumOf(calls, 'in'), sumOf(calls, 'out')]).toEqual([runs.in, runs.out]);
    expect(calls).toHaveLength(two.requests());
    const rungs = new Set(calls.map(({ verdict }) => (verdict as Line | undefined)?.rung));
    expect(rungs).toEqual(new Set(['clean', 'repaired', 'failed', undefined]));
  });

  test('holds what was asked and what was answered, word for word', async () => {
    const items = new Map(
      ndjson(readFileSync(join(at, 'items.ndjson'), 'utf8')).map(item => [item.id, item]),
    );
    for (const { item, agent, input, output, system } of await exported('--outcome answer')) {
      const { prompt } = items.get(item as string) as { prompt: string };
      expect((input as Line[])[0]).toMatchObject({ role: 'user' });
      expect((input as { content: string }[])[0]?.content.startsWith(prompt)).toBe(true);
      expect(typeof output).toBe('string');
      expect(system, String(agent)).toMatch(/^You /);
    }
  });

  test('by model, agent, outcome and time', async () => {
    const all = await exported();
    const [middle] = all.slice(40) as [{ time: string }];
    const by = async (flags: string, is: (call: Line) => boolean) => {
      const wanted = all.filter(is);
      expect(await exported(flags), flags).toEqual(wanted);
      return wanted.length;
    };
    expect(await by('--agent regulatory', ({ agent }) => agent === 'regulatory')).toBeGreaterThan(0);
    expect(await by("--outcome 'HTTP 500'", ({ outcome }) => outcome === 'HTTP 500')).toBeGreaterThan(0);
    expect(await by('--model simulated-3b', () => true)).toBe(all.length);
    expect(await by('--model other', () => false)).toBe(0);
    expect(await by(`--since ${middle.time}`, ({ time }) => (time as string) >= middle.time)).toBeGreaterThan(
      0,
    );
    expect(await by(`--since ${middle.time.slice(0, 10)}`, () => true)).toBe(all.length);
    expect(await by('--since 2999-01-01', () => false)).toBe(0);
    for (const wrong of ['--since soon', '--since 2026-13-01', "--outcome 'HTTP five'"])
      expect(await ledgered(`export ${wrong}`)).toMatchObject({ code: 64, stdout: '' });
  });

  test('one file a call, under its day', async () => {
    const ran = await ledgered('export --files audit');
    expect(ran).toMatchObject({ code: 0, stdout: '' });
    const names = readdirSync(join(at, 'audit'), { recursive: true, encoding: 'utf8' }).filter(name =>
      name.endsWith('.json'),
    );
    for (const name of names) expect(name).toMatch(/^\d{4}-\d\d-\d\d\/\d{9}-[0-9a-f]{32}(-\d+)?\.json$/);
    const calls = names
      .map(name => readFileSync(join(at, 'audit', name), 'utf8'))
      .map(text => JSON.stringify(JSON.parse(text)));
    expect(calls.sort()).toEqual((await exported()).map(call => JSON.stringify(call)).sort());
    expect(await ledgered('export --files audit')).toMatchObject({ code: 64 });
  });

  test('a slow reader gets all of it', async () => {
    const { stdout } = await fw(
      'fw ledger export | dd bs=512 status=none | wc -c; fw ledger export > calls; wc -c < calls',
      { cwd: at },
    );
    const [piped, filed] = stdout.trim().split('\n');
    expect(piped).toBe(filed);
    expect(Number(piped)).toBeGreaterThan(300_000);
  });

  test('a reader that goes away ends it quietly', async () => {
    const ran = await fw('fw ledger export | head -1 | wc -l; echo $PIPESTATUS', { cwd: at });
    expect(ran.stdout.split('\n').slice(0, 2)).toEqual(['1', '141']);
    expect(ran.stderr).toBe('');
  });
});

test('cost adds up with the export, what was paid for nothing apart', async () => {
  const calls = await exported();
  const { groups, ...cost } = JSON.parse((await ledgered('cost --json')).stdout);
  const answers = calls.filter(({ outcome }) => outcome === 'answer');
  const rejected = answers.filter(({ verdict }) => (verdict as Line).rung === 'failed');
  expect(cost).toMatchObject({
    questions: runs.calls,
    answered: new Set(answers.map(({ key }) => key)).size,
    retries: runs.retries,
    total: { tries: calls.length, in: runs.in, out: runs.out, cached: sumOf(calls, 'cached') },
    rejected: { tries: rejected.length, in: sumOf(rejected, 'in'), out: sumOf(rejected, 'out') },
    transport: { tries: calls.length - answers.length, in: 0, out: 0 },
    again: { tries: 0 },
    notJudged: { tries: 0 },
  });
  expect(rejected.length).toBeGreaterThan(3);
  const sum = (side: string) =>
    groups.reduce((all: number, group: Record<string, number>) => all + (group[side] ?? 0), 0);
  expect([sum('tries'), sum('in'), sum('out')]).toEqual([calls.length, runs.in, runs.out]);
  expect(new Set(groups.map(({ endpoint }: Line) => endpoint))).toEqual(
    new Set(two.all.map(({ url }) => url)),
  );

  const page = await ledgered('cost');
  expect(page.stdout).toContain(`rejected: ${rejected.length} answers`);
  expect(page.stdout).toMatch(/^total +\d/m);
});

test('an answer that came twice is told apart, and the first one is judged', async () => {
  const copy = folder();
  const path = join(copy, 'ledger', 'b.ndjson');
  cpSync(ledger, join(copy, 'ledger'), { recursive: true });
  // another process asked the same, at the same time
  const [first] = filesOf(ledger) as [string];
  writeFileSync(path, readFileSync(first, 'utf8').replaceAll(/^\{"verdict".*\n/gm, ''));
  const calls = await exported('', copy);
  const again = calls.filter(call => call.again);
  expect(again.length).toBeGreaterThan(20);
  for (const { verdict, outcome } of again) expect([verdict, outcome]).toEqual([undefined, 'answer']);
  const cost = JSON.parse((await ledgered('cost --json', copy)).stdout);
  const { total, ...before } = JSON.parse((await ledgered('cost --json')).stdout);
  expect(cost.again).toMatchObject({ tries: again.length, out: sumOf(again, 'out') });
  expect([cost.accepted, cost.rejected]).toEqual([before.accepted, before.rejected]);
  expect(cost.total.out).toBe(total.out + sumOf(again, 'out'));
  const checked = await ledgered('check', copy);
  expect(checked).toMatchObject({ code: 0 });
  expect(checked.stdout).toContain(`second answers to a call (the first is replayed) ${again.length}`);
});

test('files put end to end are the runs that they were', async () => {
  const copy = folder();
  writeFileSync(join(copy, 'all.ndjson'), textOf(ledger));
  expect(await ledgered('check --read-data --ledger all.ndjson', copy)).toMatchObject({ code: 0 });
  const { stdout } = await ledgered('ls --ledger all.ndjson', copy);
  expect(stdout.trimEnd().split('\n')).toHaveLength(1 + filesOf(ledger).length);
  const { place: _place, ...call } = (await exported('--ledger all.ndjson', copy)).at(-1) as Line;
  expect((await exported()).at(-1)).toMatchObject(call);
});

test('ls has a line for each run', async () => {
  const { stdout } = await ledgered('ls');
  const [heads, ...rows] = stdout.trimEnd().split('\n');
  expect(heads).toMatch(/^started +label +model/);
  expect(rows).toHaveLength(filesOf(ledger).length);
  for (const row of rows)
    expect(row).toMatch(/^\d{4}-.* chain +simulated-3b +http:.* answer.* ended +\d{4}-/);
});

describe('show', () => {
  test('the tries of an item, in order, with what was sent and said', async () => {
    const [failing] = callsOf(ledger).filter(({ outcome }) => outcome === 'HTTP 500') as [Line];
    const tries = callsOf(ledger).filter(({ item }) => item === failing.item);
    const ran = await ledgered(`show ${failing.item}`);
    expect(ran).toMatchObject({ code: 0, stderr: '' });
    expect(ran.stdout.split('\n')[0]).toBe(failing.item);
    expect(ran.stdout.match(/^\d+\. /gm)).toHaveLength(tries.length);
    expect(ran.stdout).toContain('the request is that of ');
    for (const { key, time } of tries) {
      expect(ran.stdout).toContain(`call ${key}`);
      expect(ran.stdout).toContain(time);
    }
    // the beginning of an id is enough where one item has it
    expect((await ledgered(`show ${(failing.item as string).slice(0, 11)}`)).stdout).toBe(ran.stdout);
  });

  test('one call by its key, or the beginning of it', async () => {
    const { key } = callsOf(ledger)[5] as { key: string };
    const ran = await ledgered(`show ${key.slice(0, 10)}`);
    expect(ran.stdout.match(/^ {3}call (\w+)/gm)).toContain(`   call ${key}`);
    expect(new Set(ran.stdout.match(/^ {3}call \w+/gm)).size).toBe(1);
  });

  test('says what it did not find', async () => {
    expect(await ledgered('show nobody')).toMatchObject({ code: 1, stdout: '' });
    expect((await ledgered('show nobody')).stderr).toContain('expected an item with the id nobody');
    expect(await ledgered('show')).toMatchObject({ code: 64 });
    expect(await fw('fw ledger show x --ledger missing', { cwd: at })).toMatchObject({ code: 65 });
  });
});

describe('check and repair', () => {
  test('a whole ledger', async () => {
    for (const flags of ['', '--read-data']) {
      const ran = await ledgered(`check ${flags}`);
      expect(ran, ran.stdout).toMatchObject({ code: 0 });
      expect(ran.stdout).toContain(`tries ${runs.calls + runs.retries} ·`);
    }
    expect((await ledgered('check --read-data')).stdout).toContain(
      `keys that fit their requests ${runs.calls + runs.retries} ·`,
    );
  });

  /** A copy of the ledger whose first file's lines are changed, in a folder of its own. */
  function changed(change: (lines: string[]) => string[]): string {
    const copy = folder();
    cpSync(ledger, join(copy, 'ledger'), { recursive: true });
    const [path] = filesOf(join(copy, 'ledger')) as [string];
    const lines = readFileSync(path, 'utf8').split('\n').slice(0, -1);
    writeFileSync(path, `${change(lines).join('\n')}\n`);
    return copy;
  }
  const firstCall = (lines: readonly string[]): number => lines.findIndex(line => line.startsWith('{"key"'));
  const edited = (change: (line: string) => string) =>
    changed(lines => lines.map((line, index) => (index === firstCall(lines) ? sealed(change(line)) : line)));

  const wrong: [what: string, copy: () => string, found: RegExp, structure: number][] = [
    [
      'a changed byte',
      () => changed(lines => lines.with(9, (lines[9] as string).replace(':', ';'))),
      /bytes of damage at byte/,
      65,
    ],
    ['a header that is gone', () => changed(lines => lines.slice(1)), /expected \{"fw":"ledger 1"/, 65],
    [
      'a text that is gone',
      () => changed(lines => lines.filter((_, index) => index !== 2)),
      /expected the text \w+ before the call/,
      65,
    ],
    [
      'a line of no kind',
      () => changed(lines => [...lines, sealed('{"what":1}')]),
      /expected a kind of line/,
      65,
    ],
    [
      'another question under the key',
      () => edited(line => line.replace('"content":"This', '"content":"That')),
      /expected a request that has the key/,
      0,
    ],
    [
      'a call without a time',
      () => edited(line => line.replace(/"time":"[^"]+",/, '')),
      /required property|time/,
      0,
    ],
    [
      'a text under a wrong id',
      () =>
        changed(lines =>
          lines.map((line, index) => (index === 2 ? sealed(line.replace('You are', 'You were')) : line)),
        ),
      /expected the text \w+, found one with the id/,
      0,
    ],
  ];
  test.each(wrong)('%s is found', async (_what, copy, found, structure) => {
    const cwd = copy();
    const ran = await ledgered('check --read-data', cwd);
    expect(ran, ran.stdout).toMatchObject({ code: 65 });
    expect(ran.stdout).toMatch(found);
    expect(ran.stdout).toContain('damaged: ');
    expect(await ledgered('check', cwd)).toMatchObject({ code: structure });
  });

  test('a torn tail is told, and nothing is wrong with it', async () => {
    const copy = changed(lines => lines);
    const [path] = filesOf(join(copy, 'ledger')) as [string];
    writeFileSync(path, readFileSync(path).subarray(0, -20));
    const ran = await ledgered('check', copy);
    expect(ran).toMatchObject({ code: 0 });
    expect(ran.stdout).toMatch(/a torn line of \d+ bytes at byte \d+, which was never used/);
    expect((await ledgered('ls', copy)).stdout).toMatch(/torn: \d+ bytes/);
  });

  const digestOf = (folder: string): string => createHash('sha256').update(textOf(folder)).digest('hex');

  test('what is whole is copied, what is lost is told, and only that is asked again', async () => {
    const retried = new Set(callsOf(ledger).flatMap(({ item, round }) => (round === 1 ? [item] : [])));
    const command = `fw ingest --limit 12 ${CSV} | fw chain --attempts 2 ${two.flags}`;
    const whole = await fw(`${command} --ledger ledger`, { cwd: at });
    expect(whole.stderr).toMatch(/ 0 calls/);
    const copy = changed(lines => {
      // of an item that was taken up again a lost answer is not missed: the later round stands
      const answers = lines.flatMap((line, index) =>
        line.includes('"outcome":"answer"') && !retried.has(JSON.parse(line).item) ? [index] : [],
      );
      const [first, second] = [answers[3], answers[7]] as [number, number];
      const flip = (line: string): string => line.replace('"ms":', '"mt":');
      // the header, a text and two answers, one of them cut short
      return lines.map((line, index) => {
        if (index === 0 || index === first) return flip(line).replace('ledger 1', 'ledger 7');
        if (index === 2) return line.replace('You are', 'You art');
        return index === second ? line.slice(0, 300) : line;
      });
    });
    const old = join(copy, 'ledger');
    const before = digestOf(old);
    const ran = await ledgered('repair --out repaired', copy);
    expect(ran, ran.stderr).toMatchObject({ code: 0 });
    expect(ran.stdout.match(/bytes of damage at byte \d+/g)).toHaveLength(4);
    expect(ran.stdout).toContain('lost headers, rebuilt from the first call after each: 1');
    expect(ran.stdout).toMatch(/lost texts of requests(, found in another file| \(.*\)): 1/);
    expect(digestOf(old)).toBe(before);

    expect(await ledgered('check --read-data --ledger repaired', copy)).toMatchObject({ code: 0 });
    expect(callsOf(join(copy, 'repaired'))).toHaveLength(runs.calls + runs.retries - 2);
    const asked = two.requests();
    const again = await fw(`${command} --ledger repaired`, { cwd: copy });
    expect(again.stderr).toContain('2 calls');
    expect(two.requests() - asked).toBeGreaterThanOrEqual(2);
    const line = (one: Line) => JSON.stringify(one);
    expect(ndjson(again.stdout).map(line).sort()).toEqual(ndjson(whole.stdout).map(line).sort());
    // a ledger that cannot be read in full is refused by a run
    expect(
      await fw(`echo '{"id":"a","prompt":"?"}' | fw chain --ledger ledger ${two.flags}`, { cwd: copy }),
    ).toMatchObject({ code: 65 });
  });

  test('a text that is nowhere is marked as lost, and the answers stay', async () => {
    const copy = changed(lines => lines.filter((_, index) => index !== 2));
    const [, ...others] = filesOf(join(copy, 'ledger'));
    for (const path of others) writeFileSync(path, '');
    const ran = await ledgered('repair --out repaired', copy);
    expect(ran.stdout).toContain(
      'lost texts of requests (their calls are replayed, but cannot be shown in full): 1',
    );
    const checked = await ledgered('check --read-data --ledger repaired', copy);
    expect(checked).toMatchObject({ code: 0 });
    expect(checked.stdout).toMatch(/tries whose request lacks a text, .* \d/);
    const calls = await exported('--ledger repaired', copy);
    const lost = calls.filter(({ system }) => system === null);
    expect(lost.length).toBeGreaterThan(5);
    for (const { input, parameters } of lost)
      expect([(input as unknown[]).length > 0, typeof (parameters as Line).seed]).toEqual([true, 'number']);
    const validate = new Ajv2020({ allowUnionTypes: true }).compile(packagedSchema('export'));
    for (const call of calls) expect(validate(call)).toBe(true);
  });

  test('never into the old ledger, nor over what is there', async () => {
    const copy = changed(lines => lines);
    mkdirSync(join(copy, 'full'));
    writeFileSync(join(copy, 'full', 'a'), '');
    for (const out of ['ledger/new', 'ledger', 'full', 'ledger/../ledger/x/y'])
      expect(await ledgered(`repair --out ${out}`, copy), out).toMatchObject({ code: 64 });
    expect(await ledgered('repair', copy)).toMatchObject({ code: 64 });
    expect(digestOf(join(copy, 'ledger'))).toBe(digestOf(ledger));
  });
});
