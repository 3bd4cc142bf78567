/**
 * The kinds of servers that speak OpenAI's API: what tells each apart, where it says what it can do, and what a run does
 * without there. A kind is a row, and all that is known of it is in it; docs/endpoints.md has the same for people.
 *
 * What a row says is from the server's own source or documentation: `owned_by` and the routes of vLLM
 * (entrypoints/openai), SGLang (srt/entrypoints/http_server.py, srt/observability/metrics_collector.py), TGI
 * (router/src/server.rs, docs/source/reference/metrics.md), llama.cpp (tools/server/README.md), Ollama (docs/api), LM
 * Studio (docs: developer/rest/list, parallel requests) and OpenAI (API reference, "Debugging requests").
 */
import { isObject, type JsonObject } from '../../core/json/pointer.ts';

export type KindName = 'vLLM' | 'SGLang' | 'TGI' | 'llama.cpp' | 'Ollama' | 'LM Studio' | 'OpenAI';

/** What a server says of itself. */
export interface Told {
  version?: string | undefined;
  /** tokens of prompt and answer together */
  context?: number | undefined;
  /** requests that it computes at once */
  batch?: number | undefined;
}

/** A page beside /v1. */
export interface About {
  path: string;
  /** undefined where this is not how the kind answers: a page of this path may be another server's */
  read(said: JsonObject, model: string | undefined): Told | undefined;
}

export interface ServerKind {
  /** what it writes into `owned_by` of /v1/models; null where that says nothing of it */
  owner: string | null;
  /** where it says its version, the newest path first */
  about: readonly About[];
  /** where it says more of a model that is loaded, which it is once it has answered */
  loaded?: About;
  /** how its names at /metrics begin; null where it has no such page */
  metrics: string | null;
  /** what makes it have one, where it has none so far */
  metricsAdvice?: string;
  /** what makes its context, its batch and its KV cache larger */
  context: string;
  batch?: string;
  cache?: string;
  /** what a run does without there, and what follows from it */
  lacks: readonly string[];
  /** what to know where it does not say how long its context is, or how many it takes at once */
  contextUnsaid?: string;
  batchUnsaid?: string;
}

const NO_METRICS = 'no /metrics: the limit follows 429, 503 and the time that answers take';
const NO_CHOICE = 'no structured_outputs: choice and regex of agents are checked, not enforced; use a schema';
const NO_KV = '/metrics without KV cache and preemptions';

export const KINDS: Readonly<Record<KindName, ServerKind>> = {
  vLLM: {
    owner: 'vllm',
    about: [{ path: '/version', read: ({ version }) => toldIn({ version }) }],
    metrics: 'vllm:',
    metricsAdvice: 'start it without --disable-log-stats',
    context: '--max-model-len',
    batch: 'start the server with --max-num-seqs',
    cache: '--gpu-memory-utilization 0.95, --kv-cache-dtype fp8',
    lacks: [],
  },
  SGLang: {
    owner: 'sglang',
    about: [
      { path: '/server_info', read: sglangInfo },
      { path: '/get_server_info', read: sglangInfo },
    ],
    metrics: 'sglang:',
    metricsAdvice: 'start it with --enable-metrics',
    context: '--context-length',
    batch: 'start the server with --max-running-requests',
    cache: '--mem-fraction-static',
    lacks: [NO_CHOICE],
  },
  TGI: {
    // its model's own name
    owner: null,
    about: [
      {
        path: '/info',
        read: ({ version, max_total_tokens: context, max_concurrent_requests: batch }) =>
          context === undefined ? undefined : toldIn({ version, context, batch }),
      },
    ],
    metrics: 'tgi_',
    context: '--max-total-tokens',
    batch: 'start the server with --max-concurrent-requests',
    lacks: [NO_CHOICE, NO_KV],
  },
  'llama.cpp': {
    owner: 'llamacpp',
    about: [
      {
        path: '/props',
        read: ({ build_info: version, total_slots: batch, default_generation_settings: settings }) => {
          if (batch === undefined) return undefined;
          return toldIn({ version, batch, context: isObject(settings) ? settings.n_ctx : undefined });
        },
      },
    ],
    metrics: 'llamacpp:',
    metricsAdvice: 'start llama-server with --metrics',
    context: '-c (shared by the slots of -np)',
    batch: 'start the server with -np',
    lacks: [NO_CHOICE, NO_KV],
  },
  Ollama: {
    owner: 'library',
    about: [{ path: '/api/version', read: ({ version }) => toldIn({ version }) }],
    loaded: { path: '/api/ps', read: ({ models }, model) => loadedOllama(models, model) },
    metrics: null,
    context: 'OLLAMA_CONTEXT_LENGTH',
    contextUnsaid: 'Ollama cuts longer prompts without a word: set OLLAMA_CONTEXT_LENGTH, and see ollama ps',
    batchUnsaid: 'set OLLAMA_NUM_PARALLEL, and the same as limit: in a pool file',
    lacks: [NO_METRICS, NO_CHOICE, 'top_k and min_p are passed over without a word'],
  },
  'LM Studio': {
    owner: 'organization_owner',
    about: [],
    loaded: { path: '/api/v1/models', read: ({ models }, model) => loadedLmStudio(models, model) },
    metrics: null,
    context: 'the context length of the model, where it is loaded',
    contextUnsaid: 'see with which context length LM Studio has loaded the model: lms ps',
    batch: 'load the model with Max Concurrent Predictions',
    batchUnsaid: 'set Max Concurrent Predictions of the model (4), and the same as limit: in a pool file',
    lacks: [NO_METRICS, NO_CHOICE, 'no version'],
  },
  OpenAI: {
    // a gateway before other servers often writes OpenAI's: the header `openai-version` tells
    owner: null,
    about: [],
    metrics: null,
    context: '',
    lacks: [
      NO_METRICS,
      NO_CHOICE,
      'no context length in /v1/models',
      'top_k, min_p and other fields of vLLM are refused',
    ],
  },
};

