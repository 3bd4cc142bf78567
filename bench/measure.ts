/**
 * Whole processes against each other: in turn, round after round, on the same machine. A ratio is taken inside a round,
 * since a machine that others use is faster in one minute than in the next; a figure is the median over the rounds.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export interface Contestant {
  name: string;
  /** a line for bash; exit codes 0 and 1 are fine, since faulty lines are part of the work */
  line: string;
}

/** Seconds of CPU (user and system, of the process and all it started), seconds of wall time, MiB of the largest node. */
export interface Cost {
  cpu: number;
  wall: number;
  rss: number;
}

export interface Measured extends Contestant {
  costs: Cost[];
}

/** Runs the contestants in turn, `rounds` times. `env` is for the lines. Throws where one of them fails. */
export function measure(
  contestants: readonly Contestant[],
  { rounds, env = {} }: { rounds: number; env?: Record<string, string> },
): Measured[] {
  const measured = contestants.map(contestant => ({ ...contestant, costs: [] as Cost[] }));
  for (let round = 1; round <= rounds; round++) {
    for (const { name, line, costs } of measured) {
      const cost = runOnce(line, env);
      costs.push(cost);
      console.error(`round ${round}: ${name}: ${cost.cpu.toFixed(2)} s CPU, ${cost.wall.toFixed(2)} s`);
    }
  }
  return measured;
}

/** Tells the peak of every node process that ends, a line each: what the system counted for it, in KiB. */
const TELL_PEAK =
  "process.on('exit', () => require('node:fs').appendFileSync(process.env.PEAKS, process.resourceUsage().maxRSS + '\\n'));";

function runOnce(line: string, env: Record<string, string>): Cost {
  const folder = mkdtempSync(join(tmpdir(), 'fw-bench-'));
  const peaks = join(folder, 'peaks');
  const tell = join(folder, 'tell.cjs');
  writeFileSync(peaks, '');
  writeFileSync(tell, TELL_PEAK);
  // the shell's `time` is of all processes of the line, those in the middle of a pipe included
  const script = `TIMEFORMAT='%U %S %R'; time { ${line}; } 2> /dev/null`;
  const { status, stderr, error } = spawnSync('bash', ['-o', 'pipefail', '-c', script], {
    env: { ...process.env, ...env, PEAKS: peaks, NODE_OPTIONS: `--require ${tell}`, LC_ALL: 'C' },
    stdio: ['ignore', 'ignore', 'pipe'],
    encoding: 'utf8',
  });
  const largest = Math.max(0, ...readFileSync(peaks, 'utf8').split('\n').filter(Boolean).map(Number));
  rmSync(folder, { recursive: true });
  if (error) throw error;
  const [user, system, wall] = stderr.trim().split(' ').map(Number);
  if ((status !== 0 && status !== 1) || wall === undefined) {
    throw new Error(`expected exit code 0 or 1, found ${status}: ${line}`);
  }
  return { cpu: (user ?? 0) + (system ?? 0), wall, rss: largest / 1024 };
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  const upper = sorted[middle] as number;
  return sorted.length % 2 === 1 ? upper : (upper + (sorted[middle - 1] as number)) / 2;
}

export const medianOf = ({ costs }: Measured, what: keyof Cost): number =>
  median(costs.map(cost => cost[what]));

/** The median over the rounds of one's cost by the other's in the same round. */
export function ratio(one: Measured, other: Measured, what: keyof Cost): number {
  return median(one.costs.map((cost, round) => cost[what] / (other.costs[round] as Cost)[what]));
}
