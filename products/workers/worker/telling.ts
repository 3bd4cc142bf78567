/** A line now and then about how it goes, for who looks at the log of a worker. */

import type { EndpointPool } from '../../../engine/asking/pool/part.ts';
import { counted, number } from '../../../engine/core/item/wording.ts';
import type { Hands, Sums } from './hands.ts';

export function createTelling(pool: EndpointPool, hands: Hands, say: (message: string) => void) {
  let toldAt = performance.now();
  let toldLines = 0;
  return {
    /** Says it where the last time is `ms` ago and something is in hand. */
    look(ms: number): void {
      const now = performance.now();
      if (now - toldAt < ms) return;
      const { held, sums } = hands;
      const done = sums.lines + held.reduce((sum, one) => sum + one.done, 0);
      const rate = (Math.max(0, done - toldLines) * 1000) / (now - toldAt);
      const wasBusy = done > toldLines;
      [toldAt, toldLines] = [now, done];
      if (held.length === 0 && !wasBusy) return;
      const { endpoints, inFlight } = pool.stats();
      const limit = endpoints.reduce((sum, one) => sum + one.limit, 0);
      const lines = held.reduce((sum, one) => sum + one.lines - one.done, 0);
      say(
        `${counted(held.length, 'part')} in hand, ${counted(lines, 'line')} to go · ${rate.toFixed(1)} lines/s · ` +
          `${number(inFlight)}/${number(limit)} calls in flight`,
      );
    },
  };
}

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
