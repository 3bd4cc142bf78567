/**
 * make bench-text: the text stages against a hand-written floor and against Python, one process
 * against eight, and the memory of a long input. The opponents and the data are those of the folder RIG; what it lacks
 * is left out, and said. Files of half a GB lie in the system's temporary folder meanwhile.
 */
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Contestant, type Measured, measure, medianOf, ratio } from './measure.ts';
import { type Figure, machine, said, table, writeFigures } from './page.ts';

const ROUNDS = 5;
const RECORDS = 40_000;
const FEW = 20_000;
const MANY = 200_000;
const RIG = process.env.RIG ?? '';

if (!existsSync(join(RIG, 'gen-legacy.mjs'))) {
  console.error('bench-text: left out: RIG names no folder with gen-legacy.mjs, which makes the records');
  process.exit(0);
}
const DATA = mkdtempSync(join(tmpdir(), 'fw-bench-text-'));
process.on('exit', () => rmSync(DATA, { recursive: true, force: true }));
const env = { RIG, DATA };

const FW = 'node dist/bin/fw.js';
const REVALIDATE = `${FW} run pipelines/fairwatch/revalidate.yaml $DATA/legacy.ndjson --output -`;
const EIGHT = [
  'fix-escapes',
  'validate',
  'null-fix',
  'validate',
  'fix-escapes',
  'null-fix',
  'select',
  'verify',
];
const TO_NOWHERE = '> /dev/null';

const bash = (line: string): string | null => said('bash', ['-c', line], env);
const fastjsonschema = said('/usr/bin/python3', [
  '-c',
  'import fastjsonschema; print(fastjsonschema.VERSION)',
]);
const python = said('/usr/bin/python3', ['-c', 'import platform; print(platform.python_version())']);

const make = (records: number, file: string): void => {
  console.error(`making ${records} records`);
  if (bash(`node $RIG/gen-legacy.mjs --records ${records} --faults 0.01 > ${file} 2> /dev/null`) === null)
    throw new Error('expected gen-legacy.mjs to write records, found an error');
};

/** A sample of the same records, to see that an opponent works here at all. */
make(2_000, '$DATA/few.ndjson');
function opponent(name: string, line: string): Contestant | null {
  if (bash(`${line.replace('legacy.ndjson', 'few.ndjson')} > /dev/null 2>&1`) !== null) return { name, line };
  console.error(`bench-text: left out: ${line}`);
  return null;
}

make(RECORDS, '$DATA/legacy.ndjson');
const gigabytes = statSync(join(DATA, 'legacy.ndjson')).size / 1e9;
writeFileSync(join(DATA, 'eight.yaml'), `stages:\n${EIGHT.map(stage => `  - ${stage}: {}\n`).join('')}`);
checkEqualWork();

const fused = { name: 'fw', line: `${REVALIDATE} ${TO_NOWHERE}` };
const floor = opponent('hand-written floor', 'node $RIG/revalidate_limit.mjs $DATA/legacy.ndjson');
const pythons =
  fastjsonschema === null
    ? null
    : opponent(
        'Python, fastjsonschema',
        '/usr/bin/python3 $RIG/revalidate_py.py $DATA/legacy.ndjson --validator fastjsonschema --emit original',
      );
if (fastjsonschema === null) console.error('bench-text: left out: /usr/bin/python3 has no fastjsonschema');

const speed = measure(
  [
    fused,
    ...[floor, pythons].filter(one => one !== null),
    {
      name: 'eight stages in one process',
      line: `${FW} run $DATA/eight.yaml $DATA/legacy.ndjson ${TO_NOWHERE}`,
    },
    { name: 'eight stages, a process each', line: `${pipes(EIGHT)} ${TO_NOWHERE}` },
  ],
  { rounds: ROUNDS, env },
);
rmSync(join(DATA, 'legacy.ndjson'));

const memory: Measured[] = [];
for (const records of [FEW, MANY]) {
  make(records, '$DATA/legacy.ndjson');
  const name = `${records.toLocaleString('en')} records`;
  memory.push(...measure([{ ...fused, name }], { rounds: ROUNDS, env }));
}

