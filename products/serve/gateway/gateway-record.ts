/**
 * The gateway's ledger: a file a day, to be read and pruned by days. Nothing of it is replayed, so it keeps no index in
 * memory, however long the server runs. A disk that takes nothing is tried again, with a new file: a server outlives it.
 */

import { rmSync } from 'node:fs';
import { hostname } from 'node:os';
import type { Ledger } from '../../../engine/asking/ledger/ledger.ts';
import {
  type CallRecord,
  callLine,
  FORMAT,
  type Header,
  type Served,
} from '../../../engine/asking/ledger/ledger-format.ts';
import { createWriter, type Fsync, nameOf, type Writer } from '../../../engine/asking/ledger/writer.ts';
import type { AsksWith } from '../../../engine/core/item/call.ts';
import type { Fatal } from '../../../engine/core/item/failure.ts';
import type { Say } from '../../../engine/core/item/say.ts';
import type { Place } from './answer-cache.ts';

export interface GatewayLedgerOptions {
  /** the folder */
  path: string;
  fsync: Fsync;
  /** of fw */
  version: string;
  /** ms since 1970 */
  now(): number;
  /** calls that cannot be put on record have no answer; else they are counted as `missed` */
  isRequired: boolean;
  /** told once that the disk takes nothing, and once that a call is on record again */
  say: Say;
  /** a try was written that has taken tokens, and where its line is; null where it could not be written */
  onUsed(record: CallRecord, place: Place | null): void;
}

const STAGE: AsksWith = { stage: 'gateway', agents: {}, options: {} };

/** ms after which a broken disk is tried again */
const AGAIN = 1_000;
const DAY = 24 * 60 * 60 * 1_000;

export class GatewayLedger implements Ledger {
  readonly answers = 0;
  readonly lastRound = 0;
  readonly lastModel = undefined;
  readonly closed = null;
  readonly ofOthers = { count: 0, model: '' };
  // what is broken now is mended later, so it ends no pool: whyNot is asked
  readonly ready = (): null => null;
  // of raw calls: nothing is shared between requests
  readonly find = (): null => null;
  readonly has = (): boolean => false;
  readonly acceptedBefore = (): [] => [];
  readonly stage = (): void => {};
  readonly judge = (): void => {};
  readonly #options: GatewayLedgerOptions;
  #served: Served & { endpoints: readonly string[] } = { model: '', endpoints: [] };
  /** days since 1970 (UTC) */
  #day = Number.NaN;
  #file = '';
  #writer: Writer | null = null;
  /** ms, of files of other days */
  #blocked = 0;
  #broken: { error: Fatal; since: number } | null = null;
  #isToldBroken = false;
  #missed = 0;
  #missedBefore = 0;

  constructor(options: GatewayLedgerOptions) {
    this.#options = options;
  }

  get blocked(): number {
    return this.#blocked + (this.#writer?.blocked ?? 0);
  }

  /** calls that were answered without a record since the start */
  get missed(): number {
    return this.#missed;
  }

  /** Why no call may be answered now. */
  refusal(): Fatal | null {
    return this.#options.isRequired ? this.whyNot() : null;
  }

  /** Why nothing can be put on record now; null where it can. */
  whyNot(): Fatal | null {
    const broken = this.#broken;
    if (broken !== null && performance.now() - broken.since < AGAIN) return broken.error;
    const error = this.#ofToday().begin();
    if (error === null) this.#broken = null;
    else discard(this.#file);
    return error;
  }

  begin({ model, root }: Served, endpoints: readonly string[]): void {
    this.#served = { model, ...(root !== undefined && { root }), endpoints };
  }

  append(record: CallRecord, done?: (error?: Fatal) => void): void {
    const error = this.whyNot();
    if (error !== null) return this.#miss(record, error, done);
    const today = this.#ofToday();
    const path = this.#file;
    today.append(callLine(record, '', ''), (error, at, length) => {
      if (error !== null) return this.#miss(record, error, done);
      if (this.#isToldBroken) this.#sayAgain();
      if (record.usage !== undefined) this.#options.onUsed(record, { path, at, length });
      done?.();
    });
  }

  /** What it cost counts all the same. */
  #miss(record: CallRecord, error: Fatal, done?: (error?: Fatal) => void): void {
    if (this.#options.isRequired) return done?.(error);
    this.#missed += 1;
    if (record.usage !== undefined) this.#options.onUsed(record, null);
    done?.();
  }

  /** Once a call is on record: a file that could be begun may still have no room for one. */
  #sayAgain(): void {
    const missed = this.#missed - this.#missedBefore;
    const what = this.#options.isRequired
      ? 'requests are recorded and answered again'
      : `requests are recorded again; ${missed} are not on record`;
    this.#options.say(what, { event: 'record-again', ...(missed > 0 && { missed }) });
    this.#missedBefore = this.#missed;
    this.#isToldBroken = false;
  }

  async close(): Promise<void> {
    if (this.#writer !== null) await this.#close(this.#writer);
  }

  /** That of today: the file of another day is closed behind it. */
  #ofToday(): Writer {
    const { path, fsync, version, now } = this.#options;
    const time = now();
    const today = Math.floor(time / DAY); // each request asks twice
    if (this.#writer !== null && this.#day === today) return this.#writer;
    const started = new Date(time);
    if (this.#writer !== null) void this.#close(this.#writer);
    this.#day = today;
    const header: Header = {
      ...{ fw: FORMAT, version, started: started.toISOString(), host: hostname(), pid: process.pid },
      ...{ label: 'gateway', files: [], ...this.#served },
    };
    const head = () => [header, STAGE].map(line => JSON.stringify(line).slice(0, -1));
    this.#file = nameOf(path, started);
    const onBroken = (error: Fatal): void => this.#breakOff(error);
    this.#writer = createWriter({ path: this.#file, ownFolder: true, fsync, onBroken, head });
    return this.#writer;
  }

  #breakOff(error: Fatal): void {
    if (!this.#isToldBroken)
      this.#options.say(this.#words(error), { event: 'record-broken', level: 'error' });
    this.#isToldBroken = true;
    this.#broken = { error, since: performance.now() };
    if (this.#writer !== null) void this.#close(this.#writer);
    this.#writer = null;
  }

  #words({ message }: Fatal): string {
    const what = this.#options.isRequired
      ? 'no request is answered until it can be recorded'
      : 'requests are answered without a record';
    return `${what}: ${message.split('\n', 1)[0]}`;
  }

  async #close(writer: Writer): Promise<void> {
    writer.append(`{"end":"ended","time":"${new Date(this.#options.now()).toISOString()}"`);
    await writer.close();
    this.#blocked += writer.blocked;
  }
}

/** What was begun, and has no whole first line. */
function discard(path: string): void {
  try {
    rmSync(path, { force: true });
  } catch {
    // a reader leaves it out
  }
}