export const KIND_NAMES = Object.keys(KINDS) as KindName[];

/** Of OpenAI's own endpoint alone: its version of the API. */
export const OPENAI_VERSION = 'openai-version';

/**
 * The kind by what a list of models and the heads of answers say; undefined where they do not. TGI names its one model as
 * the owner too, as others may: its /info settles it (`mayBeTgi`).
 */
export function kindByWords(
  models: readonly { owner: string | undefined }[],
  heads: Readonly<Record<string, string | undefined>>,
): KindName | undefined {
  if (heads[OPENAI_VERSION] !== undefined) return 'OpenAI';
  const owners = new Set(models.map(({ owner }) => owner));
  const owned = KIND_NAMES.find(name => {
    const { owner } = KINDS[name];
    return owner !== null && owners.has(owner);
  });
  return owned ?? (heads.server === 'llama.cpp' ? 'llama.cpp' : undefined);
}

export function mayBeTgi(models: readonly { id: string; owner: string | undefined }[]): boolean {
  const [model] = models;
  return models.length === 1 && model !== undefined && model.owner === model.id;
}

/** LM Studio answers a path that it does not have with HTTP 200, and these words. */
export function isLmStudio({ error }: JsonObject): boolean {
  return typeof error === 'string' && error.startsWith('Unexpected endpoint or method.');
}

/** The page has the server's keys too: no more than this is taken from it. */
function sglangInfo({ version, max_running_requests: batch }: JsonObject): Told | undefined {
  return toldIn({ version, batch });
}

/** undefined where none of it is there. */
function toldIn({ version, context, batch }: JsonObject): Told | undefined {
  const told = { version: textOf(version), context: countOf(context), batch: countOf(batch) };
  return told.version === undefined && told.context === undefined && told.batch === undefined
    ? undefined
    : told;
}

function loadedOllama(models: unknown, model: string | undefined): Told | undefined {
  return toldIn({ context: objectsIn(models).find(({ name }) => name === model)?.context_length });
}

/** An instance has the model's key as its id, or one of its own. Of several that are not named nobody knows which is meant. */
function loadedLmStudio(models: unknown, model: string | undefined): Told | undefined {
  const all = objectsIn(models);
  const named = all.flatMap(one => objectsIn(one.loaded_instances)).filter(({ id }) => id === model);
  const own = objectsIn(all.find(({ key }) => key === model)?.loaded_instances);
  const [one, another] = named.length > 0 ? named : own;
  if (one === undefined || another !== undefined || !isObject(one.config)) return undefined;
  const { context_length: context, parallel: batch } = one.config;
  return toldIn({ context, batch });
}

const objectsIn = (value: unknown): JsonObject[] => (Array.isArray(value) ? value.filter(isObject) : []);

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

function countOf(value: unknown): number | undefined {
  return Number.isSafeInteger(value) && (value as number) > 0 ? (value as number) : undefined;
}
