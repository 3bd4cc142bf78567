/**
 * make soak: a run as users have it, for half an hour: `fw chain` with a ledger, against three simulated servers that fail in
 * every way they know. Its memory and its descriptors must not grow, and at its end the account of fw, the items that
 * came out, the ledger and the counts of the servers must agree. Exit 1 where one of the bounds does not hold.
 *
 *   make soak                        30 minutes, 2,000 items in flight; the ledger takes 5 GB of the temporary folder
 *   make soak MINUTES=3 IN_FLIGHT=500
 */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { filesOf } from '../engine/asking/ledger/scan-files.ts';
import { type Figure, machine, table, writeFigures } from './page.ts';
import { balanceOf } from './soak/balance.ts';
import { collect } from './soak/collect.ts';
import { cpuOf, lineThrough, type Sample, sampleOf } from './soak/samples.ts';
import { startServers } from './soak/servers.ts';

const MINUTES = Number(process.env.MINUTES ?? 30);
const IN_FLIGHT = Number(process.env.IN_FLIGHT ?? 2_000);
const LATENCY = '1s-3s';
const SAMPLE_EVERY = 5_000;
const TELL_EVERY = 12;
/** Minutes that are not measured: machine code is made in them, and the heap finds its size. */
const WARM_UP = Math.min(10, MINUTES / 3);
/** Share of the memory that a line through the samples may rise by over the minutes that are measured. */
const MOST_GROWTH = 0.1;
/** Descriptors that are no calls in flight (connections that are kept for the next call, files): rise as a share of the items in flight. */
const MOST_IDLE = 0.05;

const DATA = mkdtempSync(join(tmpdir(), 'fw-soak-'));
process.on('exit', () => rmSync(DATA, { recursive: true, force: true }));
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1));
const say = (message: string): void => console.error(`soak: ${message}`);
const commas = (value: number): string => Math.round(value).toLocaleString('en-US');

const servers = await startServers(DATA, LATENCY);
const ledger = join(DATA, 'ledger');
const flags = ['--in-flight', String(IN_FLIGHT), '--ledger', ledger, '--metrics', '0'];
const fw = spawn(
  process.execPath,
  ['dist/bin/fw.js', 'chain', ...flags, ...servers.flatMap(({ url }) => ['--endpoint', url])],
  { stdio: 'pipe', env: { ...process.env, FW_LEDGER: '', FW_ENDPOINTS: '' } },
);
process.on('exit', () => fw.kill('SIGKILL'));
const pid = fw.pid as number;
const begun = performance.now();
const minutes = (): number => (performance.now() - begun) / 60_000;
const ended = once(fw, 'close') as Promise<[number | null, string | null]>;
const collected = collect(fw.stdout);

let said = '';
const metrics = new Promise<string>(resolve => {
  fw.stderr.on('data', chunk => {
    said = (said + chunk).slice(-100_000);
    const [url] = /http:\/\/\S+\/metrics/.exec(said) ?? [];
    if (url) resolve(url);
  });
});

const samples: Sample[] = [];
let cpu = 0;
const sampling = setInterval(async () => {
  const sample = await sampleOf(pid, await metrics, minutes());
  if (sample === null) return;
  cpu = cpuOf(pid);
  const { at, rss, descriptors, inFlight } = sample;
  if (samples.push(sample) % TELL_EVERY === 0)
    say(
      `${at.toFixed(1)} min: ${commas(rss)} MiB, ${commas(descriptors)} descriptors, ${commas(inFlight)} calls in flight, ${commas(collected.items)} items`,
    );
}, SAMPLE_EVERY);

const text = 'A loan is asked for. '.repeat(38);
let fed = 0;
await new Promise<void>(resolve => {
  let over = false;
  const end = (): void => {
    over = true;
    resolve();
  };
  const feed = (): void => {
    for (let goesOn = true; goesOn && !over; ) {
      const id = `soak-${fed++}`;
      const item = { id, row: fed, prompt: `Application ${id}. ${text}` };
      goesOn = fw.stdin.write(`${JSON.stringify(item)}\n`);
    }
  };
  fw.stdin.on('drain', feed);
  fw.stdin.on('error', end); // fw has ended, which is judged below
  setTimeout(end, MINUTES * 60_000);
  feed();
});
fw.stdin.end();
const stopped = minutes();
const [code, signal] = await ended;
const took = minutes();
clearInterval(sampling);
say(`ended with ${code ?? signal} after ${took.toFixed(1)} min; the ledger is read`);

