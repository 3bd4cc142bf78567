/**
 * A worker: takes parts of works while its endpoints have places for them, and hands results in.
 *
 *   hello ─► orders: queues, what to drop, who shares an endpoint
 *   queue ─► pointer ─► lines ─► run (pool, ledger) ─► result
 *
 * Whatever goes away (the coordinator, Redis, the endpoints), it goes on with what it has, and with the rest once all is
 * there again. Told to stop it hands back what it has.
 */

import type { ModelMap } from '../../../engine/asking/endpoints/model-names.ts';
import { DIALECTS } from '../../../engine/core/item/dialects.ts';
import { type Fatal, fatalOf, usageError } from '../../../engine/core/item/failure.ts';
import { visible } from '../../../engine/core/json/visible.ts';
import type { Hello, Orders } from '../protocol.ts';
import type { Taker } from '../taker.ts';
import { Refused, Unheard } from './coordinator-client.ts';
import { createGuard, Endpoints } from './endpoints.ts';
import { Hands } from './hands.ts';
import { Speech } from './speech.ts';
import { BadOrder, readOrders } from './task.ts';
import { Works, type WorksOptions } from './works.ts';

export interface Timing {
  /** ms without an endpoint after which what is in hand goes back */
  outage: number;
  /** ms that nothing is taken after an endpoint was found unfit */
  rest: number;
  /** ms that a work without parts stays open */
  linger: number;
  /** ms between two looks, and between two lines about how it goes */
  look: number;
  tell: number;
  /** ms that results may take to be handed in at a stop, beyond the grace */
  handIn: number;
}

export const TIMING: Timing = {
  ...{ outage: 60_000, rest: 60_000, linger: 60_000, look: 1_000, tell: 10_000, handIn: 5_000 },
};

export interface WorkerOptions extends Pick<WorksOptions, 'client' | 'pool' | 'folder'> {
  taker: Pick<Taker, 'take' | 'close'>;
  modelMap?: ModelMap | undefined;
  /** that requests may have beside the usual ones */
  paths?: readonly string[] | undefined;
  /** ms for calls at servers at a stop */
  grace: number;
  /** ms without anything to do after which it ends; never unless given */
  idle?: number | undefined;
  say(message: string): void;
  timing?: Partial<Timing>;
}

/** Who answers the first hello so is no coordinator, or does not know this worker. */
function notOurs(url: string, error: Error): Fatal {
  const isKey = error instanceof Refused && (error.status === 401 || error.status === 403);
  return usageError(
    isKey
      ? `${url}: expected a key of scope worker in FW_WORKER_KEY, found one that is refused (${error.message})`
      : `${url}: expected a coordinator (fw serve --redis, fw run --redis), found ${error.message}${atPath(url)}`,
  );
}

/** Clients of OpenAI have /v1 in their URL, so it is easily taken along. */
const atPath = (url: string): string =>
  /\/v1$/.test(url) ? `; write the URL without /v1: ${url.slice(0, -'/v1'.length)}` : '';

const servesWords = ({ models }: Hello): string =>
  models.length > 0
    ? `it has ${visible(models.slice(0, 3).join(', '))}`
    : 'it takes nothing until an endpoint is up';

/** ms between two hellos while nobody has said how often */
const FIRST_EVERY = 1_000;

/** Where those wait who can go on only when something has changed. */
class Gate {
  #waiting: (() => void)[] = [];

  /** Something has changed. */
  tell(): void {
    const now = this.#waiting;
    this.#waiting = [];
    for (const resolve of now) resolve();
  }

  /** The next time that something changes. */
  next(): Promise<void> {
    return new Promise(resolve => this.#waiting.push(resolve));
  }

  /** After `ms`, or as soon as `isEnough` when something changes. */
  async pause(ms: number, isEnough: () => boolean): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    const over = new Promise<true>(resolve => {
      timer = setTimeout(resolve, ms, true);
    });
    while (!isEnough()) if ((await Promise.race([over, this.next()])) === true) break;
    clearTimeout(timer);
  }
}

