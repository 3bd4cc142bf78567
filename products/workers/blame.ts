/**
 * What becomes of parts that were not brought back. A request may take its worker with it, and each one after that: it is
 * found by giving its part out to be asked alone, and halving that, until it is one line.
 */
import type { Keeping } from './keeping.ts';
import type { Lease, Part } from './part-states.ts';
import type { PlannedWork } from './shard-work.ts';

/** A part is suspect where so many workers were lost with it or could not do it; a line alone fails by name. */
const MOST_TRIES = 3;

export interface HeldPart {
  work: PlannedWork;
  part: Part;
}

/** It waits again. */
function back(work: PlannedWork, part: Part): void {
  part.isSuspect ||= part.tries + part.doubts >= MOST_TRIES;
  work.parts.back(part);
  work.look();
}

interface BlameOptions {
  say(message: string): void;
  tried: Keeping['tried'];
}

export function createBlame({ say, tried }: BlameOptions) {
  /** A worker is lost with all that it has. Of several parts that it had begun nobody knows which was the cause. */
  function lostWith(held: readonly HeldPart[], why: string): void {
    const begun = begunOf(held);
    for (const one of held) {
      const { work, part } = one;
      if (begun.length === 1 && begun[0] === one) lost(work, part, why);
      else {
        if (begun.includes(one)) part.doubts += 1;
        back(work, part);
      }
    }
  }

  /** A part that was not brought back, and was itself the cause as far as anybody knows. */
  function lost(work: PlannedWork, part: Part, why: string): void {
    part.tries += 1;
    back(work, part);
    if (work.isEnded) return;
    const { lines, tries, isSuspect, root } = part;
    if (lines.length === 1 && tries >= MOST_TRIES) {
      const message = `expected a worker that answers this line, found ${tries} that did not come back with it; the last: ${why}`;
      say(`a line of shard ${root} of ${work.task.label} fails: ${message}`);
      tried(() => work.fail(part, { stage: 'sharding', code: 'worker-lost', message }));
    } else if (lines.length > 1 && isSuspect) {
      const middle = Math.ceil(lines.length / 2);
      say(`shard ${root} of ${work.task.label}, ${lines.length} lines of it, is cut in halves: ${why}`);
      tried(() =>
        work.cut(part, [
          { lines: lines.slice(0, middle), isSuspect: true },
          { lines: lines.slice(middle), isSuspect: true },
        ]),
      );
    }
  }

  return { lost, lostWith };
}

/** Of what a worker has: a part that is asked alone waits until all else is handed in. */
function begunOf(held: readonly HeldPart[]): readonly HeldPart[] {
  const others = held.filter(({ part }) => !part.isSuspect);
  if (others.length > 0) return others;
  const takenAt = ({ part }: HeldPart): number => (part.lease as Lease).at;
  return [...held].sort((a, b) => takenAt(a) - takenAt(b)).slice(0, 1);
}
