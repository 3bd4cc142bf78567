/** Exit codes as docs/troubleshooting.md has them: every verb in every situation that it can be in. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { commands } from '../../bin/commands/index.ts';
import { stages } from '../../stages/index.ts';
import { every } from '../all.ts';
import { folder, ROOT } from '../fw.ts';
import { fw } from '../here.ts';
import { type Servers, servers } from '../pipe/servers.ts';

const CSV = join(ROOT, 'fixtures', 'applications-60.csv');
const DEAD = '--endpoint http://127.0.0.1:9/v1';
const at = folder();
const put = (name: string, text: string): void => writeFileSync(join(at, name), text);
let one: Servers;

beforeAll(async () => {
  one = await servers(1);
  mkdirSync(join(at, 'folder'));
  put('item.ndjson', '{"id":"a","prompt":"Credit score: 700"}\n');
  put('failed.ndjson', '{"id":"a","failure":{"stage":"chain","code":"call-failed","message":"m"}}\n');
  put('tickets.csv', 'ticket,text\n1,My printer burns\n2,It still does\n');
  put('tickets.tsv', 'ticket\ttext\n1\tMy printer burns\n');
  put('semicolons.txt', 'ticket;text\n1;My printer burns\n');
  put('array.json', '[{"id":"a","prompt":"?"},\n{"id":"b","prompt":"?"}]\n');
  put('pretty.json', '{\n  "id": "a",\n  "prompt": "?"\n}\n');
  put('one-column.csv', 'prompt\nhm\n');
  put('p.yaml', 'stages: [ { chain: {} } ]\nledger: false\n');
  put('broken.yaml', 'stages: [\n');
  put('ingests.yaml', 'stages: [ { ingest: {} } ]\noutput: out.ndjson\n');
});

/** What each verb needs to do its work, with FILE for what it reads and ENDPOINT for what it asks. */
const WORKS: Record<string, string> = {
  'agent-step': 'fw agent-step --agent risk ENDPOINT FILE',
  chain: 'fw chain ENDPOINT FILE',
  'synthesize-decision': 'fw synthesize-decision ENDPOINT FILE',
  legacy: 'fw legacy ENDPOINT FILE',
  merge: 'fw merge --old item.ndjson FILE',
  run: 'fw run p.yaml ENDPOINT FILE --output -',
  plan: 'fw plan p.yaml FILE --preset 3b-a6000',
  request: 'fw request ENDPOINT FILE',
  export: 'fw export --format openai-batch FILE',
  batch: 'fw batch ENDPOINT FILE',
  bench: 'fw bench ENDPOINT FILE --warmup 0',
  explain: 'fw explain a FILE',
  report: 'fw report --outcome decision --approve yes FILE',
  compare: 'fw compare --outcome decision --approve yes FILE FILE',
  doctor: 'fw doctor ENDPOINT --timeout 5s',
  ledger: 'fw ledger ls --ledger none',
  serve: 'fw serve ENDPOINT --data served --config FILE',
  keys: 'fw keys ls --data FILE',
  simulate: 'fw simulate --port none',
  work: 'fw work --redis redis://127.0.0.1:1 --server http://127.0.0.1:1 --data worked ENDPOINT --model-map FILE',
};
const verbs = [...Object.keys(stages), ...Object.keys(commands)];
const lineOf = (verb: string, file: string, endpoint = DEAD): string =>
  (WORKS[verb] ?? `fw ${verb} FILE`).replaceAll('FILE', file).replace('ENDPOINT', endpoint);

const run = async (line: string) => {
  const ran = await fw(line, { cwd: at });
  expect(ran.stderr, line).not.toMatch(/a bug, please report|\bat .*\.js:\d+/);
  return ran;
};

test.each(verbs)('fw %s: help is 0, an option that it does not have is 64', async verb => {
  const [help, wrong] = await Promise.all([run(`fw ${verb} --help`), run(`fw ${verb} --no-such-option`)]);
  expect([help.code, wrong.code]).toEqual([0, 64]);
  expect(help.stdout).toContain(`fw ${verb}`);
});

