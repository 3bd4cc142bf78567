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
import {
  afterSpace,
  CLOSE_OBJECT,
  COMMA,
  enter,
  isSpace,
  isValueOf,
  parsed,
  type Skim,
  structural,
} from '../json/brackets.ts';
import { lossless } from '../json/lossless.ts';
import { type JsonObject, join } from '../json/pointer.ts';
import { show } from '../json/show.ts';
import { hasMark, type LineSource, type LineSplitter, type LongLine, longLine, parseLine } from './line.ts';

/** What ends a document that fw writes: a half of one has no status, and is no JSON. */
export function documentEnd(complete: boolean): string {
  return `\n], "status": "${complete ? 'complete' : 'incomplete'}"}\n`;
}

const results = new WeakSet<object>();

/** Whether the line stood in the `results` of a document, and so claims to be a legacy result. */
export function isFromDocument(line: object): boolean {
  return results.has(line);
}

const NEWLINE = 10;

/** Line breaks between the tokens of an element become blanks, so that its bytes can leave as a line. */
export function putOnOneLine(element: Buffer): void {
  for (let at = element.indexOf(NEWLINE); at >= 0; at = element.indexOf(NEWLINE, at + 1)) element[at] = 0x20;
}

export interface DocumentSplitter extends LineSplitter {
  /** the input has turned out to be lines, from here on */
  isLines(): boolean;
}

/**
 * Splits an input that may be a document. The choice falls within the first object; NDJSON is then handed to `lines`,
 * and costs what it always costs.
 */