const by = (name: string): Measured => speed.find(one => one.name === name) as Measured;
const fw = by('fw');
const bounds: [string, number | null, string][] = [
  ['CPU, fw ÷ floor', floor && ratio(fw, by(floor.name), 'cpu'), '≤ 1.2'],
  ['CPU, fw ÷ Python with fastjsonschema', pythons && ratio(fw, by(pythons.name), 'cpu'), '≤ 0.4'],
  [
    'CPU, eight stages in one process ÷ in eight',
    ratio(by('eight stages in one process'), by('eight stages, a process each'), 'cpu'),
    '≤ 0.25',
  ],
  [
    `bytes of memory per id, from ${FEW.toLocaleString('en')} records on`,
    ((medianOf(memory[1] as Measured, 'rss') - medianOf(memory[0] as Measured, 'rss')) * 2 ** 20) /
      (MANY - FEW),
    '16',
  ],
];
const versions =
  python === null
    ? []
    : [`Python ${python}`, ...(fastjsonschema ? [`fastjsonschema ${fastjsonschema}`] : [])];

const figures: Figure[] = [
  ['text: CPU to revalidate a GB of results', `${(medianOf(fw, 'cpu') / gigabytes).toFixed(2)} s`],
  [
    `text: peak memory over ${MANY.toLocaleString('en')} records`,
    `${medianOf(memory[1] as Measured, 'rss').toFixed(0)} MiB`,
  ],
  ...bounds.map(
    ([what, found, bound]): Figure => [
      `text: ${what}`,
      found === null ? 'left out' : found.toFixed(2),
      bound,
    ],
  ),
];
writeFigures('text', figures, [
  '## Text stages',
  '',
  `${RECORDS.toLocaleString('en')} legacy results (${(gigabytes * 1000).toFixed(0)} MB, 1 % of them faulty), whole processes with their start, in turn; medians of ${ROUNDS}.`,
  machine(versions),
  '',
  ...table([
    ['', 'CPU s', 'CPU s by GB', 'wall s', 'peak MiB', 'command'],
    ...speed.map(one => [
      one.name,
      medianOf(one, 'cpu').toFixed(2),
      (medianOf(one, 'cpu') / gigabytes).toFixed(2),
      medianOf(one, 'wall').toFixed(2),
      one.line.includes('python') ? '' : medianOf(one, 'rss').toFixed(0),
      `\`${one.line}\``,
    ]),
  ]),
  '',
  ...table([
    ['ratio, each inside a round', 'measured', 'bound'],
    ...bounds.map(([what, found, bound]) => [what, found === null ? 'left out' : found.toFixed(2), bound]),
  ]),
  '',
  ...table([['over', 'peak MiB'], ...memory.map(one => [one.name, medianOf(one, 'rss').toFixed(0)])]),
]);

function pipes([first, ...rest]: readonly string[]): string {
  return [`${first} $DATA/legacy.ndjson`, ...rest]
    .map(stage => `${FW} ${stage}${stage === 'verify' ? ' --pass' : ''}`)
    .join(' | ');
}

/** A comparison means nothing where one of both lets through what the other refuses. */
function checkEqualWork(): void {
  const limit = bash('node $RIG/revalidate_limit.mjs $DATA/few.ndjson 2>&1 > /dev/null');
  if (limit === null) return;
  const { lines, not_json, invalid } = JSON.parse(limit);
  bash(
    `${REVALIDATE.replace('legacy.ndjson', 'few.ndjson')} --set verify.report=$DATA/report.json > /dev/null 2>&1`,
  );
  const report = JSON.parse(readFileSync(join(DATA, 'report.json'), 'utf8'));
  if (report.in !== lines || report.failed !== not_json + invalid)
    throw new Error(
      `expected ${not_json + invalid} of ${lines} refused, found ${report.failed} of ${report.in}`,
    );
}
