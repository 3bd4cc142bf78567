/**
 * make soak-gateway: the gateway of fw serve at full load for 20 minutes, whole answers and streams by turns, with its record
 * and its log on. Its memory and its descriptors must not grow, and each call must be answered. Exit 1 where a bound does
 * not hold. The record takes some 600 bytes a call of the temporary folder.
 *
 *   make soak-gateway MINUTES=3
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { availableParallelism, loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { ask, bodyOf, stream } from './gateway/asking.ts';
import { isParty, serve, start } from './gateway/parties.ts';
import { type Figure, machine, table, writeFigures } from './page.ts';
import { cpuOf, lineThrough } from './soak/samples.ts';

const MINUTES = Number(process.env.MINUTES || 20);
const USERS = 64;
const STREAMS = 32;
const SAMPLE_EVERY = 5_000;
/** Minutes that are not measured: machine code is made in them, and the heap finds its size. */
const WARM_UP = Math.min(5, MINUTES / 3);
/** Share of the memory that a line through the samples may rise by. */
const MOST_GROWTH = 0.1;

interface Sample {
  at: number;
  rss: number;
  descriptors: number;
}

async function main(): Promise<boolean> {
  const data = mkdtempSync(join(tmpdir(), 'fw-soak-gateway-'));
  process.on('exit', () => rmSync(data, { recursive: true, force: true }));
  const mock = await start('the server', [process.argv[1] as string, 'mock']);
  const { url, pid } = await serve('fw serve', join(data, 'serve'), mock.url);
  const begun = performance.now();
  const minutes = (): number => (performance.now() - begun) / 60_000;
  const samples: Sample[] = [];
  const sampling = setInterval(() => {
    const rss = Number(/^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024;
    samples.push({ at: minutes(), rss, descriptors: readdirSync(`/proc/${pid}/fd`).length });
    if (samples.length % 12 === 0)
      console.error(
        `soak-gateway: ${minutes().toFixed(1)} min: ${rss.toFixed(0)} MiB, ${calls} calls, ${streams} streams`,
      );
  }, SAMPLE_EVERY);
  let calls = 0;
  let streams = 0;
  let lost = 0;
  const body = bodyOf(false, 2);
  const calling = async (): Promise<void> => {
    while (minutes() < MINUTES) calls += (await ask(url, 20 * USERS, USERS, body)).length;
  };
  const streaming = async (): Promise<void> => {
    while (minutes() < MINUTES) {
      lost += (await stream(url, STREAMS)).lost;
      streams += STREAMS;
    }
  };
  await Promise.all([calling(), streaming()]);
  clearInterval(sampling);
  return report({ samples, calls, streams, lost, cpu: cpuOf(pid) });
}

function report({
  samples,
  calls,
  streams,
  lost,
  cpu,
}: {
  samples: Sample[];
  calls: number;
  streams: number;
  lost: number;
  cpu: number;
}) {
  const measured = samples.filter(({ at }) => at >= WARM_UP);
  const [first, last] = [measured[0], measured.at(-1)] as [Sample, Sample];
  const span = last.at - first.at;
  const memory = lineThrough(measured.map(({ at, rss }) => [at, rss]));
  const growth = (memory.slope * span) / memory.mean;
  const most = Math.max(...measured.map(({ rss }) => rss));
  const rows: Figure[] = [
    [
      `${MINUTES} minutes (load ${(loadavg()[2] as number).toFixed(1)} on ${availableParallelism()} cores): calls, streams`,
      `${calls.toLocaleString('en')}, ${streams.toLocaleString('en')}`,
    ],
    ['chunks lost', String(lost), '0'],
    ['CPU per call, streams among them', `${((cpu / (calls + streams)) * 1e6).toFixed(0)} µs`],
    ['memory, at most', `${most.toFixed(0)} MiB`],
    [
      'memory growth, by a line through the samples',
      `${memory.slope.toFixed(2)} MiB a minute, ${(100 * growth).toFixed(1)} % in ${span.toFixed(1)} minutes`,
      '≤ 10 % more',
    ],
    ['descriptors, first and last', `${first.descriptors}, ${last.descriptors}`],
  ];
  writeFigures(
    'soak-gateway',
    rows.map(([what, ...more]): Figure => [`gateway soak: ${what}`, ...more]),
    [
      '## The gateway at full load',
      '',
      ...table([['', 'measured', 'bound'], ...rows.map(([what, found, bound = '']) => [what, found, bound])]),
      '',
      machine(),
    ],
  );
  return growth <= MOST_GROWTH && lost === 0;
}

if (!isParty()) process.exit((await main()) ? 0 : 1);
