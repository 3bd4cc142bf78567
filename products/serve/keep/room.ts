/**
 * How much room the disk of a server has. Below a reserve new work is refused, so that what was taken can be finished; below
 * half of it batches pause, and what is left is for the record of live calls. All goes on by itself when there is room.
 */

import { statfsSync } from 'node:fs';
import type { Level, Say } from '../../../engine/core/item/say.ts';
import { type ApiError, comeAgain } from '../errors.ts';
import { bytesWords } from './keep-settings.ts';

/** ok: all is taken. low: nothing new. full: batches wait, too. */
export type RoomState = 'ok' | 'low' | 'full';

export interface Disk {
  free: number;
  size: number;
}

/** ms between two looks */
const LOOK = 1_000;
/** The usual reserve: a part of the disk, and no more than so many bytes. */
const PART = 0.05;
const MOST = 4 * 2 ** 30;
/** Over the reserve by so much, new work is taken again: a disk at its edge is not to be told of each second. */
const BACK = 1.1;
/** bytes that there have to be for a batch to go on, whatever the reserve; of a small disk its usual reserve is enough */
const ROOM = 32 * 2 ** 20;
/** seconds */
const AGAIN = 60;

const LEVEL_OF: Readonly<Record<RoomState, Level>> = { ok: 'info', low: 'warn', full: 'error' };

export interface RoomOptions {
  /** the folder */
  data: string;
  /** bytes; null for what is usual */
  reserve: number | null;
  say: Say;
  look?: (folder: string) => Disk;
}

export class Room {
  readonly #options: RoomOptions;
  readonly #look: (folder: string) => Disk;
  readonly #timer: NodeJS.Timeout;
  #disk: Disk;
  #state: RoomState = 'ok';

  constructor(options: RoomOptions) {
    this.#options = options;
    this.#look = options.look ?? diskOf;
    this.#disk = this.#look(options.data);
    this.look();
    this.#timer = setInterval(() => this.look(), LOOK).unref();
  }

  get state(): RoomState {
    return this.#state;
  }

  /** bytes */
  get reserve(): number {
    return this.#options.reserve ?? Math.min(MOST, this.#part);
  }

  /** bytes: with less, a batch that was paused for the disk does not go on */
  get enough(): number {
    return Math.max(this.reserve, Math.min(ROOM, this.#part));
  }

  get #part(): number {
    return Math.floor(PART * this.#disk.size);
  }

  get free(): number {
    return this.#disk.free;
  }

  /** Whether a batch that waits for the disk may go on. */
  get isBack(): boolean {
    return this.#has(this.enough);
  }

  /** Whether one may that was paused for something else: as those that run, down to half of the reserve. */
  get isThere(): boolean {
    return this.#has(Math.min(ROOM, this.#part));
  }

  #has(bytes: number): boolean {
    return this.#state !== 'full' && this.#look(this.#options.data).free >= bytes;
  }

  /** Why batches wait that gave up their room, in words. */
  get why(): string {
    return `the disk is full but for ${bytesWords(this.free)}, which are kept for live requests${this.lack}`;
  }

  /** What batches that wait for the disk wait for, in words; empty while there is room. */
  get lack(): string {
    return this.free < this.enough ? `; batches go on once ${bytesWords(this.enough)} are free` : '';
  }

  /** What whoever looks at the page is told; empty while there is room. */
  get notice(): string {
    if (this.#state === 'ok') return '';
    const what = this.#state === 'low' ? 'Batches that run go on.' : 'Batches wait.';
    return `The disk of this server is nearly full (${bytesWords(this.free)} left): new files and batches are refused. ${what}`;
  }

  /** Throws 507 where new work, of so many bytes, is not taken. */
  refuse(bytes = 0): void {
    if (this.#state === 'ok' && this.free - bytes >= this.reserve) return;
    throw tooFull(this.free, this.reserve);
  }

  look(): void {
    try {
      this.#disk = this.#look(this.#options.data);
    } catch (error) {
      // whoever writes finds out
      this.#options.say(
        `expected to see how full the disk of ${this.#options.data} is, found ${(error as Error).message}`,
        { event: 'disk', level: 'warn' },
      );
      return;
    }
    const before = this.#state;
    this.#state = this.#next();
    if (this.#state !== before)
      this.#options.say(this.#words(), {
        ...{ event: `disk-${this.#state}`, level: LEVEL_OF[this.#state], bytes_free: this.free },
      });
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  #next(): RoomState {
    const { free } = this;
    const { reserve } = this;
    if (free < reserve / 2) return 'full';
    if (free < reserve) return this.#state === 'full' ? 'full' : 'low';
    return this.#state !== 'ok' && free < BACK * reserve ? 'low' : 'ok';
  }

  #words(): string {
    const { data } = this.#options;
    const has = `the disk of ${data} has ${bytesWords(this.free)} left`;
    if (this.#state === 'ok') return `${has}: files and batches are taken again`;
    const refused = `new files and batches are refused (507)`;
    const how = 'delete files or ended batches, prune the record, or make room';
    if (this.#state === 'low')
      return `${has}, less than the reserve of ${bytesWords(this.reserve)}: ${refused}; batches that run go on until it is half of that, live requests go on; ${how}`;
    return `${has}: ${refused}, batches wait; live requests go on as long as they can be recorded; ${how}`;
  }
}

const tooFull = (free: number, reserve: number): ApiError =>
  comeAgain(
    507,
    `The disk of the server is nearly full (${bytesWords(free)} left, and ${bytesWords(reserve)} are kept free): it takes no new files and batches. ` +
      'Nothing was kept. Delete files or batches that you no longer need, or try again later.',
    'insufficient_storage',
    AGAIN,
  );

export function diskOf(folder: string): Disk {
  const { bavail, bsize, blocks } = statfsSync(folder);
  return { free: bavail * bsize, size: blocks * bsize };
}
