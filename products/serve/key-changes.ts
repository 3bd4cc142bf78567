/** Changes of DIR/keys.json: of `fw keys`, and of admins of a server that runs. Whoever changes it has the lock of it. */
import { randomBytes } from 'node:crypto';
import { closeSync, fsyncSync, lstatSync, rmSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { takeLock } from '../../engine/asking/ledger/lock.ts';
import { inTurn } from '../../engine/asking/ledger/lock-waiting.ts';
import { isFull, makeFolder, OWNER_ONLY, openNew } from '../../engine/core/files/durable.ts';
import { ioError, usageError } from '../../engine/core/item/failure.ts';
import { type KeyRecord, keysPath, readKeys, roomPath, writeKeys } from './api-keys.ts';

/** The name of an owner: what a log, a path and a page can show. */
export const OWNER = /^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$/;

const DAY = /^\d{4}-\d\d-\d\d$/;
const FROM_NOW = /^(\d{1,5})([dhms])$/;
const UNITS: Readonly<Record<string, number>> = { d: 86_400_000, h: 3_600_000, m: 60_000, s: 1_000 };
/** Unix seconds: the last that a day of four digits of a year has; a Date holds 8.64e12, which no form can show */
export const LAST_EXPIRY = Date.UTC(9999, 11, 31, 23, 59, 59) / 1000;

/** Unix seconds. Exit 64, naming `where`, for what is no time to come. */
export function expiryOf(text: string, now: number, where: string): number {
  const [, count, unit] = FROM_NOW.exec(text) ?? [];
  const time = DAY.test(text) ? dayIn(text) : now + Number(count) * (UNITS[unit as string] ?? Number.NaN);
  if (time > now) return Math.floor(time / 1000);
  throw usageError(
    `${where}: expected a time to come, such as 30d, 12h or 2027-01-31, found '${text.slice(0, 100)}'`,
  );
}

/** ms since 1970; NaN for a day that no month has: JavaScript reads the 30th of February as the 2nd of March. */
function dayIn(text: string): number {
  const time = Date.parse(`${text}T00:00:00Z`);
  return !Number.isNaN(time) && new Date(time).toISOString().startsWith(text) ? time : Number.NaN;
}

/** bytes that are held for a revocation, and what is written of them at a time: a block of most file systems */
const ROOM = 64 * 1024;
const BLOCK = 4 * 1024;

/**
 * Holds room on the disk of `data`, as a file: a key has to be revoked on a disk that is full, too, and its lock and its new
 * file need some blocks for that. Where there is less room, it holds what there is.
 */
export function holdRoom(data: string): void {
  const path = roomPath(data);
  try {
    if (heldIn(path) === ROOM) return;
    const fd = openNew(path);
    try {
      // no zeros: some file systems keep no blocks of these
      for (let held = 0; held < ROOM; held += BLOCK) writeSync(fd, randomBytes(BLOCK));
    } finally {
      fsyncSync(fd);
      closeSync(fd);
    }
  } catch {
    // the next change tries it again
  }
}

/** Gives up what is held; false where that is nothing. */
function giveRoom(data: string): boolean {
  const path = roomPath(data);
  if (heldIn(path) === 0) return false;
  rmSync(path, { force: true });
  return true;
}

/** bytes; 0 where something else is in its place */
function heldIn(path: string): number {
  const stat = lstatSync(path, { throwIfNoEntry: false });
  return stat?.isFile() === true ? stat.size : 0;
}

/**
 * Reads, changes and writes the keys; of several at once each waits for its turn. `isUrgent`: on a full disk it takes the room
 * that is held for it.
 */
export async function changeKeys(
  data: string,
  act: (keys: KeyRecord[]) => KeyRecord[],
  { isUrgent = false }: { isUrgent?: boolean } = {},
): Promise<void> {
  try {
    makeFolder(data, OWNER_ONLY.folder);
    await changed(data, act).catch(error => {
      if (!isUrgent || !isFull(error) || !giveRoom(data)) throw error;
      return changed(data, act);
    });
    holdRoom(data);
  } catch (error) {
    const { syscall, message } = error as NodeJS.ErrnoException;
    if (syscall === undefined) throw error; // what `act` says, too
    throw ioError(`expected to write ${keysPath(data)}, found ${message}`);
  }
}

async function changed(data: string, act: (keys: KeyRecord[]) => KeyRecord[]): Promise<void> {
  const what = { name: keysPath(data), hint: 'then give the command again' };
  const lock = await inTurn(() => takeLock(join(data, 'locks'), 'keys', { what }));
  try {
    writeKeys(data, act(readKeys(data) ?? []));
  } finally {
    lock.release();
  }
}
