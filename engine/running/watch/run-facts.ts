/**
 * What is shown of a run that asks, put together at each look from the account and the pool's counts: how far it is, how many
 * items it will give, and how fast it goes.
 */
import type { EndpointPool } from '../../asking/pool/part.ts';
import type { EndpointStats } from '../../asking/pool/pool-stats.ts';
import { type Account, type Ahead, aheadOf, firstOf } from '../../core/item/account.ts';
import { RUNGS } from '../../core/item/item.ts';
import { counted, number } from '../../core/item/wording.ts';
import { isSource, type Tools } from '../../flow/stage.ts';
import { countRows } from '../../tables/selection.ts';
import type { OptionsOfStage } from '../stage-options.ts';
import { type Counts, createEstimate, createRecent, type Eta } from './recent.ts';
import { sumOf } from './servers.ts';

export interface Progress {
  /** as of the last look */
  readonly facts: Facts;
  stop(): void;
  /** what is to be said at the end, once the pool is closed */
  closing(): string[];
}

export interface Watched {
  label: string;
  account: Account;
  pool: EndpointPool;
  row: readonly OptionsOfStage[];
  tools: Tools;
  /** the items themselves go to standard output, which may be the terminal */
  toStdout: boolean;
  say(message: string): void;
}

export interface Facts {
  /** items that have left, failed ones included */
  done: number;
  /** how many will leave; null where nobody can tell */
  total: number | null;
  /** of the calls that items need, those that are settled, 0 to 1: 1 when all items have left; null without a total */
  share: number | null;
  inFlight: number;
  /** by cause, the most frequent first */
  failed: [cause: string, times: number][];
  eta: Eta | null;
  /** calls that the run waits for, where they are later than any rate would say; null where they are not */
  late: number | null;
  /** ms until the calls of all items that are known of are settled, at the rate of the last minutes; null where it is too early to say */
  work: number | null;
  /** a second each, over the last seconds */
  rates: Counts;
  retries: number;
  /** null without a ledger */
  replayed: number | null;
  endpoints: readonly EndpointStats[];
}

/**
 * Looks at the run; `now` in ms. Rates are as good as the looks are regular. `total` tells how many items are to come out,
 * given how many were left out; null where it is not known.
 */
export function createLook(
  account: Account,
  pool: Pick<EndpointPool, 'stats' | 'itemsInFlight'>,
  total: (aside: number) => number | null,
): (now: number) => Facts {
  const recent = createRecent();
  const estimate = createEstimate();
  return now => {
    const { answered, failed, replayed, retries, usage, endpoints, noEndpointMs, elsewhere } = pool.stats();
    const done = doneOf(account);
    const { prompt, cached, completion } = usage;
    const busy = performance.eventLoopUtilization().active;
    recent.add(now, { items: done, calls: answered, prompt, cached, completion, busy });
    const here = account.read - account.aside;
    const counted = account.endedAt !== null ? here : total(account.aside);
    // an input that grows has more than was counted
    const known = counted !== null && counted >= here ? counted : null;
    const inFlight = elsewhere?.items ?? here - done;
    const ahead = aheadOf(account.workloads, known ?? here, done);
    estimate.add({
      at: now,
      settled: ahead.settled,
      asked: answered + sumOf(Object.values(failed), times => times),
      replayed: replayed ?? 0,
      without: noEndpointMs,
      isFull: inFlight >= FULL * pool.itemsInFlight,
    });
    const up = endpoints.filter(({ state }) => state === 'up');
    const eta = estimate.eta(ahead, Math.max(0, ...up.map(({ medianLatency }) => medianLatency ?? 0)));
    const isAhead = known !== null && known > done && up.length > 0 && Number.isFinite(eta?.left);
    return {
      done,
      total: known,
      share: known === null ? null : shareOf(ahead, done, known),
      inFlight,
      failed: causesOf(account),
      eta: isAhead && !eta?.isOver ? eta : null,
      late: isAhead && eta?.isOver ? Math.round(ahead.due - ahead.settled) : null,
      work: eta?.left ?? null,
      rates: recent.rates(),
      retries,
      replayed,
      endpoints,
    };
  };
}

/** Of the items in flight that may be: from here on it is the servers that a run waits for, and not what it reads. */
const FULL = 0.5;

function shareOf({ settled, due }: Ahead, done: number, total: number): number {
  if (done >= total) return 1;
  return due > 0 ? settled / due : done / total;
}

/** What failed so far: by what was wrong with the last answer, where that is why, else by the code of the failure. */
function causesOf({ failures }: Account): [cause: string, times: number][] {
  const sums = new Map<string, number>();
  for (const { code, problem = code, times } of failures.values())
    sums.set(problem, (sums.get(problem) ?? 0) + times);
  return [...sums].sort((a, b) => b[1] - a[1]);
}

/** Causes of which the first is told while the run lasts; the account has the others. */
const MOST_NEWS = 10;

/** Asked at each look: a line for each cause that has failed an item for the first time since the last one. */
export function createNews({ failures }: Account): () => string[] {
  const told = new Set<string>();
  return () => {
    const lines: string[] = [];
    for (const [cause, failed] of failures) {
      if (told.size >= MOST_NEWS || told.has(cause)) continue;
      told.add(cause);
      lines.push(`the first to fail with ${cause}: ${firstOf(failed)}`);
    }
    return lines;
  };
}

export function doneOf({ rungs }: Account): number {
  return RUNGS.reduce((sum, rung) => sum + rungs[rung], 0);
}

/**
 * How many items a run will give: counted beside it where its first stage reads files; where it reads a pipe, what --total
 * says of it, and unknown without. Begins to count.
 */
export function countItems(row: readonly OptionsOfStage[], tools: Tools) {
  const [first] = row;
  // who lets only the first items through has counted what it leaves out
  const isLimit = first?.stage.counts !== undefined && !isSource(first.stage, first.options);
  // behind a merge into old files their lines have come too
  const isOfInput = !isLimit && !row.some(({ stage }) => stage.name === 'merge');
  const said = row.find(({ options }) => options.total !== undefined)?.options.total as number | undefined;
  let found: number | null = null;
  let isSaid = false;
  const count = async (): Promise<void> => {
    const own = await countOf(row, tools);
    isSaid = own === null && said !== undefined;
    found = isSaid ? await countOf(row, { ...tools, rows: said as number }) : own;
  };
  void count();
  return {
    /** How many items are to come out, given how many were left out so far; null until it knows. */
    items: (aside: number): number | null => (found === null || isLimit ? found : found - aside),
    /** In words, that --total said another number than came, once all have come; null where it did not, or was not needed. */
    missed({ read, endedAt }: Pick<Account, 'read' | 'endedAt'>): string | null {
      if (!isSaid || !isOfInput || said === undefined || found === null || endedAt === null || read === found)
        return null;
      const means = found === said ? '' : `, which makes ${counted(found, 'item')}`;
      const how =
        read < found ? 'less than that: did its writer end early?' : 'more: the bar could not know the end';
      return `--total ${number(said)}${means}: ${counted(read, 'item')} came, ${how}`;
    },
  };
}

async function countOf([first]: readonly OptionsOfStage[], tools: Tools): Promise<number | null> {
  if (first === undefined) return null;
  const { stage, options } = first;
  if (stage.counts) return stage.counts(options, tools);
  if (tools.rows !== undefined) return tools.rows;
  if (isSource(stage, options)) return null;
  // a document holds as many results as it holds
  if (stage.documents) return null;
  const maxLine = options['max-line'] as number;
  return countRows(tools.files, { format: 'lines', maxLine, signal: tools.signal });
}
