/**
 * A process that was frozen (SIGSTOP, a machine that was suspended, a disk that hung) answers nobody, and its log has a gap
 * that says nothing. Who looks for why calls hung finds it here.
 */
import type { Say } from '../../engine/core/item/say.ts';

/** ms between two looks, and how much later than that one comes that is told */
const LOOK = 1_000;
const LATE = 5_000;

export interface Timing {
  /** ms that only go on */
  elapsed(): number;
  /** ms of CPU that this process has used */
  cpu(): number;
  /** Calls `look` each `ms`; what it returns ends that. */
  every(ms: number, look: () => void): () => void;
}

const SYSTEM: Timing = {
  elapsed: () => performance.now(),
  cpu() {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1000;
  },
  every(ms, look) {
    const timer = setInterval(look, ms).unref();
    return () => clearInterval(timer);
  },
};

export function watchStanding(say: Say, { elapsed, cpu, every }: Timing = SYSTEM): { stop(): void } {
  let last = elapsed();
  let used = cpu();
  const stop = every(LOOK, () => {
    const now = elapsed();
    const late = now - last - LOOK;
    const busy = cpu() - used;
    [last, used] = [now, used + busy];
    if (late < LATE) return;
    const why =
      busy > late / 2
        ? 'it was busy with one thing'
        : 'it was frozen (SIGSTOP, a suspended machine), had no core, or its disk or memory hung';
    say(`nothing was done for ${Math.round(late / 1000)} s: ${why}; whoever asked meanwhile has waited`, {
      ...{ event: 'stood-still', level: 'warn', seconds: Math.round(late / 1000) },
    });
  });
  return { stop };
}
