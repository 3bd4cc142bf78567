/**
 * A whole legacy document, `{"results": [ … ], "status": "complete"}`, as a stream: files of this shape reach gigabytes,
 * and are often printed over many lines. `metadata` and other keys may come before the results or after them.
 *
 *   start ─▶ head ─┬─ an object without a list of results, or with an id ──▶ lines: NDJSON
 *     ▲            └─ "results": [ ─▶ element , element , … ] ─▶ tail , "status": … } ─┐
 *     └──────────────────────── documents may be put end to end ◀──────────────────────┘
 *
 * Each element of `results` is a line. What is wrong with the document itself becomes a failed item among them, since
 * a failure is data: whoever reads on must not take the results for whole.
 */

import type { Code } from '../item/codes.ts';
import type { Item } from '../item/item.ts';
import { counted } from '../item/wording.ts';
import { lossless } from '../json/lossless.ts';
import { type JsonObject, join } from '../json/pointer.ts';
import { show } from '../json/show.ts';
import {
  afterSpaceBytes,
  CLOSE_ARRAY,
  CLOSE_OBJECT,
  COMMA,
  enter,
  isSpace,
  isValueOf,
  OPEN_ARRAY,
  OPEN_OBJECT,
  parsed,
  type Skim,
  structural,
} from '../json/span.ts';
import {
  hasMark,
  type LineSource,
  LineSplitter,
  type LongLine,
  longLine,
  parseLine,
  type Splitter,
} from './line.ts';
import { type Lease, rememberResult } from './origin.ts';

/** What ends a document that fw writes: a half of one has no status, and is no JSON. */
export function documentEnd(complete: boolean): string {
  return `\n], "status": "${complete ? 'complete' : 'incomplete'}"}\n`;
}

const NEWLINE = 10;

/** Line breaks between the tokens of an element become blanks, so that its bytes can leave as a line. */
export function putOnOneLine(element: Buffer): void {
  for (let at = element.indexOf(NEWLINE); at >= 0; at = element.indexOf(NEWLINE, at + 1)) element[at] = 0x20;
}

/**
 * Splits an input that may be a document. The choice falls within the first object; NDJSON is then split as lines, and
 * costs what it always costs.
 */
export class DocumentSplitter implements Splitter {
  readonly #source: LineSource;
  readonly #lines: LineSplitter;
  #elements: LineSource;
  readonly #skim: Skim = { at: 0, depth: 0, inString: false };
  #state: 'start' | 'head' | 'element' | 'tail' | 'lines' = 'start';
  #block: Buffer = Buffer.alloc(0);
  #lease: Lease | undefined;
  /** of the bytes still needed: the head, the element or the tail in work */
  #from = 0;
  /** results of this document */
  #count = 0;
  #head: JsonObject = {};
  #headText = '';
  #long: LongLine | null = null;
  /** the input is over, and what was kept of it turned out to be lines */
  #atEnd = false;
  readonly #waiting: Item[] = [];

  constructor(source: LineSource) {
    this.#source = source;
    this.#lines = new LineSplitter(source);
    this.#elements = { ...source, unit: 'result' };
  }

  /** The input has turned out to be lines, from here on. */
  get isLines(): boolean {
    return this.#state === 'lines';
  }

