/** A sweep: loads that follow from what the first two found; and whether a server falls behind its load. */
import type { Figures } from './bench-figures.ts';
import type { Driven, Extent, Load } from './drive-load.ts';

/** What a sweep has to know of a run. */
interface Measured {
  figures: Pick<Figures, 'requestThroughput' | 'steady'>;
  driven: Pick<Driven, 'samples'>;
}

/** guidellm's bound of a throughput run. */
const MOST_AT_ONCE = 512;
const RATES = 6;
/** Of one round all begin and end at once, which is not what a full server does. */
const ROUNDS = 4;

/**
 * One request at a time, then as many as a server takes: between the two throughputs that they give, rates in equal ratios,
 * since what is of interest lies near the second. Ends behind the first rate at which the server falls behind.
 */
export async function sweep(
  { burstiness, seed, extent }: { burstiness: number; seed: number; extent: Extent },
  measure: (load: Load, extent: Extent) => Promise<Measured | null>,
): Promise<void> {
  const alone = await measure({ kind: 'closed', concurrency: 1 }, extent);
  const concurrency = Math.min(MOST_AT_ONCE, extent.requests ?? MOST_AT_ONCE);
  const requests = extent.requests && Math.max(extent.requests, ROUNDS * concurrency);
  const full = await measure({ kind: 'closed', concurrency }, { ...extent, requests });
  const least = alone?.figures.requestThroughput ?? 0;
  const most = full?.figures.steady?.requestThroughput ?? full?.figures.requestThroughput ?? 0;
  if (!(least > 0 && most > least)) return;
  for (let step = 1; step <= RATES; step++) {
    const rate = Number((least * (most / least) ** (step / RATES)).toPrecision(3));
    const run = await measure({ kind: 'open', rate, burstiness, seed }, extent);
    if (run === null || fallsBehind(run)) return;
  }
}

/**
 * Whether requests wait longer and longer: TTFT grows with the time at which a request was sent, surely (t > 3 of the
 * regression) and by half of its mean over the run. A server that keeps up has a queue that comes and goes.
 */
export function fallsBehind({ driven: { samples } }: Pick<Measured, 'driven'>): boolean {
  const x = samples.of('sent');
  const y = samples.of('ttft');
  const n = x.length;
  if (n < 20) return false;
  const middle = (list: Float64Array): number => list.reduce((sum, value) => sum + value, 0) / n;
  const [mx, my] = [middle(x), middle(y)];
  let [xx, xy, yy] = [0, 0, 0];
  for (let i = 0; i < n; i++) {
    const [dx, dy] = [(x[i] as number) - mx, (y[i] as number) - my];
    xx += dx * dx;
    xy += dx * dy;
    yy += dy * dy;
  }
  if (!(xx > 0)) return false;
  const slope = xy / xx;
  const error = Math.sqrt(Math.max(0, yy - slope * xy) / (n - 2) / xx);
  const span = x.reduce((a, b) => Math.max(a, b)) - x.reduce((a, b) => Math.min(a, b));
  return slope > 3 * error && slope * span > 0.5 * my;
}
