/**
 * What a server has as much of as it takes, judged by what more of it would bring. A step of an engine reads all weights
 * once, whatever it computes; so a larger batch is nearly free while a step computes fewer tokens than the GPU could in
 * the time of that reading, and brings nothing beyond (the roofline: Williams, Waterman and Patterson 2009). Tokens are
 * one for each sequence that writes, and those of prompts that are in no cache.
 */

import type { Said } from '../../asking/endpoints/server-load.ts';
import type { ConcurrencyLevel, EndpointStats } from '../../asking/pool/pool-stats.ts';
import type { Usage } from '../../core/item/item.ts';
import { counted, number, percent } from '../../core/item/wording.ts';
import { slotsOf } from './servers.ts';

export type Limit =
  | 'own-process'
  | 'stopped'
  | 'disk'
  | 'reader'
  | 'no-endpoint'
  | 'between-tries'
  | 'waiting'
  | 'refusals'
  | 'failing'
  | 'kv'
  | 'slots'
  | 'prompts'
  | 'pinned'
  | 'servers'
  | 'input'
  | 'tail'
  | 'few-items'
  | 'in-flight'
  | 'batch'
  | 'computing'
  | 'reading';

export interface Diagnosis {
  limit: Limit;
  text: string;
}

/** What is known of a server over that time. */
export interface Server
  extends Pick<
    EndpointStats,
    'url' | 'state' | 'cause' | 'pausedFor' | 'inFlight' | 'oldest' | 'load' | 'limit' | 'pinned' | 'failed'
  > {
  answered: number;
  /** calls there, and places, on average */
  here: number;
  places: number;
  /** what it said of itself, on average, and counts in all; null where it says nothing */
  said: SaidOf | null;
  /** tokens of its answers; absent in a plan */
  usage?: Usage;
  levels: readonly ConcurrencyLevel[];
}

/** The counts of tokens are absent in a plan, and 0 where a server does not say them. */
export type SaidOf = Pick<Said, 'running' | 'waiting' | 'kv' | 'preemptions'> & Partial<Said>;

/**
 * Tokens of a step up to which twice the batch brings a tenth more or so. In FLOPS a byte, an A100 is at 156 and an H100 at
 * 295; test/progress/bottleneck.test.ts has what it brings on simulated engines.
 */
const ENOUGH_TOKENS = 300;
/** Up to this share of the KV cache twice the batch has room in it. */
const KV_ROOM = 0.5;
/** From here on the KV cache counts as full; so many preemptions an answer say that it is too small. */
const KV_FULL = 0.9;
const PREEMPTED = 0.02;
/** Share of the time in which its batch has to be full for that to hold a run up. */
const MOSTLY = 0.5;
/** Calls there, of what it takes at a time, from which on most of the others wait. */
const CROWDED = 1.3;
/** Tokens of prompts that are computed for one that is written, from which on they are most of the work. */
const MANY_PROMPTS = 2;

/** Tokens of prompts for each that is written: those in no cache, and all; null where nobody says. */
function promptsOf({ said, usage }: Server): { computed: number; all: number } | null {
  const [prompts, cached, written] =
    said?.written && said.prompts
      ? [said.prompts, said.cached ?? 0, said.written]
      : [usage?.prompt ?? 0, usage?.cached ?? 0, usage?.completion ?? 0];
  if (written <= 0 || prompts <= 0) return null;
  return { computed: Math.max(0, prompts - cached) / written, all: prompts / written };
}

/** Whether twice as many sequences at a time, where `running` are there, would bring a tenth more; true where nobody knows. */
function gainsByMore(server: Server, running: number): boolean {
  if (server.said !== null && server.said.kv > KV_ROOM) return false;
  const prompts = promptsOf(server);
  return prompts === null || running * (1 + prompts.computed) <= ENOUGH_TOKENS;
}

/** What a change of the server itself would mend. */
export function crowdOf(server: Server, engine: Engine | undefined): Diagnosis | null {
  const { said, answered, levels, here } = server;
  if (engine) return engineLimit(engine, said);
  if (said === null) {
    const slots = slotsOf(levels);
    if (slots === null || here < CROWDED * slots || !gainsByMore(server, slots)) return null;
    return {
      limit: 'slots',
      text: `takes about ${number(slots)} at a time and had ${number(Math.round(here))}: beyond that, more calls only made answers slower; more slots (llama.cpp: -np, vLLM: --max-num-seqs) or more servers would help`,
    };
  }
  const running = number(Math.round(said.running));
  const isTooSmall = said.kv >= KV_FULL || said.preemptions > PREEMPTED * answered;
  if (isTooSmall && gainsByMore({ ...server, said: { ...said, kv: 0 } }, said.running)) {
    const preempted = said.preemptions > 0 ? `, with ${counted(said.preemptions, 'preemption')}` : '';
    return {
      limit: 'kv',
      text: `has its KV cache ${percent(said.kv, 1)} full with ${counted(Math.round(said.running), 'sequence')}${preempted}: more memory for it (--gpu-memory-utilization, an FP8 KV cache) or shorter prompts would help`,
    };
  }
  if ((said.full ?? 0) < MOSTLY || !gainsByMore(server, said.running)) return null;
  return {
    limit: 'slots',
    text: `runs ${running} at a time, as many as it ever did, and ${number(Math.round(said.waiting))} more wait there: a larger batch (--max-num-seqs) or more servers would help`,
  };
}

/** Whether more calls than a person has set would bring more. */
export function gainsByLimit(server: Server): boolean {
  return gainsByMore(server, server.said?.running ?? server.here) && (server.said?.full ?? 0) < MOSTLY;
}

/** Null where prompts are not most of what it computes. */
export function promptWords(server: Server): string | null {
  const prompts = promptsOf(server);
  if (prompts === null || prompts.computed < MANY_PROMPTS) return null;
  const cached = percent(prompts.all - prompts.computed, prompts.all);
  return `computes ${prompts.computed.toFixed(0)} tokens of prompts for each that it writes (${cached} of them came from its cache): shorter prompts would help, or more servers, or, where prompts begin alike, such next to each other`;
}

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
