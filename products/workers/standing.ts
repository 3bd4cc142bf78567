/**
 * Workers that say hello and get nowhere: no line more has an answer, and nothing is handed in, for an hour. What such a one
 * has goes to others, and nobody is blamed: its calls may be that long. So each part that goes round stays twice as long
 * with the next one.
 */
import { counted } from '../../engine/core/item/wording.ts';
import type { HeldPart } from './blame.ts';
import type { Part } from './part-states.ts';

/** ms */
const STILL = 3_600_000;

interface StandingOptions {
  /** lines taken from a worker */
  took(worker: string): number;
  say(message: string): void;
}

export function createStanding({ took, say }: StandingOptions) {
  const moved = new Map<string, { answered: number; at: number }>();
  const left = new WeakMap<Part, { worker: string | null; times: number }>();
  const timesOf = ({ part }: HeldPart): number => left.get(part)?.times ?? 0;

  return {
    /** Whether it went from this worker, which has not taken it again. */
    isLeftBy: (part: Part, worker: string): boolean => left.get(part)?.worker === worker,
    taken(part: Part): void {
      const known = left.get(part);
      if (known !== undefined) known.worker = null;
    },
    /** Looks at who holds what; `away` ms nobody could be heard. */
    look(byWorker: ReadonlyMap<string, readonly HeldPart[]>, now: number, away: number): void {
      for (const worker of moved.keys()) if (!byWorker.has(worker)) moved.delete(worker);
      for (const [worker, held] of byWorker) {
        const done = held.reduce(
          (sum, { part }) => sum + Math.min(part.lease?.done ?? 0, part.lines.length),
          0,
        );
        const answered = took(worker) + done;
        const known = moved.get(worker);
        if (known?.answered !== answered) {
          moved.set(worker, { answered, at: now });
          continue;
        }
        known.at = Math.min(now, known.at + Math.max(0, away));
        const since = Math.max(known.at, ...held.map(({ part }) => part.lease?.at ?? now));
        if (now - since < STILL * 2 ** Math.max(...held.map(timesOf))) continue;
        const lines = held.reduce((sum, { part }) => sum + part.lines.length, 0);
        say(
          `${worker} is connected but has answered nothing for ${Math.round((now - since) / 60_000)} minutes; ` +
            `what it has goes to others: ${counted(lines, 'line')} in ${counted(held.length, 'part')}`,
        );
        for (const one of held) {
          left.set(one.part, { worker, times: timesOf(one) + 1 });
          one.work.parts.back(one.part);
        }
      }
    },
  };
}
