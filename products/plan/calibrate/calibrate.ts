/**
 * fw plan --calibrate: a preset's constants from a live server, in under two minutes. The server should have nothing else
 * to do; what it says of itself in /metrics (its batch, its KV cache) is taken over.
 */

import { hide, type Key, oneLine } from '../../../engine/asking/endpoints/endpoint-words.ts';
import type { Clock, Timing } from '../../../engine/asking/endpoints/pool-clock.ts';
import {
  labelsOf,
  metricsPath,
  type Page,
  pageOf,
  sumOf,
} from '../../../engine/asking/endpoints/server-load.ts';
import type { OpenWire } from '../../../engine/asking/endpoints/wire.ts';
import { createEndpoint, type Endpoint } from '../../../engine/asking/pool/pool-state.ts';
import { askingOf, probe } from '../../../engine/asking/pool/probe.ts';
import { dataError, unavailable, usageError } from '../../../engine/core/item/failure.ts';
import { type Preset, type PresetFile, presetFrom } from '../../simulator/presets.ts';
import { lcg } from '../../simulator/random.ts';
import { type Fitted, fileOf, fitted, type Measured, worstOff } from './constants.ts';
import { type Bounds, CHARACTERS_PER_TOKEN, contextLoad, FIRST, firstLoads } from './loads.ts';
import { measure, type Server } from './measure-loads.ts';

export interface Calibrating {
  url: string;
  key: Key | undefined;
  /** the nearest preset: the fit begins there, and what cannot be measured is taken from it */
  base: Preset;
  model: string | undefined;
  clock: Clock;
  timing: Timing;
  openWire?: OpenWire;
  say(message: string): void;
}

export interface Calibration extends Fitted {
  file: PresetFile;
}

/** All of it has to be over by then, in ms. */
const MOST_MS = 115_000;
/** Of the time that is left, how much the prompts of the last load may take to be computed. */
const PREFILL_MS = 15_000;
const CONTEXT_UNKNOWN = 8_192;
/** vLLM has it where it is told to speculate, and only there */
const DRAFTS = 'vllm:spec_decode_num_draft_tokens_total';

/** Exit 69 where the server does not answer, 64 where it serves another model, or several, or checks drafts. */
export async function calibrate(settings: Calibrating): Promise<Calibration> {
  const { url, key, clock, say } = settings;
  const endpoint = createEndpoint({ url, limit: 1, pinned: true }, 0, key, settings);
  const asking = askingOf(endpoint, settings, clock.now() + MOST_MS);
  try {
    const { model, maxModelLength = CONTEXT_UNKNOWN } = await modelAt(endpoint, settings);
    const heard = await asking.get(metricsPath(endpoint.prefix));
    const page = heard instanceof Error || heard.status !== 200 ? undefined : pageOf(heard.body);
    if (page !== undefined && sumOf(page, [DRAFTS]) !== undefined)
      throw usageError(
        `${url}: expected a server that decodes token by token, found one that checks drafts (${DRAFTS} in its /metrics): what a step takes cannot be told from several tokens; start it without --speculative-config, and plan with --speculative-tokens`,
      );
    const base = withLimits(settings.base, page);
    const { maxNumSeqs, kvTokens } = base.limits;
    say(
      `${url} serves ${oneLine(hide(model, key), 80)}; a KV cache of ${kvTokens} tokens${limitIn(page, 'cache') ? '' : ' (as the preset has it)'}, ` +
        `at most ${maxNumSeqs} sequences${limitIn(page, 'max_num_seqs') ? '' : ' (as the preset has it)'}`,
    );
    const bounds: Bounds = { maxModelLength, maxNumSeqs, kvTokens };
    // prompts that no run before had: the server's prefix cache must know none of them
    const random = lcg(clock.date());
    const fresh = {
      asking,
      key,
      prefix: endpoint.prefix,
      model,
      random,
      charactersPerToken: CHARACTERS_PER_TOKEN,
    };
    const [first] = (await measure(fresh, FIRST)).requests;
    const characters = FIRST.promptTokens * CHARACTERS_PER_TOKEN;
    const server: Server = { ...fresh, charactersPerToken: characters / (first?.prompt ?? characters) };
    const measured: Measured[] = [];
    for (const load of firstLoads(bounds)) {
      measured.push(await measure(server, load));
      say(`${load.name}: ${(measured.at(-1) as Measured).took.toFixed(1)} ms`);
    }
    const load = contextLoad(bounds, PREFILL_MS / msPerToken(measured));
    measured.push(await measure(server, load));
    say(`${load.name}: ${(measured.at(-1) as Measured).took.toFixed(1)} ms`);
    const result = fitted(base, measured);
    const off = worstOff(result);
    if (!(off <= UNLIKE)) throw unlike(measured, off);
    const calibrated = { date: new Date(clock.date()).toISOString().slice(0, 10), server: url };
    return { ...result, file: fileOf(base, result, { model: oneLine(hide(model, key), 200), calibrated }) };
  } finally {
    await endpoint.wire.close();
  }
}