const measured = samples.filter(({ at }) => at >= WARM_UP && at <= stopped);
if (measured.length < 3) {
  say(`expected samples of a run of ${MINUTES} minutes, found ${measured.length}; it said:\n${said}`);
  process.exit(1);
}
const cost = spawnSync(process.execPath, ['dist/bin/fw.js', 'ledger', 'cost', '--ledger', ledger, '--json']);
const { items, failed, calls, bounds } = balanceOf({
  fed,
  said,
  collected,
  cost: JSON.parse(cost.stdout.toString()),
  servers: await Promise.all(servers.map(server => server.counted())),
});

const [first, last] = [measured[0], measured.at(-1)] as [Sample, Sample];
const span = last.at - first.at;
const memory = lineThrough(measured.map(({ at, rss }) => [at, rss]));
const growth = (memory.slope * span) / memory.mean;
const idle = ({ descriptors, inFlight }: Sample): number => descriptors - inFlight;
const more = lineThrough(measured.map(sample => [sample.at, idle(sample)])).slope * span;
const most = (of: (sample: Sample) => number): string => commas(Math.max(...measured.map(of)));
const mean = (of: (sample: Sample) => number): string =>
  commas(measured.reduce((sum, one) => sum + of(one), 0) / measured.length);
const spread = (of: (sample: Sample) => number): string => `${mean(of)} on average, ${most(of)} at most`;
const percent = (share: number): string => `${(100 * share).toFixed(1)} %`;

bounds.unshift(
  {
    what: 'exit code',
    found: String(code ?? signal),
    bound: '0, or 1 where items failed',
    holds: code === (failed > 0 ? 1 : 0),
  },
  {
    what: 'memory growth, by a line through the samples',
    found: `${memory.slope.toFixed(2)} MiB a minute, ${percent(growth)} in ${span.toFixed(1)} minutes`,
    bound: `≤ ${percent(MOST_GROWTH)} more`,
    holds: growth <= MOST_GROWTH,
  },
  {
    what: 'descriptors that are no call in flight',
    found: `${commas(idle(first))} first, ${commas(idle(last))} last, ${most(idle)} at most; ${commas(more)} more by the line through them`,
    bound: `≤ ${commas(MOST_IDLE * IN_FLIGHT)} more`,
    holds: more <= MOST_IDLE * IN_FLIGHT,
  },
);
const figureOf = (what: string): Figure => {
  const { found = '', bound } = bounds.find(one => one.what === what) ?? {};
  return [`soak: ${what}`, found, bound];
};
const held = bounds.filter(({ holds }) => holds).length;
writeFigures(
  'soak',
  [
    [`soak: ${MINUTES} minutes with faults, bounds that hold`, `${held} of ${bounds.length}`, 'all'],
    ['soak: calls', `${commas(calls)}, ${commas((cpu / calls) * 1e6)} µs of CPU per call`],
    ['soak: peak memory', `${most(({ rss }) => rss)} MiB`],
    ...[
      'memory growth, by a line through the samples',
      'items lost, items duplicated',
      'requests ÷ answered calls',
    ].map(figureOf),
  ],
  [
    '## A long run with faults',
    '',
    `\`make soak MINUTES=${MINUTES} IN_FLIGHT=${IN_FLIGHT}\`: \`fw chain --ledger\` over items without end, stopped after ${MINUTES} minutes, against three \`fw simulate --latency ${LATENCY}\` that answer 429, 500 and 503, say nothing, break off, slow down, die and come back, all of it every two minutes (\`bench/soak/servers.ts\`). The first ${WARM_UP.toFixed(0)} minutes are not measured.`,
    machine(),
    '',
    ...table([
      ['', ''],
      ['items', `${commas(items)}, of which ${commas(failed)} failed`],
      ['calls', `${commas(calls)}, ${commas(calls / (took * 60))} a second`],
      ['calls at servers', spread(({ inFlight }) => inFlight)],
      ['memory (RSS), MiB', spread(({ rss }) => rss)],
      ['descriptors', spread(({ descriptors }) => descriptors)],
      ['CPU', `${percent(cpu / (60 * took))} of a core, ${commas((cpu / calls) * 1e6)} µs a call`],
      ['ledger', `${(sizeOf(ledger) / 1e9).toFixed(1)} GB`],
    ]),
    '',
    ...table([
      ['', 'found', 'bound'],
      ...bounds.map(({ what, found, bound, holds }) => [what, holds ? found : `**${found}**`, bound]),
    ]),
  ],
);
const broken = bounds.filter(({ holds }) => !holds);
for (const { what, found, bound } of broken) say(`${what}: expected ${bound}, found ${found}`);
if (broken.length === 0) say(`all ${bounds.length} bounds hold; docs/performance.md has the figures`);
process.exit(broken.length === 0 ? 0 : 1);

function sizeOf(folder: string): number {
  return filesOf(folder).reduce((sum, path) => sum + statSync(path).size, 0);
}
