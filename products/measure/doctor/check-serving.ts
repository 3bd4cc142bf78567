/** Checks of what an endpoint serves, and of how much at once. */

import { KIND_NAMES, KINDS, type ServerKind } from '../../../engine/asking/endpoints/server-kinds.ts';
import {
  hasSeries,
  labelsOf,
  type Page,
  readLoad,
  sumOf,
} from '../../../engine/asking/endpoints/server-load.ts';
import { counted, number } from '../../../engine/core/item/wording.ts';
import type { Facts } from './endpoint-facts.ts';
import {
  type Check,
  isSilence,
  listed,
  note,
  type Observation,
  ok,
  shown,
  trouble,
} from './endpoint-facts.ts';

/** A chain hands all earlier answers on: its later prompts are some thousand tokens long. */
const SHORT_CONTEXT = 4_096;
/** Here not even a prompt and its answer fit. */
const USELESS_CONTEXT = 1_024;
/** Tokens of prompt and answer in a call of a chain, roughly. */
const USUAL_CALL = 1_500;
/** What follows where nothing is known of a server's load. */
const MUTE = 'the concurrency limit then adapts only to 429 and 503';
/** More in flight than the batch takes waits in the server; this much more keeps it full. */
const STANDING = 1.25;

export const serving: Check[] = [
  {
    name: 'server',
    expected: 'a server that says what it is',
    look({ kind, version, key, hindrance }) {
      if (hindrance) return undefined;
      const named = version === undefined ? '' : ` ${shown(version, key, 60)}`;
      if (kind !== 'unknown') return ok(`${kind}${named || ', version not said'}`);
      return note(
        `an OpenAI-style server, unknown to fw${named && `: version${named}`}`,
        'it may be a gateway: then its own limits apply too, and its /metrics are not those of the server',
      );
    },
  },
  {
    name: 'without',
    expected: 'a server that says and takes all that a run can use',
    look({ kind, hindrance }) {
      const lacks = kindOf(kind)?.lacks ?? [];
      return hindrance || lacks.length === 0 ? undefined : note(lacks.join('; '));
    },
  },
  {
    name: 'model',
    expected: 'one model to ask, or --model',
    look({ models, model, wanted, key, hindrance }) {
      if (hindrance) return undefined;
      const names = listed(
        models.map(({ id }) => id),
        key,
      );
      if (models.length === 0) return trouble('it serves no model', 'load one');
      if (model === undefined)
        return trouble(`it serves ${names}, not ${wanted}`, 'choose one of them: --model NAME');
      if (shown(model.id, key, 1_000) !== model.id)
        return trouble(`its name cannot be sent: ${names}`, 'give it another: --served-model-name NAME');
      const root = model.root !== undefined && model.root !== model.id ? ` (${shown(model.root, key)})` : '';
      const other =
        wanted === undefined || wanted === model.id ? '' : `, the name here of ${shown(wanted, key)}`;
      if (models.length === 1 || wanted !== undefined) return ok(`${shown(model.id, key)}${root}${other}`);
      return note(`${names}; examined: ${shown(model.id, key)}`, 'say which is meant: --model NAME');
    },
  },
  {
    name: 'context',
    expected: `at least ${number(SHORT_CONTEXT)} tokens of prompt and answer`,
    look({ context, kind, model }) {
      if (model === undefined) return undefined;
      if (context === undefined) {
        return note('not said', kindOf(kind)?.contextUnsaid);
      }
      if (context >= SHORT_CONTEXT) return ok(`${number(context)} tokens`);
      const flag = kindOf(kind)?.context;
      const found = `${number(context)} tokens: later calls of a chain hold every earlier answer`;
      const advice = flag ? `raise ${flag}, if the model takes more` : 'a model or a setting with more';
      return context < USELESS_CONTEXT ? trouble(found, advice) : note(found, advice);
    },
  },
  { name: 'metrics', expected: '/metrics under names that fw knows', look: metrics },
  {
    name: 'load',
    expected: 'nobody else at work, no preemption so far',
    look({ metrics: { before }, kind }) {
      const load = before === undefined ? null : readLoad(before);
      if (load === null) return undefined;
      const { running, waiting, preemptions } = load;
      const busy = `${counted(running, 'request runs', 'requests run')} and ${counted(waiting, 'waits', 'wait')} already: what is measured here is shared`;
      if (running + waiting > 0) return note(busy);
      if (preemptions === 0) return ok('idle');
      return note(
        `${counted(preemptions, 'request was', 'requests were')} preempted since it started, and computed again`,
        `a larger KV cache: ${cacheAdvice(kind)}; a smaller limit, where a pool file sets it`,
      );
    },
  },
  {
    name: 'scheduling',
    expected: 'requests with a priority, for live calls beside batches',
    look: scheduling,
  },
  { name: 'batch', expected: "a limit that fits the server's batch", look: batch },
  { name: 'KV cache', expected: `room for ${number(USUAL_CALL)} tokens in each call in flight`, look: cache },
];

const cacheAdvice = (kind: Facts['kind']): string => kindOf(kind)?.cache ?? (KINDS.vLLM.cache as string);

const kindOf = (kind: Facts['kind']): ServerKind | undefined =>
  kind === 'unknown' ? undefined : KINDS[kind];

