/** What holds a planned run back: the figures of its steady part, judged as a run that was watched is. */

import { percent } from '../../engine/core/item/wording.ts';
import {
  type Diagnosis,
  diagnose,
  type Server,
  TAIL_OF_TOO_FEW,
} from '../../engine/running/watch/diagnosis.ts';
import type { Preset } from '../simulator/presets.ts';
import type { Figures } from './plan-figures.ts';

/**
 * CPU of this client for a call, in ms, its ledger included: 28,800 calls of pipelines/fairwatch/chain.yaml against two
 * `fw simulate --latency 200ms` took 6.1 s of user and system time on one of two shared cores of an AMD EPYC, Node 20.
 */
const CLIENT_MS = 0.21;

export function bottleneckOf(figures: Figures, preset: Preset): Diagnosis {
  const { endpoints, calls, makespan, begun, items, inFlight, steady, step, tokens, preemptions } = figures;
  const each = (value: number): number => value / endpoints;
  const server = (at: number): Server => ({
    url: `server ${at + 1}`,
    state: 'up',
    cause: '',
    pausedFor: 0,
    inFlight: 0,
    oldest: null,
    load: null,
    limit: Math.round(figures.limit),
    pinned: figures.pinned,
    failed: {},
    answered: calls / endpoints,
    here: each(steady.running + steady.waiting),
    places: Math.max(figures.limit, each(steady.running + steady.waiting)),
    said: { running: each(steady.running), waiting: each(steady.waiting), kv: steady.kv, preemptions },
    levels: [],
  });
  const found = diagnose({
    ms: makespan * 1000,
    isStanding: false,
    busy: calls * CLIENT_MS,
    suspendedMs: 0,
    ledger: 0,
    unread: 0,
    noEndpointMs: 0,
    // calls that queue while the limits grow are no lasting queue: a run that is all tail has no middle
    saturatedMs: steady.queued > 0 && makespan - begun < TAIL_OF_TOO_FEW * makespan ? makespan * 1000 : 0,
    starved: 0,
    tail: (makespan - begun) * 1000,
    capped: begun * 1000,
    waiting: 0,
    items: Math.min(items, inFlight),
    itemsInFlight: inFlight,
    all: items,
    endpoints: Array.from({ length: endpoints }, (_, at) => server(at)),
    engine: {
      maxNumSeqs: preset.limits.maxNumSeqs,
      step,
      computes: steady.busy,
      uncached: 1 - tokens.cached / tokens.prompt,
      calls,
    },
  });
  return { ...found, text: `${found.text}. ${stepWords(figures)}` };
}

function stepWords({ step }: Figures): string {
  return `A step spends about ${percent(step.kv)} of its time on reading the KV cache, ${percent(step.computing)} on computing tokens, ${percent(step.weights)} on reading weights, ${percent(step.cpu)} on CPU${step.drafting > 0 ? `, ${percent(step.drafting)} on drafting` : ''}.`;
}
