/**
 * make bench-calls: what a call costs the client, against a bare undici loop and against aiohttp, both of the folder
 * RIG, on its mock server: the same chains of four calls, in turn, on the same machine. The loops parse what they get and
 * build the next prompt; fw mends, validates, records and writes items too.
 */
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { type Contestant, type Measured, measure, median, medianOf, ratio } from './measure.ts';
import { startMock } from './mock.ts';
import { type Figure, machine, said, table, writeFigures } from './page.ts';

const ROUNDS = 3;
const RECORDS = Number(process.env.RECORDS ?? 25_000);
const CALLS = 4 * RECORDS;
const IN_FLIGHT = 2_000;
const FEW = 500;
const MANY = 8_000;
const DELAY = 200;
const RIG = process.env.RIG ?? '';

if (!existsSync(join(RIG, 'mockd'))) {
  console.error('bench-calls: left out: RIG names no folder with mockd, the mock server');
  process.exit(0);
}
const DATA = mkdtempSync(join(tmpdir(), 'fw-bench-calls-'));
const server = await startMock(RIG, DELAY);
process.on('exit', () => {
  rmSync(DATA, { recursive: true, force: true });
});

const items = Array.from({ length: RECORDS }, (_, row) =>
  JSON.stringify({
    id: `row-${row}`,
    row: row + 1,
    prompt: `Application ${row}. ${'A loan is asked for. '.repeat(38)}`,
  }),
);
writeFileSync(join(DATA, 'items.ndjson'), `${items.join('\n')}\n`);
// four agents that take the one answer of the mock server: no name of theirs stands in it
mkdirSync(join(DATA, 'agents'));
const AGENTS = ['a', 'b', 'c', 'd'];
const schema = resolve('schemas/assessment.schema.json');
for (const key of AGENTS)
  writeFileSync(
    join(DATA, 'agents', `${key}.yaml`),
    `key: ${key}\nshort: ${key}\ndisplay: Agent ${key.toUpperCase()}\nrole: agent\npersona: You judge loan applications.\nschema: ${schema}\nsampling: { temperature: 0.7, max_tokens: 500 }\n`,
  );
writeFileSync(join(DATA, 'agents', 'orderings.yaml'), `default:\n  - [${AGENTS.join(', ')}]\n`);
for (const limit of [FEW, IN_FLIGHT, MANY]) {
  writeFileSync(
    join(DATA, `pool-${limit}.yaml`),
    `endpoints: [{ url: 'http://127.0.0.1:${server.port}/v1', limit: ${limit} }]\n`,
  );
}

const env = { RIG, DATA, FW_LEDGER: '' };
const CHAIN = 'node dist/bin/fw.js chain --agents $DATA/agents --no-decision --guided off';
const fw = (inFlight: number): string =>
  `${CHAIN} --in-flight ${inFlight} --pool $DATA/pool-${inFlight}.yaml $DATA/items.ndjson > /dev/null`;
const loop = `--port ${server.port} --records ${RECORDS} --concurrency ${IN_FLIGHT}`;
const aiohttp = said('/usr/bin/python3', ['-c', 'import aiohttp; print(aiohttp.__version__)']);

const own: Contestant = { name: 'fw chain', line: fw(IN_FLIGHT) };
const bare: Contestant = { name: 'bare undici loop', line: `node $RIG/chain_undici.mjs ${loop} > /dev/null` };
const python: Contestant = {
  name: 'aiohttp, unlimited connections',
  line: `ulimit -n 20000; /usr/bin/python3 $RIG/chain_aiohttp.py ${loop} --limit-connections 0 > /dev/null`,
};
const few: Contestant = { name: `fw chain, ${FEW} in flight`, line: fw(FEW) };
const many: Contestant = { name: `fw chain, ${MANY.toLocaleString('en')} in flight`, line: fw(MANY) };
if (aiohttp === null) console.error('bench-calls: left out: /usr/bin/python3 has no aiohttp');

const alone: Contestant = {
  name: 'fw chain, nothing set by hand',
  line: `${CHAIN} --endpoint http://127.0.0.1:${server.port}/v1 $DATA/items.ndjson > /dev/null`,
};
const measured = measure([own, bare, alone, ...(aiohttp === null ? [] : [python]), few, many], {
  rounds: ROUNDS,
  env,
});
server.process.kill();
const by = ({ name }: Contestant): Measured => measured.find(one => one.name === name) as Measured;
const perCall = (one: Measured): number => (medianOf(one, 'cpu') / CALLS) * 1e6;
const memory = median(
  by(own).costs.map(({ rss }, round) => rss / (by(bare).costs[round]?.rss ?? Number.NaN)),
);

const bounds: [string, number, string][] = [
  ['CPU, fw ÷ bare loop', ratio(by(own), by(bare), 'cpu'), '≤ 1.25, goal 1.1'],
  ['wall time, fw ÷ bare loop', ratio(by(own), by(bare), 'wall'), '≤ 1.1'],
  ['memory, fw ÷ bare loop', memory, '≤ 1'],
  [`CPU, ${MANY.toLocaleString('en')} in flight ÷ ${FEW}`, ratio(by(many), by(few), 'cpu'), '≤ 1.5'],
];
if (aiohttp !== null)
  bounds.splice(1, 0, ['CPU, fw ÷ aiohttp', ratio(by(own), by(python), 'cpu'), '≤ 0.45, goal 0.35']);

const inFlight = IN_FLIGHT.toLocaleString('en');
const figures: Figure[] = [
  [`call: CPU of the client, ${inFlight} in flight`, `${perCall(by(own)).toFixed(0)} µs`],
  [`call: peak memory, ${inFlight} in flight`, `${medianOf(by(own), 'rss').toFixed(0)} MiB`],
  ['call: wall time with nothing set by hand, ÷ bare loop', ratio(by(alone), by(bare), 'wall').toFixed(2)],
  ...bounds.map(([what, value, bound]): Figure => [`call: ${what}`, value.toFixed(2), bound]),
];
writeFigures('calls', figures, [
  '## What a call costs the client',
  '',
  `${RECORDS.toLocaleString('en')} chains of four calls (${CALLS.toLocaleString('en')} calls), ${IN_FLIGHT.toLocaleString('en')} in flight unless said, every answer after ${DELAY} ms, no ledger; whole processes with their start, in turn; medians of ${ROUNDS}.`,
  machine(aiohttp === null ? [] : [`aiohttp ${aiohttp}`]),
  '',
  ...table([
    ['', 'CPU µs by call', 'wall s', 'peak MiB', 'command'],
    ...measured.map(one => [
      one.name,
      perCall(one).toFixed(0),
      medianOf(one, 'wall').toFixed(1),
      one.line.includes('python') ? '' : medianOf(one, 'rss').toFixed(0),
      `\`${one.line}\``,
    ]),
  ]),
  '',
  ...table([
    ['ratio', 'measured', 'bound'],
    ...bounds.map(([name, value, bound]) => [name, value.toFixed(2), bound]),
  ]),
]);
