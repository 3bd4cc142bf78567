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
import { type Cut, type Made, type Part, Parts } from './part-states.ts';
import type { Result, Task } from './protocol.ts';
import { cutLines, linesOf, type Plan, type Shard } from './shard-plan.ts';

export interface Work {
  id: string;
  task: Task;
  /** the body of GET …/files, whose SHA-256 the task names */
  files: Buffer | null;
  /** told of each result that is taken now, and of which models its lines are */
  onAsked?(asked: AskedTotals, models: readonly string[]): void;
}

export class PlannedWork {
  readonly id: string;
  readonly task: Task;
  readonly files: Buffer | null;
  readonly parts: Parts;
  /** Lines that the same workers may take: the models that these need, by the name of the group. */
  readonly groups: ReadonlyMap<string, readonly string[]>;
  readonly lines: number;
  readonly shards: number;
  /** the rest is not asked any more */
  isEnded = false;
  /** ms since 1970: nothing is given out before */
  opensAt = 0;
  /** sums over what was taken now, by this process */
  readonly asked = noneAsked();
  model: string | null = null;
  readonly workload: Workload;
  readonly #plan: Plan;
  readonly #onAsked: Work['onAsked'];
  /** shards that are whole, and were not given to whoever runs it */
  readonly #ready: number[] = [];
  readonly #given = new Set<number>();
  #wanted: (() => void) | null = null;
  #isClosed = false;
  #isAborted = false;
  #notAsked: Failure = {
    stage: 'sharding',
    code: 'interrupted',
    message: 'The run was stopped before this was asked.',
  };

  constructor({ id, task, files, onAsked }: Work, plan: Plan) {
    this.id = id;
    this.task = task;
    this.files = files;
    this.#onAsked = onAsked;
    this.#plan = plan;
    this.lines = plan.lines;
    this.shards = plan.shards.length;
    const modelsOf = ({ models = task.models }: Shard): readonly string[] => models;
    this.groups = new Map(plan.shards.map(shard => [nameOf(modelsOf(shard)), modelsOf(shard)]));
    this.parts = new Parts(
      plan.folder,
      plan.shards.map(shard => ({ lines: shard.lines, group: nameOf(modelsOf(shard)) })),
    );
    this.workload = workloadOf(plan.lines, this.parts);
    for (const root of plan.shards.keys()) if (this.parts.isWhole(root)) this.#give(root);
  }

  /** that a worker needs for it */
  modelsOf({ group }: Part): readonly string[] {
    return this.groups.get(group) as readonly string[];
  }

  linesOf({ root, lines }: Part): Buffer[] {
    const all = linesOf(this.#plan, root);
    return lines.map(ordinal => all[ordinal] as Buffer);
  }

  /** Takes the result of a part. The number of lines that are left of it; null where it was closed before. */
  take(part: Part, result: Result, body: Buffer): number | null {
    const lines = cutLines(body);
    believe(this.linesOf(part), result, lines, this.task);
    const answered = result.answered.map(at => part.lines[at] as number);
    const has = new Set(answered);
    const left = part.lines.filter(ordinal => !has.has(ordinal));
    const rest = left.length === 0 ? [] : [{ ...part, lines: left }];
    const { worker, asked, model } = result;
    if (!this.#closePart(part, { answered, worker, asked, model }, lines, rest)) return null;
    addAsked(this.asked, asked);
    this.model ??= model;
    this.#onAsked?.(asked, this.modelsOf(part));
    return left.length;
  }

  /** Cuts a part. */
  cut(part: Part, rest: Cut): void {
    this.#closePart(part, byNobody([]), [], rest);
  }

  /** Fails the lines of a part. */
  fail(part: Part, failure: Failure): void {
    const lines = this.linesOf(part).map(line => failed(line, failure));
    this.#closePart(part, byNobody(part.lines), lines, []);
  }

  /** Shards that are whole are given out; null once all are. After `end` also those that are not, as far as they are. */
  async next(): Promise<Buffer | null> {
    for (;;) {
      if (this.#isClosed) return null;
      const root = this.#ready.shift();
      if (root !== undefined) return this.#linesOfShard(root);
      if (this.#given.size === this.shards) return null;
      if (this.isEnded && (this.#isAborted || ![...this.parts.out].some(({ lease }) => lease !== null))) {
        for (const root of this.#plan.shards.keys()) this.#give(root);
        continue;
      }
      await new Promise<void>(resolve => {
        this.#wanted = resolve;
      });
    }
  }

  /** Nothing more is asked: what has no result gets `why`, else `interrupted`, once nobody holds anything of it. */
  end(why?: Failure): void {
    if (why !== undefined && !this.isEnded) this.#notAsked = why;
    this.isEnded = true;
    this.look();
  }

  /** `end`, and nobody is waited for: what is handed in later is too late. */
  readonly abort = (): void => {
    this.#isAborted = true;
    this.end();
  };

  /** Something has changed: a shard may be whole. */
  look(): void {
    this.#wanted?.();
    this.#wanted = null;
  }

  /** Whoever waits for `next` gets null. */
  close(): void {
    this.#isClosed = true;
    this.look();
  }

  /** False where it was closed before. */
  #closePart(part: Part, made: Made, lines: readonly Buffer[], rest: Cut): boolean {
    const isFirst = this.parts.close(part, made, lines, rest);
    if (isFirst && this.parts.isWhole(part.root)) this.#give(part.root);
    this.look();
    return isFirst;
  }

  #give(root: number): void {
    if (this.#given.has(root)) return;
    this.#given.add(root);
    this.#ready.push(root);
  }

  /** In the order in which they were planned; what has no result fails as interrupted. */
  #linesOfShard(root: number): Buffer {
    const lines: (Buffer | undefined)[] = [];
    for (const result of this.parts.resultsOf(root)) {
      const cut = cutLines(result.lines);
      for (const [at, ordinal] of result.answered.entries()) lines[ordinal] = cut[at];
    }
    const { lines: count } = this.#plan.shards[root] as { lines: number };
    if (lines.length < count || lines.includes(undefined))
      for (const [ordinal, line] of linesOf(this.#plan, root).entries())
        lines[ordinal] ??= failed(line, this.#notAsked);
    return Buffer.concat(lines as Buffer[]);
  }
}

function workloadOf(lines: number, parts: Parts): Workload {
  let mostSettled = 0; // what a worker had answered and is lost with it was seen, and is not taken back
  return {
    ...newWorkload(),
    ...{ items: lines, due: lines },
    get left() {
      return parts.done.lines;
    },
    get settled() {
      const inHand = [...parts.out].reduce((sum, { lease }) => sum + (lease?.done ?? 0), 0);
      mostSettled = Math.max(mostSettled, parts.done.lines + inHand);
      return mostSettled;
    },
  };
}

const nameOf = (models: readonly string[]): string => models.join('\n');

const byNobody = (answered: Made['answered']): Made => ({ answered, worker: null, asked: null, model: null });

function failed(line: Buffer, failure: Failure): Buffer {
  return Buffer.from(`${JSON.stringify({ ...(JSON.parse(line.toString()) as Item), failure })}\n`);
}
