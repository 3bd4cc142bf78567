/**
 * What keys have used, on disk: DIR/budgets.jsonl. The record of calls is what counts; this is how far of it was added up,
 * so that a start reads only the end of it. Lines are appended a moment later than answers are given, each with values as
 * they are then: a torn last line, or one that was lost, costs the next start some reading and no token. No .ndjson, which is what the
 * files of a ledger are called.
 */
import { appendFileSync, statSync } from 'node:fs';
import { join, relative, sep } from 'node:path';
import { isCall } from '../../engine/asking/ledger/ledger-format.ts';
import { callIn, callsOf, ledgerFiles, linesOf, parsed } from '../../engine/asking/ledger/read-ledger.ts';
import { OWNER_ONLY, readKept, replaceFile } from '../../engine/core/files/durable.ts';
import type { Say } from '../../engine/core/item/say.ts';
import { isObject } from '../../engine/core/json/pointer.ts';
import type { Budgets, Snapshot } from './budgets.ts';

/** How far the gateway's record is added up: a file below its folder, and a byte. */
interface Mark {
  file: string;
  at: number;
}

interface Line extends Snapshot {
  mark: Mark | null;
  /** the last line of a server that was stopped */
  closed?: true;
}

/** ms between two lines; bytes after which the file is written anew */
const EVERY = 500;
const MOST = 1024 * 1024;

export class BudgetJournal {
  readonly #path: string;
  readonly #record: string;
  readonly #budgets: Budgets;
  readonly #say: Say;
  readonly #isOurs: (surely: boolean) => boolean;
  readonly #timer: NodeJS.Timeout;
  #mark: Mark | null = null;
  #bytes = 0;
  #isBroken = false;
  /** The server before this one was killed: ledgers of batches may have more than was charged. */
  readonly wasKilled: boolean;

  /** Adds up what an earlier server has left under `data`. */
  constructor(
    data: string,
    budgets: Budgets,
    { now, say, isOurs }: { now(): number; say: Say; isOurs(surely: boolean): boolean },
  ) {
    this.#path = join(data, 'budgets.jsonl');
    this.#record = join(data, 'gateway');
    this.#budgets = budgets;
    this.#say = say;
    this.#isOurs = isOurs;
    let isClosed = false;
    for (const line of linesIn(this.#path)) {
      budgets.restore(line);
      this.#mark = line.mark ?? this.#mark;
      isClosed = line.closed === true;
    }
    this.wasKilled = !isClosed;
    if (!isClosed) this.#addUp(new Date(now()).toISOString().slice(0, 10));
    this.#rewrite();
    this.#timer = setInterval(() => {
      budgets.look();
      this.#append();
    }, EVERY).unref();
  }

  /** An answer was charged whose line in the gateway's record is the last of these. */
  note({ path, at, length }: { path: string; at: number; length: number }): void {
    this.#mark = { file: nameIn(this.#record, path), at: at + length };
  }

  /** Charges what the ledger of a batch has and was not charged, since a server was killed in between. */
  settleBatch(key: string | null, batch: string, ledger: string): void {
    if (!this.wasKilled || statSync(ledger, { throwIfNoEntry: false }) === undefined) return;
    let recorded = 0;
    for (const path of ledgerFiles(ledger, () => {}))
      for (const { call } of callsOf(path, () => {}))
        recorded += (call.usage?.prompt ?? 0) + (call.usage?.completion ?? 0);
    this.settle(key, batch, recorded);
  }

  /** Charges what was not charged of so many tokens of a batch, which are on disk. */
  settle(key: string | null, batch: string, recorded: number): void {
    const missing = recorded - this.#budgets.chargedOf(batch);
    if (missing > 0) this.#budgets.charge(key, missing, batch);
  }

  /** What was charged until now is on disk when this returns. */
  flush(): void {
    this.#append();
  }

  close(): void {
    clearInterval(this.#timer);
    this.#rewrite(true);
  }

  /** What the gateway has on record behind the mark; of `today` where there is no mark. */
  #addUp(today: string): void {
    if (statSync(this.#record, { throwIfNoEntry: false }) === undefined) return;
    for (const path of ledgerFiles(this.#record, () => {})) {
      const file = nameIn(this.#record, path);
      if (this.#mark === null ? !file.startsWith(today) : file < this.#mark.file) continue;
      const from = file === this.#mark?.file ? this.#mark.at : 0;
      for (const { at, bytes } of linesOf(path, () => {}, { at: from, header: null })) {
        const call = isCall(bytes) ? callIn(bytes) : null;
        if (call?.usage === undefined) continue;
        const { usage, caller_key: key = null, time } = call;
        this.#budgets.charge(key, usage.prompt + usage.completion, undefined, Date.parse(time));
        // a newline, too
        this.#mark = { file, at: at + bytes.length + 1 };
      }
    }
  }

  #line(all: boolean, closed = false): string | null {
    const news = this.#budgets.changes(all);
    if (news === null && !all) return null;
    const line: Line = { mark: this.#mark, keys: {}, batches: {}, ...news, ...(closed && { closed: true }) };
    // behind a line that was torn this one is whole
    return `\n${JSON.stringify(line)}`;
  }

  #rewrite(closed = false): void {
    const text = this.#line(true, closed) ?? '';
    this.#kept(() => replaceFile(this.#path, text));
    this.#bytes = text.length;
  }

  /** Some 50 µs, twice a second: a line that is under way when another one is written would come behind newer ones. */
  #append(): void {
    if (this.#isBroken || this.#bytes > MOST) return this.#rewrite();
    const text = this.#line(false);
    if (text === null) return;
    this.#bytes += text.length;
    this.#kept(() => appendFileSync(this.#path, text, { mode: OWNER_ONLY.file }));
  }

  #kept(act: () => void): void {
    // what another one has added up since is more than what this one knows
    if (!this.#isOurs(true)) return;
    try {
      act();
      this.#isBroken = false;
    } catch (error) {
      this.#broken(error);
    }
  }

  /** All of it is written anew later; a server that ends before that adds it up from the record. */
  #broken(error: unknown): void {
    if (!this.#isBroken)
      this.#say(`budgets: expected to write ${this.#path}, found ${(error as Error).message}; tried again`, {
        ...{ event: 'disk', level: 'warn' },
      });
    this.#isBroken = true;
  }
}

const nameIn = (folder: string, path: string): string => relative(folder, path).split(sep).join('/');

/** Those that are whole; what is none of ours says nothing. */
function linesIn(path: string): Line[] {
  let text: string;
  try {
    text = readKept(path).toString();
  } catch {
    return [];
  }
  return text
    .split('\n')
    .map(line => parsed(line))
    .filter(line => line !== null && isObject(line.keys) && isObject(line.batches)) as unknown as Line[];
}