export function documentSplitter(
  source: LineSource,
  lines: (source: LineSource) => LineSplitter,
): DocumentSplitter {
  const { maxLine, name } = source;
  const plain = lines(source);
  let elements: LineSource = { ...source, unit: 'result' };
  const skim: Skim = { at: 0, depth: 0, inString: false };
  let state: 'start' | 'head' | 'element' | 'tail' | 'lines' = 'start';
  let block: Buffer = Buffer.alloc(0);
  let from = 0; // of the bytes still needed: the head, the element or the tail in work
  let count = 0; // results of this document
  let head: JsonObject = {};
  let headText = '';
  let long: LongLine | null = null;
  let isLeased = false; // the whole block is that of lines
  let atEnd = false; // the input is over, and what was kept of it turned out to be lines
  const waiting: Item[] = [];

  return {
    isLines: () => state === 'lines',
    feed(next, searched) {
      isLeased = state === 'lines';
      if (state === 'lines') plain.feed(next, searched);
      else block = next;
    },
    next: () => (state === 'lines' ? plain.next() : advance()),
    rest() {
      if (state === 'lines') return plain.rest();
      const left = block.subarray(from);
      skim.at -= from;
      from = 0;
      if (long === null && left.length <= maxLine) return left.length === 0 ? null : left;
      long ??= longLine(elements);
      long.add(left);
      skim.at -= left.length;
      return null;
    },
    lease: () => (isLeased ? plain.lease() : null),
    finish(left) {
      if (state === 'lines') return endOfLines(left);
      if (waiting.length > 0) return waiting.shift() as Item;
      if (state === 'start') return null;
      if (state !== 'head') return cutShort(left);
      beLines(left as Buffer);
      atEnd = true;
      return endOfLines(null);
    },
  };

  function beLines(bytes: Buffer): void {
    state = 'lines';
    plain.feed(bytes, 0);
  }

  function endOfLines(left: Buffer | null): Item | null {
    if (!atEnd) return plain.finish(left);
    const item = plain.next();
    if (item !== null) return item;
    atEnd = false;
    return plain.finish(plain.rest());
  }

  function advance(): Item | null {
    for (;;) {
      if (waiting.length > 0) return waiting.shift() as Item;
      if (state === 'lines') return plain.next();
      if (skim.at >= block.length) {
        if (state !== 'head' || block.length - from <= maxLine) return null;
        beLines(block.subarray(from));
      } else if (state === 'start') start();
      else if (state === 'head') readHead();
      else if (state === 'tail') readTail();
      else {
        const item = readElement();
        if (item !== null) return item;
      }
    }
  }

  function begin(next: typeof state, depth: number): void {
    state = next;
    from = skim.at;
    skim.depth = depth;
    skim.inString = false;
  }

  function start(): void {
    from = skim.at;
    skim.at = afterSpace(block, hasMark(block, from) ? from + 3 : from);
    if (skim.at >= block.length) from = skim.at;
    else if (block[skim.at] !== 0x7b) beLines(block.subarray(from));
    else state = 'head'; // from the mark on, which a line keeps
  }

  function readHead(): void {
    for (let byte = structural(block, skim); byte !== undefined; byte = structural(block, skim)) {
      if (byte === 0x5b && skim.depth === 1 && isValueOf('results', block, skim.at)) return openResults();
      enter(skim, byte);
      if (byte === NEWLINE || skim.depth === 0) return beLines(block.subarray(from));
    }
  }

  function openResults(): void {
    const text = `${block.toString('utf8', from, skim.at).trimStart()}[]}`;
    const before = parsed(text);
    if (before === null || 'id' in before) return beLines(block.subarray(from));
    head = before;
    const { metadata } = head;
    elements = { ...elements, metadata, ordering: (metadata as { ordering?: unknown } | null)?.ordering };
    headText = text;
    count = 0;
    skim.at += 1;
    begin('element', 0);
  }

  /** The next element, or null where the block ends before it does, or the array has ended. */
  function readElement(): Item | null {
    if (from === skim.at && long === null) from = skim.at = afterSpace(block, from);
    for (let byte = structural(block, skim); byte !== undefined; byte = structural(block, skim)) {
      const isEnd = skim.depth === 0 && (byte === COMMA || byte === 0x5d || byte === CLOSE_OBJECT);
      if (!isEnd) {
        enter(skim, byte);
        continue;
      }
      const item = taken(skim.at, byte);
      if (byte === CLOSE_OBJECT)
        waiting.push(fault('not-json', `expected ']' after result ${count}, found '}'`));
      else skim.at += 1;
      begin(byte === COMMA ? 'element' : 'tail', byte === COMMA ? 0 : 1);
      return item;
    }
    return null;
  }

  /** The element that ends at `to`, before a comma or the end of the array. */
  function taken(to: number, ending: number): Item | null {
    let end = to;
    while (end > from && isSpace(block[end - 1])) end -= 1;
    if (end === from && long === null) {
      if (ending !== COMMA && count === 0) return null;
      return fault('not-json', `expected a result before '${String.fromCharCode(ending)}', found none`);
    }
    count += 1;
    if (long !== null || end - from > maxLine) {
      const ended = long ?? longLine(elements);
      ended.add(block.subarray(from, end));
      long = null;
      return ended.end(count);
    }
    const item = parseLine(block, from, end, { checked: false, number: count, source: elements });
    if (item.id === null && item.failure !== undefined) return item;
    putOnOneLine(block.subarray(from, end));
    results.add(item);
    return item;
  }

  function readTail(): void {
    for (let byte = structural(block, skim); byte !== undefined; byte = structural(block, skim)) {
      enter(skim, byte);
      if (skim.depth > 0) continue;
      judge(long === null ? `{"results":[]${block.toString('utf8', from, skim.at)}` : '');
      long = null;
      return begin('start', 0);
    }
  }

  function judge(tailText: string): void {
    const tail = parsed(tailText);
    if (tail === null) {
      waiting.push(
        fault(
          'not-json',
          `expected the rest of the document after ${counted(count, 'result')}, found no JSON`,
        ),
      );
      return;
    }
    if (count === 0) {
      waiting.push(fault('not-strict', '/results: expected at least one result, got an empty array'));
    }
    const again = duplicateIn(headText) ?? duplicateIn(tailText) ?? secondIn(head, tail);
    if (again !== undefined) {
      waiting.push(fault('not-strict', `${again}: expected one value for the key, got a second one`));
    } else if (!Array.isArray(tail.results) || tail.results.length > 0) {
      waiting.push(fault('not-strict', '/results: expected one list of results, got a second'));
    }
    const claimed = countIn(tail) ?? countIn(head);
    if (claimed !== undefined && claimed !== count) {
      waiting.push(
        fault(
          'not-strict',
          `/metadata/count: expected ${count}, the number of results, got ${show(claimed)}`,
        ),
      );
    }
    const status = tail.status ?? head.status;
    if (status === 'complete') return;
    const code = status === 'incomplete' ? 'input-incomplete' : 'not-strict';
    const got = status === undefined ? 'nothing' : (JSON.stringify(status) as string).slice(0, 60);
    waiting.push(fault(code, `/status: expected "complete", got ${got}`));
  }

  function cutShort(left: Buffer | null): Item {
    const part = left === null ? {} : { text: left.toString('utf8', 0, 1024) };
    const where = state === 'element' ? 'its results' : 'what follows them';
    long = null;
    from = skim.at = 0;
    begin('start', 0);
    const message = `expected the document to end, found the end of the input in ${where}, after result ${count}`;
    return fault('not-json', message, part);
  }

  function fault(code: Code, message: string, more: JsonObject = {}): Item {
    return { id: null, failure: { stage: source.stage, code, message: `${name}: ${message}`, ...more } };
  }
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