async function modelAt(endpoint: Endpoint, settings: Calibrating) {
  const { models, cause } = await probe(endpoint, settings);
  if (cause !== undefined) throw unavailable(`--calibrate: expected a server at ${settings.url}: ${cause}`);
  const { model: wanted } = settings;
  const own = models.filter(({ id, parent }) =>
    wanted === undefined ? parent === undefined : id === wanted,
  );
  const [model] = own;
  if (model !== undefined && own.length === 1)
    return { model: model.id, maxModelLength: model.maxModelLength };
  const served = listed(models.map(({ id }) => hide(id, settings.key)));
  throw usageError(
    `--calibrate: expected ${wanted ?? 'one model'} at ${settings.url}, found ${served || 'none'}: --model NAME`,
  );
}

const NAMES = 10;

function listed(names: readonly string[]): string {
  const shown = names.slice(0, NAMES).map(name => oneLine(name, 80));
  return [...shown, ...(names.length > NAMES ? [`${names.length - NAMES} more`] : [])].join(', ');
}

/** Beyond being as long again as it was, a fit says nothing, and no preset can. */
const UNLIKE = 1;

function unlike(measured: readonly Measured[], off: number): Error {
  const times = measured.map(({ name, took }) => `${name} ${took.toFixed(1)} ms`).join(', ');
  return dataError(
    `--calibrate: expected times that the formula of docs/simulator.md can follow, found some that are ${Math.round(100 * off)} % off ` +
      `(${times}): the server was busy with something else, or it is no vLLM on a GPU; nothing was written`,
  );
}

/** The limits that the server tells of itself, and those of the preset where it does not. Exit 65 where they cannot be. */
function withLimits(base: Preset, page: Page | undefined): Preset {
  const limits = {
    kv_tokens: limitIn(page, 'cache') ?? base.file.kv_tokens,
    max_num_seqs: limitIn(page, 'max_num_seqs') ?? base.file.max_num_seqs,
    max_num_batched_tokens: limitIn(page, 'max_num_batched_tokens') ?? base.file.max_num_batched_tokens,
  };
  try {
    return presetFrom({ ...base.file, ...limits }, '--calibrate: the limits that the server tells');
  } catch (error) {
    throw error instanceof RangeError ? dataError(error.message) : error;
  }
}

function limitIn(
  page: Page | undefined,
  what: 'cache' | 'max_num_seqs' | 'max_num_batched_tokens',
): number | undefined {
  if (page === undefined) return undefined;
  const first = (series: string, label: string) => Number(labelsOf(page, series, label)[0]);
  const value =
    what === 'cache'
      ? first('vllm:cache_config_info', 'num_gpu_blocks') * first('vllm:cache_config_info', 'block_size')
      : first('vllm:vllm_config_info', what) || first('vllm:vllm_config_info', `scheduler_config_${what}`);
  return Number.isSafeInteger(value) && value > 0 ? value : undefined;
}

/** About: what a longer prompt took more, by its tokens. */
function msPerToken(measured: readonly Measured[]): number {
  const [half, whole] = ['half a prompt', 'a long prompt'].map(name =>
    measured.find(load => load.name === name),
  );
  const tokens = (load: Measured | undefined) => load?.requests[0]?.prompt ?? 0;
  const ms = ((whole?.took ?? 0) - (half?.took ?? 0)) / (tokens(whole) - tokens(half));
  return ms > 0 ? ms : 1;
}
