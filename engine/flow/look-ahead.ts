/**
 * Reads ahead of a stage that asks, and hands its items on in the order in which servers compute the least: those that begin
 * alike one behind the other, and at one endpoint. Of a file it reads all before the first is asked, of a pipe a window:
 * what is not there within a moment is not waited for. What is too much for memory waits on disk. Where a run goes on, the
 * lines whose answers are on record come between the others: servers are not left idle until all of those are read.
 *
 *   items ─▶ being read ─ arranged ─▶ a walk for each model ─ the endpoint with the least to do takes of its range ─▶
 */
import _ from 'highland';
import type { Account } from '../core/item/account.ts';
import type { Begins, Placing } from '../core/item/call.ts';
import type { Item } from '../core/item/item.ts';
import { Beginnings, beginningOf, textsIn } from './beginnings.ts';
import { HeldLines, IN_MEMORY } from './held-lines.ts';
import { type Numbers, small } from './numbers.ts';
import { type Others, Walk } from './walk.ts';

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

/** What comes no sooner than this behind the line before it is not waited for, in ms. */
const A_MOMENT = 50;
/** … nor for longer than this, in ms: a stage before it may ask models, too. */
const AT_MOST = 1_000;

/** Lines that are asked before the first that is on record, and lines on record behind each of those that follow. */
const ASKED_FIRST = 256;
const BEHIND_EACH = 32;

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
  #waitsSince = 0;
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
      if (!this.#options.signal.aborted) this.#letGo();
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
    if (this.#wanted !== null && this.#options.lines !== Number.POSITIVE_INFINITY) this.#startTimer();
  }

  #startTimer(): void {
    if (this.#timer !== undefined) return;
    this.#waitsSince = performance.now();
    this.#timer = setInterval(() => this.#lookForMore(), A_MOMENT);
  }

  /** What has come is enough where nothing more came for a moment, or more comes but slowly. */
  #lookForMore(): void {
    const now = performance.now();
    const isEnough = now - this.#cameLast >= A_MOMENT || now - this.#waitsSince >= AT_MOST;
    if (this.#wanted !== null && this.#reading.count > 0 && isEnough) {
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
    this.#options.account.read -= 1;
    if (this.#options.signal.aborted) return;
    this.#reading.add(item);
    this.#cameLast = performance.now();
    this.#held += 1;
  }

  #end(error: Error | null | undefined): void {
    this.#failure = error ?? undefined;
    // of what is held as a whole nothing is asked where something is wrong with it
    if (error && this.#options.lines === Number.POSITIVE_INFINITY) {
      this.#reading.close();
      this.#reading = new Block(this.#options);
      this.#held = 0;
    }
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

  /** Nothing more is handed on. */
  readonly #letGo = (): void => {
    this.#stopTimer();
    this.#options.signal.removeEventListener('abort', this.#letGo);
    for (const block of [...this.#blocks, this.#reading]) block.close();
    this.#blocks = [];
    this.#reading = new Block(this.#options);
    this.#ended = true;
    this.#wanted?.();
  };
}

const ALONE: Others = { isUp: () => true, inHand: () => 0 };

interface OfModel {
  model: string;
  beginnings: Beginnings;
  /** of each its number in the block */
  lines: Numbers<Uint32Array>;
  walk: Walk | null;
}

/** Lines that are arranged together. */
class Block {
  readonly #options: LookAheadOptions;
  readonly #store = new HeldLines();
  readonly #byModel = new Map<string, OfModel>();
  readonly #others: Others;
  /** numbers of lines whose answers are on record, and how many of them and of the others were taken */
  readonly #known = small();
  #knownTaken = 0;
  #askedTaken = 0;
  bytes = 0;
  left = 0;

  constructor(options: LookAheadOptions) {
    this.#options = options;
    this.#others = options.placing ?? ALONE;
  }

  get count(): number {
    return this.#store.count;
  }

  add(item: Item): void {
    const begins = beginningOf(item, this.#options.begins);
    if (begins?.isKnown) {
      this.#known.push(this.count);
      this.bytes += this.#store.add(item);
      this.left += 1;
      return;
    }
    const model = begins?.model ?? '';
    let ofModel = this.#byModel.get(model);
    if (ofModel === undefined) {
      ofModel = { model, beginnings: new Beginnings(), lines: small(), walk: null };
      this.#byModel.set(model, ofModel);
    }
    ofModel.lines.push(this.count);
    ofModel.beginnings.add(textsIn(begins));
    this.bytes += this.#store.add(item);
    this.left += 1;
  }

  arrange(): void {
    const { placing, account } = this.#options;
    for (const { model, beginnings, lines } of this.#byModel.values()) {
      const endpoints = placing?.servedBy(model) ?? 1;
      const arranged = beginnings.arranged();
      const walk = new Walk(beginnings, arranged, endpoints);
      this.#byModel.set(model, { model, beginnings: new Beginnings(), lines, walk });
      account.beginnings.bytes += arranged.bytes;
      account.beginnings.repeated += arranged.repeated;
    }
  }

  hasFor(endpoint: number): boolean {
    return this.#walkFor(endpoint) !== null;
  }

  /** The next item of the model of which the most is left. */
  take(endpoint: number): Item | null {
    if (this.#isKnownDue()) return this.#takeKnown();
    const ofModel = this.#walkFor(endpoint);
    const taken = ofModel?.walk?.take(endpoint, this.#others);
    if (!ofModel || !taken) return null;
    const item = this.#given(ofModel, taken.line);
    if (taken.placed)
      this.#options.placing?.settle(beginningOf(item, this.#options.begins)?.name ?? '', endpoint);
    return item;
  }

  takeAny(): Item | null {
    if (this.#isKnownDue()) return this.#takeKnown();
    for (const ofModel of this.#byModel.values()) {
      const taken = ofModel.walk?.takeAny();
      if (taken) return this.#given(ofModel, taken.line);
    }
    return null;
  }

  close(): void {
    this.#store.close();
  }

  #isKnownDue(): boolean {
    const left = this.#known.count - this.#knownTaken;
    if (left === 0 || left === this.left) return left > 0;
    return this.#knownTaken < (this.#askedTaken - ASKED_FIRST) * BEHIND_EACH;
  }

  #takeKnown(): Item {
    this.left -= 1;
    return this.#store.take(this.#known.at(this.#knownTaken++));
  }

  #walkFor(endpoint: number): OfModel | null {
    let most: OfModel | null = null;
    for (const ofModel of this.#byModel.values()) {
      const { walk, model } = ofModel;
      if (walk === null || walk.left === 0 || walk.left <= (most?.walk?.left ?? 0)) continue;
      if (this.#byModel.size > 1 && !this.#options.placing?.serves(endpoint, model)) continue;
      if (walk.hasFor(endpoint, this.#others)) most = ofModel;
    }
    return most;
  }

  #given({ lines }: OfModel, line: number): Item {
    this.left -= 1;
    this.#askedTaken += 1;
    return this.#store.take(lines.at(line));
  }
}