class RunningWorker {
  readonly #options: WorkerOptions;
  readonly #timing: Timing;
  readonly #endpoints: Endpoints;
  readonly #works: Works;
  readonly #hands: Hands;
  readonly #speech: Speech;
  readonly #gate = new Gate();
  readonly #late = new AbortController();
  readonly #isLate: Promise<void>;
  #orders: Orders = { queues: [], drop: [], sharing: {}, every: FIRST_EVERY, lease: 60_000 };
  #broken: Fatal | undefined;
  #isStopping = false;
  /** the coordinator was told that it stops */
  #isToldOff = false;
  #isReady = false;
  #isHeard = false;
  #wasHeard = false;
  #lostAt: number | null = null;
  #idleSince = performance.now();
  /** ends a wait for the next part */
  #turn: AbortController | null = null;

  constructor(options: WorkerOptions) {
    const { client, pool, folder, modelMap, grace, say } = options;
    const { signal } = this.#late;
    const onBroken = this.breakOff;
    const onChange = this.#changed;
    this.#options = options;
    this.#timing = { ...TIMING, ...options.timing };
    this.#isLate = new Promise(resolve => signal.addEventListener('abort', () => resolve()));
    this.#endpoints = new Endpoints(pool, { ...this.#timing, say });
    this.#speech = new Speech(pool, this.#endpoints);
    const guard = createGuard({
      onUnfit: why => {
        if (this.#endpoints.rest(why)) this.#hands.backAll();
        this.#changed();
      },
      onUseless: onBroken,
    });
    const paths = new Set<string>([...DIALECTS.keys(), ...(options.paths ?? [])]);
    const { linger } = this.#timing;
    this.#works = new Works({ client, folder, pool, modelMap, paths, grace, guard, linger, onBroken });
    this.#hands = new Hands({
      ...{ client, folder, works: this.#works, worker: this.name, signal, say, onChange, onBroken },
      lease: () => this.#orders.lease,
      mayRun: () => !this.#isStopping && this.#endpoints.mayBeAsked,
    });
    pool.onRoom(onChange);
  }

  /** as the coordinator knows it */
  get name(): string {
    return this.#speech.name;
  }

