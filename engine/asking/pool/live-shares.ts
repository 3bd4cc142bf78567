/** What batches have beside live calls, of all endpoints of a pool: where calls come, go and have their first token. */
import type { Clock } from '../endpoints/pool-clock.ts';
import type { Lag } from './lag.ts';
import { LiveShare } from './live-share.ts';
import type { Endpoint, Ticket } from './pool-state.ts';

export interface LiveSharesOptions {
  clock: Clock;
  lag: Lag;
  /** ms to the first token; null: by what live calls have alone */
  objective: number | null;
  /** Batches may begin a call again. */
  onRoom: () => void;
}

export class LiveShares {
  readonly #options: LiveSharesOptions;
  #objective: number | null;
  readonly #shares = new Map<Endpoint, LiveShare>();

  constructor(options: LiveSharesOptions) {
    this.#options = options;
    this.#objective = options.objective;
  }

  /** From now on it is to be so many ms to the first token; null: by what live calls have alone. */
  aimAt(objective: number | null): void {
    this.#objective = objective;
    for (const share of this.#shares.values()) share.aimAt(objective);
  }

  sent(endpoint: Endpoint, ticket: Ticket, now: number): void {
    const { clock } = this.#options;
    const share = this.#of(endpoint);
    const { sink } = ticket.call;
    if (sink) sink.onFirst = () => share.firstToken(ticket, clock.now());
    share.sent(ticket, now);
  }

  left(endpoint: Endpoint, ticket: Ticket, wasAnswered: boolean): void {
    this.#shares.get(endpoint)?.left(ticket, wasAnswered, this.#options.clock.now());
  }

  sweep(endpoints: readonly Endpoint[], now: number): void {
    for (const [endpoint, share] of this.#shares) {
      if (endpoints.includes(endpoint)) share.sweep(now);
      else this.#shares.delete(endpoint);
    }
  }

  #of(endpoint: Endpoint): LiveShare {
    const known = this.#shares.get(endpoint);
    if (known !== undefined) return known;
    const { clock, lag, onRoom } = this.#options;
    const share = new LiveShare({
      ...{ clock, objective: this.#objective, onRoom, limit: () => endpoint.limit },
      isOurs: ({ lateAtSent }, ms) => lag.isOurs(ms, lateAtSent, clock.now()),
    });
    this.#shares.set(endpoint, share);
    endpoint.share = share;
    return share;
  }
}
