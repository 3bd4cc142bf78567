/**
 * What servers say of their load: GET /metrics, once a second, under the names of new and of old vLLM. A server without
 * them is asked again now and then, for it may have been a proxy that was not ready.
 */
import type { Clock, Timing } from './clock.ts';
import type { Endpoint } from './health.ts';
import type { Load } from './limit.ts';

export interface Looking {
  endpoints: readonly Endpoint[];
  clock: Clock;
  timing: Timing;
  /** null: the endpoint says nothing of its load */
  onLoad: (endpoint: Endpoint, load: Load | null) => void;
}

/** Called at each tick; looks at the endpoints that are due. */
export function lookAtLoads({ endpoints, clock, timing, onLoad }: Looking): (now: number) => void {
  const looking = new Set<Endpoint>();
  const next = new Map<Endpoint, number>();

  function look(endpoint: Endpoint): void {
    looking.add(endpoint);
    const seen = (load: Load | null): void => {
      if (!looking.delete(endpoint)) return; // it was given up, and answered then
      callOff();
      next.set(endpoint, clock.now() + (load ? timing.look : timing.lookAgain));
      onLoad(endpoint, load);
    };
    const callOff = clock.after(timing.probeTimeout, () => {
      seen(null);
      exchange.abort(new Error('no metrics in time'));
    });
    const exchange = endpoint.wire.send({ method: 'GET', path: metricsPath(endpoint.prefix) }, outcome => {
      seen(outcome instanceof Error || outcome.status !== 200 ? null : readLoad(outcome.body));
    });
  }

  return now => {
    for (const endpoint of endpoints) {
      if (endpoint.state !== 'up' || looking.has(endpoint)) continue;
      if (now >= (next.get(endpoint) ?? 0)) look(endpoint);
      else if (endpoint.load === null && endpoint.running.length > 0) onLoad(endpoint, null);
    }
  };
}

/** vLLM has its metrics beside /v1, not below it. */
export function metricsPath(prefix: string): string {
  return `${prefix.replace(/\/v1$/, '')}/metrics`;
}

/** null where the page says nothing of running requests. Engines of one server (data parallel) are added up. */
export function readLoad(page: Buffer): Load | null {
  const text = `\n${page.toString('latin1')}`;
  const running = sumOf(text, 'vllm:num_requests_running');
  if (running === undefined) return null;
  const kv = largestOf(text, 'vllm:kv_cache_usage_perc') ?? largestOf(text, 'vllm:gpu_cache_usage_perc');
  return {
    running,
    waiting: sumOf(text, 'vllm:num_requests_waiting') ?? 0,
    kv: kv ?? 0,
    preemptions: sumOf(text, 'vllm:num_preemptions_total') ?? sumOf(text, 'vllm:num_preemptions') ?? 0,
  };
}

function sumOf(text: string, name: string): number | undefined {
  return valuesOf(text, name).reduce<number | undefined>((sum, value) => (sum ?? 0) + value, undefined);
}

function largestOf(text: string, name: string): number | undefined {
  const values = valuesOf(text, name);
  return values.length === 0 ? undefined : Math.max(...values);
}

/** Series of one name that a page may have; more than these are no server of ours. */
const MOST_SERIES = 256;

/** Of the Prometheus text format: `name value` or `name{label="…",…} value`, a line each. */
function valuesOf(text: string, name: string): number[] {
  const values: number[] = [];
  const begin = `\n${name}`;
  for (
    let at = text.indexOf(begin);
    at >= 0 && values.length < MOST_SERIES;
    at = text.indexOf(begin, at + 1)
  ) {
    const after = at + begin.length;
    if (text[after] !== '{' && text[after] !== ' ') continue;
    const end = text.indexOf('\n', after);
    const line = text.slice(after, end < 0 ? undefined : end);
    const value = Number(
      line
        .slice(line.lastIndexOf('}') + 1)
        .trim()
        .split(' ', 1)[0],
    );
    if (Number.isFinite(value) && value >= 0) values.push(value);
  }
  return values;
}
