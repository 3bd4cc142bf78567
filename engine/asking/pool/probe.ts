/**
 * Requests that are no calls, each bounded in time and size: GET /models, by which an endpoint is judged before and
 * during a run, what follows for the endpoint, and the requests of an examination.
 */
import { isObject } from '../../core/json/pointer.ts';
import {
  causeOf,
  hide,
  isHtml,
  type Key,
  NoAnswerInTime,
  type Obstacle,
  obstacleOf,
  oneLine,
  serverWords,
} from '../endpoints/endpoint-words.ts';
import type { Clock, Timing } from '../endpoints/pool-clock.ts';
import { OPENAI_VERSION } from '../endpoints/server-kinds.ts';
import { type Reply, type Request, sendWithin, type Watch } from '../endpoints/wire.ts';
import type { Endpoint } from './pool-state.ts';

export interface Served {
  id: string;
  /** tokens of prompt and answer together, where the server says so */
  maxModelLength: number | undefined;
  /** the weights behind the name, where the server says so */
  root: string | undefined;
  /** the model that a LoRA adapter belongs to */
  parent: string | undefined;
  /** `vllm`, `llamacpp`, … where the server says so */
  owner: string | undefined;
}

/** Why an endpoint cannot be used: the way to it, or what it answered. */
export type Hindrance =
  | Obstacle
  | 'key'
  | 'loading'
  | 'wrong-path'
  | 'web-page'
  | 'no-list-of-models'
  | 'http-error';

/** What one endpoint answered: its models, or why it cannot be used. */
export interface ProbeResult {
  endpoint: Endpoint;
  models: Served[];
  /** in words; undefined where the endpoint can be used */
  cause: string | undefined;
  hindrance: Hindrance | undefined;
  /** the answer will be the same until somebody changes something: a refused key, a wrong path */
  settled: boolean;
}

export interface Prober {
  timing: Timing;
  clock: Clock;
  /** sees the list of models come */
  watch?: Watch | undefined;
}

/** Asks one endpoint. Never throws: what goes wrong is in the result. */
export async function probe(endpoint: Endpoint, prober: Prober): Promise<ProbeResult> {
  const at = `${endpoint.url}/models`;
  const outcome = await get(endpoint, `${endpoint.prefix}/models`, prober);
  const unusable = (hindrance: Hindrance, cause: string, settled: boolean): ProbeResult => ({
    endpoint,
    models: [],
    cause,
    hindrance,
    settled,
  });
  if (outcome instanceof Error) return unusable(obstacleOf(outcome), causeOf(outcome, endpoint.key), false);
  const { status, body } = outcome;
  if (status === 200) {
    const models = readModels(body, endpoint.key);
    if (models) return { endpoint, models, cause: undefined, hindrance: undefined, settled: true };
    if (isHtml(body)) {
      const meant =
        (await elsewhere(endpoint, prober)) ?? ': is it the server, or a proxy or a login before it?';
      return unusable('web-page', `${at} is an HTML page${meant}`, true);
    }
    return unusable(
      'no-list-of-models',
      `${at} is no OpenAI-style list of models: is this the right server?`,
      true,
    );
  }
  if (status === 401 || status === 403) return unusable('key', refusedKey(status, endpoint.key), true);
  if (status === 503 || status === 429)
    return unusable('loading', `HTTP ${status}: it is still loading, or overloaded`, false);
  if (status === 404 || status === 405) {
    const meant = (await elsewhere(endpoint, prober)) ?? ': is the path right?';
    return unusable('wrong-path', `HTTP ${status} at ${at}${meant}`, true);
  }
  const words = serverWords(body, endpoint.key, 160);
  return unusable('http-error', `HTTP ${status} at ${at}${words && `: "${words}"`}`, status < 500);
}

export function refusedKey(status: number, key: Key | undefined): string {
  if (key) return `HTTP ${status}: the key of ${key.name} was refused`;
  return `HTTP ${status}: it wants a key, and none was given: set FW_API_KEY, or name a variable by --api-key-env`;
}

/** Looks where the API would be if the URL were a little different: with its /v1, or without what comes after it. */
async function elsewhere(endpoint: Endpoint, prober: Prober): Promise<string | undefined> {
  const { prefix, url } = endpoint;
  const after = prefix.indexOf('/v1/');
  const other = after >= 0 ? prefix.slice(0, after + 3) : `${prefix}/v1`;
  if (prefix.endsWith('/v1')) return undefined;
  const nearby = await get(endpoint, `${other}/models`, prober);
  const found = !(nearby instanceof Error) && nearby.status === 200 && readModels(nearby.body, undefined);
  return found ? `; did you mean ${new URL(url).origin}${other}?` : undefined;
}

function get(endpoint: Endpoint, path: string, { timing, clock, watch }: Prober): Promise<Reply | Error> {
  const request: Request = { method: 'GET', path, ...(watch && { watch }) };
  return sendWithin(endpoint.wire, request, timing.probeTimeout, clock);
}

function readModels(body: Buffer, key: Key | undefined): Served[] | undefined {
  let list: unknown;
  try {
    list = JSON.parse(body.toString());
  } catch {
    return undefined;
  }
  if (!isObject(list) || !Array.isArray(list.data)) return undefined;
  const models: Served[] = [];
  for (const model of list.data as unknown[]) {
    if (!isObject(model) || typeof model.id !== 'string') return undefined;
    // llama.cpp says it in `meta`, of one slot
    const length = model.max_model_len ?? (isObject(model.meta) ? model.meta.n_ctx : undefined);
    models.push({
      id: model.id,
      maxModelLength: Number.isSafeInteger(length) && (length as number) > 0 ? (length as number) : undefined,
      // it goes into the ledger
      root: typeof model.root === 'string' ? hide(model.root, key) : undefined,
      parent: textOrNone(model.parent),
      owner: textOrNone(model.owned_by),
    });
  }
  return models;
}