const readers = verbs.filter(
  verb => !['doctor', 'keys', 'ledger', 'simulate', 'demo', 'init', 'completion'].includes(verb),
);
test.each(readers)('fw %s: a missing file and a folder in its place are 65', async verb => {
  for (const file of ['none.ndjson', 'folder']) {
    // with a server that answers, for whoever asks before it reads
    const ran = await run(lineOf(verb, file, one.flags));
    expect(ran.code, `${file}: ${ran.stderr}`).toBe(65);
    expect(ran.stderr).toContain(file);
  }
});

/** Those that read lines and have no use for a table. */
const lineReaders = Object.keys(stages).filter(verb => verb !== 'ingest' && verb !== 'merge');
describe('a table where items belong is 65, and the way out is named', () => {
  test.each([...lineReaders, 'run'])('fw %s', async verb => {
    const files = ['tickets.csv', 'tickets.tsv', 'semicolons.txt', 'array.json', 'one-column.csv'];
    for (const file of verb === 'chain' ? files : files.slice(0, 1)) {
      const ran = await run(lineOf(verb, file, one.flags));
      expect(ran.code, `${file}: ${ran.stderr}`).toBe(65);
      expect(ran.stderr).toContain(`fw ingest ${file} |`);
    }
  });
  test('through a pipe too', async () => {
    const ran = await run('cat tickets.csv | fw select');
    expect(ran.code, ran.stderr).toBe(65);
    expect(ran.stderr).toMatch(/found what looks like a CSV table: ticket,text\n.*fw ingest \| fw select/);
  });
  test('one value over many lines: the two ways', async () => {
    const ran = await run('fw select pretty.json');
    expect(ran.code).toBe(65);
    expect(ran.stderr).toMatch(/fw ingest --format legacy pretty\.json .*jq -c \. pretty\.json/);
  });
  test.each([
    'not json, at all',
    'a\nb\nc',
    'WARN, a log line\n{"id":"a","prompt":"?"}',
    '[1]\n[2]',
    'null',
    '"a, text"',
    '',
    '\n\n',
    '{"id":"a"',
    '  {"id":"a","prompt":"x,y"}\n',
    '\uFEFF{"id":"a","prompt":"?"}\n',
  ])('but a broken line is a failed item: %j', async text => {
    const ran = await fw('fw select', { stdin: text });
    expect(ran.code, ran.stderr).toBe(0);
  });
});

const askers = ['agent-step', 'chain', 'synthesize-decision', 'legacy', 'run'];
test.each(askers)('fw %s: no endpoint is 64, a dead one 69', async verb => {
  put('answered.ndjson', '{"id":"a","row":1,"prompt":"?","steps":[]}\n');
  const none = await run(lineOf(verb, 'answered.ndjson', ''));
  expect(none.code, none.stderr).toBe(64);
  expect(none.stderr).toContain('--endpoint');
  const dead = await run(lineOf(verb, 'answered.ndjson', DEAD));
  expect(dead.code, dead.stderr).toBe(69);
});

const judging = [
  'chain',
  'request',
  'agent-step',
  'synthesize-decision',
  'legacy',
  'legacy-convert',
  'verify',
  'run',
];
test.each(
  Object.keys(stages)
    .filter(verb => verb !== 'ingest')
    .concat('run'),
)('fw %s: a failed item is 1 where answers are made or judged, and 0 where it only passes', async verb => {
  const ran = await run(lineOf(verb, 'failed.ndjson', one.flags));
  expect(ran.code, ran.stderr).toBe(judging.includes(verb) ? 1 : 0);
});

test.each(Object.keys(stages).filter(verb => verb !== 'verify'))('fw %s: a full disk is 74', async verb => {
  const file =
    verb === 'ingest'
      ? CSV
      : verb.startsWith('legacy')
        ? join(ROOT, 'fixtures/decided.ndjson')
        : 'failed.ndjson';
  const ran = await run(`${lineOf(verb, file, one.flags)} > /dev/full`);
  expect(ran.code, ran.stderr).toBe(74);
  expect(ran.stderr).toContain('ENOSPC');
});

