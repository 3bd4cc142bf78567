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
import type { EndpointPool } from '../../../engine/asking/pool/part.ts';
import { OPEN_PATHS } from '../../../engine/asking/pool/raw.ts';
import { type Fatal, fatalOf, usageError } from '../../../engine/core/item/failure.ts';
import { visible } from '../../../engine/core/json/visible.ts';
import type { Hello, Orders } from '../protocol.ts';
import type { Taker } from '../taker.ts';
import { createGuard } from './at-fault.ts';
import { type CoordinatorClient, Refused, Unheard } from './coordinator-client.ts';
import { createEndpoints } from './endpoints.ts';
import { createGate } from './gate.ts';
import { createHands, type Sums } from './hands.ts';
import { createHello } from './hello.ts';
import { createPointers } from './pointers.ts';
import { BadOrder, readOrders } from './task.ts';
import { createTelling } from './telling.ts';
import type { WorkFolder } from './worker-folder.ts';
import { createWorks } from './works.ts';

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

export interface WorkerOptions {
  taker: Pick<Taker, 'take' | 'close'>;
  client: CoordinatorClient;
  pool: EndpointPool;
  folder: WorkFolder;
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

export interface Ended {
  sums: Sums;
  /** nothing that is its own is in hand any more */
  isClean: boolean;
  /** what made it impossible to go on */
  broken?: Fatal;
}

export interface Worker {
  /** as the coordinator knows it */
  name: string;
  /** Takes nothing more, and hands back what it has. */
  stop(): void;
  /** Stops for something that makes it impossible to go on. */
  breakOff(error: unknown): void;
  ended: Promise<Ended>;
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

export function startWorker(options: WorkerOptions): Worker {
  const { taker, client, pool, folder, modelMap, grace, idle, say } = options;
  const paths = new Set<string>([...OPEN_PATHS, ...(options.paths ?? [])]);
  const timing = { ...TIMING, ...options.timing };
  let orders: Orders = { queues: [], drop: [], sharing: {}, every: FIRST_EVERY, lease: 60_000 };
  let broken: Fatal | undefined;
  let isStopping = false;
  /** the coordinator was told that it stops */
  let isToldOff = false;
  let isReady = false;
  let isHeard = false;
  let wasHeard = false;
  let lostAt: number | null = null;
  let idleSince = performance.now();
  const gate = createGate();
  const late = new AbortController();
  const isLate = new Promise<void>(resolve => late.signal.addEventListener('abort', () => resolve()));
  let turn: AbortController | null = null;

  const endpoints = createEndpoints(pool, { ...timing, say });
  const guard = createGuard({
    onUnfit(why) {
      if (endpoints.rest(why)) hands.backAll();
      gate.tell();
    },
    onUseless: breakOff,
  });
  const works = createWorks({
    ...{ client, folder, pool, modelMap, paths, grace, guard, linger: timing.linger, onBroken: breakOff },
  });
  const hello = createHello(pool, endpoints);
  const hands = createHands({
    ...{ client, folder, works, worker: hello.name, signal: late.signal, say },
    lease: () => orders.lease,
    mayRun: () => !isStopping && endpoints.mayBeAsked,
    onChange: gate.tell,
    onBroken: breakOff,
  });
  const pointers = createPointers({ hands, say, onBroken: breakOff });
  const telling = createTelling(pool, hands, say);
  pool.onRoom(gate.tell);

  function breakOff(error: unknown): void {
    if (broken !== undefined) return;
    broken = fatalOf(error);
    stop();
  }

  /** Places are left once all lines in hand are under way: then the next part comes before an endpoint has nothing to do. */
  function mayTake(): boolean {
    if (isStopping || !isReady || !isHeard || !endpoints.mayBeAsked || hands.haveOneAlone) return false;
    return orders.queues.length > 0 && hands.unfinished < pool.itemsInFlight;
  }
  gate.onTell(() => {
    if (!mayTake()) turn?.abort();
  });

  async function taking(): Promise<void> {
    while (!isStopping) {
      if (!mayTake()) {
        await gate.next();
        continue;
      }
      turn = new AbortController();
      const taken = await taker.take(orders.queues, turn.signal);
      turn = null;
      if (taken !== null) await pointers.begin(taken);
    }
  }

  function follow(told: Orders): void {
    const isOther = told.queues.join() !== orders.queues.join();
    orders = told;
    if (isOther) turn?.abort();
    endpoints.share(told.sharing);
    for (const name of told.drop) hands.back(name);
    gate.tell();
  }

  async function greet(): Promise<void> {
    isToldOff = isStopping;
    try {
      const said = hello.say(hands, isStopping);
      const told = readOrders(await client.hello(said));
      if (lostAt !== null)
        say(`${client.url} answers again, after ${Math.round((performance.now() - lostAt) / 1000)} s`);
      if (!wasHeard && !isStopping)
        say(`${client.url} knows this worker as ${hello.name}: ${servesWords(said)}`);
      lostAt = null;
      isHeard = wasHeard = true;
      follow(told);
    } catch (error) {
      const isUsual = error instanceof Unheard || error instanceof Refused || error instanceof BadOrder;
      if (!isUsual) return breakOff(error);
      if (!wasHeard && !(error instanceof Unheard)) return breakOff(notOurs(client.url, error));
      const isFirst = lostAt === null;
      lostAt ??= performance.now();
      isHeard = false;
      const meanwhile = hands.areEmpty ? 'it is asked again' : 'what is in hand goes on';
      if (isFirst) say(`${client.url} does not answer (${error.message}); ${meanwhile}`);
      gate.tell();
    }
  }

  /** One after the other: at once, now and then, and at a stop, so that nothing more is meant for it. */
  async function greeting(): Promise<void> {
    while (!isStopping || !hands.areEmpty) {
      await Promise.race([greet(), isLate]);
      await gate.pause(orders.every, () => isStopping && (!isToldOff || hands.areEmpty));
    }
  }

  /** Nothing is in hand any more. */
  async function leave(): Promise<void> {
    if (isHeard) await Promise.race([client.hello(hello.say(hands, true)).catch(() => {}), isLate]);
  }

  const looking = setInterval(() => {
    const before = endpoints.mayBeAsked;
    if (endpoints.look()) hands.backAll();
    if (endpoints.mayBeAsked !== before) gate.tell();
    telling.look(timing.tell);
    const now = performance.now();
    // a server that loads its model for the first time is not idle
    const isBusy = hands.areBusy || pointers.isComing || (isHeard && !hands.areEmpty);
    if (isBusy || !endpoints.wereThere) idleSince = now;
    if (idle !== undefined && !isStopping && now - idleSince > idle) {
      say(`idle for ${idle / 1000} s: exiting`);
      stop();
    }
  }, timing.look);

  function stop(): void {
    if (isStopping) return;
    isStopping = true;
    hands.backAll();
    setTimeout(() => late.abort(), grace + timing.handIn).unref();
    gate.tell();
  }

  async function all(): Promise<Ended> {
    const left = hands.handInLeft().then(() => {
      isReady = true;
      gate.tell();
    });
    const loop = taking().catch(breakOff);
    await greeting();
    clearInterval(looking);
    await Promise.all([left, loop]);
    await pointers.settled();
    await hands.emptied();
    // after so long a silence what it had is others'
    const isForgotten = lostAt !== null && performance.now() - lostAt > orders.lease;
    const isClean = !late.signal.aborted || isForgotten;
    await leave();
    await works.close();
    await Promise.all([taker.close(), pool.close(), client.close()]);
    folder.close();
    return { sums: hands.sums, isClean, ...(broken && { broken }) };
  }

  return { name: hello.name, stop, breakOff, ended: all() };
}