  feed(block: Buffer, searched: number, lease?: Lease): void {
    if (this.#state === 'lines') this.#lines.feed(block, searched, lease);
    else [this.#block, this.#lease] = [block, lease];
  }

  next(): Item | null {
    for (;;) {
      if (this.#state === 'lines') return this.#lines.next();
      const item = this.#waiting.shift();
      if (item !== undefined) return item;
      if (this.#skim.at >= this.#block.length) {
        if (this.#state !== 'head' || this.#block.length - this.#from <= this.#source.maxLine) return null;
        this.#beLines(this.#block.subarray(this.#from), this.#lease);
      } else if (this.#state === 'start') this.#start();
      else if (this.#state === 'head') this.#readHead();
      else if (this.#state === 'tail') this.#readTail();
      else {
        const element = this.#readElement();
        if (element !== null) return element;
      }
    }
  }

  rest(): Buffer | null {
    if (this.#state === 'lines') return this.#lines.rest();
    const left = this.#block.subarray(this.#from);
    this.#skim.at -= this.#from;
    this.#from = 0;
    if (this.#long === null && left.length <= this.#source.maxLine) return left.length === 0 ? null : left;
    this.#long ??= longLine(this.#elements);
    this.#long.add(left);
    this.#skim.at -= left.length;
    return null;
  }

  finish(left: Buffer | null): Item | null {
    if (this.#state === 'head') {
      this.#beLines(left as Buffer);
      this.#atEnd = true;
    }
    if (this.#state === 'lines') return this.#endOfLines(left);
    return this.#waiting.shift() ?? (this.#state === 'start' ? null : this.#cutShort(left));
  }

  #beLines(bytes: Buffer, lease?: Lease): void {
    this.#state = 'lines';
    this.#lines.feed(bytes, 0, lease);
  }

  #endOfLines(left: Buffer | null): Item | null {
    if (!this.#atEnd) return this.#lines.finish(left);
    const item = this.#lines.next();
    if (item !== null) return item;
    this.#atEnd = false;
    return this.#lines.finish(this.#lines.rest());
  }

  #begin(state: 'start' | 'element' | 'tail', depth: number): void {
    this.#state = state;
    this.#from = this.#skim.at;
    this.#skim.depth = depth;
    this.#skim.inString = false;
  }

  #start(): void {
    const block = this.#block;
    const from = this.#skim.at;
    const begin = afterSpaceBytes(block, hasMark(block, from) ? from + 3 : from);
    this.#skim.at = begin;
    this.#from = begin >= block.length ? begin : from; // from the mark on, which a line keeps
    if (begin >= block.length) return;
    if (block[begin] === OPEN_OBJECT) this.#state = 'head';
    else this.#beLines(block.subarray(from), this.#lease);
  }

  #readHead(): void {
    const block = this.#block;
    const skim = this.#skim;
    for (let byte = structural(block, skim); byte !== undefined; byte = structural(block, skim)) {
      if (byte === OPEN_ARRAY && skim.depth === 1 && isValueOf('results', block, skim.at))
        return this.#openResults();
      enter(skim, byte);
      if (byte === NEWLINE || skim.depth === 0) return this.#beLines(block.subarray(this.#from), this.#lease);
    }
  }

  #openResults(): void {
    const text = `${this.#block.toString('utf8', this.#from, this.#skim.at).trimStart()}[]}`;
    const head = parsed(text);
    if (head === null || 'id' in head) return this.#beLines(this.#block.subarray(this.#from), this.#lease);
    const { metadata } = head;
    const ordering = (metadata as { ordering?: unknown } | null)?.ordering;
    this.#elements = { ...this.#elements, metadata, ordering };
    this.#head = head;
    this.#headText = text;
    this.#count = 0;
    this.#skim.at += 1;
    this.#begin('element', 0);
  }

  /** The next element, or null where the block ends before it does, or the array has ended. */
  #readElement(): Item | null {
    const block = this.#block;
    const skim = this.#skim;
    if (this.#from === skim.at && this.#long === null) this.#from = skim.at = afterSpaceBytes(block, skim.at);
    for (let byte = structural(block, skim); byte !== undefined; byte = structural(block, skim)) {
      const isEnd = skim.depth === 0 && (byte === COMMA || byte === CLOSE_ARRAY || byte === CLOSE_OBJECT);
      if (!isEnd) {
        enter(skim, byte);
        continue;
      }
      const item = this.#taken(skim.at, byte);
      if (byte === CLOSE_OBJECT)
        this.#waiting.push(this.#fault('not-json', `expected ']' after result ${this.#count}, found '}'`));
      else skim.at += 1;
      if (byte === COMMA) this.#begin('element', 0);
      else this.#begin('tail', 1);
      return item;
    }
    return null;
  }

  /** The element that ends at `to`, before a comma or the end of the array. */
  #taken(to: number, ending: number): Item | null {
    const block = this.#block;
    const from = this.#from;
    let end = to;
    while (end > from && isSpace(block[end - 1])) end -= 1;
    if (end === from && this.#long === null) {
      if (ending !== COMMA && this.#count === 0) return null;
      return this.#fault('not-json', `expected a result before '${String.fromCharCode(ending)}', found none`);
    }
    this.#count += 1;
    if (this.#long !== null || end - from > this.#source.maxLine) {
      const long = this.#long ?? longLine(this.#elements);
      long.add(block.subarray(from, end));
      this.#long = null;
      return long.end(this.#count);
    }
    const item = parseLine(block, from, end, {
      checked: false,
      number: this.#count,
      source: this.#elements,
      lease: this.#lease,
    });
    if (item.id === null && item.failure !== undefined) return item;
    putOnOneLine(block.subarray(from, end));
    rememberResult(item);
    return item;
  }

  #readTail(): void {
    const skim = this.#skim;
    for (let byte = structural(this.#block, skim); byte !== undefined; byte = structural(this.#block, skim)) {
      enter(skim, byte);
      if (skim.depth > 0) continue;
      const text =
        this.#long === null ? `{"results":[]${this.#block.toString('utf8', this.#from, skim.at)}` : '';
      this.#long = null;
      const troubles = troublesIn({
        head: this.#head,
        headText: this.#headText,
        tailText: text,
        count: this.#count,
      });
      this.#waiting.push(...troubles.map(([code, message]) => this.#fault(code, message)));
      return this.#begin('start', 0);
    }
  }

  #cutShort(left: Buffer | null): Item {
    const where = this.#state === 'element' ? 'its results' : 'what follows them';
    this.#long = null;
    this.#skim.at = 0;
    this.#begin('start', 0);
    return this.#fault(
      'not-json',
      `expected the document to end, found the end of the input in ${where}, after result ${this.#count}`,
      left === null ? {} : { text: left.toString('utf8', 0, 1024) },
    );
  }

  #fault(code: Code, message: string, more: JsonObject = {}): Item {
    const { stage, name } = this.#source;
    return { id: null, failure: { stage, code, message: `${name}: ${message}`, ...more } };
  }
}

/** A document without its results. */
interface Around {
  head: JsonObject;
  headText: string;
  tailText: string;
  /** results that were read */
  count: number;
}

/** What is wrong with a document, beside its results. */
function troublesIn({ head, headText, tailText, count }: Around): [Code, string][] {
  const tail = parsed(tailText);
  if (tail === null)
    return [
      ['not-json', `expected the rest of the document after ${counted(count, 'result')}, found no JSON`],
    ];
  const troubles: [Code, string][] = [];
  if (count === 0)
    troubles.push(['not-strict', '/results: expected at least one result, got an empty array']);
  const again = duplicateIn(headText) ?? duplicateIn(tailText) ?? secondIn(head, tail);
  if (again !== undefined)
    troubles.push(['not-strict', `${again}: expected one value for the key, got a second one`]);
  else if (!Array.isArray(tail.results) || tail.results.length > 0)
    troubles.push(['not-strict', '/results: expected one list of results, got a second']);
  const claimed = countIn(tail) ?? countIn(head);
  if (claimed !== undefined && claimed !== count)
    troubles.push([
      'not-strict',
      `/metadata/count: expected ${count}, the number of results, got ${show(claimed)}`,
    ]);
  const status = tail.status ?? head.status;
  if (status === 'complete') return troubles;
  const code = status === 'incomplete' ? 'input-incomplete' : 'not-strict';
  const got = status === undefined ? 'nothing' : JSON.stringify(status).slice(0, 60);
  return [...troubles, [code, `/status: expected "complete", got ${got}`]];
}

/** How many results a document says that it has; one that is read with fewer has lost some. */
function countIn({ metadata }: JsonObject): unknown {
  return (metadata as { count?: unknown } | null | undefined)?.count;
}

/** The first key that a text has twice, as a pointer: JSON.parse would silently take the second. */
function duplicateIn(text: string): string | undefined {
  const loss = lossless(text);
  return loss?.keyword === 'duplicate-key' ? loss.at : undefined;
}

/** A key that comes both before the results and after them. */
function secondIn(head: JsonObject, tail: JsonObject): string | undefined {
  const key = Object.keys(tail).find(name => name !== 'results' && Object.hasOwn(head, name));
  return key === undefined ? undefined : join('', key);
}
