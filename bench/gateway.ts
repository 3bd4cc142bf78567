/**
 * make bench-gateway: what the gateway of fw serve adds, with its record and its log on: beside the server asked directly, and
 * beside a bare proxy of Node, in turn, all of them processes of their own. Wall times mean something on a quiet machine
 * alone, so the load is told with them. CPU times are those of each process; the speed of a machine that others use changes by
 * two within minutes, so they are taken first, a few thousand calls of each right after the other, and what holds is the
 * ratio of such neighbours.
 *
 *   make bench-gateway            some two minutes
 *   make bench-gateway CALLS=4000 STREAMS=128
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { availableParallelism, loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { ask, quantile, stream } from './gateway/asking.ts';
import { CHUNKS, isParty, type Party, serve, start } from './gateway/parties.ts';
import { median } from './measure.ts';
import { type Figure, machine, table, writeFigures } from './page.ts';

const ROUNDS = 3;
/** neighbours whose CPU times are compared */
const PAIRS = 11;
const CALLS = Number(process.env.CALLS || 20_000);
const ALONE = Math.max(200, Math.round(CALLS / 10));
const STREAMS = Number(process.env.STREAMS || 512);
const USERS = 32;
/** ms: an ACK that is delayed (40 ms) and a sender that waits for it would show here */
const NAGLE = 35;

/** Seconds of user CPU of a process: field 14 of proc(5) stat, in ticks of which Linux has 100 a second. */
function userCpu(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[11]) / 100;
}

interface Measured {
  alone: number[];
  /** s of user CPU of a call, one of each round of neighbours */
  costs: number[];
  single: number[];
  delays: number[];
  lost: number;
}

async function cpu({ url, pid }: Party, into: Measured): Promise<void> {
  const calls = Math.round(CALLS / 4);
  const before = userCpu(pid);
  await ask(url, calls, USERS);
  into.costs.push((userCpu(pid) - before) / calls);
}

async function round({ url }: Party, into: Measured): Promise<void> {
  into.alone.push(...(await ask(url, ALONE, 1)));
  into.single.push(...(await stream(url, 1)).delays);
  const { delays, lost } = await stream(url, STREAMS);
  into.delays.push(...delays);
  into.lost += lost;
}

async function main(): Promise<void> {
  const data = mkdtempSync(join(tmpdir(), 'fw-bench-gateway-'));
  process.on('exit', () => rmSync(data, { recursive: true, force: true }));
  const self = process.argv[1] as string;
  const mock = await start('the server', [self, 'mock']);
  const proxy = await start('a bare proxy', [self, 'proxy', mock.url]);
  const quiet = ['--log-level', 'warn'];
  const parties = [
    mock,
    proxy,
    await serve('fw serve', join(data, 'a'), mock.url),
    await serve('without a line a request', join(data, 'b'), mock.url, quiet),
  ];
  const measured = parties.map((): Measured => ({ alone: [], costs: [], single: [], delays: [], lost: 0 }));
  for (const { url } of parties) await ask(url, CALLS / 4, USERS);
  const loads: number[] = [];
  for (let n = 0; n < PAIRS; n++)
    for (const [at, party] of parties.entries())
      if (party !== mock) await cpu(party, measured[at] as Measured);
  for (let n = 0; n < ROUNDS; n++)
    for (const [at, party] of parties.entries()) {
      await round(party, measured[at] as Measured);
      loads.push(loadavg()[0] as number);
    }
  report(
    measured,
    `load ${Math.min(...loads).toFixed(1)} to ${Math.max(...loads).toFixed(1)} on ${availableParallelism()} cores`,
  );
}

function report(measured: readonly Measured[], load: string): void {
  const [direct, bare, gateway, quiet] = measured as [Measured, Measured, Measured, Measured];
  const ms = (value: number): string => `${value.toFixed(2)} ms`;
  const cost = (of: Measured): number => median(of.costs);
  /** of neighbours */
  const ratios = (of: Measured, to: Measured): number[] =>
    of.costs.map((one, at) => one / (to.costs[at] as number));
  const ratio = ratios(gateway, bare);
  const added = (of: Measured, share: number): string =>
    ms(quantile(of.alone, share) - quantile(direct.alone, share));
  const chunk = (of: Measured, share: number): string =>
    ms(quantile(of.delays, share) - quantile(direct.delays, share));
  const nagled = gateway.single.filter(delay => delay >= NAGLE).length;
  const rows: Figure[] = [
    [`added at P50, one caller (${load})`, added(gateway, 0.5), '≤ 1 ms'],
    ['added at P99, one caller', added(gateway, 0.99), '≤ 0.3 ms on a quiet machine'],
    ['added at P50 and P99 by a bare proxy of Node', `${added(bare, 0.5)}, ${added(bare, 0.99)}`],
    [
      `user CPU per call ÷ that of a bare proxy, ${USERS} callers`,
      `${median(ratio).toFixed(2)} (${Math.min(...ratio).toFixed(2)} to ${Math.max(...ratio).toFixed(2)} of ${PAIRS})`,
    ],
    [`user CPU per call, ${USERS} callers`, `${(cost(gateway) * 1e6).toFixed(0)} µs`],
    ['calls per second of a core', Math.round(1 / cost(gateway)).toLocaleString('en'), '≥ 8,000'],
    ['… of which a line in the log', `${((median(ratios(gateway, quiet)) - 1) * 100).toFixed(1)} %`, '≤ 3 %'],
    ['user CPU per call of a bare proxy', `${(cost(bare) * 1e6).toFixed(0)} µs`],
    [`chunks lost, ${STREAMS} streams of ${CHUNKS}`, `${gateway.lost} of ${ROUNDS * STREAMS * CHUNKS}`, '0'],
    [`added to a chunk of ${STREAMS} streams at P50, P99`, `${chunk(gateway, 0.5)}, ${chunk(gateway, 0.99)}`],
    ['… by a bare proxy', `${chunk(bare, 0.5)}, ${chunk(bare, 0.99)}`],
    [
      `chunks of one stream that took ${NAGLE} ms or more`,
      `${nagled} of ${gateway.single.length}`,
      '0 on a quiet machine',
    ],
  ];
  const own = rows.map(([what, ...more]): Figure => [`gateway: ${what}`, ...more]);
  const shown = [['', 'measured', 'bound'], ...rows.map(([what, found, bound = '']) => [what, found, bound])];
  writeFigures('gateway', own, [
    '## The gateway of fw serve',
    '',
    ...table(shown),
    '',
    `${load}; ${machine()}`,
  ]);
}

if (!isParty()) {
  await main();
  process.exit(0);
}
