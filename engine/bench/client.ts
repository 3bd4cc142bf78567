/**
 * The client looks at itself: a benchmark whose own process was late measures that process. What it saw, and whether the
 * figures may be believed, is said with them.
 */
import { type EventLoopUtilization, monitorEventLoopDelay, performance } from 'node:perf_hooks';
import { percentile, sorted } from './statistics.ts';

export interface ClientFacts {
  /** what was watched, ms */
  ms: number;
  /** share of the time in which the event loop was at work, 0 to 1 */
  loopUtilisation: number;
  /** cores of the processor that this process took */
  cores: number;
  /** how late a timer was at the 99th percentile, ms: the bound of what a stamp may be off */
  delayP99: number;
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
      const late = lateness === null || lateness.length === 0 ? null : sorted(lateness);
      return {
        ms,
        loopUtilisation: performance.eventLoopUtilization(loop).utilization,
        cores: ms > 0 ? (user + system) / 1000 / ms : 0,
        delayP99: Math.max(0, delay.percentile(99) / 1e6 - RESOLUTION_MS),
        latenessP50: late && percentile(late, 50),
        latenessP99: late && percentile(late, 99),
      };
    },
  };
}

/** What the figures are compared with; ms, NaN where there is none. */
export interface Seen {
  medianTtft: number;
  medianItl: number;
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
  /** of the median gap between tokens */
  delayShare: 0.5,
  leastDelayMs: 5,
} as const;

/** Why the client limits what was measured, a sentence each; none where it does not. */
export function limitsOf(facts: ClientFacts, { medianTtft, medianItl }: Seen): string[] {
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
  if (facts.delayP99 > LIMITS.leastDelayMs && facts.delayP99 > LIMITS.delayShare * medianItl)
    reasons.push(
      `its timers were ${ms(facts.delayP99)} late at the 99th percentile, more than half of the median gap between tokens`,
    );
  return reasons;
}
