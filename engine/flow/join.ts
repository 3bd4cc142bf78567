/**
 * Stages in a row, in one process:
 *
 *   inputs ─ lines ─▶ [each, each] ─▶ through ─▶ bounded map (asks) ─▶ [each] ─▶ output
 *                      fused: one call an item        the only place where order is lost
 *
 * A shell pipe is the same row with one stage a process.
 */
import _ from 'highland';
import { type ByteInput, besidesOf } from '../core/files/input-files.ts';
import { type LineOptions, mapLines, readItems } from '../core/files/ndjson-in.ts';
import type { Output } from '../core/files/ndjson-out.ts';
import { letGo } from '../core/files/origin.ts';
import type { SideFile } from '../core/files/side-file.ts';
import { type Account, count, newWorkload, type Workload } from '../core/item/account.ts';
import type { Begins } from '../core/item/call.ts';
import { dataError, usageError } from '../core/item/failure.ts';
import { type Item, isFailed } from '../core/item/item.ts';
import { lookAhead } from './look-ahead.ts';
import { notLines } from './looks-like.ts';
import { boundedMap } from './map.ts';
import { type FailingWatch, maxFailedOf, watchFailing } from './max-failed.ts';
import { grouped, type Values } from './options.ts';
import { type Items, isSource, itemWork, type Stage, type Through, type Tools } from './stage.ts';

/** A stage with its options, as a flag line or a pipeline file put it. */
export interface Placed {
  stage: Stage;
  options: Values;
  tools: Tools;
}

/** Characters that a text of V8 can have: no longer line can be read. */
const LONGEST_TEXT = 2 ** 29 - 24;

/** Options that every stage has. */
export const COMMON = grouped('Common', {
  failures: {
    type: 'string',
    file: 'write',
    description: 'Write failed items to this file instead of passing them on.',
  },
  'max-line': {
    type: 'integer',
    minimum: 1,
    maximum: LONGEST_TEXT,
    default: 8 * 1024 * 1024,
    description:
      'Maximum line length in bytes. A longer line becomes a failed item with its first KiB and its hash.',
  },
});

/** Options that every asking stage has; those of its endpoints are the pool's. */
export const ASKING = grouped('Asking', {
  'in-flight': {
    type: 'integer',
    minimum: 1,
    description: 'Maximum items in flight. Default: twice the sum of the endpoint limits.',
  },
  ordered: {
    type: 'boolean',
    description: 'Keep the input order. A slow item then delays those after it.',
  },
  'look-ahead': {
    type: 'integer',
    minimum: 1,
    description:
      'Lines to read ahead, to ask prompts that begin alike one after the other, at one server. Default: all of a file, 10,000 of a pipe.',
  },
  grace: {
    type: 'string',
    default: '30s',
    description: 'Time for calls in flight to finish after a stop signal.',
  },
  'max-failed': {
    type: 'string',
    description:
      'Stop, resumably, after this many failed items: a number, a share such as 20% (checked from 200 items on), or none. Default: stop if the first 200 items asked all fail.',
  },
  'max-cost': {
    type: 'number',
    minimum: 0,
    description:
      'Stop, resumably, once this much is spent, with what the ledger has on record; needs the price of an endpoint (pool file).',
  },
  'max-total-tokens': {
    type: 'integer',
    minimum: 1,
    description: 'Stop, resumably, once prompts and answers have so many tokens, with those on record.',
  },
});

/** Those of them that bound a run as a whole, from whichever side it is named. */
export const BOUNDING = ['max-failed', 'max-cost', 'max-total-tokens'] as const;

/** What a stage that asks nothing does to an item; null where it leaves the stream. */
type Work = (item: Item) => Item | null;

/** Lines of a pipe that are read ahead. */
const LOOK_AHEAD = 10_000;

/** Items that an asking stage keeps in flight while no pool has said what is right. */
const IN_FLIGHT_UNKNOWN = 512;

