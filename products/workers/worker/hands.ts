/**
 * The parts that a worker has in hand, each from its pointer to its result: the lines are fetched, run, and handed in until
 * the coordinator says that it has them, or that it wants them no more.
 */
import { type AskedTotals, addAsked, noneAsked } from '../../../engine/core/item/account.ts';
import { ioError } from '../../../engine/core/item/failure.ts';
import { counted, cut } from '../../../engine/core/item/wording.ts';
import type { Hello, PartName, Result } from '../protocol.ts';
import { type CoordinatorClient, Refused, Unheard } from './coordinator-client.ts';
import { type PartOutcome, type PartRun, runPart } from './part-run.ts';
import { persist } from './persist.ts';
import { BadOrder } from './task.ts';
import type { WorkFolder } from './worker-folder.ts';
import type { Works } from './works.ts';

export interface Hands {
  /** Takes the part, unless it is not to be had; resolves when it is in hand, to what resolves when it is not any more. */
  take(name: PartName): Promise<{ over: Promise<void> } | null>;
  /** Resolves when the part is in hand no more; null where it is not. */
  over(name: PartName): Promise<void> | null;
  /** Hands back what there is of one, or of all. */
  back(name: PartName): void;
  backAll(): void;
  /** Results that an earlier process left are handed in. */
  handInLeft(): Promise<void>;
  readonly held: Hello['held'];
  /** lines in hand that have no answer yet */
  readonly unfinished: number;
  /** one of them is asked alone: nothing is taken beside it */
  readonly haveOneAlone: boolean;
  /** a part is under way, and not only to be handed in */
  readonly areBusy: boolean;
  /** nothing is in hand, and nothing to be handed in */
  readonly areEmpty: boolean;
  /** what was handed in and taken since the start */
  readonly sums: Sums;
  /** Resolves when all are empty. */
  emptied(): Promise<void>;
}

export interface Sums {
  parts: number;
  lines: number;
  asked: AskedTotals;
}

export interface HandsOptions {
  client: CoordinatorClient;
  folder: WorkFolder;
  works: Works;
  worker: string;
  /** ms that a take is tried again, as long as the coordinator thinks of a worker that is silent */
  lease(): number;
  /** What is taken is run, and does not go back at once. */
  mayRun(): boolean;
  /** aborted: what is not heard by now is left on disk */
  signal: AbortSignal;
  say(message: string): void;
  /** Something has changed: an answer, a part. */
  onChange(): void;
  /** This process can keep nothing more. */
  onBroken(error: unknown): void;
}

interface Hand {
  name: PartName;
  lines: readonly string[];
  isAlone: boolean;
  since: number;
  run: PartRun | null;
  /** to be handed back as soon as it runs */
  isGivenUp: boolean;
  /** ends its wait for those before it */
  wake: (() => void) | null;
  /** it has its result */
  isOver: boolean;
  over: Promise<void>;
}

export const keyOf = ({ work, root, part }: PartName): string => `${work}.${root}.${part}`;
/** of a bug, which our own log has whole */
const STACK = /\n {4}at .*/s;
/** characters of a message to the coordinator */
const LONGEST = 2_000;

