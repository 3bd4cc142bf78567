/** Why a batch that has not ended is not asked now: what it waits for, and those that stand still since a disk or a room does. */
import { isFull } from '../../../engine/core/files/durable.ts';
import type { Say } from '../../../engine/core/item/say.ts';
import type { Parts } from '../server-context.ts';
import { type BatchRecord, isFinal } from './batch-state.ts';

/**
 * `disk`: paused, and tried again; `keys`: nobody knows what its key may do; `endpoint`, `worker`, `queue`: nobody is there
 * to answer; `model`: somebody is, but not for its models; `budget`: its key has used what it may; `turn`: others run
 * before it.
 */
export const REASONS = ['disk', 'keys', 'endpoint', 'worker', 'queue', 'model', 'budget', 'turn'] as const;
export type Reason = (typeof REASONS)[number];

export interface Waiting {
  reason: Reason;
  words: string;
}

interface Pause {
  /** by `performance.now()` */
  until: number;
  why: string;
  /** the disk was full: it waits for the whole reserve */
  isOfDisk: boolean;
  /** it gave up its room, and goes on as soon as there is some */
  yields?: true;
}

interface HoldParts {
  room: Pick<Parts['room'], 'state' | 'isBack' | 'isThere' | 'why' | 'lack'>;
  access: Pick<Parts['access'], 'budgets' | 'rulesOf' | 'unknown'>;
  /** why nobody answers it now; null where somebody may */
  missing(record: BatchRecord): Waiting | null;
  /** `words`: why it waits behind others; null where it may begin */
  turnOf(record: BatchRecord): { isRunning: boolean; words: string | null };
  say: Say;
}

/** ms until a batch that was broken off is tried again */
export const AGAIN = 5_000;

export class Holds {
  readonly #parts: HoldParts;
  readonly #paused = new Map<string, Pause>();

  constructor(parts: HoldParts) {
    this.#parts = parts;
  }

  /** how many wait for the disk */
  get paused(): number {
    return this.#paused.size;
  }

  /** null where it is asked */
  of(record: BatchRecord): Waiting | null {
    const { access, missing, turnOf } = this.#parts;
    const { id, status, key } = record;
    if (isFinal(status)) return null;
    const paused = this.#paused.get(id);
    if (paused !== undefined)
      return { reason: 'disk', words: `paused, and tried again: ${this.#whyNow(paused)}` };
    const unknown = this.unknown(record);
    if (unknown !== null) return { reason: 'keys', words: unknown };
    const nobody = missing(record);
    if (nobody !== null || status !== 'in_progress') return nobody;
    const { isRunning, words } = turnOf(record);
    const spent = isRunning ? access.budgets.waits(key, access.rulesOf(key)) : null;
    if (spent !== null) return { reason: 'budget', words: spent };
    return isRunning || words === null ? null : { reason: 'turn', words };
  }

  /** Why nobody knows what its key may do; null where it is known. What has ended, or is ending, needs none. */
  unknown({ key, status, outputs }: BatchRecord): string | null {
    const isAsking = outputs === null && (status === 'validating' || status === 'in_progress');
    const why = isAsking ? this.#parts.access.unknown(key) : null;
    return why === null ? null : `waits until it is known what its key may do: ${why}`;
  }

  pause({ id, owner }: Pick<BatchRecord, 'id' | 'owner'>, why: string): void {
    const isOfDisk = isFull({ code: /ENOSPC|EDQUOT/.exec(why)?.[0] });
    const words = isOfDisk ? 'the disk is full' : why;
    if (!this.#paused.has(id))
      this.#parts.say(`${id} is paused, and is tried again: ${words}`, {
        ...{ event: 'batch-paused', level: 'warn', batch: id, owner },
      });
    this.#paused.set(id, { until: performance.now() + AGAIN, why: words, isOfDisk });
  }

  /** What room there is left is for live calls. Whether it was not paused before. */
  yieldRoom(record: Pick<BatchRecord, 'id' | 'owner'>): boolean {
    const { why } = this.#parts.room;
    if (this.#paused.has(record.id)) return false;
    this.pause(record, why);
    this.#paused.set(record.id, { until: 0, why, isOfDisk: true, yields: true });
    return true;
  }

  resume(id: string): void {
    this.#paused.delete(id);
  }

  /** How much room there is changes while it waits. */
  #whyNow({ why, isOfDisk, yields }: Pause): string {
    const { room } = this.#parts;
    return yields ? room.why : `${why}${isOfDisk || room.state === 'full' ? room.lack : ''}`;
  }

  /** Whether it may be driven at `time`, by `performance.now()`. */
  mayGoOn(id: string, time: number): boolean {
    const { room } = this.#parts;
    const pause = this.#paused.get(id);
    if (pause === undefined) return room.state !== 'full';
    if (pause.yields && room.isBack) this.#paused.delete(id);
    return time >= pause.until && (pause.isOfDisk ? room.isBack : room.isThere);
  }
}
