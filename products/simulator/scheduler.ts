/**
 * Which sequences the next step serves, in vLLM's order (vllm/v1/core/sched/scheduler.py): running sequences first, one
 * token for each that decodes, then the unfinished prompt; where blocks are short, those that were admitted last are
 * preempted; waiting ones come in only if none was preempted, while there are places and tokens left. What the prefix
 * cache has of a prompt is not computed.
 *
 * With `--scheduling-policy priority` who waits is in the order of (priority, arrival), and the last in that order of all
 * that run is preempted. A place is taken from nobody: the most urgent one waits for a sequence to end like any other.
 *
 *   waiting ─(a place, blocks)─> prefill in chunks ─> decode, one token a step (more with drafts) ─> over
 *      ^───────────────── preempted: starts again, its tokens are kept ──┘
 */
import { Blocks } from './blocks.ts';
import { Decoding } from './decoding.ts';
import { List, type Member, tokensToCompute } from './sequence.ts';
import { computedIn, type Speculation } from './speculation.ts';
import { BLOCK } from './tokens.ts';

export interface Limits {
  maxNumSeqs: number;
  maxNumBatchedTokens: number;
  /** tokens that the KV cache holds */
  kvTokens: number;
  /** by the priority of sequences, and not by their arrival alone */
  byPriority?: boolean;
  /** undefined where each token is made by a step of its own */
  speculation?: Speculation | undefined;
}

/** What a step works on: the terms of its duration. */
export interface Step {
  sequences: number;
  tokens: number;
  kv: number;
  attention: number;
  /** tokens of context by which `kv` grows in each step of a row that only decodes */
  growth: number;
  /** in how many steps from this one on nothing but decoding happens, and nothing else could */
  alike: number;
}

/** What a step or a row of them brought; the lists are used again by the next `complete`. */
export interface Outcome {
  firsts: Member[];
  progressed: Member[];
  ended: Member[];
}

export interface Counts {
  steps: number;
  preemptions: number;
  /** in tokens, as vLLM counts them */
  prefixQueries: number;
  prefixHits: number;
  promptTokens: number;
  outputTokens: number;
  /** how often a sequence decoded in a step */
  decodes: number;
}

const blocksOf = (tokens: number) => Math.ceil(tokens / BLOCK);

export class Scheduler {
  readonly blocks: Blocks;
  readonly decoding: Decoding;
  readonly waiting = new List();
  readonly running = new List();
  readonly counts: Counts = {
    steps: 0,
    preemptions: 0,
    prefixQueries: 0,
    prefixHits: 0,
    promptTokens: 0,
    outputTokens: 0,
    decodes: 0,
  };
  readonly #limits: Limits;
  /** tokens that a step computes of one that decodes */
  readonly #width: number;
  /** the running sequence whose prompt did not fit into one step; always the last of them */
  #chunking: Member | null = null;
  readonly #prefilled: Member[] = [];
  readonly #leaving: Member[] = [];
  readonly #outcome: Outcome = { firsts: [], progressed: [], ended: [] };
  #prefillTokens = 0;

  constructor(limits: Limits) {
    this.#limits = limits;
    this.#width = computedIn(limits.speculation);
    this.decoding = new Decoding(limits.speculation);
    this.blocks = new Blocks(Math.floor(limits.kvTokens / BLOCK));
  }

  /** prompt tokens that are not computed yet, of running and waiting sequences */
  get prefillTokens(): number {
    return this.#prefillTokens;
  }

  /** share of the blocks that sequences hold, after `steps` more steps in which all decode */
  kvUsage(steps: number): number {
    return 1 - (this.blocks.free - this.decoding.blocks(this.counts.steps + 2, steps)) / this.blocks.total;
  }

