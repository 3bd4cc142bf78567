/**
 * Whether files have changed, by a look each second: at what a path leads to, since files are replaced by a rename, saved in
 * several steps, and swapped behind a link (a ConfigMap). A change is told once a file has stood still for a look.
 */
import type { Clock } from '../../engine/asking/endpoints/pool-clock.ts';
import { stateOfFile } from './small-files.ts';

const EVERY = 1_000;
/** looks after which a file is taken that never stands still */
const MOST_LOOKS = 10;

/** Tells `onChange`, until `stop` is called. */
export function watchFiles(
  paths: readonly string[],
  { clock, onChange }: { clock: Clock; onChange(): void },
): { stop(): void } {
  const stateOf = (): string => paths.map(stateOfFile).join('\n');
  let told = stateOf();
  let last = told;
  let moving = 0;
  return clock.every(EVERY, () => {
    const now = stateOf();
    const isStill = now === last;
    last = now;
    if (now === told) {
      moving = 0;
      return;
    }
    moving += 1;
    if (!isStill && moving < MOST_LOOKS) return;
    moving = 0;
    told = now;
    onChange();
  });
}