test.each<[string, number, RegExp]>([
  ['fw', 64, /^$/],
  ['fw nonsense', 64, /no stage or command 'nonsense'/],
  ['fw item.ndjson select', 64, /no stage or command 'item\.ndjson'; the verb comes first/],
  ['fw verify --report', 64, /--report: expected a value, found none/],
  ['fw run', 64, /expected a pipeline file, found none/],
  ['fw run none.yaml', 65, /none\.yaml/],
  ['fw run folder', 65, /folder/],
  ['fw run broken.yaml', 65, /broken\.yaml:\d+/],
  ['fw run item.ndjson p.yaml', 65, /item\.ndjson/],
  ['fw run ingests.yaml one-column.csv', 0, /wrote out\.ndjson/],
  ['fw plan p.yaml item.ndjson', 64, /--preset/],
  ['fw plan p.yaml item.ndjson --preset none', 64, /none/],
  ['fw explain', 64, /expected an id/],
  ['fw explain zzz item.ndjson', 1, /zzz/],
  ['fw keys', 64, /expected one of/],
  ['fw keys ad', 64, /did you mean 'add'/],
  ['fw keys add', 64, /NAME/],
  ['fw keys add a/b --data keyed', 64, /a name of letters/],
  ['fw keys add a --data keyed --scope root', 64, /batch, chat/],
  ['fw keys revoke a --data keyed', 64, /in use/],
  ['fw serve', 64, /--data/],
  ['fw work', 64, /--redis/],
  ['fw ledger', 64, /expected one of/],
  ['fw ledger shw', 64, /did you mean 'show'/],
  ['fw ledger ls --ledger none', 65, /none/],
  ['fw ledger show a --ledger none', 65, /none/],
  ['fw ledger check --ledger none', 65, /none/],
  ['fw ledger cost --ledger none', 65, /none/],
  ['fw ledger export --ledger none', 65, /none/],
  ['fw ledger repair --ledger none --out new', 65, /none/],
  ['fw ledger repair --ledger none', 64, /--out NEW/],
  ['fw ledger prune --ledger none --before 2026-11-01', 64, /found none/],
  ['fw ledger prune --ledger .', 64, /--before 2026-11-01/],
  ['fw ledger prune --ledger . --before 2999-01-01', 64, /up to today/],
  ['fw simulate item.ndjson', 64, /options only/],
  ['fw doctor', 64, /--endpoint/],
  ['fw chain --pool none.yaml item.ndjson', 65, /none\.yaml/],
  ['fw chain --agents none item.ndjson', 64, /none/],
  ['fw ingest --template none.liquid tickets.csv', 65, /none\.liquid/],
  ['fw validate --schema none.json item.ndjson', 65, /none\.json/],
  ['fw null-fix --defaults none.yaml item.ndjson', 65, /none\.yaml/],
  ['fw verify --ids none item.ndjson', 65, /none/],
  ['fw merge item.ndjson', 64, /two files or more/],
  ['fw merge item.ndjson none.ndjson', 65, /none\.ndjson/],
  ['fw merge --old none.ndjson item.ndjson', 65, /none\.ndjson/],
  ['fw select --rung worst item.ndjson', 64, /--rung/],
  ['fw verify --accept worst item.ndjson', 64, /--accept/],
  ['fw verify --expect 1 item.ndjson', 1, /verify/],
])('%s ends with %d', async (line, code, says) => {
  const ran = await run(line);
  expect(ran.code, ran.stderr).toBe(code);
  expect(ran.stderr).toMatch(says);
});

test.each(every(2, ['SIGINT', 'SIGTERM'] as const))(
  'a run that %s stops is resumable, and says so by its code',
  async signal => {
    // the input stays open, and nobody waits for it
    const input = 'exec 2> /dev/null; cat item.ndjson; sleep 20';
    const line = `timeout -s ${signal.slice(3)} --preserve-status 2 fw chain ${one.flags} < <(${input}); echo "code $?"`;
    const ran = await fw(line, { cwd: at });
    expect(ran.stdout).toContain(`code ${signal === 'SIGINT' ? 130 : 143}`);
  },
);

test('a reader that goes away is 141, quietly', async () => {
  const ran = await fw(`(yes '{"id":"a"}' || true) | fw select | head -1; echo "\${PIPESTATUS[1]}"`);
  expect(ran.stdout).toBe('{"id":"a"}\n141\n');
  expect(ran.stderr).toBe('');
});
