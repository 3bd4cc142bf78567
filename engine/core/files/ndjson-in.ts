/**
 * NDJSON in: blocks of bytes are split on newlines and parsed one line at a time, on demand. A line that is no object
 * becomes a failed item that holds it, so nothing is dropped; an empty line holds nothing and is passed over.
 */
import _ from 'highland';
import type { Item } from '../item/item.ts';
import { DocumentSplitter } from './document.ts';
import { refuseForeign } from './encoding.ts';
import type { ByteInput } from './input-files.ts';
import { type LineSource, LineSplitter, type Splitter } from './line.ts';
import { type Lease, letGo } from './origin.ts';

export interface LineOptions {
  /** the stage that speaks in the failures of unreadable lines */
  stage: string;
  /** bytes */
  maxLine: number;
  /** an input may be a whole legacy document, whose results are then the lines (see document.ts) */
  documents?: boolean;
  /** true once the reading should end before the input does */
  stopped(input: ByteInput): boolean;
  /** the error to end with where the beginning of an input shows that it is no lines at all */
  refuses?(block: Buffer, source: LineSource): Error | null;
}

/** The lines of `inputs` as items and records, one a demand; between blocks the event loop has its turn. */
export function readItems(inputs: readonly ByteInput[], options: LineOptions): Highland.Stream<Item> {
  let at = 0;
  let lines: Splitter | null = null;
  let block: Buffer | null = null;
  let rest: Buffer | null = null;
  let used: { block: Buffer; lease: Lease }[] = []; // the last two blocks, the older one first
  let looked = -1; // the last input whose beginning was looked at

  return _<Item>((push, next) => {
    const step = (): void => {
      const input = inputs[at];
      if (input === undefined) return push(null, _.nil);
      const source = sourceOf(input);
      lines ??= options.documents ? new DocumentSplitter(source) : new LineSplitter(source);
      if (block !== null) {
        const item = lines.next();
        if (item !== null) {
          push(null, item);
          return next();
        }
        rest = lines.rest();
        block = null;
        setImmediate(step); // signals and timers have their turn between two blocks
        return;
      }
      if (options.stopped(input)) return leave(input, push);
      let got: Buffer | null | Promise<Buffer | null>;
      try {
        const before = used.length === 2 ? used.shift() : undefined;
        const isFree = before?.lease.holders === 0;
        if (before && isFree) before.lease.over = true;
        got = input.read(rest, isFree ? before?.block : undefined);
      } catch (error) {
        return fail(error, push);
      }
      if (got instanceof Promise) got.then(take, error => fail(error, push));
      else take(got);
    };
    const take = (got: Buffer | null): void => {
      const splitting = lines as Splitter;
      if (got !== null) {
        const source = sourceOf(inputs[at] as ByteInput);
        const wrong =
          looked === at ? null : (refuseForeign(got, source.name) ?? options.refuses?.(got, source));
        if (wrong) return fail(wrong, push);
        looked = at;
        block = got;
        const lease = { holders: 0, over: false };
        used.push({ block: got, lease });
        splitting.feed(got, rest?.length ?? 0, lease);
        return step();
      }
      const last = splitting.finish(rest);
      rest = null;
      if (last !== null) {
        push(null, last);
        return next(); // what is left is asked for again, by another read at the end of the input
      }
      inputs[at]?.close();
      at += 1;
      lines = null;
      used = [];
      step();
    };
    step();
  });

  function sourceOf({ name }: ByteInput): LineSource {
    return { stage: options.stage, name, maxLine: options.maxLine };
  }
  function leave(input: ByteInput, push: Push): void {
    input.close();
    push(null, _.nil);
  }
  function fail(error: unknown, push: Push): void {
    push(error as Error);
    push(null, _.nil);
  }
}

/** Each line as `work` gives it on, none where it gives null; `end` is called once, after the last. */
export function mapLines(
  items: Highland.Stream<Item>,
  work: (line: Item) => Item | null,
  end: () => void,
): Highland.Stream<Item> {
  return items.consume<Item>((error, line, push, next) => {
    if (_.isNil(line)) {
      end();
      return push(null, _.nil);
    }
    if (error) push(error);
    else {
      try {
        const after = work(line as Item);
        if (after !== line) letGo(line as Item);
        if (after !== null) push(null, after);
      } catch (failure) {
        push(failure as Error);
      }
    }
    next();
  });
}

type Push = (error: Error | null, value?: Item | Highland.Nil) => void;
