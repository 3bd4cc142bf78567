/**
 * One work of a coordinator: its plan, its parts, and the lines of shards that are whole on their way to whoever runs it.
 * What is given out and to whom is the desk's.
 */
import {
  type AskedTotals,
  addAsked,
  newWorkload,
  noneAsked,
  type Workload,
} from '../../engine/core/item/account.ts';
import type { Failure, Item } from '../../engine/core/item/item.ts';
import { believe } from './believing.ts';
import { type Done, openDone } from './done.ts';
import { type Cut, openParts, type Part, type Parts } from './part-states.ts';
import type { Result, Task } from './protocol.ts';
import { cutLines, linesOf, type Plan } from './shard-plan.ts';

export interface Work {
  id: string;
  task: Task;
  /** the body of GET …/files, whose SHA-256 the task names */
  files: Buffer | null;
  /** told of each result that is taken now */
  onAsked?(asked: AskedTotals): void;
}

export interface PlannedWork extends Work {
  parts: Parts;
  lines: number;
  shards: number;
  /** the rest is not asked any more */
  isEnded: boolean;
  /** ms since 1970: nothing is given out before */
  opensAt: number;
  /** sums over what was taken now, by this process */
  asked: AskedTotals;
  model: string | null;
  workload: Workload;
  linesOf(part: Part): Buffer[];
  /** Takes the result of a part. The number of lines that are left of it; null where it was closed before. */
  take(part: Part, result: Result, lines: Buffer): number | null;
  /** Cuts a part; false where it was closed before. */
  cut(part: Part, rest: Cut): boolean;
  /** Fails the one line of a part. */
  fail(part: Part, failure: Failure): void;
  /** Shards that are whole are given out; null once all are. After `end` also those that are not, as far as they are. */
  next(): Promise<Buffer | null>;
  /** Nothing more is asked: what has no result gets `why`, else `interrupted`, once nobody holds anything of it. */
  end(why?: Failure): void;
  /** `end`, and nobody is waited for: what is handed in later is too late. */
  abort(): void;
  /** Something has changed: a shard may be whole. */
  look(): void;
  /** Whoever waits for `next` gets null. */
  close(): void;
}

export function planWork(work: Work, plan: Plan): PlannedWork {
  const book = openDone(plan.folder);
  const parts = openParts(
    plan.shards.map(({ lines }) => lines),
    book,
  );
  const ready: number[] = [];
  const given = new Set<number>();
  let wanted: (() => void) | null = null;
  let isClosed = false;
  let isAborted = false;
  let notAsked: Failure = {
    stage: 'sharding',
    code: 'interrupted',
    message: 'The run was stopped before this was asked.',
  };
  const asked = noneAsked();
  let mostSettled = 0; // what a worker had answered and is lost with it was seen, and is not taken back
  const workload: Workload = {
    ...newWorkload(),
    ...{ items: plan.lines, due: plan.lines },
    get left() {
      return parts.done.lines;
    },
    get settled() {
      const inHand = [...parts.out].reduce((sum, { lease }) => sum + (lease?.done ?? 0), 0);
      mostSettled = Math.max(mostSettled, parts.done.lines + inHand);
      return mostSettled;
    },
  };
  for (const root of plan.shards.keys()) offerWhole(root);

  function offerWhole(root: number): void {
    if (given.has(root) || !parts.isWhole(root)) return;
    given.add(root);
    ready.push(root);
  }

  /** The lines of a shard in the order in which they were planned; what has no result fails as interrupted. */
  function wholeOf(root: number): Buffer {
    const lines: (Buffer | undefined)[] = [];
    for (const done of parts.resultsOf(root)) {
      const own = cutLines(book.linesOf(done));
      for (const [at, ordinal] of done.answered.entries()) lines[ordinal] = own[at];
    }
    const { lines: count } = plan.shards[root] as { lines: number };
    if (lines.length < count || lines.includes(undefined))
      for (const [ordinal, line] of linesOf(plan, root).entries()) lines[ordinal] ??= failed(line, notAsked);
    return Buffer.concat(lines as Buffer[]);
  }

  function closed(
    part: Part,
    made: Pick<Done, 'answered' | 'worker' | 'asked' | 'model'>,
    lines: Buffer[],
    rest: Cut,
  ) {
    const isFirst = parts.close(part, made, lines, rest);
    if (isFirst) offerWhole(part.root);
    planned.look();
    return isFirst;
  }

  const planned: PlannedWork = {
    ...work,
    ...{
      parts,
      asked,
      workload,
      lines: plan.lines,
      shards: plan.shards.length,
      isEnded: false,
      opensAt: 0,
      model: null,
    },
    linesOf: ({ root, lines }) => {
      const all = linesOf(plan, root);
      return lines.map(ordinal => all[ordinal] as Buffer);
    },
    take(part, result, body) {
      const lines = cutLines(body);
      believe(planned.linesOf(part), result, lines, planned.task);
      const answered = result.answered.map(at => part.lines[at] as number);
      const has = new Set(answered);
      const left = part.lines.filter(ordinal => !has.has(ordinal));
      const rest = left.length === 0 ? [] : [{ ...part, lines: left }];
      const { worker, asked: cost, model } = result;
      if (!closed(part, { answered, worker, asked: cost, model }, lines, rest)) return null;
      addAsked(asked, cost);
      planned.model ??= model;
      work.onAsked?.(cost);
      return left.length;
    },
    cut: (part, rest) => closed(part, { answered: [], worker: null, asked: null, model: null }, [], rest),
    fail(part, failure) {
      const [line] = planned.linesOf(part);
      closed(
        part,
        { answered: part.lines, worker: null, asked: null, model: null },
        [failed(line as Buffer, failure)],
        [],
      );
    },
    async next() {
      for (;;) {
        if (isClosed) return null;
        const root = ready.shift();
        if (root !== undefined) return wholeOf(root);
        if (given.size === plan.shards.length) return null;
        if (planned.isEnded && (isAborted || ![...parts.out].some(({ lease }) => lease !== null))) {
          for (const root of plan.shards.keys()) {
            if (given.has(root)) continue;
            given.add(root);
            ready.push(root);
          }
          continue;
        }
        await new Promise<void>(resolve => {
          wanted = resolve;
        });
      }
    },
    end(why) {
      if (why !== undefined && !planned.isEnded) notAsked = why;
      planned.isEnded = true;
      planned.look();
    },
    abort() {
      isAborted = true;
      planned.end();
    },
    look() {
      wanted?.();
      wanted = null;
    },
    close() {
      isClosed = true;
      planned.look();
    },
  };
  return planned;
}

function failed(line: Buffer, failure: Failure): Buffer {
  return Buffer.from(`${JSON.stringify({ ...(JSON.parse(line.toString()) as Item), failure })}\n`);
}
