/**
 * The parts that a worker has in hand, each from its pointer to its result: the lines are fetched, run, and handed in until
 * the coordinator says that it has them, or that it wants them no more.
 */
import { addAsked, noneAsked } from '../../../engine/core/item/account.ts';
import { ioError } from '../../../engine/core/item/failure.ts';
import { counted, cut } from '../../../engine/core/item/wording.ts';
import type { Hello, PartName, Result } from '../protocol.ts';
import type { Taken } from '../taker.ts';
import { type CoordinatorClient, persist, Refused, Unheard } from './coordinator-client.ts';
import { type PartOutcome, PartRun } from './part-run.ts';
import { BadOrder, readPartName } from './task.ts';
import type { WorkFolder } from './worker-folder.ts';
import type { OpenWork, Works } from './works.ts';

interface HandsOptions {
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

const keyOf = ({ work, root, part }: PartName): string => `${work}.${root}.${part}`;
/** pointers that lead nowhere are said so often */
const MOST_ASTRAY = 20;
/** of a bug, which our own log has whole */
const STACK = /\n {4}at .*/s;
/** characters of a message to the coordinator */
const LONGEST = 2_000;

export type Sums = Hands['sums'];

export class Hands {
  /** what was handed in and taken since the start */
  readonly sums = { parts: 0, lines: 0, asked: noneAsked() };
  readonly #is: HandsOptions;
  readonly #hands = new Map<string, Hand>();
  /** results of an earlier process that are still to be handed in */
  #sending = 0;
  readonly #wanted: (() => void)[] = [];
  /** pointers whose parts are in hand, or that the queue has not heard of yet */
  readonly #settling = new Set<Promise<void>>();
  /** parts in hand that are looked at again once they are not: one pointer is enough for that */
  readonly #again = new Set<string>();
  #coming = 0;
  #astray = 0;

  constructor(options: HandsOptions) {
    this.#is = options;
  }

