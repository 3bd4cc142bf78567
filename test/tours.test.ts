/**
 * A stranger's tours: which files to open to learn or to change one thing. CONTRIBUTING.md names them; here each is held to
 * be there, enough and short.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { stages } from '../stages/index.ts';
import { ROOT } from './fw.ts';

const textOf = (file: string): string => readFileSync(join(ROOT, file), 'utf8');
const page = textOf('CONTRIBUTING.md');
const sources = ['bin', 'engine', 'products', 'stages'].flatMap(top =>
  readdirSync(join(ROOT, top), { recursive: true, encoding: 'utf8' })
    .filter(name => name.endsWith('.ts'))
    .map(name => join(top, name)),
);
const importsOf = (file: string): string[] =>
  [...textOf(file).matchAll(/(?:from|import\() ?'(\.[^']+)'/g)].map(found =>
    join(dirname(file), found[1] as string),
  );

/** The files that a text names; one without a folder is in that of the file before it. */
function filesIn(text: string): string[] {
  let folder = '';
  const named = [...text.matchAll(/`([\w./-]+\.ts)`/g)].map(([, path]) => {
    if (path?.includes('/')) folder = dirname(path);
    return path?.includes('/') ? path : join(folder, path as string);
  });
  return [...new Set(named)];
}

/** The paragraph of the page that begins with this title. */
function tour(title: string): string {
  const [text] = page.split(/\n\n|\n(?=- )/).filter(paragraph => paragraph.startsWith(`- **${title}**`));
  if (text === undefined) throw new Error(`CONTRIBUTING.md has no tour ${title}`);
  return text;
}

/** What happens, file by file; with a word of each, so that none goes stale unseen. */
const WAYS: [title: string, most: number, words: Record<string, string>][] = [
  [
    'What happens on a 503?',
    6,
    {
      'engine/asking/pool/read-reply.ts': 'kindOfStatus(status)',
      'engine/asking/pool/reactions.ts': 'throttled: {',
      'engine/asking/pool/limit.ts': 'function followThrottled',
      'engine/asking/pool/throttling.ts': 'function noteThrottled',
      'engine/asking/pool/health.ts': 'function noteFailure',
      'engine/asking/pool/call-queue.ts': 'sleep(ticket',
    },
  ],
  [
    'A row of CSV becomes an item:',
    5,
    {
      'engine/tables/read-table.ts': 'readTable',
      'engine/tables/row-bytes.ts': 'RowSplitter',
      'engine/tables/csv-rows.ts': 'CsvReader',
      'engine/tables/rows.ts': 'csvRow',
      'engine/tables/row-items.ts': 'ItemMaker',
    },
  ],
  [
    'A run, from its first line to its last word:',
    3,
    {
      'engine/running/run.ts': 'function exitOf(',
      'engine/running/asking.ts': '#making = this.#make(asksWith)',
      'engine/running/stopping.ts': '#endAtOnce(',
    },
  ],
];

describe.each(WAYS)('%s', (title, most, words) => {
  const files = filesIn(tour(title));

  test(`at most ${most} files, each with its part`, () => {
    expect(files.length).toBeLessThanOrEqual(most);
    expect(files.sort()).toEqual(Object.keys(words).sort());
    for (const [file, word] of Object.entries(words)) expect(textOf(file), file).toContain(word);
  });

  test('from each to the others the way leads through no further file', () => {
    const reached = new Set(files.slice(0, 1));
    for (let before = 0; before < reached.size; ) {
      before = reached.size;
      for (const file of files) {
        const others = importsOf(file).filter(other => files.includes(other));
        if (reached.has(file)) for (const other of others) reached.add(other);
        else if (others.some(other => reached.has(other))) reached.add(file);
      }
    }
    expect([...reached].sort()).toEqual([...files].sort());
  });
});

/** What is to be added, and one that is there: no source but those that the page names knows of it. */
const ADDED: [title: string, most: number, one: RegExp][] = [
  ['Add an option to every stage that asks agents:', 2, /\boptions\.attempts\b/],
  ['Add a stage:', 1, /'\.\/select\.ts'/],
];

test.each(ADDED)('%s at most %i files beside its own', (title, most, one) => {
  const knowing = sources.filter(file => one.test(textOf(file)));
  expect(knowing.length).toBeLessThanOrEqual(most);
  expect(filesIn(tour(title)).sort()).toEqual(knowing.sort());
});

test('Add a count of an endpoint: where counts begin, where it is counted, where it is told, and where none is known', () => {
  const knowing = sources.filter(file => /\botherModel\b/.test(textOf(file)));
  const [begins, metrics, load, unknown] = filesIn(tour('Add a count of an endpoint:'));
  expect(knowing.length).toBeLessThanOrEqual(4);
  expect(knowing).toEqual(expect.arrayContaining([begins, unknown]));
  expect(textOf(metrics as string)).toContain("counter('fw_calls_total'");
  // what a server says of itself is a row, and a metric that reads it by that name
  const rows = [...textOf(load as string).matchAll(/^ {2}(\w+): \{$/gm)].map(([, name]) => name);
  const read = [...textOf(metrics as string).matchAll(/\bload\?\.(\w+)/g)].map(([, name]) => name);
  expect(read).not.toEqual([]);
  expect(rows).toEqual(expect.arrayContaining(read));
});

test('each file that the page has for a question is there, and has the words that the page says of it', () => {
  const rows = page.split('\n').flatMap(line => {
    const [, question, answer = ''] = line.split('|');
    return question !== undefined && filesIn(answer).length > 0 ? [{ question, answer }] : [];
  });
  const lacking = rows.flatMap(({ question, answer }) => {
    const texts = filesIn(answer).map(textOf).join('\n');
    const words = [...`${question}${answer}`.matchAll(/`([^`]+)`/g)].map(([, word]) => word as string);
    return words.filter(word => !/\.(?:ts|md)$/.test(word) && !texts.includes(word));
  });
  expect(rows.length).toBeGreaterThan(7);
  expect(lacking).toEqual([]);
});

test('a stage is known to the list of stages, to what is made of others, and to the library', () => {
  const own = new Set(Object.keys(stages).map(name => `stages/${name}.ts`));
  const importers = [...sources, 'index.ts'].filter(file => importsOf(file).some(found => own.has(found)));
  const batches = [
    'bin/commands/batch.ts',
    'products/serve/batches/answerers.ts',
    'products/serve/batches/batch-run.ts',
  ];
  expect(importers.sort()).toEqual([...batches, 'stages/legacy.ts', 'index.ts', 'stages/index.ts'].sort());
});

test('no line of docs/design.md is longer than 100 characters', () => {
  const lines = readFileSync(join(ROOT, 'docs/design.md'), 'utf8').split('\n');
  expect(lines.filter(line => line.length > 100 && !line.startsWith('| '))).toEqual([]);
});