/** The joined flow of `row` over `inputs`. `placed.options` also hold the common options of flow (see COMMON). */
export async function join(row: readonly Placed[], inputs: readonly ByteInput[]): Promise<Items> {
  const [first] = row;
  if (first === undefined) throw usageError('expected at least one stage, found none');
  const { signal, asking: halt } = first.tools;
  if (first.stage.source && isSource(first.stage, first.options)) {
    const ends = endsByItself(inputs);
    const areHeld = ends && holdsAll(row);
    const source = await first.stage.source(first.options, { ...first.tools, ...(areHeld && { areHeld }) });
    return (await openRow(row, ends))(source(inputs));
  }
  const flow = await openRow(row, endsByItself(inputs));
  const documents = row.some(placed => placed.stage.documents);
  const lines = readItems(inputs, {
    ...readingOf(row),
    documents,
    refuses: (block, source) => notLines(block, source, documents),
    stopped: input => signal.aborted && (input.regular || halt.aborted),
  });
  const besides = besidesOf(first.tools.files);
  if (besides.length === 0) return flow(lines);
  const { openVouchers } = await import('./provenance.ts');
  const vouchers = await openVouchers(besides, readingOf(row));
  const { notes } = first.tools.account;
  return flow(mapLines(lines, vouchers.vouch, () => notes.push(...vouchers.notes())));
}

/** All of them may be read before the first is asked about. */
function endsByItself(inputs: readonly ByteInput[]): boolean {
  return inputs.every(({ isFile }) => isFile);
}

/** Whether the first stage that asks reads all of an input ahead that ends by itself. */
function holdsAll(row: readonly Placed[]): boolean {
  const asking = row.find(({ stage }) => stage.asks);
  if (asking === undefined || asking.stage.asks !== 'always' || !asking.stage.each) return false;
  return linesAhead(asking.options, true) === Number.POSITIVE_INFINITY;
}

/** Lines that a stage reads ahead; 1: they are asked as they come. `ends`: the input ends by itself. */
function linesAhead(options: Values, ends: boolean): number {
  if (options.ordered === true) return 1;
  return (options['look-ahead'] as number | undefined) ?? (ends ? Number.POSITIVE_INFINITY : LOOK_AHEAD);
}

/** How the first stage of a row has its lines read. */
function readingOf([first]: readonly Pick<Placed, 'stage' | 'options'>[]): Pick<
  LineOptions,
  'stage' | 'maxLine'
> {
  return { stage: first?.stage.name ?? '', maxLine: first?.options['max-line'] as number };
}

/** Opens the stages; the flow is for one stream of items. `ends`: they may all be read before the first is asked about. */
export async function openRow(row: readonly Placed[], ends = false): Promise<Through> {
  const account = row[0]?.tools.account as Account;
  const failures = new Map<string, SideFile>();
  const flows: Through[] = [];
  let fused: Work[] = [item => counted(account, item)];
  let onEnd: (() => void) | undefined = () => {
    account.endedAt = performance.now();
  };
  const settle = (): void => {
    const [works, atEnd] = [fused, onEnd];
    if (works.length > 0) flows.push(items => items.consume<Item>(through(works, atEnd)));
    fused = [];
    onEnd = undefined;
  };
  for (const [index, placed] of row.entries()) {
    const { stage, options, tools } = placed;
    if (stage.ends && index < row.length - 1)
      throw usageError(`stage '${stage.name}' writes what no other stage reads: it can only come last`);
    if (index === 0 && isSource(stage, placed.options)) {
      // the items are its own
    } else if (stage.through) {
      // what is asked elsewhere counts in the order in which it comes back; not where nobody can tell what failed before
      const failing = stage.asks && failingOf(placed);
      let cameFailed = false;
      if (failing)
        fused.push(item => {
          cameFailed ||= item.failure !== undefined;
          return item;
        });
      settle();
      flows.push(await stage.through(options, tools));
      if (failing) fused.push(item => (cameFailed ? item : ended(item, failing.begin(NOT_BEGUN))));
    } else if (stage.each) {
      const workload = stage.asks ? newWorkload() : undefined;
      let begins: ((item: Item) => Begins | null) | null = null;
      const tellBeginnings: Tools['tellBeginnings'] = told => {
        begins = told;
      };
      const each = await stage.each(options, workload ? { ...tools, workload, tellBeginnings } : tools);
      const work = itemWork(stage, options, each);
      if (workload) {
        settle();
        const pool = stage.asks === 'always' ? await tools.pool() : null;
        const set = options['in-flight'] as number | undefined;
        const limit = (): number => set ?? pool?.itemsInFlight ?? IN_FLIGHT_UNKNOWN;
        const onRoom = (more: () => void): void => pool?.onRoom(more);
        const ordered = options.ordered === true;
        const isLast = !row.slice(index + 1).some(later => later.stage.asks);
        const failing = failingOf(placed);
        const onLeft = timed(account, workload, ordered ? 'ordered' : isLast ? 'unread' : 'passed');
        const entering = async (item: Item): Promise<Item> => {
          workload.items += 1;
          account.times.inside += 1;
          account.times.entered += performance.now();
          const end = failing.begin(item);
          return ended(await work(item), end);
        };
        account.workloads.push(workload);
        const bound = { limit, onRoom, ordered, signal: tools.asking, onLeft };
        // what another stage has asked comes in the order of that one, and is not waited for
        const isFirst = !row.slice(0, index).some(before => before.stage.asks);
        const lines = isFirst ? linesAhead(options, ends) : 1;
        if (begins !== null && lines > 1) {
          const placing = pool?.placing;
          const ahead = { begins, lines, placing, signal: tools.asking, account };
          flows.push(items => lookAhead(items, ahead));
        }
        flows.push(items => boundedMap(items, entering, bound));
      } else fused.push(work as Work);
    } else {
      throw usageError(`stage '${stage.name}' reads files: it can only come first`);
    }
    const divert = await divertFailures(placed, account, failures);
    if (divert) fused.push(divert);
  }
  settle();
  return items => flows.reduce((flow, next) => flow.through(next), items);
}