export function createHands(options: HandsOptions): Hands {
  const { client, folder, works, worker, lease, mayRun, signal, say, onChange, onBroken } = options;
  const hands = new Map<string, Hand>();
  const sums: Sums = {
    parts: 0,
    lines: 0,
    asked: noneAsked(),
  };
  let sending = 0;
  const wanted: (() => void)[] = [];

  function changed(): void {
    if (hands.size + sending === 0) for (const resolve of wanted.splice(0)) resolve();
    onChange();
  }

  /** A part that may take its worker with it takes nothing else along. */
  async function turnOf(hand: Hand): Promise<void> {
    const before = [...hands.values()].filter(other => other !== hand).map(({ over }) => over);
    const woken = new Promise<void>(resolve => {
      hand.wake = resolve;
    });
    await Promise.race([Promise.all(before), woken]);
  }

  async function run(hand: Hand, bytes: Buffer): Promise<PartOutcome> {
    if (hand.isAlone && !hand.isGivenUp) await turnOf(hand);
    let work: Awaited<ReturnType<Works['open']>>;
    try {
      work = await persist(() => works.open(hand.name.work), { signal, within: lease() });
    } catch (error) {
      if (error instanceof Unheard) return NOTHING;
      // a work that is over has no parts that could be broken
      if (error instanceof Refused && error.status === 410) return NOTHING;
      if (error instanceof BadOrder || error instanceof Refused) return { ...NOTHING, broken: error.message };
      throw error;
    }
    try {
      if (hand.isGivenUp) return NOTHING;
      hand.run = runPart(work, folder.putLines(hand.name, bytes), hand.lines, onChange);
      return await hand.run.ended;
    } finally {
      work.leave();
    }
  }

  /** From the lines to a result that the coordinator has. */
  async function carry(hand: Hand, bytes: Buffer): Promise<void> {
    const { name, lines, since } = hand;
    try {
      const { answered, asked, model, broken, trouble } = await run(hand, bytes).catch(error => {
        onBroken(error);
        return NOTHING;
      });
      hand.isOver = true;
      if (trouble !== undefined) onBroken(ioError(trouble));
      if (broken !== undefined) say(`${nameFor(name)} could not be done: ${broken}`);
      const result: Result = {
        worker,
        answered: answered.map(({ index }) => index),
        ...{ asked, model, seconds: (performance.now() - since) / 1000 },
        ...(broken !== undefined && { broken: cut(broken.replace(STACK, ''), LONGEST) }),
      };
      const body = Buffer.from([JSON.stringify(result), ...answered.map(({ line }) => line), ''].join('\n'));
      if (answered.length > 0) keep(name, body);
      if (!(await handIn(name, body))) return;
      if (answered.length > 0) note(answered.length, asked);
      if (answered.length < lines.length && broken === undefined)
        say(
          `${nameFor(name)}: handed back with ${answered.length} of ${counted(lines.length, 'line')} answered`,
        );
    } catch (error) {
      onBroken(error);
    } finally {
      hands.delete(keyOf(name));
      changed();
    }
  }

  function keep(name: PartName, body: Buffer): void {
    try {
      folder.putResult(name, body);
    } catch (error) {
      onBroken(error); // it may be handed in all the same
    }
  }

  function note(lines: number, asked: AskedTotals): void {
    sums.parts += 1;
    sums.lines += lines;
    addAsked(sums.asked, asked);
  }

  /** Whether it was taken. What is not heard stays on disk. */
  async function handIn(name: PartName, body: Buffer): Promise<boolean> {
    try {
      await persist(() => client.put(name, body), { signal });
      folder.drop(name);
      return true;
    } catch (error) {
      if (error instanceof Unheard) {
        say(`${nameFor(name)}: its result is kept for the next start, since ${client.url} does not answer`);
        return false;
      }
      if (!(error instanceof Refused)) throw error;
      folder.drop(name);
      // 410: somebody else has done it, or nobody wants it any more
      if (error.status !== 410) await sayBroken(name, `its result was refused: ${error.message}`);
      return false;
    }
  }

  /** What cannot be done here is counted against the part: nobody would know why it comes back again and again. */
  async function sayBroken(name: PartName, why: string): Promise<void> {
    say(`${nameFor(name)}: ${why}`);
    const { answered: _, ...none } = NOTHING;
    const result: Result = { worker, answered: [], ...none, seconds: 0, broken: cut(why, LONGEST) };
    await client.put(name, Buffer.from(`${JSON.stringify(result)}\n`)).catch(() => {});
  }

  return {
    async take(name) {
      let taken: Awaited<ReturnType<CoordinatorClient['take']>>;
      try {
        taken = await persist(() => client.take(name, worker), { signal, within: lease() });
      } catch (error) {
        const isUsual = error instanceof Refused && (error.status === 410 || error.status === 409);
        if (!isUsual && !(error instanceof Unheard))
          await sayBroken(name, `cannot be taken: ${(error as Error).message}`);
        return null;
      }
      const { isAlone, lines: bytes } = taken;
      const lines = bytes.toString().split('\n');
      if (lines.at(-1) === '') lines.pop();
      const since = performance.now();
      const state = { run: null, isGivenUp: !mayRun(), wake: null, isOver: false, over: Promise.resolve() };
      const hand: Hand = { name, lines, isAlone, since, ...state };
      hands.set(keyOf(name), hand);
      hand.over = carry(hand, bytes);
      changed();
      return hand;
    },
    over: name => hands.get(keyOf(name))?.over ?? null,
    back(name) {
      const hand = hands.get(keyOf(name));
      if (hand !== undefined) giveUp(hand);
    },
    backAll() {
      for (const hand of hands.values()) giveUp(hand);
    },
    async handInLeft() {
      const left = folder.unsent();
      if (left.length > 0) say(`${counted(left.length, 'result')} of an earlier start to be handed in`);
      sending += left.length;
      for (const { name, body } of left) {
        await handIn(name, body).catch(onBroken);
        sending -= 1;
        changed();
      }
    },
    get held() {
      return [...hands.values()].map(({ name, run, lines }) => ({
        ...name,
        done: run?.done ?? 0,
        lines: lines.length,
      }));
    },
    get unfinished() {
      let count = 0;
      for (const { lines, run } of hands.values()) count += lines.length - (run?.done ?? 0);
      return count;
    },
    get haveOneAlone() {
      return [...hands.values()].some(({ isAlone }) => isAlone);
    },
    get areBusy() {
      return [...hands.values()].some(({ isOver }) => !isOver);
    },
    get areEmpty() {
      return hands.size + sending === 0;
    },
    sums,
    emptied: () =>
      hands.size + sending === 0 ? Promise.resolve() : new Promise(resolve => wanted.push(resolve)),
  };

  function giveUp(hand: Hand): void {
    hand.isGivenUp = true;
    hand.wake?.();
    hand.run?.handBack();
  }
}

const NOTHING: PartOutcome = {
  answered: [],
  asked: noneAsked(),
  model: null,
};

const nameFor = ({ work, root, part }: PartName): string =>
  `part ${root}${part === 0 ? '' : `.${part}`} of ${work}`;
