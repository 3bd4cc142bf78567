/**
 * make bench-ledger: what the ledger adds to a call, how fast answers are replayed, how long a finished batch takes once
 * more, and the memory of a run that has a million calls on record. The calls go to the mock server of the folder RIG;
 * without one what needs it is left out, and said. A few GB lie in the system's temporary folder meanwhile.
 */
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Ledger, openLedger } from '../engine/asking/ledger/ledger.ts';
import { isAnswer, keyIn } from '../engine/asking/ledger/ledger-format.ts';
import { filesOf, scan } from '../engine/asking/ledger/scan-files.ts';
import { createPool } from '../engine/asking/pool/pool.ts';
import type { Call } from '../engine/core/item/call.ts';
import { type Measured, measure, median, medianOf, ratio } from './measure.ts';
import { startMock } from './mock.ts';
import { type Figure, machine, table, writeFigures } from './page.ts';

const ROUNDS = 5;
const RECORDS = Number(process.env.RECORDS ?? 10_000);
const CALLS = 4 * RECORDS;
const IN_FLIGHT = 2_000;
const DELAY = 200;
const RECORDED = Number(process.env.RECORDED ?? 1_000_000);
const RIG = process.env.RIG ?? '';
const DATA = mkdtempSync(join(tmpdir(), 'fw-bench-ledger-'));
process.on('exit', () => rmSync(DATA, { recursive: true, force: true }));
const FW = 'node dist/bin/fw.js';
const env = { DATA, FW_LEDGER: '', FW_ENDPOINTS: '' };
const say = (message: string): void => console.error(`bench-ledger: ${message}`);
const withCommas = (value: number): string => value.toLocaleString('en-US');

const ASKED: Call = {
  path: '/chat/completions',
  model: 'm',
  body: Buffer.alloc(0),
  head: '',
  tail: '',
  key: '',
  item: 'a',
  agent: 'a',
  round: 0,
  attempt: 1,
};
const rows: [what: string, measured: string, bound: string][] = [];
const details: string[][] = [['', 'CPU µs by call', 'wall s', 'peak MiB', 'command']];
const noted = (one: Measured, calls: number): void => {
  const perCall = (medianOf(one, 'cpu') / calls) * 1e6;
  const wall = medianOf(one, 'wall').toFixed(1);
  details.push([one.name, perCall.toFixed(0), wall, medianOf(one, 'rss').toFixed(0), `\`${one.line}\``]);
};

if (existsSync(join(RIG, 'mockd'))) await besideCalls();
else say('left out: RIG names no folder with mockd: the cost of a call, and the memory of a million');
await finishedBatch();

writeFigures(
  'ledger',
  rows.map(([what, found, bound]): Figure => [`ledger: ${what}`, found, bound]),
  [
    '## The ledger',
    '',
    `${withCommas(RECORDS)} chains of four calls, ${withCommas(IN_FLIGHT)} in flight, every answer after ${DELAY} ms; a batch of 5,760 applications with five calls each, answered by \`fw simulate\`; whole processes with their start, in turn; medians of ${ROUNDS}. ${machine()}`,
    '',
    ...table([['', 'measured', 'bound'], ...rows]),
    '',
    ...table(details),
  ],
);

/** The same chains with and without a ledger, and with one that has a million other calls on record. */
async function besideCalls(): Promise<void> {
  const mock = await startMock(RIG, DELAY);
  const items = Array.from({ length: RECORDS }, (_, row) =>
    JSON.stringify({
      id: `row-${row}`,
      row: row + 1,
      prompt: `Application ${row}. ${'A loan is asked for. '.repeat(38)}`,
    }),
  );
  writeFileSync(join(DATA, 'items.ndjson'), `${items.join('\n')}\n`);
  const pool = `endpoints: [{ url: 'http://127.0.0.1:${mock.port}/v1', limit: ${IN_FLIGHT} }]\n`;
  writeFileSync(join(DATA, 'pool.yaml'), pool);
  await fill(join(DATA, 'million'), RECORDED);
  const chain = `${FW} chain --no-decision --in-flight ${IN_FLIGHT} --pool $DATA/pool.yaml $DATA/items.ndjson > /dev/null`;
  const to = (ledger: string): string => chain.replace('> /dev/null', `--ledger ${ledger} > /dev/null`);
  const [off, on, million] = measure(
    [
      { name: 'no ledger', line: chain },
      { name: 'a ledger', line: to('$(mktemp -d -p $DATA)') },
      {
        name: `a ledger with ${withCommas(RECORDED)} calls`,
        // linked, for the run leaves a file of its own
        line: `cp -al $DATA/million $DATA/copy && ${to('$DATA/copy')}; rm -r $DATA/copy`,
      },
    ],
    { rounds: ROUNDS, env },
  ) as [Measured, Measured, Measured];
  mock.process.kill();
  for (const one of [off, on, million]) noted(one, CALLS);
  const added = median(million.costs.map(({ rss }, round) => rss - (off.costs[round]?.rss ?? Number.NaN)));
  rows.push(['CPU of a call, with a ledger ÷ without', ratio(on, off, 'cpu').toFixed(2), '≤ 1.2']);
  rows.push([`MiB added by ${withCommas(RECORDED)} calls on record`, added.toFixed(0), '≤ 250']);
}