/** What vLLM takes it may still pass over: its engine of today says nothing where it schedules as requests come. */
function scheduling({ prioritised, key }: Facts): Observation | undefined {
  if (prioritised === undefined) return undefined;
  const advice = 'vllm serve --scheduling-policy priority, where chat and batches share this server';
  if (!isSilence(prioritised))
    return ok('taken; whether the server goes by it, vLLM does not say (--scheduling-policy priority does)');
  const { late, status, cause } = prioritised;
  if (late || status === undefined || status < 400 || status >= 500 || status === 429) return undefined;
  return note(`first come, first served: ${shown(cause, key, 120)}`, advice);
}

/** Whether the pool moves the limit by what the server says of its load. */
function follows({ setting, metrics: { before } }: Facts): boolean {
  return !setting.pinned && before !== undefined && readLoad(before) !== null;
}

function metrics({ metrics: { before = '', status }, kind, hindrance }: Facts): Observation | undefined {
  const own = kindOf(kind);
  if (hindrance || own?.metrics === null) return undefined;
  if (hasSeries(before, 'vllm:')) {
    if (hasSeries(before, 'vllm:kv_cache_usage_perc')) return ok("vLLM's current names");
    if (hasSeries(before, 'vllm:gpu_cache_usage_perc'))
      return note(
        "vLLM's old names (gpu_cache_usage_perc)",
        'fw reads both; dashboards for current servers see nothing',
      );
    return note('vLLM, without the use of its KV cache');
  }
  const whose = KIND_NAMES.find(name => {
    const { metrics } = KINDS[name];
    return metrics !== null && hasSeries(before, metrics);
  });
  if (whose) return ok(`${whose}'s names`);
  if (kind === 'vLLM' && status === 200) return note(`no values of vLLM: ${MUTE}`, own?.metricsAdvice);
  if (own?.metricsAdvice && kind !== 'vLLM' && status !== 200)
    return note(`none (HTTP ${status ?? 'nothing'}): ${MUTE}`, own.metricsAdvice);
  const found =
    status === undefined ? 'no answer' : status === 200 ? 'names that fw does not know' : `HTTP ${status}`;
  return note(`${found}: ${MUTE}`, 'let a proxy pass /metrics on beside /v1');
}

function batch(facts: Facts): Observation | undefined {
  const { batch: most, setting, kind, hindrance } = facts;
  if (hindrance) return undefined;
  const { limit, pinned } = setting;
  const takes = most === undefined ? '' : `it takes ${number(most)} at once, `;
  if (follows(facts))
    return ok(`${takes}the limit begins at ${number(limit)} and follows what /metrics says`);
  const found = `${takes}the limit ${pinned ? 'is set to' : 'stays at'} ${number(limit)}`;
  const own = kindOf(kind);
  if (own?.batchUnsaid && most === undefined)
    return note(`${found}; ${kind} does not say how many it takes at once`, own.batchUnsaid);
  if (most === undefined) return ok(`${found}; the server does not say how many it takes at once`);
  if (limit > most * STANDING + 1) {
    // seen with 4 slots and 256 calls: whoever waits holds a thread of the server, and GET is not answered either
    const more = kind === 'llama.cpp' ? ', and keeps it from answering anything else' : '';
    return note(
      `${found}: the rest waits in the server, where it cannot be moved to another${more}`,
      `limit: ${Math.ceil(most * STANDING)} in a pool file, or ` +
        `${own?.batch ?? 'start the server with --max-num-seqs'} ${limit}`,
    );
  }
  if (limit < most) return note(`${found}: its batch is never full`, `limit: ${most} in a pool file`);
  return ok(found);
}

function cache({
  metrics: { before },
  context,
  kind,
  setting: { limit, pinned },
}: Facts): Observation | undefined {
  const tokens = before === undefined ? undefined : cacheTokens(before);
  if (tokens === undefined) return undefined;
  const whole = context === undefined ? '' : `, ${(tokens / context).toFixed(1)} contexts of full length`;
  const each = Math.floor(tokens / limit);
  const found = `${number(tokens)} tokens${whole}; ${number(each)} for each of ${counted(limit, 'call')}`;
  if (each >= USUAL_CALL || !pinned) return ok(found);
  return note(
    `${found}: longer ones are preempted and computed again`,
    `limit: ${Math.max(1, Math.floor(tokens / USUAL_CALL))} in a pool file, or a larger cache: ${cacheAdvice(kind)}`,
  );
}

/** Of all engines together. With layers of several kinds, blocks x block size is not it: newer servers say it. */
function cacheTokens(page: Page): number | undefined {
  const label = (name: string) => labelsOf(page, 'vllm:cache_config_info', name).map(Number);
  const sum = (numbers: number[]) => numbers.reduce((total, one) => total + one, 0);
  const said = sum(label('kv_cache_size_tokens')) || (sumOf(page, ['sglang:max_total_num_tokens']) ?? 0);
  const sizes = label('block_size');
  const tokens =
    said > 0 ? said : sum(label('num_gpu_blocks').map((blocks, at) => blocks * (sizes[at] ?? Number.NaN)));
  return Number.isSafeInteger(tokens) && tokens > 0 ? tokens : undefined;
}
