/**
 * Two files of lines as one: of the lines with the same id the better rung stays, of equal ones the newer. Nothing of
 * the lines is kept meanwhile but where the best of an id stands, and a hash of the id: some 50 bytes an id.
 *
 *   OLD ─ scan ─┐                    ┌─ in the order in which ids first came: OLD's, then those only in NEW
 *   NEW ─ scan ─┴▶ table id → entry ─┴▶ the best line of each, read again where it stands
 */
import _ from 'highland';
import { type Account, number, shown } from './account.ts';
import { describeNamed, type Named, name, noneNamed } from './expected.ts';
import { createIdTable } from './idset.ts';
import { failureOf, type Item, idOf, isItem, RUNGS, rungOf } from './item.ts';
import { type LineFile, openLines, type Place } from './scan.ts';

export interface MergeOptions {
  old: string;
  new: string;
  maxLine: number;
  signal: AbortSignal;
  account: Account;
}

/** The merged lines. Exit 64 or 65 at once where one of the two is no regular file. */
export function mergeFiles(options: MergeOptions): Highland.Stream<Item> {
  const { account, signal, maxLine } = options;
  const paths = [options.old, options.new];
  const files = paths.map(path => openLines(path, { stage: 'merge', maxLine }));
  const entries = createEntries();
  const ids = createIdTable();
  const counts = { replaced: 0, withoutId: 0 };
  const twice = [noneNamed(), noneNamed()];
  const ends: string[] = [];
  let unfinished: Item | null = null; // NEW's word that it ended early
  let at = 0;
  let indexed: Promise<void> | null = null;

  return _<Item>((push, next) => {
    indexed ??= index();
    indexed.then(
      () => {
        const item = signal.aborted ? null : take();
        if (item === null) {
          for (const file of files) file.close();
          return push(null, _.nil);
        }
        push(null, item);
        next();
      },
      error => {
        push(error);
        push(null, _.nil);
      },
    );
  });

  function take(): Item | null {
    if (at < entries.size) return (files[entries.fileOf(at)] as LineFile).read(entries.placeOf(at++));
    const last = unfinished;
    unfinished = null;
    return last;
  }

  async function index(): Promise<void> {
    for (const [which, file] of files.entries()) {
      for (const line of file.scan()) {
        if (line === null)
          await new Promise(setImmediate); // signals have their turn
        else note(which, line, file.item(line));
        if (signal.aborted) return;
      }
    }
    const { notes } = account;
    if (counts.replaced > 0) notes.push(`${number(counts.replaced)} lines gave way to a better or newer one`);
    for (const [which, named] of twice.entries()) {
      if (named.count > 0) notes.push(`ids more than once in ${paths[which]}: ${describeNamed(named)}`);
    }
    if (counts.withoutId > 0)
      notes.push(`${number(counts.withoutId)} lines without an id were kept as they are`);
    notes.push(...ends);
  }

  function note(which: number, place: Place, item: Item): void {
    const id = idOf(item);
    if (id === null && failureOf(item)?.code === 'input-incomplete') return noteEnd(which, item);
    const rank = rankOf(item);
    if (id === null) {
      counts.withoutId += 1;
      entries.add(which, place, rank);
      return;
    }
    const entry = ids.numberOf(id, entries.size);
    if (entry === entries.size) return entries.add(which, place, rank);
    if (entries.sawIn(entry, which)) name(twice[which] as Named, id);
    counts.replaced += 1;
    leaveOut();
    if (rank <= entries.rankOf(entry)) entries.put(entry, which, place, rank);
  }

  /** OLD's early end is what NEW is there to mend; NEW's is still true of the result. */
  function noteEnd(which: number, item: Item): void {
    ends.push(`${paths[which]} ended early: ${shown(failureOf(item)?.message ?? '')}`);
    if (which === 1 && unfinished === null) unfinished = item;
    else leaveOut();
  }

  function leaveOut(): void {
    account.read += 1;
    account.aside += 1;
  }
}

/** The better, the lower: the rungs, and after them an item that was never asked, which has nothing to lose. */
function rankOf(item: Item): number {
  const unasked = isItem(item) && item.failure === undefined && !item.steps?.length;
  return unasked ? RUNGS.length : RUNGS.indexOf(rungOf(item));
}

const FIRST_ENTRIES = 1024;

/** Where the best line of each id stands, in typed arrays. */
function createEntries() {
  let offsets = new Float64Array(FIRST_ENTRIES);
  let lengths = new Float64Array(FIRST_ENTRIES);
  let numbers = new Uint32Array(FIRST_ENTRIES);
  let files = new Uint8Array(FIRST_ENTRIES);
  let ranks = new Uint8Array(FIRST_ENTRIES);
  let lastSeenIn = new Uint8Array(FIRST_ENTRIES);
  let size = 0;

  return {
    get size() {
      return size;
    },
    fileOf: (entry: number): number => files[entry] as number,
    rankOf: (entry: number): number => ranks[entry] as number,
    placeOf: (entry: number): Place => ({
      offset: offsets[entry] as number,
      length: lengths[entry] as number,
      number: numbers[entry] as number,
    }),
    /** Whether the id was in this file already; notes that it is now. */
    sawIn(entry: number, file: number): boolean {
      if (lastSeenIn[entry] === file) return true;
      lastSeenIn[entry] = file;
      return false;
    },
    add(file: number, place: Place, rank: number): void {
      if (size === files.length) grow();
      lastSeenIn[size] = file;
      put(size++, file, place, rank);
    },
    put,
  };

  function put(entry: number, file: number, { offset, length, number }: Place, rank: number): void {
    offsets[entry] = offset;
    lengths[entry] = length;
    numbers[entry] = number;
    files[entry] = file;
    ranks[entry] = rank;
  }

  function grow(): void {
    const room = files.length * 2;
    offsets = copied(new Float64Array(room), offsets);
    lengths = copied(new Float64Array(room), lengths);
    numbers = copied(new Uint32Array(room), numbers);
    files = copied(new Uint8Array(room), files);
    ranks = copied(new Uint8Array(room), ranks);
    lastSeenIn = copied(new Uint8Array(room), lastSeenIn);
  }
}

function copied<T extends { set(from: T): void }>(to: T, from: T): T {
  to.set(from);
  return to;
}
