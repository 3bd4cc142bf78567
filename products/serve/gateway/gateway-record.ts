/**
 * The gateway's ledger: a file a day, to be read and pruned by days. Nothing of it is replayed, so it keeps no index in
 * memory, however long the server runs. A disk that takes nothing is tried again, with a new file: a server outlives it.
 */

import { rmSync } from 'node:fs';
import { hostname } from 'node:os';
import type { Ledger } from '../../../engine/asking/ledger/ledger.ts';
import { callLine, FORMAT, type Header, type Served } from '../../../engine/asking/ledger/ledger-format.ts';
import { createWriter, type Fsync, nameOf, type Writer } from '../../../engine/asking/ledger/writer.ts';
import type { AsksWith } from '../../../engine/core/item/call.ts';
import type { Fatal } from '../../../engine/core/item/failure.ts';
import type { Place } from './answer-cache.ts';

export interface GatewayLedgerOptions {
  /** the folder */
  path: string;
  fsync: Fsync;
  /** of fw */
  version: string;
  /** ms since 1970 */
  now(): number;
  /** told once, until a file was begun again */
  onBroken(error: Fatal): void;
  /** an answer was written: the request, and where its line is */
  onAnswer(item: string, place: Place): void;
}

const STAGE: AsksWith = { stage: 'gateway', agents: {}, options: {} };

/** ms after which a broken disk is tried again */
const AGAIN = 1_000;
const DAY = 24 * 60 * 60 * 1_000;

export interface GatewayLedger extends Ledger {
  /** Why nothing can be put on record now; null where it can. */
  whyNot(): Fatal | null;
}

export function openGatewayLedger(options: GatewayLedgerOptions): GatewayLedger {
  const { path, fsync, version, now, onBroken, onAnswer } = options;
  let served: Served & { endpoints: readonly string[] } = { model: '', endpoints: [] };
  /** days since 1970 (UTC) */
  let day = Number.NaN;
  let file = '';
  let writer: Writer | null = null;
  let blocked = 0;
  let broken: { error: Fatal; since: number } | null = null;

  function breakOff(error: Fatal): void {
    if (broken === null) onBroken(error);
    broken = { error, since: performance.now() };
    if (writer !== null) void close(writer);
    writer = null;
  }

  function whyNot(): Fatal | null {
    if (broken !== null && performance.now() - broken.since < AGAIN) return broken.error;
    const error = ofToday().begin();
    if (error === null) broken = null;
    else discard(file);
    return error;
  }

  /** That of today: the file of another day is closed behind it. */
  function ofToday(): Writer {
    const time = now();
    const today = Math.floor(time / DAY); // each request asks twice
    if (writer !== null && day === today) return writer;
    const started = new Date(time);
    if (writer !== null) void close(writer);
    day = today;
    const header: Header = {
      ...{ fw: FORMAT, version, started: started.toISOString(), host: hostname(), pid: process.pid },
      ...{ label: 'gateway', files: [], ...served },
    };
    const head = () => [header, STAGE].map(line => JSON.stringify(line).slice(0, -1));
    file = nameOf(path, started);
    writer = createWriter({ path: file, ownFolder: true, fsync, onBroken: breakOff, head });
    return writer;
  }

  async function close(old: Writer): Promise<void> {
    old.append(`{"end":"ended","time":"${new Date(now()).toISOString()}"`);
    await old.close();
    blocked += old.blocked;
  }

  return {
    answers: 0,
    lastRound: 0,
    lastModel: undefined,
    closed: null,
    get blocked() {
      return blocked + (writer?.blocked ?? 0);
    },
    ready: () => null, // what is broken now is mended later, so it ends no pool: whyNot is asked
    whyNot,
    begin({ model, root }, endpoints) {
      served = { model, ...(root !== undefined && { root }), endpoints };
    },
    stage() {},
    find: () => null,
    ofOthers: { count: 0, model: '' },
    has: () => false,
    // of raw calls: nothing is shared between requests
    append(record, done) {
      const error = whyNot();
      if (error !== null) return done?.(error);
      const today = ofToday();
      const own = file;
      today.append(callLine(record, '', ''), (error, at, length) => {
        if (error === null && record.outcome === 'answer') onAnswer(record.item, { path: own, at, length });
        done?.(error ?? undefined);
      });
    },
    acceptedBefore: () => [],
    judge() {},
    async close() {
      if (writer !== null) await close(writer);
    },
  };
}

/** What was begun, and has no whole first line. */
function discard(path: string): void {
  try {
    rmSync(path, { force: true });
  } catch {
    // a reader leaves it out
  }
}
