/**
 * What a ledger says of the calls of a line: how long each took, where, when, what was asked to the letter. One pass makes an
 * index of keys while others go on; a call's own line is read when somebody looks at it. Nothing here throws on what the
 * files hold: what cannot be read is not there.
 */
import { closeSync, openSync, readSync, statSync } from 'node:fs';
import { setImmediate } from 'node:timers/promises';
import {
  type CallLine,
  type Header,
  isAnswer,
  isCall,
  isSealed,
  keyIn,
} from '../../engine/asking/ledger/ledger-format.ts';
import {
  callIn,
  type LedgerDamage,
  type Line,
  ledgerFiles,
  linesOf,
  parsed,
} from '../../engine/asking/ledger/read-ledger.ts';
import { hasBody, type Texts, textsOf } from '../../engine/asking/ledger/request-texts.ts';
import { isObject } from '../../engine/core/json/pointer.ts';
import { CallIndex, type Entry, MOST_PLACE } from './call-index.ts';

/** Of one try of a call. */
export interface CallFacts {
  key: string;
  /** `answer`, or in words what stood in its way: `HTTP 503`, `timeout` */
  outcome: string;
  /** HTTP status; null where there was no reply */
  status: number | null;
  /** from sending to the end of the answer */
  seconds: number;
  /** from sending to the first token; null where nobody knows */
  firstToken: number | null;
  endpoint: string;
  /** when it ended, ISO 8601 in UTC */
  ended: string;
  model: string;
  attempt: number;
  round: number;
  finish: string | null;
  usage: { prompt: number; completion: number; cached?: number | undefined } | null;
  /** what went wrong, in words */
  detail: string | null;
  /** texts of the request were left out of the ledger (--redact) */
  isRedacted: boolean;
  /** where the request went, below the endpoint; of a raw one below the server */
  path: string;
  isRaw: boolean;
  /** the body as it went over the wire; null where a text of it is lost, or it is too long to be kept in memory */
  request: string | null;
}

/** What a table shows of a call; from memory. */
export interface CallBrief {
  seconds: number;
  endpoint: string;
  /** when it ended, in seconds since 1970 */
  ended: number;
}

export interface LedgerState {
  calls: number;
  readBytes: number;
  ofBytes: number;
  done: boolean;
  /** what cannot be read, in words */
  notes: string[];
}

/** ms for which the pass holds everybody else up */
const SLICE = 15;
/** lines between two looks at the clock */
const LINES = 64;
const MOST_NOTES = 20;
/** Bytes of one call's line that are read for a page. */
const LONGEST_LINE = 32 << 20;
/** Names of endpoints that are kept: the last number stands for all others. */
const OTHERS = 255;
const UTF8_NEWLINE = 10;

interface LedgerFile {
  path: string;
  texts: Texts;
  /** where to read on */
  read: number;
  header: Header | null;
}

/** A stretch of a file that was read: its bytes have the places from `base` on. */
interface Stretch {
  base: number;
  file: LedgerFile;
  from: number;
}

/** Exit 65 where there is nothing at `path`. Nothing is read yet: see `read`. */
export function openLedgerFacts(path: string): LedgerFacts {
  return new LedgerFacts(path);
}

export class LedgerFacts {
  readonly path: string;
  readonly #index = new CallIndex();
  readonly #files = new Map<string, LedgerFile>();
  readonly #stretches: Stretch[] = [];
  readonly #endpoints: string[] = [];
  readonly #notes = new Set<string>();
  #paths: string[];
  #base = 0;
  #readBytes = 0;
  #ofBytes = 0;
  #reading: Promise<void> | null = null;
  #isDone = false;
  #isClosed = false;

  constructor(path: string) {
    this.path = path;
    this.#paths = ledgerFiles(path, this.#tell);
  }

