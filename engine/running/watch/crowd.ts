/**
 * What a server has as much of as it takes, judged by what more of it would bring. A step of an engine reads all weights
 * once, whatever it computes; so a larger batch is nearly free while a step computes fewer tokens than the GPU could in
 * the time of that reading, and brings nothing beyond (the roofline: Williams, Waterman and Patterson 2009). Tokens are
 * one for each sequence that writes, and those of prompts that are in no cache.
 */
import { counted, number, percent } from '../../core/item/wording.ts';
import { type Engine, engineLimit } from './engine-limits.ts';
import type { Diagnosis, Server } from './judged.ts';
import { slotsOf } from './servers.ts';

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
