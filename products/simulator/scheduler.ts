/**
 * Which sequences the next step serves, in vLLM's order (vllm/v1/core/sched/scheduler.py): running sequences first, one
 * token for each that decodes, then the unfinished prompt; where blocks are short, those that were admitted last are
 * preempted; waiting ones come in only if none was preempted, while there are places and tokens left. What the prefix
 * cache has of a prompt is not computed.
 *
 *   waiting ─(a place, blocks)─> prefill in chunks ─> decode, one token a step ─> over
 *      ^───────────────── preempted: starts again, its tokens are kept ──┘
 */
import { createBlocks } from './blocks.ts';
import { createDecoding, type Decoding, madeBy } from './decoding.ts';
import { createList, type Member, putFirst, putLast, takeOut, tokensToCompute } from './sequence.ts';
import { BLOCK } from './tokens.ts';

export interface Limits {
  maxNumSeqs: number;
  maxNumBatchedTokens: number;
  /** tokens that the KV cache holds */
  kvTokens: number;
}

/** What a step works on: the terms of its duration. */
export interface Step {
  sequences: number;
  tokens: number;
  kv: number;
  attention: number;
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
}

export interface Scheduler {
  readonly counts: Readonly<Counts>;
  readonly blocks: number;
  readonly decoding: Decoding;
  running(): number;
  waiting(): number;
  prefillTokens(): number;
  /** share of the blocks that sequences hold, after `steps` more steps in which all decode */
  kvUsage(steps: number): number;
  /** Whether one that waits could come in at the next step: whoever waits already could not. */
  add(member: Member): boolean;
  remove(member: Member): void;
  /** The next step; null where there is nothing to do, with `waiting` ones only if another try lets them in. */
  next(now: number): Step | null;
  /** The planned step, and `steps - 1` more that are alike, are over. */
  complete(steps: number): Outcome;
}

