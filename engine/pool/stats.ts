/** The counts that progress and the account show: per endpoint, and over all of them. A copy, free to keep. */
import type { Code } from '../flow/failure.ts';
import type { Usage } from '../flow/item.ts';
import { type Endpoint, medianLatency } from './health.ts';

export interface EndpointStats {
  url: string;
  state: 'up' | 'paused' | 'down' | 'unfit';
  /** why it is down or unfit, in words */
  cause: string;
  inFlight: number;
  limit: number;
  /** answers of the model */
  answered: number;
  /** tries that failed here, by kind: `HTTP 500`, `timeout`, `transport`, `not connected`, `bad answer`, `refused` */
  failed: Record<string, number>;
  /** tries here of calls that had failed before */
  retries: number;
  /** tokens */
  usage: Required<Usage>;
  /** of the recent answers, in ms; null before the first */
  medianLatency: number | null;
}

export interface PoolStats {
  endpoints: EndpointStats[];
  calls: number;
  /** calls that were answered from the ledger, and are not among the others; null without one */
  replayed: number | null;
  answered: number;
  /** calls that ended without an answer, by the code of their failure */
  failed: Partial<Record<Code, number>>;
  retries: number;
  inFlight: number;
  waiting: number;
  usage: Required<Usage>;
}

export interface Counts {
  calls: number;
  replayed: number | null;
  waiting: number;
  failed: ReadonlyMap<Code, number>;
}

export function poolStats(endpoints: readonly Endpoint[], counts: Counts, now: number): PoolStats {
  const each = endpoints.map(endpoint => endpointStats(endpoint, now));
  const sum = (of: (stats: EndpointStats) => number) => each.reduce((total, stats) => total + of(stats), 0);
  return {
    endpoints: each,
    calls: counts.calls,
    replayed: counts.replayed,
    answered: sum(stats => stats.answered),
    failed: Object.fromEntries(counts.failed),
    retries: sum(stats => stats.retries),
    inFlight: sum(stats => stats.inFlight),
    waiting: counts.waiting,
    usage: {
      prompt: sum(stats => stats.usage.prompt),
      completion: sum(stats => stats.usage.completion),
      cached: sum(stats => stats.usage.cached),
    },
  };
}

function endpointStats(endpoint: Endpoint, now: number): EndpointStats {
  const { url, state, cause, running, limit, answers, failures, retries, usage } = endpoint;
  return {
    url,
    state: state === 'up' && endpoint.pausedUntil > now ? 'paused' : state,
    cause,
    inFlight: running.length,
    limit: Math.floor(limit),
    answered: answers,
    failed: Object.fromEntries(failures),
    retries,
    usage: { ...usage },
    medianLatency: endpoint.timed === 0 ? null : medianLatency(endpoint),
  };
}
