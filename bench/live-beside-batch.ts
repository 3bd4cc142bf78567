/**
 * Live calls beside batches: the experiment of llm-d's batch gateway (llm-d-batch-gateway#491: 512 tokens in, 128 out; 90 s
 * of a burst, 90 s with one call a second, beside three batches of 1,000 lines) in virtual time, the same numbers on every
 * machine; with WIRE=1 on real sockets too, `fw serve` before `fw simulate`, which takes twelve minutes.
 *
 *   make bench-live-beside-batch
 */
import { type Phase, percentile, runExperiment, type Seen, type Size } from './live/run.ts';
import { wireRun } from './live/wire.ts';
import { type Figure, table, writeFigures } from './page.ts';

const SECONDS = Number(process.env.SECONDS ?? 90);
const LINES = Number(process.env.LINES ?? 1_000);
const CHAT: Size = { prompt: 512, output: 128 };
const SHORT: Size = { prompt: 60, output: 128 };
const LONG: Size = { prompt: 8_000, output: 128 };
/** seconds in which each batch has to be done, from when it is posted */
const WINDOW = 600;

interface Case {
  name: string;
  preset: string;
  /** live calls a second in the burst */
  rate: number;
  live: readonly Size[];
  line: Size;
}

const CASES: readonly Case[] = [
  { name: '8B, H100, 15/s', preset: '8b-h100', rate: 15, live: [CHAT], line: CHAT },
  { name: '8B, A100-80G, 8/s', preset: '8b-a100-80g', rate: 8, live: [CHAT], line: CHAT },
  {
    name: '8B, A100-80G, short live calls, 15/s',
    preset: '8b-a100-80g',
    rate: 15,
    live: [SHORT],
    line: CHAT,
  },
  {
    name: '8B, H100, one live call in ten of 8,000 tokens',
    preset: '8b-h100',
    rate: 8,
    live: [...Array<Size>(9).fill(CHAT), LONG],
    line: CHAT,
  },
];

const rows = [
  [
    'server',
    'scheduling',
    'alone',
    'beside',
    'P95 by alone',
    'in the burst',
    'in the quiet',
    'lines/s, of what is left',
    'last batch done',
  ],
];
const figures: Figure[] = [];
const three = (seen: readonly number[]): string =>
  [0.5, 0.95, 0.99].map(share => percentile(seen, share).toFixed(0)).join(' · ');
const of = ({ ttfts }: Seen, ...names: string[]): number[] => names.flatMap(name => ttfts.get(name) ?? []);
const byAlone = (seen: Seen, ...names: string[]): number =>
  percentile(of(seen, ...names.map(name => `beside ${name}`)), 0.95) /
  percentile(of(seen, ...names.map(name => `alone ${name}`)), 0.95);

/** Lines a second of a batch alone, of which live calls take their part: each as much as a line of its size. */
async function capacity({ preset, line }: Case): Promise<number> {
  const phases: Phase[] = [{ name: 'x', rate: 0, seconds: 1, sizes: [line] }];
  const { batches } = await runExperiment({ preset, phases, batches: [{ lines: 2 * LINES, size: line }] });
  return (2 * LINES) / (batches[0]?.done ?? Number.NaN);
}

for (const one of CASES) {
  const most = await capacity(one);
  const phases = ['alone', 'beside'].flatMap((name): Phase[] => [
    { name: `${name} burst`, rate: one.rate, seconds: SECONDS, sizes: one.live },
    { name: `${name} quiet`, rate: 1, seconds: SECONDS, sizes: one.live },
  ]);
  const work = ({ prompt, output }: Size): number => prompt + output;
  const each = one.live.reduce((sum, size) => sum + work(size), 0) / one.live.length / work(one.line);
  for (const byPriority of [false, true]) {
    const batches = [1, 2, 3].map(() => ({ lines: LINES, size: one.line, at: 2 * SECONDS }));
    const seen = await runExperiment({ preset: one.preset, phases, batches, byPriority });
    const [, , burst = 0] = seen.lines;
    const last = Math.max(...seen.batches.map(({ done }) => done)) - 2 * SECONDS;
    const inQuiet = (3 * LINES - burst) / Math.max(1, last - SECONDS);
    const share = (lines: number, rate: number): string => {
      const left = Math.max(0, most - rate * each);
      return `${lines.toFixed(1)} (${((100 * lines) / left).toFixed(0)} %)`;
    };
    const failed = seen.batches.reduce((sum, batch) => sum + batch.failed, 0);
    const ratio = byAlone(seen, 'burst', 'quiet');
    rows.push([
      one.name,
      byPriority ? 'priority' : 'fcfs',
      three(of(seen, 'alone burst', 'alone quiet')),
      three(of(seen, 'beside burst', 'beside quiet')),
      ratio.toFixed(2),
      byAlone(seen, 'burst').toFixed(2),
      byAlone(seen, 'quiet').toFixed(2),
      `${share(burst / SECONDS, one.rate)}, then ${last > SECONDS ? share(inQuiet, 1) : 'none'}`,
      `${last.toFixed(0)} s of ${WINDOW}${failed > 0 ? `, ${failed} failed` : ''}`,
    ]);
    console.error(rows.at(-1)?.join(' | '));
    if (one === CASES[0])
      figures.push([
        `live calls beside three batches (${byPriority ? 'priority' : 'fcfs'} at the server): TTFT P95 by that alone`,
        `${ratio.toFixed(2)}; all lines in ${last.toFixed(0)} s`,
        '≤ 1.3',
      ]);
  }
}

/** What a later first token buys: by an objective in ms; null is the one of its own, 1.3 times what live calls have alone. */
const AIMS = [null, 50, 60, 80, 120];
const [first] = CASES as [Case];
const aims = [['objective', 'TTFT P95', 'by alone', 'lines/s in the burst, of what is left']];
const firstMost = await capacity(first);
for (const liveTtft of AIMS) {
  const phases = ['alone', 'beside'].map(
    (name): Phase => ({ name, rate: first.rate, seconds: SECONDS, sizes: first.live }),
  );
  const batches = [1, 2, 3].map(() => ({ lines: LINES, size: first.line, at: SECONDS }));
  const seen = await runExperiment({ preset: first.preset, phases, batches, pool: { liveTtft } });
  const [alone, beside] = ['alone', 'beside'].map(name => percentile(of(seen, name), 0.95)) as [
    number,
    number,
  ];
  const perSecond = (seen.lines[1] ?? 0) / SECONDS;
  aims.push([
    liveTtft === null ? '1.3 × alone' : `${liveTtft} ms`,
    `${beside.toFixed(0)} ms`,
    (beside / alone).toFixed(2),
    `${perSecond.toFixed(1)} (${((100 * perSecond) / (firstMost - first.rate)).toFixed(0)} %)`,
  ]);
}

const wire = process.env.WIRE === '1' ? await wireRun() : [];
writeFigures('live-beside-batch', figures, [
  '## Live calls beside batches, in virtual time',
  '',
  `Callers that come by chance, ${SECONDS} s in a burst and ${SECONDS} s at 1/s, first alone and then beside three batches of ${LINES.toLocaleString('en')} lines`,
  'of 512 tokens in and 128 out. TTFT in ms: P50 · P95 · P99. What is left to batches is their own lines/s less the part of live calls.',
  '',
  ...table(rows),
  '',
  `${first.name}, in the burst, by the objective (\`interactive_ttft\`) that is set:`,
  '',
  ...table(aims),
  ...wire,
]);