  /** Takes nothing more, and hands back what it has. */
  readonly stop = (): void => {
    if (this.#isStopping) return;
    this.#isStopping = true;
    this.#hands.backAll();
    setTimeout(() => this.#late.abort(), this.#options.grace + this.#timing.handIn).unref();
    this.#changed();
  };

  /** Stops for something that makes it impossible to go on. */
  readonly breakOff = (error: unknown): void => {
    if (this.#broken !== undefined) return;
    this.#broken = fatalOf(error);
    this.stop();
  };

  /** Works until it is stopped. */
  async work() {
    const { taker, client, pool, folder } = this.#options;
    const looking = setInterval(() => this.#look(), this.#timing.look);
    const left = this.#hands.handInLeft().then(() => {
      this.#isReady = true;
      this.#changed();
    });
    const loop = this.#taking().catch(this.breakOff);
    await this.#greeting();
    clearInterval(looking);
    await Promise.all([left, loop]);
    await this.#hands.emptied();
    // after so long a silence what it had is others'
    const isForgotten = this.#lostAt !== null && performance.now() - this.#lostAt > this.#orders.lease;
    // nothing that is its own is in hand any more
    const isClean = !this.#late.signal.aborted || isForgotten;
    await this.#leave();
    await this.#works.close();
    await Promise.all([taker.close(), pool.close(), client.close()]);
    folder.close();
    return { sums: this.#hands.sums, isClean, broken: this.#broken };
  }

  readonly #changed = (): void => {
    if (!this.#mayTake()) this.#turn?.abort();
    this.#gate.tell();
  };

  /** Places are left once all lines in hand are under way: then the next part comes before an endpoint has nothing to do. */
  #mayTake(): boolean {
    if (this.#isStopping || !this.#isReady || !this.#isHeard) return false;
    if (!this.#endpoints.mayBeAsked || this.#hands.haveOneAlone) return false;
    return this.#orders.queues.length > 0 && this.#hands.unfinished < this.#options.pool.itemsInFlight;
  }

  async #taking(): Promise<void> {
    while (!this.#isStopping) {
      if (!this.#mayTake()) {
        await this.#gate.next();
        continue;
      }
      this.#turn = new AbortController();
      const taken = await this.#options.taker.take(this.#orders.queues, this.#turn.signal);
      this.#turn = null;
      if (taken !== null) await this.#hands.begin(taken);
    }
  }

  #follow(orders: Orders): void {
    const isOther = orders.queues.join() !== this.#orders.queues.join();
    this.#orders = orders;
    if (isOther) this.#turn?.abort();
    this.#endpoints.share(orders.sharing);
    for (const name of orders.drop) this.#hands.back(name);
    this.#changed();
  }

  async #greet(): Promise<void> {
    const { client, say } = this.#options;
    this.#isToldOff = this.#isStopping;
    try {
      const hello = this.#speech.hello(this.#hands, this.#isStopping);
      const orders = readOrders(await client.hello(hello));
      if (this.#lostAt !== null)
        say(`${client.url} answers again, after ${Math.round((performance.now() - this.#lostAt) / 1000)} s`);
      if (!this.#wasHeard && !this.#isStopping)
        say(`${client.url} knows this worker as ${this.name}: ${servesWords(hello)}`);
      this.#lostAt = null;
      this.#isHeard = this.#wasHeard = true;
      this.#follow(orders);
    } catch (error) {
      const isUsual = error instanceof Unheard || error instanceof Refused || error instanceof BadOrder;
      if (!isUsual) return this.breakOff(error);
      if (!this.#wasHeard && !(error instanceof Unheard)) return this.breakOff(notOurs(client.url, error));
      const isFirst = this.#lostAt === null;
      this.#lostAt ??= performance.now();
      this.#isHeard = false;
      const meanwhile = this.#hands.areEmpty ? 'it is asked again' : 'what is in hand goes on';
      if (isFirst) say(`${client.url} does not answer (${error.message}); ${meanwhile}`);
      this.#changed();
    }
  }

  /** One after the other: at once, now and then, and at a stop, so that nothing more is meant for it. */
  async #greeting(): Promise<void> {
    const isOver = (): boolean => this.#isStopping && (!this.#isToldOff || this.#hands.areEmpty);
    while (!this.#isStopping || !this.#hands.areEmpty) {
      await Promise.race([this.#greet(), this.#isLate]);
      await this.#gate.pause(this.#orders.every, isOver);
    }
  }

  /** Nothing is in hand any more. */
  async #leave(): Promise<void> {
    const farewell = this.#speech.hello(this.#hands, true);
    if (this.#isHeard)
      await Promise.race([this.#options.client.hello(farewell).catch(() => {}), this.#isLate]);
  }

  #look(): void {
    const { idle, say } = this.#options;
    const before = this.#endpoints.mayBeAsked;
    if (this.#endpoints.look()) this.#hands.backAll();
    if (this.#endpoints.mayBeAsked !== before) this.#changed();
    const words = this.#speech.now(this.#hands, this.#timing.tell);
    if (words !== null) say(words);
    const now = performance.now();
    // a server that loads its model for the first time is not idle
    const isBusy = this.#hands.areBusy || (this.#isHeard && !this.#hands.areEmpty);
    if (isBusy || !this.#endpoints.wereThere) this.#idleSince = now;
    if (idle !== undefined && !this.#isStopping && now - this.#idleSince > idle) {
      say(`idle for ${idle / 1000} s: exiting`);
      this.stop();
    }
  }
}

export function startWorker(options: WorkerOptions) {
  const worker = new RunningWorker(options);
  const { name, stop, breakOff } = worker;
  return { name, stop, breakOff, ended: worker.work() };
}

export type Worker = ReturnType<typeof startWorker>;
