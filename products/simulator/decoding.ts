/**
 * The sequences that decode, as sums: all of them make one token a step, so what a step reads of the KV cache, which
 * blocks it needs and when the next event comes follow from a few numbers, however many sequences there are.
 *
 * A sequence that has c tokens in the KV cache after step s has c + 1 after the next: c = s + offset, with an offset
 * that stays. It needs a new block in the steps in which c goes beyond a whole number of blocks, one in 16.
 */
import { Agenda } from './event-queue.ts';
import { type Member, tokensToCompute } from './sequence.ts';
import { BLOCK } from './tokens.ts';

/** output tokens after `step` of a sequence that decodes */
export function madeBy(member: Member, step: number): number {
  return step + member.offset - member.sequence.prompt.tokens + 1;
}

const remainder = (step: number) => ((step % BLOCK) + BLOCK) % BLOCK;
const stepsInNeed = (member: Member) => remainder(1 - member.offset);

export class Decoding {
  readonly #agenda = new Agenda<Member>();
  /** how many sequences need a block in steps of each remainder */
  readonly #needs = new Int32Array(BLOCK);
  #offsets = 0;

  get count(): number {
    return this.#agenda.size;
  }

  /** From the step after `step`, the one that ended its prefill. */
  start(member: Member, step: number): void {
    // the token that was sampled last is computed in the next step
    member.offset = tokensToCompute(member) - 1 - step;
    this.#offsets += member.offset;
    this.#needs[stepsInNeed(member)]!++;
    this.#enter(member, step);
  }

  /** Sets `made` and `taken` to what they are after `step`. */
  stop(member: Member, step: number): void {
    this.#agenda.remove(member);
    this.#offsets -= member.offset;
    this.#needs[stepsInNeed(member)]!--;
    member.made = madeBy(member, step);
    member.taken = Math.ceil((step + member.offset) / BLOCK);
  }

  /** tokens in the KV cache after `step` */
  kv(step: number): number {
    return this.count * step + this.#offsets;
  }

  /** blocks that are needed in `steps` steps, of which the first is `first` */
  blocks(first: number, steps: number): number {
    const rounds = Math.floor(steps / BLOCK);
    let sum = rounds * this.count;
    for (let step = first + rounds * BLOCK; step < first + steps; step++)
      sum += this.#needs[remainder(step)]!;
    return sum;
  }

  /** how many steps from `first` on `free` blocks are enough for */
  stepsWithin(first: number, free: number): number {
    const needs = this.#needs;
    const rounds = Math.floor(free / this.count);
    let rest = free - rounds * this.count;
    let step = first + rounds * BLOCK;
    for (; needs[remainder(step)]! <= rest; step++) rest -= needs[remainder(step)]!;
    return step - first;
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
    const { output, progress } = member.sequence;
    const made = madeBy(member, step);
    const next = progress ? (Math.floor(made / progress.every) + 1) * progress.every : output;
    member.at = step + Math.min(next, output) - made;
    this.#agenda.push(member);
  }
}