export function createScheduler(limits: Limits): Scheduler {
  const { maxNumSeqs, maxNumBatchedTokens, kvTokens } = limits;
  const blocks = createBlocks(Math.floor(kvTokens / BLOCK));
  const decoding = createDecoding();
  const line = createList();
  const running = createList();
  /** the running sequence whose prompt did not fit into one step; always the last of them */
  let chunking: Member | null = null;
  const prefilled: Member[] = [];
  const leaving: Member[] = [];
  const outcome: Outcome = { firsts: [], progressed: [], ended: [] };
  let prefillTokens = 0;
  const counts: Counts = {
    steps: 0,
    preemptions: 0,
    prefixQueries: 0,
    prefixHits: 0,
    promptTokens: 0,
    outputTokens: 0,
  };

  const blocksOf = (tokens: number) => Math.ceil(tokens / BLOCK);

  /** Takes a member out of the running ones and gives its blocks back. */
  function leave(member: Member, phase: 'waiting' | 'over'): void {
    if (member.place >= 0) decoding.stop(member, counts.steps);
    else prefillTokens -= tokensToCompute(member) - member.computed;
    if (chunking === member) chunking = null;
    blocks.release(member.held, member.taken - member.held.length);
    member.held.length = 0;
    takeOut(running, member);
    member.phase = phase;
  }

  function preemptLast(): void {
    const member = running.last!;
    leave(member, 'waiting');
    member.preemptions++;
    counts.preemptions++;
    prefillTokens += tokensToCompute(member);
    putFirst(line, member);
  }

  /** Computes `tokens` more of a prompt; the caller has seen that there are blocks. */
  function compute(member: Member, tokens: number): void {
    member.computed += tokens;
    prefillTokens -= tokens;
    const taken = blocksOf(member.computed);
    blocks.take(taken - member.taken);
    member.taken = taken;
    // vLLM too makes blocks known when it plans to fill them: the next prompt of the same step finds them
    const { blocks: hashes } = member.sequence.prompt;
    const known = Math.min(Math.floor(member.computed / BLOCK), hashes.length >> 1);
    if (known > member.known) {
      blocks.cache(hashes, member.known, known, member.held);
      member.known = known;
    }
    const whole = member.computed === tokensToCompute(member);
    if (whole) prefilled.push(member);
    chunking = whole ? null : member;
  }

  /** Lets the head of the line in: the tokens that it computes, at most `budget`; 0 where there are too few blocks. */
  function admit(member: Member, budget: number, now: number): number {
    const { blocks: hashes } = member.sequence.prompt;
    const target = tokensToCompute(member);
    // the last token is computed even if it is cached: there would be nothing to sample from
    const hits = blocks.cached(hashes, Math.floor((target - 1) / BLOCK));
    const computed = hits * BLOCK;
    const tokens = Math.min(target - computed, budget);
    const needed = blocksOf(computed + tokens) - hits;
    if (needed + blocks.idle(hashes, hits) > blocks.free()) return 0;
    if (member.preemptions === 0) {
      member.scheduled = now;
      member.cachedTokens = computed;
      counts.prefixQueries += target;
      counts.prefixHits += computed;
      counts.promptTokens += target;
    }
    takeOut(line, member);
    putLast(running, member);
    member.phase = 'prefill';
    blocks.hold(hashes, hits, member.held);
    member.computed = computed;
    member.taken = hits;
    member.known = hits;
    prefillTokens -= computed;
    compute(member, tokens);
    return tokens;
  }

  function next(now: number): Step | null {
    const step = counts.steps + 1;
    const preemptions = counts.preemptions;
    while (decoding.blocks(step, 1) > blocks.free()) preemptLast();
    blocks.take(decoding.blocks(step, 1));
    const decoders = decoding.count;
    const plan: Step = {
      sequences: decoders,
      tokens: decoders,
      kv: decoding.kv(step),
      attention: 0,
      alike: 1,
    };
    const chunk = (member: Member, tokens: number) => {
      plan.sequences++;
      plan.tokens += tokens;
      plan.kv += member.computed;
      plan.attention += tokens * member.computed;
    };
    if (chunking && plan.tokens < maxNumBatchedTokens) {
      const member = chunking;
      const tokens = Math.min(tokensToCompute(member) - member.computed, maxNumBatchedTokens - plan.tokens);
      if (blocksOf(member.computed + tokens) - member.taken > blocks.free()) preemptLast();
      else {
        compute(member, tokens);
        chunk(member, tokens);
      }
    }
    const admitting = counts.preemptions === preemptions;
    while (admitting && line.first && plan.tokens < maxNumBatchedTokens && running.size < maxNumSeqs) {
      const member = line.first;
      const tokens = admit(member, maxNumBatchedTokens - plan.tokens, now);
      if (tokens === 0) break;
      chunk(member, tokens);
    }
    if (plan.sequences === 0) return null;
    // who waits now waits for a place or for blocks, and neither comes free while all decode
    if (admitting && chunking === null && plan.sequences === decoders) {
      const fits = 1 + decoding.stepsWithin(step + 1, blocks.free());
      plan.alike = Math.min(decoding.nextEvent() - counts.steps, fits);
    }
    return plan;
  }

  function complete(steps: number): Outcome {
    const { firsts, progressed, ended } = outcome;
    firsts.length = 0;
    progressed.length = 0;
    ended.length = 0;
    counts.outputTokens += decoding.count * steps + prefilled.length;
    blocks.take(decoding.blocks(counts.steps + 2, steps - 1));
    counts.steps += steps;
    for (let member = decoding.dueAt(counts.steps); member; member = decoding.dueAt(counts.steps)) {
      member.made = madeBy(member, counts.steps);
      if (member.made === member.sequence.output) {
        leave(member, 'over');
        ended.push(member);
      } else {
        decoding.goOn(member, counts.steps);
        progressed.push(member);
      }
    }
    for (const member of prefilled) {
      if (member.made === 0) firsts.push(member);
      if (member.made + 1 === member.sequence.output) {
        leave(member, 'over');
        ended.push(member);
      } else if (member.phase === 'prefill') {
        member.made++;
        member.phase = 'decode';
        decoding.start(member, counts.steps);
      }
    }
    prefilled.length = 0;
    // one that has ended in its last step has ended; of the others vLLM learns between two steps
    for (const member of leaving) if (member.phase === 'leaving') leave(member, 'over');
    leaving.length = 0;
    return outcome;
  }

  return {
    counts,
    blocks: blocks.total,
    decoding,
    running: () => running.size,
    waiting: () => line.size,
    prefillTokens: () => prefillTokens,
    kvUsage: steps => 1 - (blocks.free() - decoding.blocks(counts.steps + 2, steps)) / blocks.total,
    add(member) {
      const isNext = line.size === 0 && running.size < maxNumSeqs;
      prefillTokens += tokensToCompute(member);
      putLast(line, member);
      return isNext;
    },
    remove(member) {
      if (member.phase === 'waiting') {
        prefillTokens -= tokensToCompute(member);
        takeOut(line, member);
        member.phase = 'over';
      } else if (member.phase === 'prefill' || member.phase === 'decode') {
        member.phase = 'leaving';
        leaving.push(member);
      }
    },
    next,
    complete,
  };
}
