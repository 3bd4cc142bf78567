/**
 * Endpoints that cannot be reached: taken out at the first refused connection, looked at again by a cheap GET, put
 * back when they answer. While none is there, calls wait and lose nothing, until it has lasted too long.
 */
import { type Fatal, unavailable } from '../flow/failure.ts';
import type { Endpoint } from './health.ts';
import { type Prober, probe } from './probe.ts';
import { causes, settle } from './start.ts';
import { seconds } from './words.ts';

export interface Outages {
  /** Takes out an endpoint that refused a connection. */
  lost(endpoint: Endpoint, cause: string): void;
  /**
   * Starts the probes that are due. `idle` means that nothing is asked, so nothing is missed; `gap` is how long this
   * process stood still. Returns what ends the run when no endpoint has been there for too long.
   */
  sweep(now: number, idle: boolean, gap: number): Fatal | undefined;
  close(): void;
}

export interface OutageOptions extends Prober {
  endpoints: readonly Endpoint[];
  model: string;
  /** how long no endpoint may be there, in ms */
  giveUp: number;
  warn: (message: string) => void;
  /** called when an endpoint can take calls again */
  onBack: () => void;
}

export function createOutages(options: OutageOptions): Outages {
  const { endpoints, model, giveUp, warn, onBack, clock, timing, key } = options;
  let lastUp = clock.now();
  let closed = false;

  for (const endpoint of endpoints) if (endpoint.state === 'down') probeLater(endpoint, timing.reprobeLast);

  function probeLater(endpoint: Endpoint, wait: number): void {
    endpoint.probeWait = wait;
    endpoint.probeAt = clock.now() + wait;
  }

  async function lookAgain(endpoint: Endpoint): Promise<void> {
    endpoint.probing = true;
    const finding = await probe(endpoint, options);
    endpoint.probing = false;
    if (closed) return;
    settle(finding, model, key);
    if (endpoint.state === 'up') {
      endpoint.failuresInARow = 0;
      warn(`${endpoint.url} is up`);
      onBack();
    } else if (endpoint.state === 'unfit') warn(`${endpoint.url} is back, but of no use: ${endpoint.cause}`);
    else probeLater(endpoint, Math.min(timing.reprobeLast, endpoint.probeWait * 2));
  }

  return {
    lost(endpoint, cause) {
      if (endpoint.state !== 'up') return;
      endpoint.state = 'down';
      endpoint.cause = cause;
      probeLater(endpoint, timing.reprobeFirst);
      const others = endpoints.filter(({ state }) => state === 'up').length;
      warn(`${endpoint.url} is down: ${cause}; ${others} of ${endpoints.length} endpoints go on`);
    },
    sweep(now, idle, gap) {
      for (const endpoint of endpoints) {
        if (endpoint.state === 'down' && now >= endpoint.probeAt && !endpoint.probing)
          void lookAgain(endpoint);
      }
      if (idle || endpoints.some(({ state }) => state === 'up')) lastUp = now;
      else if (gap > 0) lastUp += gap;
      if (now - lastUp <= giveUp) return undefined;
      return unavailable(
        `expected an endpoint to come back, found none for ${seconds(giveUp)}: ${causes(endpoints)}; ` +
          'start them and run again, or wait longer: --wait 10m',
      );
    },
    close() {
      closed = true;
    },
  };
}
