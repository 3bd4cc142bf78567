/** What holds a planned run back, in words: the one thing to change first, and what would be next. */
import type { Preset } from '../../engine/simulator/presets.ts';
import type { Figures } from './figures.ts';

export type Limit = 'few-items' | 'client' | 'in-flight' | 'kv' | 'batch' | 'computing' | 'reading';

export interface Bottleneck {
  limit: Limit;
  text: string;
}

/**
 * CPU of this client for a call, in ms, its ledger included: 28,800 calls of pipelines/fairwatch/chain.yaml against two
 * `fw simulate --latency 200ms` took 6.1 s of user and system time on one of two shared cores of an AMD EPYC, Node 20.
 */
export const CLIENT_MS = 0.21;
/** From this share of a core on answers wait for the client and not for the GPU. */
const CLIENT_FULL = 0.8;
/** A server that computes less of the time than this has too little to do. */
const BUSY = 0.95;
/** From here on a limit counts as reached. */
const FULL = 0.9;
/** Preemptions a call above which the KV cache is too small for what is in flight. */
const PREEMPTED = 0.02;
/** Reading the weights is shared by the batch: where it is more of a step than this, a larger batch pays. */
const LEFT = 0.2;
/** A tail worth telling of, as a share of the makespan. */
const TAIL = 0.2;

export function bottleneckOf(figures: Figures, preset: Preset): Bottleneck {
  const { limit, text } = limitOf(figures, preset);
  return { limit, text: [text, stepWords(figures), ...tailWords(figures, limit)].join(' ') };
}

function limitOf(figures: Figures, preset: Preset): Bottleneck {
  const { endpoints, items, inFlight, steady, calls, makespan, preemptions } = figures;
  const { maxNumSeqs } = preset.limits;
  const running = steady.running / endpoints;
  const cores = (calls / makespan) * (CLIENT_MS / 1000);
  if (cores > CLIENT_FULL) {
    return {
      limit: 'client',
      text: `The client: ${Math.round(calls / makespan)} calls a second take ${cores.toFixed(1)} cores at ${CLIENT_MS} ms of CPU a call, and one process has one. Run shards of the input in several processes.`,
    };
  }
  if (items <= Math.min(inFlight, endpoints * maxNumSeqs)) {
    return {
      limit: 'few-items',
      text: `Too few items: all ${items} are in flight from the beginning, nothing takes the place of what is done, and the batches shrink. More items would use what is left idle.`,
    };
  }
  if (preemptions / calls > PREEMPTED || (steady.kv >= FULL && running < FULL * maxNumSeqs)) {
    return {
      limit: 'kv',
      text: `The KV cache: ${percent(steady.kv)} of it is in use and ${running.toFixed(0)} of at most ${maxNumSeqs} sequences fit in, with ${preemptions} preemptions. More memory for it (--gpu-memory-utilization, an FP8 KV cache) or shorter prompts would bring more.`,
    };
  }
  // a batch that is not full although calls wait on the servers was full a moment ago: the mean of beginnings and ends
  const isFull = running >= FULL * maxNumSeqs || steady.waiting >= endpoints;
  if (!isFull && steady.queued > 0) {
    return {
      limit: 'in-flight',
      text: `Calls in flight: ${running.toFixed(0)} of at most ${maxNumSeqs} sequences run while ${steady.queued.toFixed(0)} calls wait in the client. Leave the limit out of the pool file, or raise it.`,
    };
  }
  if (steady.busy < BUSY || !isFull) {
    return {
      limit: 'in-flight',
      text: `Items in flight: the servers compute ${percent(steady.busy)} of the time and run ${running.toFixed(0)} of at most ${maxNumSeqs} sequences. Raise --in-flight (${inFlight} now).`,
    };
  }
  const { kv, computing, weights } = figures.step;
  const full = `${running.toFixed(0)} of at most ${maxNumSeqs} sequences run all the time (max_num_seqs)`;
  if (weights > LEFT) {
    return {
      limit: 'batch',
      text: `The batch: ${full}, while ${percent(1 - steady.kv)} of the KV cache is free. A larger --max-num-seqs would bring up to ${percent(weights)} more.`,
    };
  }
  const larger = `${full}, and a larger batch would bring ${percent(weights)} more at most.`;
  if (computing > kv) {
    const { cached, prompt } = figures.tokens;
    return {
      limit: 'computing',
      text: `Computing tokens, those of prompts above all: ${percent(1 - cached / prompt)} of them are in no cache. Shorter prompts, more that they have in common at their beginning, or a faster GPU would help; ${larger}`,
    };
  }
  return {
    limit: 'reading',
    text: `Reading the KV cache: what ${running.toFixed(0)} sequences are shown has to be read for each token. Shorter prompts or more memory bandwidth would help; ${larger}`,
  };
}

function stepWords({ step }: Figures): string {
  return `A step spends about ${percent(step.kv)} of its time on reading the KV cache, ${percent(step.computing)} on computing tokens, ${percent(step.weights)} on reading weights, ${percent(step.cpu)} on CPU.`;
}

function tailWords({ begun, makespan }: Figures, limit: Limit): string[] {
  const tail = (makespan - begun) / makespan;
  if (limit === 'few-items' || tail < TAIL) return [];
  return [
    `After the last item was begun ${percent(tail)} of the time go by with less and less in flight: the tail. A larger run has the same tail.`,
  ];
}

export function percent(share: number): string {
  return `${Math.round(100 * share)} %`;
}