function opened(path: string): Ledger {
  return openLedger({
    path,
    fsync: 'never',
    version: 'bench',
    label: 'bench',
    files: [],
    asksWith: { stage: 'bench', agents: {}, options: {} },
    shard: undefined,
    warn: () => {},
    onBroken: error => {
      throw error;
    },
  });
}

function keyOf(n: number): string {
  return createHash('sha256').update(String(n)).digest('hex').slice(0, 32);
}

/** A ledger of so many calls that nobody asks, of a KiB each, in files of 100,000. */
async function fill(path: string, calls: number): Promise<void> {
  say(`writing a ledger of ${withCommas(calls)} calls`);
  const answer = JSON.stringify({ reasoning: 'A short answer. '.repeat(20) });
  for (let n = 0; n < calls; ) {
    const ledger = opened(path);
    ledger.begin({ model: 'm' }, []);
    for (const end = Math.min(calls, n + 100_000); n < end; n++) {
      const key = keyOf(n);
      const body = Buffer.from(`{"messages":[{"role":"user","content":"${key} ${'why '.repeat(60)}"}]}`);
      ledger.append({
        ...{ key, outcome: 'answer', time: 0, endpoint: 'http://gpu1:8005/v1', model: 'm', item: `row-${n}` },
        ...{
          agent: 'a',
          round: 0,
          attempt: 1,
          ms: 1,
          path: '/chat/completions',
          body,
          head: '{"messages":[',
          tail: '}',
        },
        ...{ answer, finish: 'stop', usage: { prompt: 500, completion: 100 } },
      });
      ledger.judge(key, 'clean');
      // what is written leaves memory between two turns
      if (n % 1_000 === 0) await new Promise(setImmediate);
    }
    await ledger.close();
  }
}

/** A batch that is finished: once more as a user would, and its calls alone. */
async function finishedBatch(): Promise<void> {
  say('asking a batch of 28,800 calls');
  const server = spawn(process.execPath, ['dist/bin/fw.js', 'simulate', '--port', '0', '--latency', '0ms'], {
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const line = await new Promise<string>(resolve =>
    server.stdout.once('data', bytes => resolve(String(bytes))),
  );
  const batch = `${FW} run pipelines/fairwatch/batch.yaml $DATA/prompts.csv --ledger $DATA/ledger --set legacy-convert.failures=$DATA/failed.ndjson --output $DATA/out.jsonl`;
  const { url } = JSON.parse(line) as { url: string };
  measure(
    [
      {
        name: 'the batch',
        line: `node dist/fixtures/applications.js > $DATA/prompts.csv && ${batch} --endpoint ${url}`,
      },
    ],
    { rounds: 1, env },
  );
  server.kill();
  const ledger = join(DATA, 'ledger');
  const files = filesOf(ledger);
  const [again] = measure([{ name: 'a finished batch', line: batch }], { rounds: ROUNDS, env }) as [Measured];
  if (filesOf(ledger).length > files.length) throw new Error('expected a finished batch to ask nothing');
  const keys = files.flatMap(answeredIn);
  noted(again, keys.length);
  const seconds = `${medianOf(again, 'wall').toFixed(1)} (CPU ${medianOf(again, 'cpu').toFixed(1)})`;
  rows.push([`seconds to run a finished batch of ${withCommas(keys.length)} calls again`, seconds, '≤ 4']);
  rows.push([
    'calls replayed per second and core',
    withCommas(Math.round(await replayed(ledger, keys))),
    '≥ 50,000',
  ]);
  const bytes = files.reduce((sum, path) => sum + statSync(path).size, 0);
  rows.push(['bytes on disk per call', withCommas(Math.round(bytes / keys.length)), '']);
}

function answeredIn(path: string): string[] {
  const keys: string[] = [];
  for (const found of scan(path)) {
    if (found.kind === 'line' && isAnswer(found.bytes)) keys.push(keyIn(found.bytes));
  }
  return keys;
}

/** Calls a second of CPU that a pool answers from the ledger, its opening included; the median of ROUNDS. */
async function replayed(path: string, keys: readonly string[]): Promise<number> {
  const rates: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const before = process.cpuUsage();
    const ledger = opened(path);
    const pool = await createPool({ endpoints: [], retryBudget: 0, ledger, warn: () => {} });
    for (const key of keys) {
      const { replayed: isReplayed } = await pool.call({ ...ASKED, key });
      if (!isReplayed) throw new Error('expected every call on record');
    }
    await pool.close();
    const { user, system } = process.cpuUsage(before);
    rates.push((keys.length / (user + system)) * 1e6);
  }
  return median(rates);
}
