/**
 * The time of day as a server believes it. A clock that is wrong for a moment would end batches and remove files for good,
 * so a jump is believed once it has lasted, and until then time goes on as it did. So it is at a start: `clock.json` of DIR
 * has the time that was believed last, and a machine may serve before it has asked what time it is.
 */
import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Say } from '../../engine/core/item/say.ts';
import { isObject } from '../../engine/core/json/pointer.ts';
import { keepFile, recalled } from './small-files.ts';

/** ms: less is a correction, and is followed at once */
const JUMP = 60_000;
/** ms that a jump has to last */
const LASTS = 5 * 60_000;
/** ms that a server may have been off, for its clock to be believed at once */
const OFF = 24 * 3_600_000;
/** ms between two times that are kept */
const KEEP = 20_000;

/** What a clock is made of: one that may jump, and one that only goes on. */
export interface Clocks {
  wall?: () => number;
  elapsed?: () => number;
  /** the time that was believed last, before this process; null where none is known */
  seen?: number | null;
  /** told of a jump, and that it is believed */
  say?: Say;
}

export function believedClock({
  wall = Date.now,
  elapsed = () => performance.now(),
  seen = null,
  say = () => {},
}: Clocks = {}) {
  const start = elapsed();
  const first = wall() - start;
  const off = seen === null ? 0 : wall() - seen;
  const isDoubted = seen !== null && (off > OFF || off < -JUMP);
  let offset = isDoubted ? seen - start : first;
  let jumped = { to: first, at: start };
  let isOpen = false;
  if (isDoubted) doubt(first + start, offset + start);

  function doubt(said: number, believed: number): void {
    isOpen = true;
    say(
      `the clock says ${timeOf(said)}, expected about ${timeOf(believed)}: it is trusted once it has lasted for ` +
        `${LASTS / 60_000} minutes, and until then nothing expires by it`,
      { event: 'clock-doubted', level: 'warn' },
    );
  }

  /** Milliseconds since 1970, as they are believed. */
  function now(): number {
    const passed = elapsed();
    const said = wall() - passed;
    if (Math.abs(said - jumped.to) >= JUMP) {
      jumped = { to: said, at: passed };
      if (Math.abs(said - offset) >= JUMP) doubt(said + passed, offset + passed);
    }
    if (Math.abs(said - offset) < JUMP || passed - jumped.at >= LASTS) {
      offset = said;
      if (isOpen) say(`the clock is trusted: ${timeOf(said + passed)}`, { event: 'clock-trusted' });
      isOpen = false;
    }
    return offset + passed;
  }

  /**
   * When something is made that will expire: the later one of what is said and what is believed, so that it is not over
   * at once where the clock was right.
   */
  const stamp = (): number => Math.max(now(), wall());
  return { now, stamp };
}

/** … of a folder: begins with the time that was kept there, and keeps it until `stop`. */
export function clockOf(data: string, say: Say, clocks: Clocks = {}) {
  const path = join(data, 'clock.json');
  const clock = believedClock({ ...clocks, seen: seenIn(data, path), say });
  const text = (): string => JSON.stringify({ seen: Math.floor(clock.now()) });
  const { keep, stop } = keepFile(path, text, KEEP, why =>
    say(`the time cannot be saved: ${why}`, { event: 'disk', level: 'warn' }),
  );
  keep();
  return { ...clock, stop };
}

/** Of a folder that has no time yet: when a file or a batch came last. */
function seenIn(data: string, path: string): number | null {
  const last = recalled<{ seen: number }>(
    path,
    one => isObject(one) && typeof one.seen === 'number' && isTime(one.seen),
  );
  if (last !== null) return last.seen;
  // it is not there, or nothing that was kept: what follows is as good but for some hours
  const folders = ['files', 'batches'].map(name => join(data, name)).filter(existsSync);
  return folders.length === 0 ? null : Math.max(...folders.map(folder => statSync(folder).mtimeMs));
}

/** ms that a Date can show */
const isTime = (ms: number): boolean => ms >= 0 && ms <= 8.64e15;
const timeOf = (ms: number): string => (isTime(ms) ? new Date(ms).toISOString() : `${ms} ms since 1970`);
