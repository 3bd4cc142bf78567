/**
 * Reads ahead of a stage that asks, and hands its items on in the order in which servers compute the least: those that begin
 * alike one behind the other, and at one endpoint. Of a file it reads all before the first is asked, of a pipe a window:
 * what is not there within a moment is not waited for. What is too much for memory waits on disk.
 *
 *   items ─▶ being read ─ arranged ─▶ a walk for each model ─ the endpoint with the least to do takes of its range ─▶
 */
import { closeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import _ from 'highland';
import { writeWhole } from '../core/files/ndjson-out.ts';
import { type LineOrigin, letGo, originOf, remember } from '../core/files/origin.ts';
import { openUnnamed, readBack } from '../core/files/put-aside.ts';
import type { Account } from '../core/item/account.ts';
import type { Begins, Placing } from '../core/item/call.ts';
import type { Item } from '../core/item/item.ts';
import { Beginnings } from './beginnings.ts';
import { Walk } from './walk.ts';

export interface LookAheadOptions {
  /** null: its request begins like no other */
  begins(item: Item): Begins | null;
  /** lines that are read ahead; Infinity: all of them, since the input ends by itself */
  lines: number;
  /** absent: the order alone */
  placing?: Placing | undefined;
  signal: AbortSignal;
  account: Account;
}

/** Bytes that a window may hold, and what of a file waits in memory. */
const IN_MEMORY = 32 * 1024 * 1024;
/** What comes no sooner than this behind the line before it is not waited for, in ms. */
const A_MOMENT = 50;

type Push = (error: Error | null, item?: Item | Highland.Nil) => void;

export function lookAhead(items: Highland.Stream<Item>, options: LookAheadOptions): Highland.Stream<Item> {
  const ahead = new LookAhead(items, options);
  return _<Item>((push, next) => ahead.hand(push, next));
}

class LookAhead {
  readonly #options: LookAheadOptions;
  readonly #entry: Highland.Stream<never>;
  /** what is handed on, the oldest first, and what is still being read */
  #blocks: Block[] = [];
  #reading: Block;
  #isOpen = false;
  #more: (() => void) | null = null;
  #ended = false;
  #failure: Error | undefined;
  #wanted: (() => void) | null = null;
  #timer: NodeJS.Timeout | undefined;
  #cameLast = 0;
  #held = 0;

  constructor(items: Highland.Stream<Item>, options: LookAheadOptions) {
    this.#options = options;
    this.#reading = new Block(options);
    this.#entry = items.consume<never>((error, item, _push, next) => {
      if (error || _.isNil(item)) return this.#end(error);
      this.#hold(item);
      if (this.#isFull()) {
        this.#more = next;
        this.#wanted?.();
      } else next();
    });
    options.signal.addEventListener('abort', this.#letGo, { once: true });
  }

  /** Gives the reader the next item, or the end; waits where there is neither. */
  hand(push: Push, next: () => void): void {
    this.#wanted = null;
    const item = this.#take();
    if (item !== null) {
      push(null, item);
      return next();
    }
    if (this.#ended && this.#reading.count === 0) {
      this.#letGo();
      if (this.#failure) push(this.#failure);
      return push(null, _.nil);
    }
    this.#wanted = () => this.hand(push, next);
    this.#read();
  }

  #read(): void {
    if (!this.#isOpen) {
      this.#isOpen = true;
      this.#entry.resume();
    } else if (this.#more !== null && !this.#isFull()) {
      const next = this.#more;
      this.#more = null;
      next();
    }
    if (this.#wanted !== null && this.#options.lines !== Number.POSITIVE_INFINITY)
      this.#timer ??= setInterval(() => this.#lookForMore(), A_MOMENT);
  }

  /** What has come is enough where nothing more came for a moment. */
  #lookForMore(): void {
    if (this.#wanted !== null && this.#reading.count > 0 && performance.now() - this.#cameLast >= A_MOMENT) {
      this.#turn();
      this.#wanted();
    }
    if (this.#wanted === null) this.#stopTimer();
  }

  #stopTimer(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #isFull(): boolean {
    const { lines } = this.#options;
    if (lines === Number.POSITIVE_INFINITY) return false;
    return this.#reading.count >= lines || this.#reading.bytes >= IN_MEMORY;
  }

  /** To the account a line that is read ahead has not come yet. */
  #hold(item: Item): void {
    this.#reading.add(item);
    this.#cameLast = performance.now();
    this.#held += 1;
    this.#options.account.read -= 1;
  }

  #end(error: Error | null | undefined): void {
    this.#failure = error ?? undefined;
    this.#ended = true;
    if (this.#held > 0) this.#options.account.endedAt = null;
    this.#wanted?.();
  }

  /** What was being read is walked over, and reading goes on. */
  #turn(): void {
    this.#reading.arrange();
    this.#blocks.push(this.#reading);
    this.#reading = new Block(this.#options);
  }

  #take(): Item | null {
    if ((this.#ended || this.#isFull()) && this.#reading.count > 0 && this.#blocks.length === 0) this.#turn();
    const item = this.#next();
    if (item === null) return null;
    const { account } = this.#options;
    this.#held -= 1;
    account.read += 1;
    if (this.#ended && this.#held === 0) account.endedAt = performance.now();
    if (this.#more !== null) setImmediate(() => this.#read());
    return item;
  }

  #next(): Item | null {
    const { placing } = this.#options;
    const endpoint = placing?.hungriest(at => this.#blocks.some(block => block.hasFor(at))) ?? null;
    for (const block of this.#blocks) {
      const item = endpoint === null ? block.takeAny() : block.take(endpoint);
      if (item === null) continue;
      if (block.left === 0) {
        block.close();
        this.#blocks = this.#blocks.filter(other => other !== block);
      }
      return item;
    }
    return null;
  }

  readonly #letGo = (): void => {
    this.#stopTimer();
    this.#options.signal.removeEventListener('abort', this.#letGo);
    for (const block of [...this.#blocks, this.#reading]) block.close();
  };
}

interface OfModel {
  model: string;
  beginnings: Beginnings;
  /** of each its number in the block */
  lines: number[];
  walk: Walk | null;
}

/** Lines that are arranged together. */
class Block {
  readonly #options: LookAheadOptions;
  readonly #store = new Store();
  readonly #byModel = new Map<string, OfModel>();
  bytes = 0;
  left = 0;

  constructor(options: LookAheadOptions) {
    this.#options = options;
  }

  get count(): number {
    return this.#store.count;
  }

  add(item: Item): void {
    const begins = this.#beginsOf(item);
    const model = begins?.model ?? '';
    let ofModel = this.#byModel.get(model);
    if (ofModel === undefined) {
      ofModel = { model, beginnings: new Beginnings(), lines: [], walk: null };
      this.#byModel.set(model, ofModel);
    }
    ofModel.lines.push(this.count);
    ofModel.beginnings.add(begins?.texts ?? []);
    this.bytes += this.#store.add(item);
    this.left += 1;
  }

  /** Who asks says what is wrong with an item. */
  #beginsOf(item: Item): Begins | null {
    if (item.failure !== undefined) return null;
    try {
      return this.#options.begins(item);
    } catch {
      return null;
    }
  }

  arrange(): void {
    const { placing, account } = this.#options;
    for (const { model, beginnings, lines } of this.#byModel.values()) {
      const endpoints = placing?.servedBy(model) ?? 1;
      const walk = new Walk(beginnings, beginnings.arranged(), endpoints);
      this.#byModel.set(model, { model, beginnings: new Beginnings(), lines, walk });
      account.beginnings.bytes += walk.bytes;
      account.beginnings.repeated += walk.repeated;
    }
  }

  hasFor(endpoint: number): boolean {
    return this.#walkFor(endpoint) !== null;
  }

  /** The next item of the model of which the most is left. */
  take(endpoint: number): Item | null {
    const ofModel = this.#walkFor(endpoint);
    const taken = ofModel?.walk?.take(endpoint, this.#isUp);
    if (!ofModel || !taken) return null;
    const item = this.#given(ofModel, taken.line);
    if (taken.placed) this.#options.placing?.settle(this.#beginsOf(item)?.name ?? '', endpoint);
    return item;
  }

  takeAny(): Item | null {
    for (const ofModel of this.#byModel.values()) {
      const taken = ofModel.walk?.takeAny();
      if (taken) return this.#given(ofModel, taken.line);
    }
    return null;
  }

  close(): void {
    this.#store.close();
  }

  readonly #isUp = (endpoint: number): boolean => this.#options.placing?.isUp(endpoint) ?? true;

  #walkFor(endpoint: number): OfModel | null {
    let most: OfModel | null = null;
    for (const ofModel of this.#byModel.values()) {
      const { walk, model } = ofModel;
      if (walk === null || walk.left === 0 || walk.left <= (most?.walk?.left ?? 0)) continue;
      if (this.#byModel.size > 1 && !this.#options.placing?.serves(endpoint, model)) continue;
      if (walk.hasFor(endpoint, this.#isUp)) most = ofModel;
    }
    return most;
  }

  #given({ lines }: OfModel, line: number): Item {
    this.left -= 1;
    return this.#store.take(lines[line] as number);
  }
}

/** Bytes that are written to disk at once. */
const WRITTEN_AT_ONCE = 1 << 20;

/** Lines that wait: the first of them in memory, the others on disk. */
class Store {
  readonly #inMemory: (Item | null)[] = [];
  /** of those on disk: where they begin, and the origins of those that were read as lines */
  readonly #at: number[] = [];
  readonly #origins: (Pick<LineOrigin, 'number' | 'source'> | undefined)[] = [];
  #count = 0;
  #bytes = 0;
  #fd: number | null = null;
  #written = 0;
  #unwritten: Buffer[] = [];
  #end = 0;

  get count(): number {
    return this.#count;
  }

  /** Returns how many bytes it is, about. */
  add(item: Item): number {
    this.#count += 1;
    const origin = originOf(item);
    if (this.#fd === null && this.#bytes < IN_MEMORY) {
      const bytes = origin ? origin.to - origin.from : sizeOf(item);
      this.#bytes += bytes;
      this.#inMemory.push(item);
      return bytes;
    }
    this.#fd ??= openUnnamed(tmpdir(), 'lines that are read ahead');
    const bytes = origin
      ? Buffer.from(origin.block.subarray(origin.from, origin.to))
      : Buffer.from(JSON.stringify(item));
    if (origin) letGo(item);
    this.#at.push(this.#end);
    this.#origins.push(origin && { number: origin.number, ...(origin.source && { source: origin.source }) });
    this.#unwritten.push(bytes);
    this.#end += bytes.length;
    if (this.#end - this.#written >= WRITTEN_AT_ONCE) this.#write();
    return bytes.length;
  }

  /** Each is taken once. */
  take(line: number): Item {
    const item = this.#inMemory[line];
    if (item) {
      this.#inMemory[line] = null;
      return item;
    }
    this.#write();
    const at = line - this.#inMemory.length;
    const from = this.#at[at] as number;
    const block = readBack(this.#fd as number, from, (this.#at[at + 1] ?? this.#end) - from);
    const read = JSON.parse(block.toString()) as Item;
    const origin = this.#origins[at];
    if (origin) remember(read, { ...origin, block, from: 0, to: block.length });
    return read;
  }

  close(): void {
    if (this.#fd !== null) closeSync(this.#fd);
    this.#fd = null;
  }

  #write(): void {
    if (this.#unwritten.length === 0) return;
    writeWhole(this.#fd as number, Buffer.concat(this.#unwritten), `lines put aside in ${tmpdir()}`);
    this.#unwritten = [];
    this.#written = this.#end;
  }
}

/** Bytes of an item that was made here, about: most of it are its texts. */
function sizeOf({ prompt, request, messages, input }: Item): number {
  let bytes = 512 + (prompt?.length ?? 0);
  for (const value of [request, messages, input])
    if (value !== undefined) bytes += JSON.stringify(value).length;
  return bytes;
}
