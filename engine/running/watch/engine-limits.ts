/** What holds back a server whose engine is known, as that of a plan is. */
import { percent } from '../../core/item/wording.ts';

/** Of the endpoints of a plan; shares are 0 to 1. */
export interface Engine {
  /** sequences that a server may run at a time */
  maxNumSeqs: number;
  /** the time of a step by what it is spent on */
  step: { cpu: number; weights: number; computing: number; kv: number };
  /** share of the time in which the engines compute, and of the prompts' tokens that are in no cache */
  computes: number;
  uncached: number;
  /** calls in all */
  calls: number;
}

/** From here on a limit counts as reached. */
const FULL = 0.9;
const HALF = 0.5;
/** A server that computes less of the time than this has too little to do. */
const BUSY = 0.95;
/** Preemptions a call above which the KV cache is too small for what is in flight. */
const PREEMPTED = 0.02;
/** Reading the weights is shared by the batch: where it is more of a step than this, a larger batch pays. */
const WEIGHTS_SHARE = 0.2;

/** Null where it is not full: something else holds calls back. */
export function engineLimit(
  { maxNumSeqs, step, computes, uncached, calls }: Engine,
  said: { running: number; waiting: number; kv: number; preemptions: number } | null,
): { limit: 'kv' | 'batch' | 'computing' | 'reading'; text: string } | null {
  if (said === null) return null;
  const { running, waiting, kv, preemptions } = said;
  const sequences = running.toFixed(0);
  if (preemptions / calls > PREEMPTED || (kv >= FULL && running < FULL * maxNumSeqs)) {
    return {
      limit: 'kv',
      text: `the KV cache: ${percent(kv, 1)} of it is in use and ${sequences} of at most ${maxNumSeqs} sequences fit in, with ${preemptions} preemptions; more memory for it (--gpu-memory-utilization, an FP8 KV cache) or shorter prompts would help`,
    };
  }
  // a batch that is not full although calls wait on the server was full a moment ago: the mean of beginnings and ends;
  // one that is not half full never was, and what waits there waits for its prefill
  const isFull = running >= FULL * maxNumSeqs || (waiting >= 1 && running >= HALF * maxNumSeqs);
  if (!isFull || computes < BUSY) return null;
  const full = `${sequences} of at most ${maxNumSeqs} sequences run all the time (max_num_seqs)`;
  const more = percent(step.weights, 1);
  if (step.weights > WEIGHTS_SHARE) {
    return {
      limit: 'batch',
      text: `the batch: ${full}, while ${percent(1 - kv, 1)} of the KV cache is free; a larger --max-num-seqs would bring up to ${more} more`,
    };
  }
  const larger = `${full}, and a larger batch would bring ${more} more at most`;
  if (step.computing > step.kv) {
    return {
      limit: 'computing',
      text: `computing tokens, mostly of prompts: ${percent(uncached, 1)} of them are in no cache; shorter prompts, longer common beginnings or a faster GPU would help; ${larger}`,
    };
  }
  return {
    limit: 'reading',
    text: `reading the KV cache: what ${sequences} sequences are shown has to be read for each token; shorter prompts or more memory bandwidth would help; ${larger}`,
  };
}
