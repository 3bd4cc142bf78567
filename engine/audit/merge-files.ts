/**
 * Files of lines, or of whole legacy documents, as one: of the lines with the same id the better rung stays, of equal
 * ones the newer.
 *
 *   OLD … ─ scan ─┐                   ┌─ in the order in which ids first came
 *   NEW ─── scan ─┴▶ table id → best ─┴▶ the best line of each, read again where it is
 *
 * Or the newest come as a flow: each is passed on at once, unless an old one is better, and the old ones follow.
 */
import _ from 'highland';
import { besidesOf } from '../core/files/input-files.ts';
import { changed, type LineFile, openResults } from '../core/files/line-places.ts';
import { letGo } from '../core/files/origin.ts';
import type { Account } from '../core/item/account.ts';
import { failureOf, type Item, idOf, saysEnd } from '../core/item/item.ts';
import { number, shown } from '../core/item/wording.ts';
import { openVouchers, type Vouchers } from '../flow/provenance.ts';
import { withFailure } from '../flow/stage.ts';
import { Best, rankBy } from './best.ts';

export interface MergeOptions {
  maxLine: number;
  /** whether a line is one that nobody may count, whatever it says of itself */
  isRefused: (line: Item) => boolean;
  account: Account;
}

/** Old lines that are handed on before signals and timers have their turn. */
const AT_ONCE = 256;
/** The place of a line of the flow: it is in no file, and is not read again. */
const NOWHERE = { offset: 0, length: 0, number: 0 };

/** The merged lines of `paths`, the oldest first. Exit 64 or 65 at once where one of them is no regular file. */
export function mergeFiles(
  paths: readonly string[],
  { signal, ...options }: MergeOptions & { signal: AbortSignal },
): Highland.Stream<Item> {
  const merging = new Merge(paths, options, 'file');
  let indexed: Promise<void> | null = null;
  return _<Item>((push, next) => {
    indexed ??= merging.index(signal);
    const fail = (error: unknown): void => {
      merging.close();
      push(error as Error);
      push(null, _.nil);
    };
    indexed.then(() => {
      let item: Item | null;
      try {
        item = signal.aborted ? null : merging.next();
      } catch (error) {
        return fail(error); // a file that has changed since it was scanned
      }
      if (item === null) {
        merging.close();
        return push(null, _.nil);
      }
      push(null, item);
      next();
    }, fail);
  });
}

/** The lines of a flow and, after them, those of the `old` files that no line of the flow takes the place of. */
export async function mergeInto(
  old: readonly string[],
  options: MergeOptions,
): Promise<(items: Highland.Stream<Item>) => Highland.Stream<Item>> {
  const { account } = options;
  const merging = new Merge(old, options, 'flow');
  await merging.index();
  const rest = _<Item>((push, next) => {
    let item: Item | null = null;
    try {
      item = merging.next();
    } catch (error) {
      push(error as Error);
    }
    if (item === null) {
      merging.close();
      return push(null, _.nil);
    }
    account.read += 1;
    push(null, item);
    if (account.read % AT_ONCE === 0) setImmediate(next);
    else next();
  });
  return items =>
    items
      .consume<Item>((error, line, push, next) => {
        if (_.isNil(line)) return push(null, _.nil);
        if (error) push(error);
        else {
          const taken = merging.take(line as Item);
          if (taken === null) account.aside += 1;
          else push(null, taken);
          if (taken !== line) letGo(line as Item);
        }
        next();
      })
      .concat(rest);
}

class Merge {
  readonly #paths: readonly string[];
  readonly #options: MergeOptions;
  readonly #newest: 'file' | 'flow';
  readonly #files: LineFile[];
  readonly #best: Best;
  readonly #ends: string[] = [];
  #vouchers: Vouchers | null = null;
  #lastWord: Item | null = null; // of the newest file, that it ended early
  #scanned = 0;
  #handed = 0;
  #at = 0;

  constructor(paths: readonly string[], options: MergeOptions, newest: 'file' | 'flow') {
    this.#paths = paths;
    this.#options = options;
    this.#newest = newest;
    this.#files = paths.map(path => openResults(path, { stage: 'merge', maxLine: options.maxLine }));
    this.#best = new Best([...paths, 'what is merged into them'], rankBy(options.isRefused));
  }

  /** Finds the best line of each id. Without a signal it does not stop before it has. */
  async index(signal?: AbortSignal): Promise<void> {
    const { maxLine } = this.#options;
    const besides = besidesOf(this.#paths);
    if (besides.length > 0) this.#vouchers = await openVouchers(besides, { stage: 'merge', maxLine });
    for (const [which, file] of this.#files.entries()) {
      for (const line of file.scan()) {
        if (line === null)
          await new Promise(setImmediate); // signals have their turn
        else {
          const item = this.#vouched(file.item(line));
          this.#scanned += 1;
          if (saysEnd(item)) this.#noteEnd(which, item);
          else this.#best.note(which, line, item);
        }
        if (signal?.aborted) return;
      }
    }
  }

  /** The line of the flow to pass on, or null. A line that was passed on is final: the first of an id stays. */
  take(line: Item): Item | null {
    if (saysEnd(line)) return line;
    const flow = this.#files.length;
    const id = idOf(line);
    const isFirst = id === null || this.#best.fileOf(id) !== flow;
    const noted = this.#best.note(flow, NOWHERE, line);
    if (typeof noted === 'object') return conflicting(line, noted.of);
    return noted === 'best' && isFirst ? line : null;
  }

  /** The best lines of the files one by one, then the newest file's last word; null at the end. */
  next(): Item | null {
    let item: Item | null = null;
    while (item === null && this.#at < this.#best.size) {
      const entry = this.#at++;
      const { file, place } = this.#best.at(entry);
      if (file === this.#files.length) continue;
      item = this.#vouched((this.#files[file] as LineFile).read(place));
      if (!this.#best.isStill(entry, item)) throw changed(this.#paths[file] as string);
      const of = this.#best.conflictAt(entry);
      if (of !== undefined) item = conflicting(item, of, `${this.#paths[file]}:${place.number}`);
    }
    if (item === null) [item, this.#lastWord] = [this.#lastWord, null];
    if (item !== null) this.#handed += 1;
    else this.#closeAccount();
    return item;
  }

  close(): void {
    for (const file of this.#files) file.close();
  }

  #vouched(line: Item): Item {
    return this.#vouchers?.vouch(line) ?? line;
  }

  /** An old file's early end is what the newer are there to mend; that of the newest is still true of the result. */
  #noteEnd(which: number, item: Item): void {
    this.#ends.push(`${this.#paths[which]} ended early: ${shown(failureOf(item)?.message ?? '')}`);
    if (this.#newest === 'file' && which === this.#files.length - 1) this.#lastWord ??= item;
  }

  #closeAccount(): void {
    const { account } = this.#options;
    const given = this.#scanned - this.#handed;
    const refused = this.#best.refused();
    account.read += given;
    account.aside += given;
    account.notes.push(...this.#best.notes(), ...this.#ends);
    account.findings += refused;
    if (refused > 0)
      account.notes.push(
        `results that verify refuses, of which no better line came: ${number(refused)}; they are left as they were`,
      );
  }
}

/** Whoever has two rows under one id cannot say which result is whose: the later line is kept whole, and failed. */
function conflicting(line: Item, of: string, where = 'this line'): Item {
  const message = `expected the prompt of ${of}, whose id ${where} has, found another prompt: results of two tables, or of one whose rows were moved, cannot be merged by row`;
  return withFailure(line, { stage: 'merge', code: 'other-prompt', message });
}
