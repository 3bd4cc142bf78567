/**
 * A request as the engine sees it, what the engine keeps of it, and lists of such. Times are in milliseconds of the
 * caller's clock.
 */
import type { Entry } from './event-queue.ts';
import type { Prompt } from './tokens.ts';

/** Callbacks may add and remove sequences, and call nothing else of the engine. */
export interface Sequence {
  prompt: Prompt;
  /** tokens that it will generate, at least 1 */
  output: number;
  /** where the engine schedules by priority: lower runs sooner; 0 unless given */
  priority?: number;
  firstToken?(at: number): void;
  /** called at each `every` tokens, but not for the last one: for answers that are streamed */
  progress?: { every: number; tokens(at: number, made: number): void };
  /** called once, unless the sequence is removed before */
  done(at: number, told: Handle): void;
}

/** A sequence in the engine, and what can be told of it; NaN where it has not come to that. */
export interface Handle {
  readonly arrived: number;
  /** when it first left the queue */
  readonly scheduled: number;
  readonly firstToken: number;
  /** prompt tokens that the prefix cache had when it first left the queue */
  readonly cachedTokens: number;
  readonly preemptions: number;
}

/** `coming`: the scheduler does not know it yet. `leaving`: removed by its client, until the running step ends. */
export type Phase = 'coming' | 'waiting' | 'prefill' | 'decode' | 'leaving' | 'over';

export class Member implements Entry, Handle {
  readonly sequence: Sequence;
  readonly number: number;
  readonly arrived: number;
  at = 0;
  place = -1;
  phase: Phase = 'coming';
  /** nobody is to be called any more */
  silent = false;
  scheduled = Number.NaN;
  firstToken = Number.NaN;
  cachedTokens = 0;
  preemptions = 0;
  /** output tokens up to the end of its last prefill; while it decodes, the number of the step tells */
  made = 0;
  /** while it decodes: after step s, s + offset tokens of it are in the KV cache (with drafts in parts of tokens: decoding.ts) */
  offset = 0;
  /** during prefill: tokens in the KV cache, the blocks taken for them, and how many of its prompt's blocks are known */
  computed = 0;
  taken = 0;
  known = 0;
  /** its blocks that are cached, by number */
  readonly held: number[] = [];
  /** neighbours in the one list that it is in */
  earlier: Member | null = null;
  later: Member | null = null;

  get priority(): number {
    return this.sequence.priority ?? 0;
  }

  constructor(sequence: Sequence, number: number, arrived: number) {
    this.sequence = sequence;
    this.number = number;
    this.arrived = arrived;
  }
}

/** Tokens that its prefill has to compute: the prompt, and after a preemption what it had generated. */
export function tokensToCompute({ sequence, made }: Member): number {
  return sequence.prompt.tokens + made;
}

/** In the order of their places: who waits, or who runs. */
export class List {
  first: Member | null = null;
  last: Member | null = null;
  size = 0;

  putLast(member: Member): void {
    member.earlier = this.last;
    if (this.last) this.last.later = member;
    else this.first = member;
    this.last = member;
    this.size++;
  }

  putFirst(member: Member): void {
    member.later = this.first;
    if (this.first) this.first.earlier = member;
    else this.last = member;
    this.first = member;
    this.size++;
  }

  /** Behind those that `isBehind` is not true of: the others are the last ones of the list. */
  putBefore(member: Member, isBehind: (other: Member) => boolean): void {
    let next: Member | null = null;
    for (let other = this.last; other !== null && isBehind(other); other = other.earlier) next = other;
    if (next === null) return this.putLast(member);
    if (next === this.first) return this.putFirst(member);
    member.earlier = next.earlier;
    member.later = next;
    (next.earlier as Member).later = member;
    next.earlier = member;
    this.size++;
  }

  takeOut(member: Member): void {
    const { earlier, later } = member;
    if (earlier) earlier.later = later;
    else this.first = later;
    if (later) later.earlier = earlier;
    else this.last = earlier;
    member.earlier = null;
    member.later = null;
    this.size--;
  }
}

/** A model or a request that these cards cannot hold, or not split so. Who compares cards takes it for an answer. */
export class DoesNotFit extends RangeError {}
