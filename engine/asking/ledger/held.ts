/**
 * How long the endpoints of a ledger were held: from the first try that a run sent there to the end of its last one. Runs
 * that overlap count once, and the time between a stop and the next run not at all. It is what a GPU is paid for by the hour,
 * where each endpoint has one.
 */

/** No real study has so many, and names come from files. */
const MOST_ENDPOINTS = 10_000;

export interface Held {
  /** the time in which any endpoint was held, and the sum over endpoints; in ms */
  wall: number;
  endpoints: number;
}

type Span = [from: number, to: number];

export interface Holding {
  /** A try of the run that wrote file number `file`: when it ended (ISO 8601), and how long it took, in ms. */
  add(file: number, endpoint: string, ended: string, ms: number): void;
  sum(): Held;
  /** ms in which an endpoint was held */
  of(endpoint: string): number;
}

export function holding(): Holding {
  /** by endpoint, by file */
  const spans = new Map<string, Map<number, Span>>();
  return {
    add(file, endpoint, ended, ms) {
      const to = Date.parse(ended);
      if (Number.isNaN(to) || !(ms >= 0)) return;
      const known = spans.get(endpoint) ?? new Map<number, Span>();
      if (known.size === 0 && spans.size >= MOST_ENDPOINTS) return;
      spans.set(endpoint, known);
      const span = known.get(file);
      if (span === undefined) known.set(file, [to - ms, to]);
      else {
        span[0] = Math.min(span[0], to - ms);
        span[1] = Math.max(span[1], to);
      }
    },
    of: endpoint => union([...(spans.get(endpoint)?.values() ?? [])]),
    sum() {
      const all = [...spans.values()].map(files => [...files.values()]);
      return {
        wall: union(all.flat()),
        endpoints: all.reduce((sum, each) => sum + union(each), 0),
      };
    },
  };
}

/** The length of what the spans cover together. */
function union(spans: readonly Span[]): number {
  let length = 0;
  let end = Number.NEGATIVE_INFINITY;
  for (const [from, to] of [...spans].sort(([a], [b]) => a - b)) {
    length += Math.max(0, to - Math.max(from, end));
    end = Math.max(end, to);
  }
  return length;
}