  state(): LedgerState {
    return {
      calls: this.#index.size,
      readBytes: this.#readBytes,
      ofBytes: this.#ofBytes,
      done: this.#isDone,
      notes: [...this.#notes],
    };
  }

  /** Bytes that the index takes. */
  get bytes(): number {
    return this.#index.bytes;
  }

  /** Reads what is there and was not read before, in slices; one pass at a time. */
  read(): Promise<void> {
    this.#reading ??= this.#readAll().finally(() => {
      this.#reading = null;
    });
    return this.#reading;
  }

  async #readAll(): Promise<void> {
    try {
      this.#paths = ledgerFiles(this.path, this.#tell);
    } catch {
      // it was there a moment ago: what was read of it stays
    }
    const files = this.#paths.map(path => this.#fileAt(path));
    this.#ofBytes = files.reduce((sum, { path, read }) => sum + Math.max(read, sizeOf(path)), 0);
    for (const file of files) await this.#readFile(file);
    this.#isDone = true;
  }

  #fileAt(path: string): LedgerFile {
    const known = this.#files.get(path);
    if (known !== undefined) return known;
    const file = { path, texts: textsOf(path), read: 0, header: null };
    this.#files.set(path, file);
    return file;
  }

  async #readFile(file: LedgerFile): Promise<void> {
    const size = sizeOf(file.path);
    if (size <= file.read) return;
    const last = this.#stretches.at(-1);
    const goesOn = last?.file === file && last.base + file.read - last.from === this.#base;
    const stretch = goesOn ? last : { base: this.#base, file, from: file.read };
    let count = 0;
    let since = performance.now();
    for (const line of linesOf(file.path, this.#tell, { at: file.read, header: file.header })) {
      const end = line.at + line.bytes.length + 1;
      const place = stretch.base + line.at - stretch.from;
      if (place + line.bytes.length >= MOST_PLACE) {
        this.#note(`${file.path}: expected a ledger of at most ${MOST_PLACE} bytes, found more`);
        break;
      }
      file.texts.note(line);
      file.header = line.header;
      if (isCall(line.bytes)) this.#add(line.bytes, place);
      this.#readBytes += end - file.read;
      file.read = end;
      this.#base = stretch.base + end - stretch.from;
      if (this.#stretches.at(-1) !== stretch) this.#stretches.push(stretch);
      if (++count % LINES > 0 || performance.now() - since < SLICE) continue;
      await setImmediate();
      if (this.#isClosed) return;
      since = performance.now();
    }
  }

  #add(bytes: Buffer, place: number): void {
    const ended = Date.parse(textAfter(bytes, BEFORE_TIME)) / 1000;
    const ms = numberAfter(bytes, BEFORE_MS);
    this.#index.add(keyIn(bytes), {
      ...{ place, ms, ended },
      note: this.#endpointOf(textAfter(bytes, BEFORE_ENDPOINT)),
      isAnswer: isAnswer(bytes),
    });
  }

  #endpointOf(name: string): number {
    const known = this.#endpoints.indexOf(name);
    if (known >= 0) return known;
    if (this.#endpoints.length >= OTHERS) return OTHERS;
    return this.#endpoints.push(name) - 1;
  }

  /** Of the answer to a call, or its last try where it has none; null where the ledger has nothing of it, or not yet. */
  brief(key: string): CallBrief | null {
    const found = this.#index.find(key);
    const one = found.find(({ isAnswer: is }) => is) ?? found.at(-1);
    if (one === undefined) return null;
    const named = this.#endpoints[one.note];
    const endpoint = named === undefined ? (this.#factsAt(one, key)?.endpoint ?? '') : plain(named);
    return { seconds: one.ms / 1000, endpoint, ended: one.ended };
  }

  /** Every try of a call, in the order in which they ended; the last ones alone of a call that was tried more than 50 times. */
  triesOf(key: string): CallFacts[] {
    return this.#index
      .find(key)
      .slice(-MOST_TRIES)
      .flatMap(entry => this.#factsAt(entry, key) ?? [])
      .sort((a, b) => (a.ended < b.ended ? -1 : a.ended > b.ended ? 1 : 0));
  }

  #factsAt({ place }: Entry, key: string): CallFacts | null {
    const stretch = this.#stretches.findLast(({ base }) => base <= place);
    if (stretch === undefined) return null;
    const at = place - stretch.base + stretch.from;
    const { path, texts, header } = stretch.file;
    const bytes = lineAt(path, at);
    // files may shrink, and 48 bits of two keys may be the same
    if (bytes === null || !isSealed(bytes) || !isCall(bytes) || keyIn(bytes) !== key) return null;
    const call = callIn(bytes);
    if (call === null) return null;
    return { ...factsOf(call, header), ...requestIn({ at, bytes, header }, texts) };
  }

  close(): void {
    this.#isClosed = true;
    for (const { texts } of this.#files.values()) texts.close();
  }

  readonly #tell = ({ path, kind, message }: LedgerDamage): void => {
    if (kind !== 'torn') this.#note(`${path}: ${message}`);
  };

  #note(text: string): void {
    if (this.#notes.size < MOST_NOTES) this.#notes.add(text);
  }
}

