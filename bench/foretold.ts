/**
 * Does `fw plan` foretell what `fw bench` measures? Seven loads on `fw simulate` with the same preset and the same arrivals: the
 * figures in virtual time over those on real sockets. Three processes share the cores, so the machine is to be quiet.
 * Prompts are words that fw bench makes up for a number of tokens: the plan has as many as the server counted in the mean.
 *
 *   make bench-foretold
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { start } from './live/wire.ts';
import { type Figure, machine, table, writeFigures } from './page.ts';

const SEED = '7';
const LOADS: readonly [name: string, server: string, load: string][] = [
  ['one at a time', '3b-h100', '--concurrency 1 --requests 40 --input-tokens 400 --output-tokens 128'],
  ['16 at a time', '8b-h100', '--concurrency 16 --requests 640 --input-tokens 400 --output-tokens 128'],
  [
    '64 at a time, long prompts',
    '8b-h100',
    '--concurrency 64 --requests 640 --input-tokens 1500 --output-tokens 64',
  ],
  ['4 a second', '8b-a100-80g', '--rate 4 --requests 240 --input-tokens 600 --output-tokens 200'],
  ['12 a second', '8b-h100', '--rate 12 --requests 720 --input-tokens 512 --output-tokens 128'],
  [
    '32 at a time, a shared beginning',
    '3b-a100-80g',
    '--concurrency 32 --requests 640 --input-tokens 640 --prefix-tokens 512 --output-tokens 64',
  ],
  [
    '16 at a time, 3 drafted tokens',
    '8b-a6000 --speculative-tokens 3 --acceptance-rate 0.6 --draft-ms 1',
    '--concurrency 16 --requests 320 --input-tokens 400 --output-tokens 128',
  ],
];
const TIMES = ['ttft', 'tpot', 'itl', 'e2el'] as const;
const OF = ['mean', 'median', 'p99'] as const;

type Figures = Record<string, number>;

async function measured(preset: string[], load: string[], folder: string): Promise<Figures> {
  const server = await start('simulate', '--preset', ...preset, '--port', '0');
  try {
    const out = join(folder, 'bench.json');
    run('bench', '--endpoint', server.url, ...load, '--seed', SEED, '--json', out);
    return JSON.parse(readFileSync(out, 'utf8')) as Figures;
  } finally {
    await server.stop();
  }
}

function foretold(preset: string[], load: string[], tokens: number): Figures {
  const asked = load.map((word, at) => (load[at - 1] === '--input-tokens' ? String(tokens) : word));
  const said = run('plan', '--preset', ...preset, ...asked, '--seed', SEED, '--json');
  return (JSON.parse(said) as Figures[])[0] as Figures;
}

/** What a command of fw says. */
function run(...args: string[]): string {
  const { status, stdout, stderr } = spawnSync(process.execPath, ['dist/bin/fw.js', ...args], {
    encoding: 'utf8',
  });
  if (status !== 0) throw new Error(`fw ${args[0]} ended with ${status}: ${stderr}`);
  return stdout;
}

const folder = mkdtempSync(join(tmpdir(), 'fw-foretold-'));
process.on('exit', () => rmSync(folder, { recursive: true, force: true }));
const rows: string[][] = [['load', 'figure', 'fw bench', 'fw plan', 'plan ÷ bench: mean', 'P50', 'P99']];
/** share by which a mean is off, at most: of the tokens of an answer; and of the first, in ms that sockets take longer */
const off = { tokens: 0, middle: 0, last: 0 };
const later: number[] = [];
for (const [name, server, words] of LOADS) {
  const [preset, load] = [server.split(' '), words.split(' ')];
  const real = await measured(preset, load, folder);
  const { total_input_tokens: tokens = 0, completed = 1 } = real;
  const virtual = foretold(preset, load, Math.round(tokens / completed));
  for (const time of TIMES) {
    const [mean = 0, median = 0, p99 = 0] = OF.map(
      of => (virtual[`${of}_${time}_ms`] as number) / (real[`${of}_${time}_ms`] as number),
    );
    const [one, other] = [real, virtual].map(of => of[`mean_${time}_ms`] as number) as [number, number];
    if (time === 'ttft') later.push(one - other);
    else off.tokens = Math.max(off.tokens, Math.abs(mean - 1));
    if (time === 'e2el') {
      off.middle = Math.max(off.middle, Math.abs(median - 1));
      off.last = Math.max(off.last, Math.abs(p99 - 1));
    }
    const ratios = [mean, median, p99].map(ratio => ratio.toFixed(3));
    rows.push([
      `${name}, ${preset[0]}`,
      time.toUpperCase(),
      `${one.toFixed(2)} ms`,
      `${other.toFixed(2)} ms`,
      ...ratios,
    ]);
  }
  const [a, b] = [real, virtual].map(of => of.output_throughput as number) as [number, number];
  off.tokens = Math.max(off.tokens, Math.abs(b / a - 1));
  rows.push([`${name}, ${preset[0]}`, 'tokens/s', a.toFixed(1), b.toFixed(1), (b / a).toFixed(3), '', '']);
  console.error(
    rows
      .slice(-5)
      .map(row => row.join(' | '))
      .join('\n'),
  );
}
const percent = (share: number): string => `${(100 * share).toFixed(1)} %`;
const ms = (value: number): string => `${value.toFixed(1)} ms`;
const figures: Figure[] = [
  [
    'plan beside bench on sockets, seven loads: means of TPOT, ITL, E2EL and tokens/s, off by at most',
    percent(off.tokens),
    '≤ 3 %',
  ],
  ['… P50 and P99 of E2EL', `${percent(off.middle)}, ${percent(off.last)}`, '≤ 3 %, ≤ 10 %'],
  [
    '… mean TTFT on sockets less that of plan: HTTP, and two processes on the cores',
    `${ms(Math.min(...later))} to ${ms(Math.max(...later))}`,
    '≤ 3 %',
  ],
];
writeFigures('foretold', figures, [
  '## fw plan beside fw bench on fw simulate',
  '',
  ...table(rows),
  '',
  machine(),
]);
