/**
 * The client looks at itself: a benchmark whose own process was late measures that process. What it saw, and whether the
 * figures may be believed, is said with them.
 */
import { readFileSync } from 'node:fs';
import { type EventLoopUtilization, monitorEventLoopDelay, performance } from 'node:perf_hooks';
import { percentile, sorted } from './bench-statistics.ts';

export interface ClientFacts {
  /** what was watched, ms */
  ms: number;
  /** share of the time in which the event loop was at work, 0 to 1 */
  loopUtilisation: number;
  /** cores of the processor that this process took */
  cores: number;
  /** share of the time in which it was ready and had no processor, since others had them; null where no system says it */
  waited: number | null;
  /** how late the stamp of a byte is that comes at any time of the run, ms */
  lagMean: number;
  lagP99: number;
  /** sent - due of an open loop, ms; null of a closed one, where a request is due when it can be sent */
  latenessP50: number | null;
  latenessP99: number | null;
}

export interface Watching {
  /** `lateness`: sent - due of each request, ms, of an open loop. */
  stop(lateness: ArrayLike<number> | null): ClientFacts;
}

/** The histogram counts its own interval as delay. */
const RESOLUTION_MS = 1;

export function watchClient(): Watching {
  const waitedBefore = waitedMs();
  const delay = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  delay.enable();
  const loop: EventLoopUtilization = performance.eventLoopUtilization();
  const cpu = process.cpuUsage();
  const from = performance.now();
  return {
    stop(lateness) {
      delay.disable();
      const ms = performance.now() - from;
      const { user, system } = process.cpuUsage(cpu);
      const waited = waitedMs();
      const late = lateness === null || lateness.length === 0 ? null : sorted(lateness);
      return {
        ms,
        loopUtilisation: performance.eventLoopUtilization(loop).utilization,
        cores: ms > 0 ? (user + system) / 1000 / ms : 0,
        waited: waited === null || waitedBefore === null || ms === 0 ? null : (waited - waitedBefore) / ms,
        ...lagOf(p => delay.percentile(p) / 1e6),
        latenessP50: late && percentile(late, 50),
        latenessP99: late && percentile(late, 99),
      };
    },
  };
}

const STEPS = 1_000;

/**
 * How late a byte is seen. `gapAt` are the percentiles of the gaps between two turns of the loop, ms. One long gap is one
 * of many, but it holds as many bytes as its length has: so a gap counts by its length, and a byte that comes in it waits
 * for its end.
 */
export function lagOf(gapAt: (percentile: number) => number): Pick<ClientFacts, 'lagMean' | 'lagP99'> {
  const gaps = Array.from({ length: STEPS }, (_, i) => gapAt((100 * (i + 0.5)) / STEPS));
  const all = gaps.reduce((sum, gap) => sum + gap, 0);
  if (!(all > 0)) return { lagMean: 0, lagP99: 0 };
  const beyond = (lag: number): number =>
    gaps.reduce((sum, gap) => sum + Math.max(0, gap - RESOLUTION_MS - lag), 0) / all;
  let [low, high] = [0, gaps.at(-1) as number];
  for (let i = 0; i < 30; i++) {
    const middle = (low + high) / 2;
    if (beyond(middle) > 0.01) low = middle;
    else high = middle;
  }
  const mean = gaps.reduce((sum, gap) => sum + Math.max(0, gap - RESOLUTION_MS) ** 2, 0) / 2 / all;
  return { lagMean: mean, lagP99: high };
}

/** Linux says how long the main thread waited for a processor, in ns. */
function waitedMs(): number | null {
  try {
    const [, waited] = readFileSync('/proc/self/schedstat', 'utf8').split(' ');
    return Number(waited) / 1e6;
  } catch {
    return null;
  }
}

/** What the figures are compared with; ms, NaN where there is none. */
export interface Seen {
  medianTtft: number;
  p99Ttft: number;
}

/** A shorter run is little more than its start, which is all work. */
const SHORTEST_MS = 1_000;

/** Beyond these the client is the bottleneck, or so late that it shows in the figures. */
export const LIMITS = {
  loopUtilisation: 0.5,
  cores: 0.8,
  /** of the median TTFT */
  latenessShare: 0.05,
  /** however long a TTFT is; and what is below the least is no more than a timer's own imprecision */
  latenessMs: 10,
  leastLatenessMs: 5,
  /** of the median TTFT, which the mean lag moves; what is below the least is within the promise of docs/bench.md */
  lagShare: 0.02,
  leastLagMs: 2,
  /** of the p99 of TTFT, for the lag at p99 */
  tailShare: 0.05,
  leastTailMs: 10,
  /** of the time, waiting for a processor: then it is named as the cause */
  waited: 0.1,
} as const;

/** Why the client limits what was measured, a sentence each; none where it does not. */
export function limitsOf(facts: ClientFacts, { medianTtft, p99Ttft }: Seen): string[] {
  const reasons: string[] = [];
  const ms = (value: number): string => `${value.toFixed(1)} ms`;
  const share = (value: number): string => `${Math.round(100 * value)} %`;
  const isLong = facts.ms >= SHORTEST_MS;
  if (isLong && facts.loopUtilisation > LIMITS.loopUtilisation)
    reasons.push(
      `its event loop was at work ${share(facts.loopUtilisation)} of the time (limit ${share(LIMITS.loopUtilisation)})`,
    );
  if (isLong && facts.cores > LIMITS.cores)
    reasons.push(`it took ${facts.cores.toFixed(2)} of a processor core (limit ${LIMITS.cores})`);
  const { latenessP99: late } = facts;
  if (late !== null && late > LIMITS.leastLatenessMs) {
    if (late > LIMITS.latenessMs)
      reasons.push(
        `it sent requests ${ms(late)} late at the 99th percentile (limit ${LIMITS.latenessMs} ms)`,
      );
    else if (late > LIMITS.latenessShare * medianTtft)
      reasons.push(
        `it sent requests ${ms(late)} late at the 99th percentile, more than ${share(LIMITS.latenessShare)} of the median TTFT`,
      );
  }
  const other =
    facts.waited !== null && facts.waited > LIMITS.waited
      ? `: it waited for a processor ${share(facts.waited)} of the time, so other work is on this machine`
      : '';
  if (facts.lagMean > Math.max(LIMITS.leastLagMs, LIMITS.lagShare * (medianTtft || 0)))
    reasons.push(
      `it saw what came ${ms(facts.lagMean)} late on average, more than ${LIMITS.leastLagMs} ms and ${share(LIMITS.lagShare)} of the median TTFT${other}`,
    );
  else if (facts.lagP99 > Math.max(LIMITS.leastTailMs, LIMITS.tailShare * (p99Ttft || 0)))
    reasons.push(
      `it saw one byte in a hundred more than ${ms(facts.lagP99)} late, more than ${LIMITS.leastTailMs} ms and ${share(LIMITS.tailShare)} of the p99 of TTFT${other}`,
    );
  return reasons;
}
