/** What a worker says of itself: to its coordinator in each hello, and to who looks at its log. */
import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import type { EndpointPool } from '../../../engine/asking/pool/part.ts';
import { version } from '../../../engine/core/config/package.ts';
import { counted, number } from '../../../engine/core/item/wording.ts';
import type { Hello } from '../protocol.ts';
import { type Endpoints, servedBy } from './endpoints.ts';
import type { Hands, Sums } from './hands.ts';

/** ms of work over which a rate is told */
const OVER = 60_000;

/**
 * Lines a second while there was work. Time without any is left out: a worker that waited for an hour is as fast as
 * before, and who starts and stops workers by this number must not take it for slow.
 */
export function createRate(over = OVER) {
  const looks: { worked: number; lines: number }[] = [];
  let [lastAt, lastLines, hadWork] = [0, 0, false];
  let worked = 0;
  /** `lines` are all that were done since the start, at `at` ms; `hasWork`: some are in hand now */
  return (at: number, lines: number, hasWork: boolean): number => {
    const isSame = looks.length > 0 && !hadWork && lines === lastLines;
    if (looks.length > 0 && !isSame) worked += at - lastAt;
    [lastAt, lastLines, hadWork] = [at, lines, hasWork];
    if (!isSame) looks.push({ worked, lines });
    while ((looks[1]?.worked ?? worked) < worked - over) looks.shift();
    const first = looks[0] as { worked: number; lines: number };
    return worked === first.worked
      ? 0
      : Math.max(0, ((lines - first.lines) * 1000) / (worked - first.worked));
  };
}

export class Speech {
  readonly name = `${hostname()}/${process.pid}/${randomBytes(4).toString('hex')}`;
  readonly #pool: EndpointPool;
  readonly #endpoints: Endpoints;
  readonly #rateOf = createRate();
  #toldAt = performance.now();
  #toldLines = 0;

  constructor(pool: EndpointPool, endpoints: Endpoints) {
    this.#pool = pool;
    this.#endpoints = endpoints;
  }

  hello(hands: Hands, isStopping: boolean): Hello {
    const { held } = hands;
    return {
      ...{ worker: this.name, host: hostname(), pid: process.pid, version: version(), isStopping },
      models: servedBy(this.#pool),
      endpoints: this.#endpoints.told(),
      places: this.#pool.itemsInFlight,
      rate: this.#rateOf(performance.now(), doneBy(hands), held.length > 0),
      held,
    };
  }

  /** How it goes, for who looks at the log; null where the last time is no `ms` ago, or nothing is in hand. */
  now(hands: Hands, ms: number): string | null {
    const now = performance.now();
    if (now - this.#toldAt < ms) return null;
    const { held } = hands;
    const done = doneBy(hands);
    const rate = (Math.max(0, done - this.#toldLines) * 1000) / (now - this.#toldAt);
    const wasBusy = done > this.#toldLines;
    [this.#toldAt, this.#toldLines] = [now, done];
    if (held.length === 0 && !wasBusy) return null;
    const { endpoints, inFlight } = this.#pool.stats();
    const limit = endpoints.reduce((sum, one) => sum + one.limit, 0);
    const lines = held.reduce((sum, one) => sum + one.lines - one.done, 0);
    return (
      `${counted(held.length, 'part')} in hand, ${counted(lines, 'line')} to go · ${rate.toFixed(1)} lines/s · ` +
      `${number(inFlight)}/${number(limit)} calls in flight`
    );
  }
}

/** Of the lines that were handed in and those in hand. */
const doneBy = ({ sums, held }: Hands): number => sums.lines + held.reduce((sum, { done }) => sum + done, 0);

/** The closing line of a worker. */
export function describeSums({ parts, lines, asked }: Sums): string {
  const { calls, retries, replayed, promptTokens, completionTokens } = asked;
  const again = retries > 0 ? ` + ${counted(retries, 'retry', 'retries')}` : '';
  const known = replayed ? ` + ${number(replayed)} replayed` : '';
  return (
    `handed in ${counted(lines, 'line')} of ${counted(parts, 'part')} · ${counted(calls, 'call')}${again}${known} · ` +
    `tokens ${number(promptTokens)} in, ${number(completionTokens)} out`
  );
}
