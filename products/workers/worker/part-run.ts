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
import { run } from '../../../engine/running/run.ts';
import type { Stopper } from '../../../engine/running/stopping.ts';
import type { PlacedStage } from './task.ts';
import type { OpenWork } from './works.ts';

export interface PartRun {
  /** lines of it that have an answer */
  readonly done: number;
  /** Asks nothing more: calls that wait fail as interrupted, those at servers have the grace. */
  handBack(): void;
  /** Never rejects. */
  ended: Promise<PartOutcome>;
}

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

/** `path` has the `lines`; `onDone` is told of each that has an answer. */
export function runPart(
  work: OpenWork,
  path: string,
  lines: readonly string[],
  onDone: () => void = () => {},
): PartRun {
  const answered: PartOutcome['answered'] = [];
  const tally = { done: 0 };
  let pool: EndpointPool | undefined;
  let stop: ((by: Stopper) => void) | undefined;
  let isHandedBack = false;
  let said = '';
  let taken = 0;
  let bytes = 0;
  let wrong: string | undefined;

  function take(item: Item): void {
    const index = taken++;
    const given = lines[index];
    if (given === undefined || !isOf(item, given)) {
      wrong ??= `expected a line for each of ${lines.length}, in their order, found ${describe(item)} as number ${taken}`;
      return;
    }
    if (isUnasked(item, given)) return;
    const origin = originOf(item);
    const line = origin === undefined ? JSON.stringify(item) : textOf(origin);
    letGo(item);
    bytes += Buffer.byteLength(line) + 1;
    if (bytes <= MOST_RESULT || answered.length === 0) answered.push({ index, line });
  }
  const output: Output = {
    write(item) {
      take(item);
      return true;
    },
    ready: act => act(),
    async end() {},
  };

  const outcome = (broken?: string): PartOutcome => {
    const asked = pool === undefined ? noneAsked() : askedOf(pool);
    const isAsked = asked.calls + (asked.replayed ?? 0) > 0;
    const model = isAsked ? (pool?.model ?? null) : null;
    // where files lie here is of no use to who reads it there
    if (broken !== undefined)
      return { answered: [], asked, model, broken: broken.replaceAll(`${work.base}/`, '') };
    return { answered, asked, model };
  };
  /** The disk of a worker is no fault of a part. */
  const fatal = (exit: number, message: string): PartOutcome =>
    exit === EXIT.io ? { ...outcome(), trouble: message } : outcome(wrong ?? message);
  const ended = run({
    label: work.task.label,
    row: counting(work.row, () => {
      tally.done += 1;
      onDone();
    }),
    files: [path],
    base: work.base,
    toNext: false,
    ledger: false,
    openPool: async ({ asksWith, onGivenUp }) => {
      pool = work.pool(asksWith, onGivenUp);
      if (isHandedBack) pool.stop();
      return pool;
    },
    output: () => output,
    say(message) {
      said = message;
    },
    stoppable(act) {
      stop = act;
      if (isHandedBack) act(HANDED_BACK);
      return () => {
        stop = undefined;
      };
    },
  }).then(
    ({ exit }) => {
      const isOver = exit === EXIT.ok || exit === EXIT.failed;
      if (wrong === undefined && isOver && !isHandedBack && taken < lines.length)
        wrong = `expected ${lines.length} lines, found ${taken}`;
      const isFine = isOver || (isHandedBack && exit === HANDED_BACK.exit);
      return isFine ? outcome(wrong) : fatal(exit, said);
    },
    error => fatal(fatalOf(error).exit, fatalOf(error).message),
  );
  return {
    get done() {
      return Math.max(tally.done, taken);
    },
    handBack() {
      if (isHandedBack) return;
      isHandedBack = true;
      pool?.stop();
      stop?.(HANDED_BACK);
    },
    ended,
  };
}

/** The row, whose last stage that asks counts what leaves it: in the order of the input they would be seen late. */
function counting(row: readonly PlacedStage[], onLeft: () => void): PlacedStage[] {
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
