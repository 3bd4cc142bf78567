/**
 * The endpoints of a worker, as far as they decide what it takes: whether one can be asked, how many workers share it, and
 * whether they are at fault where a call fails.
 */

import type { EndpointPool } from '../../../engine/asking/pool/part.ts';
import { isThere } from '../../../engine/asking/pool/pool-stats.ts';
import { type Answer, type Call, CallFailure } from '../../../engine/core/item/call.ts';
import { type Fatal, unavailable } from '../../../engine/core/item/failure.ts';
import { timeWords } from '../../../engine/core/item/wording.ts';
import type { Orders, Task, WorkerEndpoint } from '../protocol.ts';

interface Options {
  outage: number;
  rest: number;
  say(message: string): void;
}

/** Models that endpoints serve now. */
export const servedBy = (pool: EndpointPool): string[] => [
  ...new Set(pool.stats().endpoints.flatMap(one => (isThere(one) ? one.models : []))),
];

export class Endpoints {
  readonly #pool: EndpointPool;
  readonly #options: Options;
  #lastThere = performance.now();
  #isTold = false;
  #restsUntil = 0;
  #areThere: boolean;
  #wereThere: boolean;

  constructor(pool: EndpointPool, options: Options) {
    this.#pool = pool;
    this.#options = options;
    this.#areThere = this.#wereThere = pool.stats().endpoints.some(isThere);
  }

  get mayBeAsked(): boolean {
    return this.#areThere && performance.now() >= this.#restsUntil;
  }

  /** one has been there, since the start */
  get wereThere(): boolean {
    return this.#wereThere;
  }

  /** True once when none has been there for so long that what is in hand is better off elsewhere. */
  look(): boolean {
    const { outage, say } = this.#options;
    const { endpoints } = this.#pool.stats();
    const now = performance.now();
    this.#areThere = endpoints.some(isThere);
    this.#wereThere ||= this.#areThere;
    if (this.#areThere) {
      if (this.#isTold) say('an endpoint is up again: taking parts');
      this.#isTold = false;
      this.#lastThere = now;
      return false;
    }
    if (this.#isTold || now - this.#lastThere < outage) return false;
    this.#isTold = true;
    const causes = endpoints.map(({ url, cause }) => `${url} (${cause})`).join(', ');
    say(`no endpoint has been up for ${timeWords(outage)}: taking nothing until one is; ${causes}`);
    return true;
  }

  /** One is there and does not do what it is asked: nothing is taken for a while. False where it rests already. */
  rest(why: string): boolean {
    const { rest, say } = this.#options;
    const now = performance.now();
    if (now < this.#restsUntil) return false;
    this.#restsUntil = now + rest;
    say(`${why}; returning the parts in hand, and taking none for ${timeWords(rest)}`);
    return true;
  }

  share(sharing: Orders['sharing']): void {
    const pool = this.#pool;
    for (const { url } of pool.stats().endpoints) pool.shareLimit(url, Math.max(1, sharing[url] ?? 1));
  }

  /** as the coordinator is told */
  told(): WorkerEndpoint[] {
    return this.#pool.stats().endpoints.map(one => ({
      url: one.url,
      isUp: isThere(one),
      inFlight: one.inFlight,
      limit: one.limit,
    }));
  }
}

interface GuardOptions {
  /** An endpoint refused the key, or has not the model that it had: in words. */
  onUnfit(why: string): void;
  /** Nothing was ever answered, and much refused. */
  onUseless(error: Fatal): void;
}

/** Refusals without any answer after which a worker gives up, as a run does. */
const MOST_REFUSED = 20;

/**
 * Judges whether it is the worker that is at fault, and not the line: a line that fails here is answered with its failure,
 * once and for all, so what another worker could do better goes back unanswered.
 */
export function createGuard({ onUnfit, onUseless }: GuardOptions) {
  let answered = false;
  let refused = 0;

  const unasked = (message: string): CallFailure => new CallFailure('interrupted', message);

  /** What the call is told that failed so. */
  function judged(failure: CallFailure, { raw }: Call, { models }: Task): CallFailure {
    const { code, message, ofKey } = failure;
    if (ofKey) {
      onUnfit(`an endpoint refuses to be asked: ${message}`);
      return unasked(message);
    }
    // the coordinator gives work to those that have its models: this one had it a moment ago
    if (code === 'no-such-model' && models.length > 0) {
      onUnfit(message);
      return unasked(message);
    }
    if (code !== 'call-refused' || raw || answered) return failure;
    refused += 1;
    if (refused < MOST_REFUSED) return failure;
    onUseless(
      unavailable(
        `expected answers, found none: ${refused} calls were refused, the last with: ${message}\n` +
          'fix what the server complains about, then start the worker again',
      ),
    );
    return unasked(message);
  }

  return async (call: Call, task: Task, ask: (call: Call) => Promise<Answer>): Promise<Answer> => {
    try {
      const answer = await ask(call);
      answered ||= !answer.replayed;
      return answer;
    } catch (error) {
      throw error instanceof CallFailure ? judged(error, call, task) : error;
    }
  };
}
