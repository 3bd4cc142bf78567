/** What a worker says of itself. */
import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import type { EndpointPool } from '../../../engine/asking/pool/part.ts';
import { version } from '../../../engine/core/config/package.ts';
import type { Hello } from '../protocol.ts';
import { type Endpoints, servedBy } from './endpoints.ts';
import type { Hands } from './hands.ts';

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

export function createHello(pool: EndpointPool, endpoints: Endpoints) {
  const host = hostname();
  const name = `${host}/${process.pid}/${randomBytes(4).toString('hex')}`;
  const own = version();
  const rateOf = createRate();

  /** Of the lines that were handed in and those in hand. */
  function rate({ sums, held }: Pick<Hands, 'sums' | 'held'>): number {
    const lines = sums.lines + held.reduce((sum, { done }) => sum + done, 0);
    return rateOf(performance.now(), lines, held.length > 0);
  }

  return {
    name,
    say(hands: Hands, isStopping: boolean): Hello {
      return {
        ...{ worker: name, host, pid: process.pid, version: own, isStopping },
        models: servedBy(pool),
        endpoints: endpoints.told(),
        places: pool.itemsInFlight,
        rate: rate(hands),
        held: hands.held,
      };
    },
  };
}