  /** From a pointer of the queue to a part. Resolves when that is in hand, or is not to be had. */
  async begin(taken: Taken): Promise<void> {
    let over = Promise.resolve();
    this.#coming += 1;
    try {
      const name = readPartName(taken.pointer);
      const key = keyOf(name);
      const before = this.#hands.get(key)?.over;
      if (before === undefined) over = (await this.#take(name))?.over ?? over;
      // it is there twice; or the part was just handed back, and is offered already before we hear that it was taken
      else if (!this.#again.has(key)) {
        this.#again.add(key);
        over = before.then(() => {
          this.#again.delete(key);
          return this.begin(taken);
        });
      }
    } catch (error) {
      if (!(error instanceof BadOrder)) throw error;
      this.#sayAstray(error);
    } finally {
      this.#coming -= 1;
    }
    const settled = over
      .then(() => taken.done())
      .catch(this.#is.onBroken)
      .finally(() => this.#settling.delete(settled));
    this.#settling.add(settled);
  }

  /** Hands back what there is of one. */
  back(name: PartName): void {
    const hand = this.#hands.get(keyOf(name));
    if (hand !== undefined) giveUp(hand);
  }

  backAll(): void {
    for (const hand of this.#hands.values()) giveUp(hand);
  }

  /** Results that an earlier process left are handed in. */
  async handInLeft(): Promise<void> {
    const { folder, say, onBroken } = this.#is;
    const left = folder.unsent();
    if (left.length > 0) say(`${counted(left.length, 'result')} of an earlier start to be handed in`);
    this.#sending += left.length;
    for (const { name, body } of left) {
      await this.#handIn(name, body).catch(onBroken);
      this.#sending -= 1;
      this.#changed();
    }
  }

  get held(): Hello['held'] {
    return [...this.#hands.values()].map(({ name, run, lines }) => ({
      ...name,
      done: run?.done ?? 0,
      lines: lines.length,
    }));
  }

  /** lines in hand that have no answer yet */
  get unfinished(): number {
    let count = 0;
    for (const { lines, run } of this.#hands.values()) count += lines.length - (run?.done ?? 0);
    return count;
  }

  /** one of them is asked alone: nothing is taken beside it */
  get haveOneAlone(): boolean {
    return [...this.#hands.values()].some(({ isAlone }) => isAlone);
  }

  /** a part is on its way or under way, and not only to be handed in */
  get areBusy(): boolean {
    return this.#coming > 0 || [...this.#hands.values()].some(({ isOver }) => !isOver);
  }

  /** nothing is in hand, and nothing to be handed in */
  get areEmpty(): boolean {
    return this.#hands.size + this.#sending === 0;
  }

  /** Resolves when all are empty, and the queue has heard of it. */
  async emptied(): Promise<void> {
    while (this.#settling.size > 0) await Promise.all(this.#settling);
    if (!this.areEmpty) await new Promise<void>(resolve => this.#wanted.push(resolve));
  }

  /** Takes the part, unless it is not to be had; resolves when it is in hand, to what resolves when it is not any more. */
  async #take(name: PartName): Promise<{ over: Promise<void> } | null> {
    const { client, worker, signal, lease, mayRun } = this.#is;
    let taken: Awaited<ReturnType<CoordinatorClient['take']>>;
    try {
      taken = await persist(() => client.take(name, worker), { signal, within: lease() });
    } catch (error) {
      const isUsual = error instanceof Refused && (error.status === 410 || error.status === 409);
      if (!isUsual && !(error instanceof Unheard))
        await this.#sayBroken(name, `cannot be taken: ${(error as Error).message}`);
      return null;
    }
    const { isAlone, lines: bytes } = taken;
    const lines = bytes.toString().split('\n');
    if (lines.at(-1) === '') lines.pop();
    const since = performance.now();
    const state = { run: null, isGivenUp: !mayRun(), wake: null, isOver: false, over: Promise.resolve() };
    const hand: Hand = { name, lines, isAlone, since, ...state };
    this.#hands.set(keyOf(name), hand);
    hand.over = this.#carry(hand, bytes);
    this.#changed();
    return hand;
  }

  /** Anyone who may write to Redis can put anything there, and any number of it. */
  #sayAstray({ message }: BadOrder): void {
    this.#astray += 1;
    const more = this.#astray === MOST_ASTRAY ? '; further ones are not said' : '';
    if (this.#astray <= MOST_ASTRAY) this.#is.say(`a pointer in the queue leads nowhere: ${message}${more}`);
  }

  #changed(): void {
    if (this.areEmpty) for (const resolve of this.#wanted.splice(0)) resolve();
    this.#is.onChange();
  }

  /** From the lines to a result that the coordinator has. */
  async #carry(hand: Hand, bytes: Buffer): Promise<void> {
    const { name, lines, since } = hand;
    const { worker, say, onBroken } = this.#is;
    try {
      const { answered, asked, model, broken, trouble } = await this.#run(hand, bytes).catch(error => {
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
      if (answered.length > 0) this.#keep(name, body);
      if (!(await this.#handIn(name, body))) return;
      if (answered.length > 0) {
        this.sums.parts += 1;
        this.sums.lines += answered.length;
        addAsked(this.sums.asked, asked);
      }
      if (answered.length < lines.length && broken === undefined)
        say(
          `${nameFor(name)}: handed back with ${answered.length} of ${counted(lines.length, 'line')} answered`,
        );
    } catch (error) {
      onBroken(error);
    } finally {
      this.#hands.delete(keyOf(name));
      this.#changed();
    }
  }

  async #run(hand: Hand, bytes: Buffer): Promise<PartOutcome> {
    const { works, folder, signal, lease, onChange } = this.#is;
    if (hand.isAlone && !hand.isGivenUp) await this.#turnOf(hand);
    let work: OpenWork;
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
      hand.run = new PartRun(work, folder.putLines(hand.name, bytes), hand.lines, onChange);
      return await hand.run.ended;
    } finally {
      work.leave();
    }
  }

  /** A part that may take its worker with it takes nothing else along. */
  async #turnOf(hand: Hand): Promise<void> {
    const before = [...this.#hands.values()].filter(other => other !== hand).map(({ over }) => over);
    const woken = new Promise<void>(resolve => {
      hand.wake = resolve;
    });
    await Promise.race([Promise.all(before), woken]);
  }

  #keep(name: PartName, body: Buffer): void {
    try {
      this.#is.folder.putResult(name, body);
    } catch (error) {
      this.#is.onBroken(error); // it may be handed in all the same
    }
  }

  /** Whether it was taken. What is not heard stays on disk. */
  async #handIn(name: PartName, body: Buffer): Promise<boolean> {
    const { client, folder, signal, say } = this.#is;
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
      if (error.status !== 410) await this.#sayBroken(name, `its result was refused: ${error.message}`);
      return false;
    }
  }

  /** What cannot be done here is counted against the part: nobody would know why it comes back again and again. */
  async #sayBroken(name: PartName, why: string): Promise<void> {
    const { client, worker, say } = this.#is;
    say(`${nameFor(name)}: ${why}`);
    const result: Result = { worker, ...NOTHING, answered: [], seconds: 0, broken: cut(why, LONGEST) };
    await client.put(name, Buffer.from(`${JSON.stringify(result)}\n`)).catch(() => {});
  }
}

function giveUp(hand: Hand): void {
  hand.isGivenUp = true;
  hand.wake?.();
  hand.run?.handBack();
}

const NOTHING: PartOutcome = {
  answered: [],
  asked: noneAsked(),
  model: null,
};

const nameFor = ({ work, root, part }: PartName): string =>
  `part ${root}${part === 0 ? '' : `.${part}`} of ${work}`;