const MOST_TRIES = 50;
const BEFORE_TIME = Buffer.from('","time":"');
const BEFORE_ENDPOINT = Buffer.from('","endpoint":"');
const BEFORE_MS = Buffer.from(',"ms":');
const QUOTE = 0x22;

/** Of a sealed line, without parsing it: quotes are escaped in texts, so that none of them holds such a beginning. */
function textAfter(bytes: Buffer, before: Buffer): string {
  const from = bytes.indexOf(before) + before.length;
  if (from < before.length) return '';
  return bytes.toString('utf8', from, Math.max(from, bytes.indexOf(QUOTE, from)));
}

function numberAfter(bytes: Buffer, before: Buffer): number {
  const from = bytes.indexOf(before) + before.length;
  return from < before.length ? 0 : Number.parseInt(bytes.toString('latin1', from, from + 12), 10);
}

function factsOf(call: Omit<CallLine, 'request'>, header: Header | null) {
  const { key, outcome, time, endpoint, model, attempt, round, ms, ttft, finish, usage, detail } = call;
  const status = outcome === 'answer' ? 200 : Number(/^HTTP (\d{3})$/.exec(outcome)?.[1] ?? Number.NaN);
  return {
    ...{ key, outcome, endpoint: plain(endpoint), attempt, round, ended: time },
    status: Number.isNaN(status) ? null : status,
    seconds: ms / 1000,
    firstToken: typeof ttft === 'number' ? ttft / 1000 : null,
    // older ledgers have none where the request named none
    model: model || (header?.model ?? ''),
    finish: finish ?? null,
    usage: usage ?? null,
    detail: typeof detail === 'string' ? detail : null,
    isRedacted: call.redacted === true,
  };
}

/** An endpoint without what may be a secret in it. */
function plain(endpoint: string): string {
  return endpoint.replace(/^([a-z]+:\/\/)[^/?#]*@/i, '$1');
}

function requestIn(line: Line, texts: Texts): Pick<CallFacts, 'path' | 'isRaw' | 'request'> {
  const { request } = parsed(line.bytes.toString()) ?? {};
  const { path } = isObject(request) ? request : {};
  const whole = texts.bodyOf(line);
  texts.close(); // a ledger may have thousands of files
  return { path: typeof path === 'string' ? path : '', isRaw: hasBody(line.bytes), request: whole };
}

function sizeOf(path: string): number {
  try {
    return statSync(path).size;
  } catch {
    return 0;
  }
}

/** The line that begins at an offset, without its newline; null where none is there. */
function lineAt(path: string, at: number): Buffer | null {
  let file: number;
  try {
    file = openSync(path, 'r');
  } catch {
    return null;
  }
  try {
    let bytes = Buffer.allocUnsafe(64 << 10);
    for (let filled = 0; ; ) {
      const got = readSync(file, bytes, filled, bytes.length - filled, at + filled);
      const end = bytes.subarray(0, filled + got).indexOf(UTF8_NEWLINE, filled);
      if (end >= 0) return bytes.subarray(0, end);
      filled += got;
      if (got === 0 || filled >= LONGEST_LINE) return null;
      if (filled === bytes.length) bytes = Buffer.concat([bytes], 2 * filled);
    }
  } catch {
    return null;
  } finally {
    closeSync(file);
  }
}