function textOrNone(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

/**
 * Puts a result into effect: `up` if the endpoint serves one of `wanted`, `unusable` if only a person can help. One that
 * did not say what it serves keeps what it served: its models are away, and not unknown.
 */
export function settle(
  { endpoint, models, cause, settled }: ProbeResult,
  wanted: readonly string[] | null,
): void {
  const ids = models.map(({ id }) => id);
  const served = wanted === null ? ids : wanted.filter(name => ids.includes(name));
  if (cause === undefined) {
    endpoint.models = new Set(served);
    endpoint.contexts = contextsOf(models);
    endpoint.isVllm = models.some(({ owner }) => owner === 'vllm');
  }
  const serves = cause === undefined && served.length > 0;
  endpoint.state = serves ? 'up' : settled ? 'unusable' : 'down';
  endpoint.cause = serves
    ? ''
    : (cause ?? `it serves ${listed(models, endpoint.key)}, not ${wanted?.join(', ') ?? 'any'}`);
}

/** An adapter has the context of its model. */
function contextsOf(models: readonly Served[]): Map<string, number> {
  const said = new Map(models.map(({ id, maxModelLength }) => [id, maxModelLength]));
  return new Map(
    models.flatMap(({ id, parent }) => {
      const length = said.get(id) ?? said.get(parent ?? '');
      return length === undefined ? [] : [[id, length] as const];
    }),
  );
}

export function listed(models: readonly Served[], key: Key | undefined): string {
  const some = models.slice(0, 20).map(({ id }) => oneLine(hide(id, key), 200));
  if (models.length > some.length) some.push(`and ${models.length - some.length} more`);
  return some.length > 0 ? some.join(', ') : 'no model';
}

export interface Heard extends Reply {
  /** ms from sending to the last byte */
  took: number;
  /** what had come when: ms from sending, and the bytes of the body until then */
  arrivals: readonly Arrival[];
}

/** The object that a server answered with 200; undefined for any other reply. */
export function objectIn(heard: Heard | Error): Record<string, unknown> | undefined {
  if (heard instanceof Error || heard.status !== 200) return undefined;
  try {
    const value: unknown = JSON.parse(heard.body.toString());
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

export interface Arrival {
  at: number;
  bytes: number;
}

export interface Asking {
  /** Never throws: what prevented an answer is the outcome. `path` is from the root of the server. */
  get(path: string): Promise<Heard | Error>;
  post(path: string, body: object): Promise<Heard | Error>;
  /** ms by which the server's clock is ahead, by the first answer that had a date */
  skew(): number | undefined;
  /** requests sent so far */
  calls(): number;
  /** Of its answers, the first that had each: the headers that say which server it is, shortened. */
  heads: Readonly<Record<string, string | undefined>>;
  /** sees the head of a request that others send */
  watch: Watch;
}

/** Headers that say which server it is; longer ones are none. */
const TELLING_HEADS = ['server', OPENAI_VERSION];
const LONGEST_HEAD = 100;

/** A body that comes byte by byte must not make a list of every byte. */
const MAX_ARRIVALS = 10_000;
/** HTTP dates are cut to whole seconds: on average half of one is missing. */
const MEAN_CUT_MS = 500;

/** Everything that is asked has to be answered before `until`, in ms of the clock. */
export function askingOf(
  endpoint: Endpoint,
  { clock, timing }: { clock: Clock; timing: Timing },
  until: number,
): Asking {
  let skew: number | undefined;
  let calls = 0;
  const heads: Record<string, string | undefined> = {};

  const head: Watch['head'] = headers => {
    const { date } = headers;
    const said = typeof date === 'string' && date.length < 64 ? Date.parse(date) : Number.NaN;
    if (skew === undefined && !Number.isNaN(said)) skew = said + MEAN_CUT_MS - clock.date();
    for (const name of TELLING_HEADS) {
      const value = headers[name];
      if (typeof value === 'string' && value.length <= LONGEST_HEAD) heads[name] ??= value;
    }
  };

  async function ask(request: Request, most: number): Promise<Heard | Error> {
    const sent = clock.now();
    const left = Math.min(most, until - sent);
    if (left <= 0) return new NoAnswerInTime('there was no time left to ask');
    calls++;
    const arrivals: Arrival[] = [];
    const watch: Watch = {
      head,
      data: bytes => {
        const last = arrivals.at(-1);
        const at = clock.now() - sent;
        const all = (last?.bytes ?? 0) + bytes;
        if (last && arrivals.length >= MAX_ARRIVALS) Object.assign(last, { at, bytes: all });
        else arrivals.push({ at, bytes: all });
      },
    };
    const outcome = await sendWithin(endpoint.wire, { ...request, watch }, left, clock);
    return outcome instanceof Error ? outcome : { ...outcome, took: clock.now() - sent, arrivals };
  }

  return {
    get: path => ask({ method: 'GET', path }, timing.probeTimeout),
    post: (path, body) => ask({ method: 'POST', path, body: Buffer.from(JSON.stringify(body)) }, Infinity),
    skew: () => skew,
    calls: () => calls,
    heads,
    watch: { head, data() {} },
  };
}