function failingOf({ options, tools }: Placed): FailingWatch {
  const most = maxFailedOf(options['max-failed'] as string | undefined);
  return watchFailing(most, message => tools.giveUp?.(dataError(message)));
}

function ended(item: Item, end: (after: Item) => void): Item {
  end(item);
  return item;
}

/** What came back was not there before. */
const NOT_BEGUN: Item = { id: null };

function timed({ times }: Account, workload: Workload, waits: 'ordered' | 'unread' | 'passed') {
  return (inside: number, finished: number): void => {
    workload.left += 1;
    times.items += inside;
    times.inside -= 1;
    times.entered -= performance.now() - inside;
    times[waits] += finished;
  };
}

function counted(account: Account, item: Item): Item {
  account.read += 1;
  return item;
}

type Consumer = (
  error: Error,
  item: Item | Highland.Nil,
  push: (error: Error | null, item?: Item | Highland.Nil) => void,
  next: () => void,
) => void;

/** Fused stages as one consumer, since every hop of the stream costs as much as a light stage. */
function through(works: readonly Work[], onEnd?: () => void): Consumer {
  return (error, item, push, next) => {
    if (_.isNil(item)) {
      onEnd?.();
      return push(null, _.nil);
    }
    if (error) push(error);
    else {
      try {
        const after = worked(works, item as Item);
        if (after !== null) push(null, after);
      } catch (failure) {
        push(failure as Error);
      }
    }
    next();
  };
}

function worked(works: readonly Work[], item: Item): Item | null {
  let current: Item | null = item;
  for (const work of works) {
    current = work(current);
    if (current === null) break;
  }
  if (current !== item) letGo(item);
  return current;
}

/**
 * `--failures FILE` writes failed items there; they have left the stream, but not the account. The file is made at the
 * start, so that an old one is never taken for today's; stages that name the same path share it.
 */
export async function divertFailures(
  { stage, options, tools }: Placed,
  account: Account,
  files: Map<string, SideFile>,
): Promise<Work | null> {
  const path = options.failures as string | undefined;
  if (path === undefined && !stage.dropsFailures) return null;
  if (path !== undefined && !files.has(path)) {
    const { sideFile } = await import('../core/files/side-file.ts');
    files.set(path, sideFile(path));
  }
  const file = files.get(path ?? '');
  let told = false;
  return item => {
    if (!isFailed(item)) return item;
    count(account, item);
    if (!file && !told) {
      told = true;
      tools.warn(
        'failed items are dropped here; --failures FILE keeps them, with the answers they already have',
      );
    }
    file?.write(item);
    return null;
  };
}

/** Runs the flow into `output`; resolves when everything that left the last stage was taken. */
export function drain(items: Items, output: Output, account: Account): Promise<void> {
  return new Promise((resolve, reject) => {
    items
      .consume<never>((error, item, _push, next) => {
        if (error) return reject(error);
        if (_.isNil(item)) return resolve();
        count(account, item);
        let open: boolean;
        try {
          open = output.write(item);
        } catch (failure) {
          return reject(failure);
        }
        if (open) return next();
        const { times } = account;
        const since = performance.now();
        times.blockedSince = since;
        output.ready(() => {
          times.blocked += performance.now() - since;
          times.blockedSince = null;
          next();
        });
      })
      .resume();
  });
}
