/**
 * make bench-ingest: a million rows of CSV into items, against what a script would do: Python's csv.DictReader and
 * json.dumps, which gives the columns alone; and against Miller, where it is installed. The files lie in the system's
 * temporary folder meanwhile.
 */
import { once } from 'node:events';
import { createWriteStream, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { finished } from 'node:stream/promises';
import { type Measured, measure, medianOf, ratio } from './measure.ts';
import { type Figure, machine, said, table, writeFigures } from './page.ts';

const ROUNDS = 3;
const ROWS = 1_000_000;
const DATA = mkdtempSync(join(tmpdir(), 'fw-bench-ingest-'));
process.on('exit', () => rmSync(DATA, { recursive: true, force: true }));
const env = { DATA };

const SCRIPT = `import csv, json, sys
with open(sys.argv[1], newline='', encoding='utf-8') as rows:
    for row in csv.DictReader(rows):
        sys.stdout.write(json.dumps(row) + '\\n')
`;
writeFileSync(join(DATA, 'script.py'), SCRIPT);
const python = said('/usr/bin/python3', ['-c', 'import platform; print(platform.python_version())']);
const miller = said('mlr', ['--version']);

await makeRows('rows.csv', 'applicant');
await makeRows('ids.csv', 'id');
const bytes = statSync(join(DATA, 'rows.csv')).size;

const FW = 'node dist/bin/fw.js';
const measured = measure(
  [
    { name: 'fw with ids from a column', line: `${FW} ingest $DATA/ids.csv > /dev/null` },
    { name: 'fw with ids by hash', line: `${FW} ingest $DATA/rows.csv > /dev/null` },
    ...(python === null
      ? []
      : [{ name: 'Python', line: '/usr/bin/python3 $DATA/script.py $DATA/rows.csv > /dev/null' }]),
    ...(miller === null
      ? []
      : [{ name: 'Miller', line: 'mlr --icsv --ojsonl cat $DATA/rows.csv > /dev/null' }]),
  ],
  { rounds: ROUNDS, env },
);

const by = (name: string): Measured | undefined => measured.find(one => one.name === name);
const script = by('Python');
const bounds = measured
  .filter(({ name }) => name.startsWith('fw'))
  .map(one => [
    `CPU, ${one.name} ÷ Python`,
    script ? ratio(one, script, 'cpu').toFixed(2) : 'left out',
    '≤ 0.8',
  ]);

writeFigures(
  'ingest',
  bounds.map(([what = '', found = '', bound]): Figure => [`ingest: ${what}`, found, bound]),
  [
    '## Rows into items',
    '',
    `A CSV of ${ROWS.toLocaleString('en')} rows (${(bytes / 1e6).toFixed(0)} MB: five columns, two of them quoted), whole processes with their start, in turn; medians of ${ROUNDS}.`,
    'Python is `csv.DictReader` and `json.dumps`; it and Miller write the columns alone, without ids and prompts, and look for no row that comes twice.',
    machine([...(python === null ? [] : [`Python ${python}`]), ...(miller === null ? [] : [miller])]),
    '',
    ...table([
      ['', 'CPU s', 'wall s', 'peak MiB', 'command'],
      ...measured.map(one => [
        one.name,
        medianOf(one, 'cpu').toFixed(2),
        medianOf(one, 'wall').toFixed(2),
        one.line.startsWith('node') ? medianOf(one, 'rss').toFixed(0) : '',
        `\`${one.line}\``,
      ]),
    ]),
    '',
    ...table([['ratio, each inside a round', 'measured', 'bound'], ...bounds]),
  ],
);

async function makeRows(name: string, first: string): Promise<void> {
  const file = createWriteStream(join(DATA, name));
  file.write(`${first},name,income,score,prompt\n`);
  for (let row = 0; row < ROWS; row += 1000) {
    const rows = Array.from({ length: 1000 }, (_none, at) => lineOf(row + at)).join('');
    if (!file.write(rows)) await once(file, 'drain');
  }
  file.end();
  await finished(file);
}

/** About 72 bytes. */
function lineOf(row: number): string {
  const income = 20_000 + ((row * 7_919) % 130_000);
  const name = `Applicant ${row % 5000}`;
  return `a${String(row).padStart(7, '0')},"${name}",${income},${400 + (row % 450)},"A loan of ${10 + (row % 390)},000, 30 years?"\n`;
}
