/**
 * A part of a work, run as the coordinator would run it alone: the row over the file of its lines. One line in is one line
 * out, in the order of the input; what was not asked, since the part was to be handed back, has no line.
 */

import type { EndpointPool } from '../../../engine/asking/pool/part.ts';
import type { Output } from '../../../engine/core/files/ndjson-out.ts';
import { letGo, originOf, textOf } from '../../../engine/core/files/origin.ts';
import { type AskedTotals, noneAsked } from '../../../engine/core/item/account.ts';
import { EXIT, fatalOf } from '../../../engine/core/item/failure.ts';
import { failureOf, type Item, idOf } from '../../../engine/core/item/item.ts';
import type { Each, Stage } from '../../../engine/flow/stage.ts';
import { askedOf } from '../../../engine/running/open-pool.ts';
import { run, type Stopper } from '../../../engine/running/run.ts';
import type { OptionsOfStage } from '../../../engine/running/stage-options.ts';
import type { OpenWork } from './works.ts';

export interface PartOutcome {
  /** by number, from 0, ascending */
  answered: { index: number; line: string }[];
  asked: AskedTotals;
  model: string | null;
  broken?: string;
  /** it is this machine that cannot go on: its disk, in words */
  trouble?: string;
}

/** Bytes of a result; what is beyond goes back, and is not asked again where the ledger has it. */
const MOST_RESULT = 64 * 1024 * 1024;
const HANDED_BACK: Stopper = { name: 'a hand-back', exit: 143 };

/** One that runs. */
export class PartRun {
  /** Never rejects. */
  readonly ended: Promise<PartOutcome>;
  readonly #work: OpenWork;
  readonly #lines: readonly string[];
  readonly #answered: PartOutcome['answered'] = [];
  #done = 0;
  #taken = 0;
  #bytes = 0;
  #pool: EndpointPool | undefined;
  #stop: ((by: Stopper) => void) | undefined;
  #isHandedBack = false;
  #wrong: string | undefined;

  /** `path` has the `lines`; `onDone` is told of each that has an answer. */
  constructor(work: OpenWork, path: string, lines: readonly string[], onDone: () => void = () => {}) {
    this.#work = work;
    this.#lines = lines;
    this.ended = this.#run(path, onDone);
  }

  /** lines of it that have an answer */
  get done(): number {
    return Math.max(this.#done, this.#taken);
  }

  /** Asks nothing more: calls that wait fail as interrupted, those at servers have the grace. */
  handBack(): void {
    if (this.#isHandedBack) return;
    this.#isHandedBack = true;
    this.#pool?.stop();
    this.#stop?.(HANDED_BACK);
  }

  async #run(path: string, onDone: () => void): Promise<PartOutcome> {
    const { task, base } = this.#work;
    let said = '';
    try {
      const { exit } = await run({
        label: task.label,
        row: counting(this.#work.row, () => {
          this.#done += 1;
          onDone();
        }),
        files: [path],
        base,
        toNext: false,
        ledger: false,
        openPool: async ({ asksWith, onGivenUp }) => {
          this.#pool = this.#work.pool(asksWith, onGivenUp);
          if (this.#isHandedBack) this.#pool.stop();
          return this.#pool;
        },
        output: () => this.#output(),
        say(message) {
          said = message;
        },
        stoppable: act => {
          this.#stop = act;
          if (this.#isHandedBack) act(HANDED_BACK);
          return () => {
            this.#stop = undefined;
          };
        },
      });
      const isOver = exit === EXIT.ok || exit === EXIT.failed;
      if (isOver && !this.#isHandedBack && this.#taken < this.#lines.length)
        this.#wrong ??= `expected ${this.#lines.length} lines, found ${this.#taken}`;
      const isFine = isOver || (this.#isHandedBack && exit === HANDED_BACK.exit);
      return isFine ? this.#outcome(this.#wrong) : this.#fatal(exit, said);
    } catch (error) {
      const { exit, message } = fatalOf(error);
      return this.#fatal(exit, message);
    }
  }

  #output(): Output {
    return {
      write: item => {
        this.#take(item);
        return true;
      },
      ready: act => act(),
      async end() {},
    };
  }

  #take(item: Item): void {
    const index = this.#taken++;
    const given = this.#lines[index];
    if (given === undefined || !isOf(item, given)) {
      this.#wrong ??= `expected a line for each of ${this.#lines.length}, in their order, found ${describe(item)} as number ${this.#taken}`;
      return;
    }
    if (isUnasked(item, given)) return;
    const origin = originOf(item);
    const line = origin === undefined ? JSON.stringify(item) : textOf(origin);
    letGo(item);
    this.#bytes += Buffer.byteLength(line) + 1;
    if (this.#bytes <= MOST_RESULT || this.#answered.length === 0) this.#answered.push({ index, line });
  }

  #outcome(broken?: string): PartOutcome {
    const pool = this.#pool;
    const asked = pool === undefined ? noneAsked() : askedOf(pool);
    const isAsked = asked.calls + (asked.replayed ?? 0) > 0;
    const model = isAsked ? (pool?.model ?? null) : null;
    if (broken === undefined) return { answered: this.#answered, asked, model };
    // where files lie here is of no use to who reads it there
    return { answered: [], asked, model, broken: broken.replaceAll(`${this.#work.base}/`, '') };
  }

  /** The disk of a worker is no fault of a part. */
  #fatal(exit: number, message: string): PartOutcome {
    if (exit === EXIT.io) return { ...this.#outcome(), trouble: message };
    return this.#outcome(this.#wrong ?? message);
  }
}

/** The row, whose last stage that asks counts what leaves it: in the order of the input they would be seen late. */
function counting(row: readonly OptionsOfStage[], onLeft: () => void): OptionsOfStage[] {
  const last = row.findLastIndex(({ stage }) => stage.asks);
  return row.map((placed, at) =>
    at === last ? { ...placed, stage: counted(placed.stage, onLeft) } : placed,
  );
}

function counted(stage: Stage, onLeft: () => void): Stage {
  return {
    ...stage,
    async each(options, tools) {
      const work = (await stage.each?.(options, tools)) as Each;
      return async item => {
        try {
          return await work(item);
        } finally {
          onLeft();
        }
      };
    },
  };
}

/** Whether it is what became of the line, by its id. */
function isOf(item: Item, given: string): boolean {
  const before = itemIn(given);
  return before === null || idOf(before) === idOf(item);
}

/** It failed as interrupted here. One that came so, and that no stage took up, is as it should be. */
function isUnasked(item: Item, given: string): boolean {
  const failure = failureOf(item);
  if (failure?.code !== 'interrupted') return false;
  const before = itemIn(given);
  return before === null || JSON.stringify(failureOf(before)) !== JSON.stringify(failure);
}

function itemIn(line: string): Item | null {
  try {
    return JSON.parse(line) as Item;
  } catch {
    return null;
  }
}

const describe = (item: Item): string => JSON.stringify(idOf(item))?.slice(0, 100) ?? 'one without an id';
