/**
 * Every command that a page shows is run here: the blocks `sh` of README.md and docs/, in order, in a folder of the page
 * with what a reader would have (a table, agents, a pool file, old results), against simulated servers (those of docs/stages/ by `make test-all`). A block that
 * needs a GPU, minutes or a terminal of its own has `<!-- not run: why -->` on the line before it, which nobody sees who
 * reads the page. `console` blocks show what they print, and `ts` blocks are programs.
 */
import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { CODES } from '../engine/core/item/codes.ts';
import { EXIT } from '../engine/core/item/failure.ts';
import { type Simulator, startSimulator } from '../products/simulator/simulator.ts';
import { ALL } from './all.ts';
import { folder, ROOT } from './fw.ts';
import { fw } from './here.ts';

/** A page and its blocks; `why` is what the mark before a block says, where it is not run. */
interface Block {
  language: string;
  text: string;
  line: number;
  why: string | null;
}

const pages = [
  'README.md',
  ...readdirSync(join(ROOT, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter(name => name.endsWith('.md'))
    .map(name => `docs/${name}`)
    .sort(),
];
/** Pages whose console another test runs: docs.test.ts, ledger/page.test.ts, examples.test.ts. */
const runElsewhere = (page: string): boolean =>
  ['docs/integrity.md', 'docs/ledger.md'].includes(page) || page.startsWith('docs/stages/');

function blocksOf(page: string): Block[] {
  const text = readFileSync(join(ROOT, page), 'utf8');
  const fences = text.matchAll(/(?:<!-- not run: ([^>]*) -->\n)?^```(\w*)\n(.*?)^```$/gms);
  return [...fences].map(([, why = null, language = '', block = ''], _) => ({
    language,
    text: block,
    line: text.slice(0, text.indexOf(block)).split('\n').length,
    why,
  }));
}

/** What stands for what in a command: servers that are there, and the number of rows of the small table. */
const ROWS = 2;
let servers: Simulator[];
let template: string;
beforeAll(async () => {
  servers = await Promise.all([1, 2, 3].map(() => startSimulator({ port: 0, seed: 7 })));
  template = await makeTemplate();
});
afterAll(() => Promise.all(servers.map(server => server.close())));
const stoodIn = (text: string): string =>
  text
    .replaceAll(/http:\/\/gpu([123]):8005\/v1/g, (_, n) => servers[n - 1]?.url as string)
    .replaceAll('http://127.0.0.1:8005/v1', servers[0]?.url as string)
    .replaceAll('--expect 5760', `--expect ${ROWS}`);

/** What takes seconds of a page, with less of it: each setting and each number of endpoints is simulated, each row asked. */
const fewer = (text: string): string =>
  ALL
    ? text
    : text
        .replace('[32, 64, 128, 256, 512]', '[256, 512]')
        .replace('[1024, 2048, 4096, 8192]', '[2048, 4096]')
        .replace('[0.85, 0.9, 0.92, 0.94, 0.96]', '[0.9]')
        .replace('--preset 3b-a6000 --endpoints 4', '--preset 3b-a6000 --endpoints 1')
        .replace('cp fixtures/applications-60.csv prompts.csv', 'ls prompts.csv');

/** The commands of a block: all in one shell, or each by itself where none needs the shell of the one before it. */
function partsOf(text: string): string[] {
  if (ALL) return [`set -e\n${text}`];
  const short = text
    .trim()
    .replaceAll(/ +# .*$/gm, '')
    .replaceAll('xargs -P4 -n1', 'xargs -n12'); // a process for all of them is enough here
  return /&$|\\$|\$[!\w]|<<|^cd .*\n./m.test(short) ? [short.replaceAll('\n', ' &&\n')] : short.split('\n');
}

/** A folder for a page, with all that pages take for granted. */
async function home(): Promise<string> {
  const at = folder();
  await fw(`cp -a ${template}/. ${at}`);
  return at;
}

async function makeTemplate(): Promise<string> {
  const at = folder();
  for (const name of ['pipelines', 'fixtures', 'schemas', 'deploy'])
    symlinkSync(join(ROOT, name), join(at, name));
  for (const name of ['parts', 'data', 'old', 'out', 'desk']) mkdirSync(join(at, name));
  writeFileSync(join(at, 'ask.liquid'), 'May {{ name }} have {{ loan_amount }}?\n');
  writeFileSync(join(at, 'tickets.csv'), 'ticket,text\n1,It is down\n2,Where is my invoice?\n');
  writeFileSync(join(at, 'note.schema.json'), '{"type":"object"}');
  writeFileSync(join(at, 'notes.ndjson'), '{"id":"n1","note":"read"}\n');
  for (const { language, text } of ['agents', 'bench', 'endpoints', 'tune'].flatMap(name =>
    blocksOf(`docs/${name}.md`),
  )) {
    const name = /^# (desk\/\S+|pool\.yaml|models\.yaml|tune\.yaml)\n/.exec(text)?.[1];
    if (language === 'yaml' && name) writeFileSync(join(at, name), fewer(stoodIn(text)));
  }
  const triage = readFileSync(join(at, 'desk', 'triage.yaml'), 'utf8');
  writeFileSync(join(at, 'desk', 'reply.yaml'), triage.replaceAll(/triage/gi, 'reply'));
  const made = await fw(
    `set -e
     fw ingest --limit ${ROWS} fixtures/applications-60.csv | jq -rs '(.[0].input | keys_unsorted), (.[].input | [.[]]) | @csv' > prompts.csv
     cp prompts.csv parts/one.csv
     fw ingest prompts.csv | jq -c '{id, text: .prompt}' | fw export --format parquet > data/train-0.parquet
     fw ingest prompts.csv > asked.ndjson
     fw chain --ledger ledger/ --endpoint ${servers[0]?.url} < asked.ndjson > done.ndjson
     fw legacy < done.ndjson > out.jsonl
     cp done.ndjson items.jsonl; cp done.ndjson items.ndjson
     cp done.ndjson answered.ndjson
     printf '%s\\n' '{"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": {"model": "simulated-3b", "messages": [{"role": "user", "content": "Is it down?"}]}}' > input.jsonl
     fw ingest --format openai-batch input.jsonl | fw request --endpoint ${servers[0]?.url} > answered.jsonl
     fw legacy --document < done.ndjson > out/sequential_whole_legacy.json
     cp out.jsonl old/a_legacy.jsonl; cp out.jsonl out/sequential_risk_data_regulatory_consumer_legacy.jsonl
     jq -c '.failure = {stage: "chain", agent: "risk_manager", code: "call-failed", message: "m"} | del(.steps, .decision)' done.ndjson > failed.ndjson
     cp failed.ndjson failed.jsonl`,
    { cwd: at },
  );
  expect(made.code, made.stderr).toBe(0);
  return at;
}

/** The rows of the table in docs/troubleshooting.md whose header begins with `head`. */
function rowsOf(head: string): string[][] {
  const lines = readFileSync(join(ROOT, 'docs/troubleshooting.md'), 'utf8').split('\n');
  const from = lines.findIndex(line => line.startsWith(head)) + 2;
  const rows = lines.slice(from, from + lines.slice(from).findIndex(line => !line.startsWith('|')));
  return rows.map(row =>
    row
      .slice(2, -2)
      .split(/ (?<!\\)\| /)
      .map(text => text.replaceAll('`', '')),
  );
}

test('docs/troubleshooting.md has every code and every exit code', () => {
  expect(Object.fromEntries(rowsOf('| code |'))).toEqual(
    Object.fromEntries(Object.entries(CODES).map(([code, text]) => [code, text.replaceAll('`', '')])),
  );
  const named = rowsOf('| exit code |').filter(([, name]) => name !== '–');
  expect(Object.fromEntries(named.map(([code, name]) => [name, Number(code)]))).toEqual(EXIT);
});

test('its messages are in the code', async () => {
  const { stdout } = await fw("cat $(git ls-files '*.ts' | grep -v ^test/)");
  const source = stdout.replaceAll(/['`] \+\s*['`]|\$\{[^}]*\}/g, '');
  for (const head of ['| the message has | it means | do', '| the message has | it means |\n']) {
    for (const [cell = ''] of rowsOf(head)) {
      for (const part of cell.split(/, (?=[a-z])|…/)) expect(source.includes(part.trim()), part).toBe(true);
    }
  }
});

describe.each(pages)('%s', page => {
  const blocks = blocksOf(page);
  const run = blocks.filter(({ language, why }) => language === 'sh' && why === null);
  test.runIf(run.length > 0 && (ALL || !page.startsWith('docs/stages/')))('its commands', async () => {
    let at = await home();
    for (const { text, line } of run) {
      for (const part of partsOf(fewer(stoodIn(text)))) {
        const { code, stderr } = await fw(part, { cwd: at });
        expect(code, `${page}:${line}: ${part}\n${stderr}`).toBe(0);
      }
      for (const [, to = ''] of text.matchAll(/^cd (\S+)$/gm)) at = join(at, to); // as the reader's shell
    }
  });

  const sessions = runElsewhere(page)
    ? []
    : blocks.filter(({ language, why }) => language === 'console' && why === null);
  const typed = sessions.flatMap(({ text }) => text.split(/^(?=\$ )/m)).map(text => text.split('\n'));
  test.each(typed.map(([command = '', ...printed]) => ({ command, printed })))(
    '$command',
    async ({ command, printed }) => {
      const { stdout, stderr } = await fw(command.slice(2));
      expect(stdout.trimEnd(), stderr).toBe(printed.join('\n').trimEnd());
    },
  );

  test.each(blocks.filter(({ language, text }) => language === 'ts' && text.includes("from 'fairwatch")))(
    'the program at line $line',
    async ({ text }) => {
      const at = await home();
      const entry = (_: string, name = 'index'): string => `'${join(ROOT, 'dist', `${name}.js`)}'`;
      writeFileSync(join(at, 'program.mjs'), text.replaceAll(/'fairwatch(?:\/(\w+))?'/g, entry));
      const { code, stderr } = await fw('node program.mjs', { cwd: at });
      expect(code, stderr).toBe(0);
    },
  );

  test('shows no command outside of a block that is run, or marked', () => {
    const text = readFileSync(join(ROOT, page), 'utf8');
    const outside = text.replaceAll(/^```.*?^```$/gms, '').match(/^ {4}\$? ?(?:fw|make) .*/gm);
    expect(outside ?? []).toEqual([]);
    for (const block of blocks) {
      if (['sh', 'console', 'ts', 'js'].includes(block.language) || block.why !== null) continue;
      const commands = block.text.match(/^(?:\$ )?(?:fw|make|npm) .*/gm) ?? [];
      expect(commands, `${page}:${block.line}`).toEqual([]);
    }
  });

  test('its links lead somewhere', () => {
    const text = readFileSync(join(ROOT, page), 'utf8').replaceAll(/^```.*?^```$/gms, '');
    for (const [, to = ''] of text.matchAll(/\]\(([^)#]*)(?:#[^)]*)?\)/g)) {
      if (to === '' || to.startsWith('https:')) continue;
      expect(() => readFileSync(join(ROOT, page, '..', to)), `${page}: ${to}`).not.toThrow();
    }
  });
});
