/** What a run of fw uses while it goes on, from /proc and its own metrics, and what a line through such samples says. */
import { readdirSync, readFileSync } from 'node:fs';

export interface Sample {
  /** minutes since the beginning */
  at: number;
  /** MiB */
  rss: number;
  descriptors: number;
  /** calls at servers */
  inFlight: number;
}

/** `metrics` is the URL of --metrics. Null where the process is gone. */
export async function sampleOf(pid: number, metrics: string, at: number): Promise<Sample | null> {
  try {
    const page = await (await fetch(metrics)).text();
    const status = readFileSync(`/proc/${pid}/status`, 'utf8');
    const rss = Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1]) / 1024;
    const places = [...page.matchAll(/^fw_calls_in_flight\{.*\} (\d+)$/gm)];
    const inFlight = places.reduce((sum, [, calls]) => sum + Number(calls), 0);
    return { at, rss, descriptors: readdirSync(`/proc/${pid}/fd`).length, inFlight };
  } catch {
    return null;
  }
}

/** Seconds of CPU, user and system; fields 14 and 15 of proc(5) stat, in ticks of which Linux has 100 a second. */
export function cpuOf(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  const [user, system] = stat
    .slice(stat.lastIndexOf(')') + 2)
    .split(' ')
    .slice(11, 13)
    .map(Number);
  return ((user ?? 0) + (system ?? 0)) / 100;
}

/** The line through the points by least squares: its slope, and the mean of y, through which it goes in the middle. */
export function lineThrough(points: readonly (readonly [x: number, y: number])[]): {
  slope: number;
  mean: number;
} {
  const mean = (of: (point: readonly [number, number]) => number): number =>
    points.reduce((sum, point) => sum + of(point), 0) / points.length;
  const [x, y] = [mean(point => point[0]), mean(point => point[1])];
  const [above, below] = [mean(point => (point[0] - x) * (point[1] - y)), mean(point => (point[0] - x) ** 2)];
  return { slope: below === 0 ? 0 : above / below, mean: y };
}
