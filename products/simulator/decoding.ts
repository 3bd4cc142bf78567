/**
 * The sequences that decode, as sums: all of them make as many tokens a step, one unless drafts are checked
 * (speculation.ts). So what a step reads of the KV cache, which blocks it needs and when the next event comes follow from a
 * few numbers, however many sequences there are.
 *
 * In units of 1/`whole` of a token: a sequence that has c units in the KV cache after step s has c + `rate` after the next,
 * c = rate·s + offset with an offset that stays. It needs a new block in the steps in which c goes beyond a whole number of
 * blocks: with one token a step in one of 16. Tokens are whole: what is made of the last one is not there yet.
 */
import { Agenda } from './event-queue.ts';
import { type Member, tokensToCompute } from './sequence.ts';
import { PARTS, type Speculation } from './speculation.ts';
import { BLOCK } from './tokens.ts';

export class Decoding {
  readonly #agenda = new Agenda<Member>();
  readonly #rate: number;
  readonly #whole: number;
  /** units of a block, and steps after which each sequence has needed `rate` blocks */
  readonly #block: number;
  /** how many sequences have offsets of each remainder by a block, and how many have a lower one */
  readonly #offsetsAt: Int32Array;
  readonly #below: Int32Array;
  #isSummed = true;
  #offsets = 0;

  constructor(speculation?: Speculation) {
    this.#rate = speculation ? speculation.made : 1;
    this.#whole = speculation ? PARTS : 1;
    this.#block = BLOCK * this.#whole;
    this.#offsetsAt = new Int32Array(this.#block);
    this.#below = new Int32Array(this.#block + 1);
  }

  get count(): number {
    return this.#agenda.size;
  }

  /** tokens that all of them make in a step, and so by how many the context of all grows */
  get madeInStep(): number {
    return (this.count * this.#rate) / this.#whole;
  }

  /** From the step after `step`, the one that ended its prefill. */
  start(member: Member, step: number): void {
    // the token that was sampled last is computed in the next step
    member.offset = (tokensToCompute(member) - 1) * this.#whole - step * this.#rate;
    this.#offsets += member.offset;
    this.#note(member, 1);
    this.#enter(member, step);
  }

  /** Sets `made` and `taken` to what they are after `step`; returns what was counted of it beyond whole tokens, or its last. */
  stop(member: Member, step: number): number {
    this.#agenda.remove(member);
    this.#offsets -= member.offset;
    this.#note(member, -1);
    const units = this.#unitsOf(member, step);
    member.made = this.madeBy(member, step);
    member.taken = Math.ceil(units / this.#block);
    return units / this.#whole - (member.sequence.prompt.tokens + member.made - 1);
  }

  /** output tokens after `step` of a sequence that decodes */
  madeBy(member: Member, step: number): number {
    const { prompt, output } = member.sequence;
    return Math.min(output, Math.floor(this.#unitsOf(member, step) / this.#whole) - prompt.tokens + 1);
  }

  /** tokens in the KV cache after `step` */
  kv(step: number): number {
    return (this.count * this.#rate * step + this.#offsets) / this.#whole;
  }

  /** blocks that are needed in `steps` steps, of which the first is `first` */
  blocks(first: number, steps: number): number {
    const rounds = Math.floor(steps / this.#block);
    let sum = rounds * this.count * this.#rate;
    for (let step = first + rounds * this.#block; step < first + steps; step++) sum += this.#needed(step);
    return sum;
  }

  /** how many steps from `first` on, at most `most`, `free` blocks are enough for; there is a sequence */
  stepsWithin(first: number, free: number, most: number): number {
    const inRound = this.count * this.#rate;
    const rounds = Math.floor(free / inRound);
    let rest = free - rounds * inRound;
    let steps = rounds * this.#block;
    for (; steps < most; steps++) {
      rest -= this.#needed(first + steps);
      if (rest < 0) return steps;
    }
    return most;
  }

  /** the step of the next event; there is a sequence */
  nextEvent(): number {
    return this.#agenda.first()!.at;
  }

  /** One that has all its tokens, or a progress to tell, after `step`; it stays until it is stopped or continues. */
  dueAt(step: number): Member | undefined {
    const member = this.#agenda.first();
    return member !== undefined && member.at === step ? member : undefined;
  }

  goOn(member: Member, step: number): void {
    this.#agenda.remove(member);
    this.#enter(member, step);
  }

  #enter(member: Member, step: number): void {
    const { output, progress, prompt } = member.sequence;
    const made = this.madeBy(member, step);
    const next = progress ? (Math.floor(made / progress.every) + 1) * progress.every : output;
    const tokens = prompt.tokens + Math.min(next, output) - 1;
    member.at = Math.ceil((tokens * this.#whole - member.offset) / this.#rate);
    this.#agenda.push(member);
  }

  #unitsOf({ offset }: Member, step: number): number {
    return step * this.#rate + offset;
  }

  #note({ offset }: Member, more: 1 | -1): void {
    this.#offsetsAt[this.#remainder(offset)]! += more;
    this.#isSummed = false;
  }

  #remainder(units: number): number {
    const rest = units % this.#block;
    return rest < 0 ? rest + this.#block : rest;
  }

  /** Blocks that `step` needs: one for each offset in the `rate` remainders that go beyond a whole number of blocks in it. */
  #needed(step: number): number {
    const from = this.#remainder(1 - step * this.#rate);
    if (this.#rate === 1) return this.#offsetsAt[from]!;
    if (!this.#isSummed) this.#sum();
    const below = this.#below;
    const to = from + this.#rate;
    if (to <= this.#block) return below[to]! - below[from]!;
    return below[this.#block]! - below[from]! + below[to - this.#block]!;
  }

  #sum(): void {
    for (let at = 0; at < this.#block; at++) this.#below[at + 1] = this.#below[at]! + this.#offsetsAt[at]!;
    this.#isSummed = true;
  }
}