  /** Whether one that waits could come in at the next step: whoever waits already could not. */
  add(member: Member): boolean {
    this.#prefillTokens += tokensToCompute(member);
    member.phase = 'waiting';
    if (this.#limits.byPriority) this.waiting.putBefore(member, other => isAfter(other, member));
    else this.waiting.putLast(member);
    return this.waiting.first === member && this.running.size < this.#limits.maxNumSeqs;
  }

  remove(member: Member): void {
    if (member.phase === 'waiting') {
      this.#prefillTokens -= tokensToCompute(member);
      this.waiting.takeOut(member);
      member.phase = 'over';
    } else if (member.phase === 'prefill' || member.phase === 'decode') {
      member.phase = 'leaving';
      this.#leaving.push(member);
    }
  }

  /** The next step; null where there is nothing to do, with `waiting` ones only if another try lets them in. */
  next(now: number): Step | null {
    const { counts, decoding, blocks, waiting, running } = this;
    const { maxNumSeqs, maxNumBatchedTokens } = this.#limits;
    const step = counts.steps + 1;
    const preemptions = counts.preemptions;
    while (decoding.blocks(step, 1) > blocks.free) this.#preempt();
    const chunk = this.#chunkWithin(maxNumBatchedTokens - this.#width * decoding.count, step);
    blocks.take(decoding.blocks(step, 1));
    const decoders = decoding.count;
    const plan: Step = {
      sequences: decoders,
      tokens: this.#width * decoders,
      kv: decoding.kv(step),
      attention: 0,
      growth: decoding.madeInStep,
      alike: 1,
    };
    const chunking = this.#chunking;
    if (chunking && chunk > 0) {
      this.#compute(chunking, chunk);
      addChunk(plan, chunking, chunk);
    }
    const admitting = counts.preemptions === preemptions;
    while (admitting && waiting.first && plan.tokens < maxNumBatchedTokens && running.size < maxNumSeqs) {
      const member = waiting.first;
      const tokens = this.#admit(member, maxNumBatchedTokens - plan.tokens, now);
      if (tokens === 0) break;
      addChunk(plan, member, tokens);
    }
    if (plan.sequences === 0) return null;
    // who waits now waits for a place or for blocks, and neither comes free while all decode
    if (admitting && this.#chunking === null && plan.sequences === decoders) {
      plan.alike = 1 + decoding.stepsWithin(step + 1, blocks.free, decoding.nextEvent() - step);
    }
    return plan;
  }

  /** The planned step, and `steps - 1` more that are alike, are over. */
  complete(steps: number): Outcome {
    const { counts, decoding } = this;
    const { firsts, progressed, ended } = this.#outcome;
    firsts.length = 0;
    progressed.length = 0;
    ended.length = 0;
    counts.outputTokens += decoding.madeInStep * steps + this.#prefilled.length;
    counts.decodes += decoding.count * steps;
    this.blocks.take(decoding.blocks(counts.steps + 2, steps - 1));
    counts.steps += steps;
    for (let member = decoding.dueAt(counts.steps); member; member = decoding.dueAt(counts.steps)) {
      member.made = decoding.madeBy(member, counts.steps);
      if (member.made === member.sequence.output) {
        this.#leave(member, 'over');
        ended.push(member);
      } else {
        decoding.goOn(member, counts.steps);
        progressed.push(member);
      }
    }
    for (const member of this.#prefilled) {
      if (member.made === 0) firsts.push(member);
      if (member.made + 1 === member.sequence.output) {
        this.#leave(member, 'over');
        ended.push(member);
      } else if (member.phase === 'prefill') {
        member.made++;
        member.phase = 'decode';
        decoding.start(member, counts.steps);
      }
    }
    this.#prefilled.length = 0;
    // one that has ended in its last step has ended; of the others vLLM learns between two steps
    for (const member of this.#leaving) if (member.phase === 'leaving') this.#leave(member, 'over');
    this.#leaving.length = 0;
    return this.#outcome;
  }

  /** Takes a member out of the running ones and gives its blocks back. */
  #leave(member: Member, phase: 'waiting' | 'over'): void {
    if (member.place >= 0) this.counts.outputTokens -= this.decoding.stop(member, this.counts.steps);
    else this.#prefillTokens -= tokensToCompute(member) - member.computed;
    if (this.#chunking === member) this.#chunking = null;
    this.blocks.release(member.held, member.taken - member.held.length);
    member.held.length = 0;
    this.running.takeOut(member);
    member.phase = phase;
  }

  /** Tokens of the unfinished prompt that `step` computes, at most `budget`; makes room for them, unless it has to go itself. */
  #chunkWithin(budget: number, step: number): number {
    const chunking = this.#chunking;
    if (chunking === null || budget <= 0) return 0;
    const { blocks, decoding } = this;
    const tokens = Math.min(tokensToCompute(chunking) - chunking.computed, budget);
    const needed = blocksOf(chunking.computed + tokens) - chunking.taken;
    while (decoding.blocks(step, 1) + needed > blocks.free) {
      this.#preempt();
      if (this.#chunking === null) return 0;
    }
    return tokens;
  }

  #preempt(): void {
    const { running, waiting } = this;
    const member = this.#limits.byPriority ? leastUrgent(running) : running.last!;
    this.#leave(member, 'waiting');
    member.preemptions++;
    this.counts.preemptions++;
    this.#prefillTokens += tokensToCompute(member);
    if (this.#limits.byPriority) waiting.putBefore(member, other => isAfter(other, member));
    else waiting.putFirst(member);
  }

  /** Computes `tokens` more of a prompt; the caller has seen that there are blocks. */
  #compute(member: Member, tokens: number): void {
    member.computed += tokens;
    this.#prefillTokens -= tokens;
    const taken = blocksOf(member.computed);
    this.blocks.take(taken - member.taken);
    member.taken = taken;
    // vLLM too makes blocks known when it plans to fill them: the next prompt of the same step finds them
    const { blocks: hashes } = member.sequence.prompt;
    const known = Math.min(Math.floor(member.computed / BLOCK), hashes.length >> 1);
    if (known > member.known) {
      this.blocks.cache(hashes, member.known, known, member.held);
      member.known = known;
    }
    const whole = member.computed === tokensToCompute(member);
    if (whole) this.#prefilled.push(member);
    this.#chunking = whole ? null : member;
  }

  /** Lets the head of the line in: the tokens that it computes, at most `budget`; 0 where there are too few blocks. */
  #admit(member: Member, budget: number, now: number): number {
    const { blocks, counts } = this;
    const { blocks: hashes } = member.sequence.prompt;
    const target = tokensToCompute(member);
    // the last token is computed even if it is cached: there would be nothing to sample from
    const hits = blocks.cached(hashes, Math.floor((target - 1) / BLOCK));
    const computed = hits * BLOCK;
    const tokens = Math.min(target - computed, budget);
    const needed = blocksOf(computed + tokens) - hits;
    if (needed + blocks.idle(hashes, hits) > blocks.free) return 0;
    if (member.preemptions === 0) {
      member.scheduled = now;
      member.cachedTokens = computed;
      counts.prefixQueries += target;
      counts.prefixHits += computed;
      counts.promptTokens += target;
    }
    this.waiting.takeOut(member);
    this.running.putLast(member);
    member.phase = 'prefill';
    blocks.hold(hashes, hits, member.held);
    member.computed = computed;
    member.taken = hits;
    member.known = hits;
    this.#prefillTokens -= computed;
    this.#compute(member, tokens);
    return tokens;
  }
}

/** In the order of (priority, arrival). */
function isAfter(one: Member, other: Member): boolean {
  return one.priority === other.priority ? one.number > other.number : one.priority > other.priority;
}

function leastUrgent(running: List): Member {
  let last = running.first!;
  for (let one = last.later; one !== null; one = one.later) if (isAfter(one, last)) last = one;
  return last;
}

function addChunk(plan: Step, member: Member, tokens: number): void {
  plan.sequences++;
  plan.tokens += tokens;
  plan.kv += member.computed;
  plan.attention += tokens * member.computed;
}
