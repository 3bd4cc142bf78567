/**
 * What is there: each endpoint's GET /models, asked before anything else. It tells whether the endpoint can be used,
 * which models it serves and how long a prompt may be; where it cannot be used, it tells a person why.
 */
import type { Clock, Timing } from './clock.ts';
import { isObject } from './completion.ts';
import type { Endpoint } from './health.ts';
import { hide, type Key } from './secret.ts';
import type { Reply } from './wire.ts';
import { causeOf, isHtml, NoAnswerInTime, type Obstacle, obstacleOf, seconds, serverWords } from './words.ts';

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
export interface Finding {
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
  key: Key | undefined;
}

/** Asks one endpoint. Never throws: what goes wrong is the finding. */
export async function probe(endpoint: Endpoint, prober: Prober): Promise<Finding> {
  const at = `${endpoint.url}/models`;
  const outcome = await get(endpoint, `${endpoint.prefix}/models`, prober);
  const unusable = (hindrance: Hindrance, cause: string, settled: boolean): Finding => ({
    endpoint,
    models: [],
    cause,
    hindrance,
    settled,
  });
  if (outcome instanceof Error) return unusable(obstacleOf(outcome), causeOf(outcome, prober.key), false);
  const { status, body } = outcome;
  if (status === 200) {
    const models = readModels(body, prober.key);
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
  if (status === 401 || status === 403) return unusable('key', refusedKey(status, prober.key), true);
  if (status === 503) return unusable('loading', 'HTTP 503: it is still loading, or overloaded', false);
  if (status === 404 || status === 405) {
    const meant = (await elsewhere(endpoint, prober)) ?? ': is the path right?';
    return unusable('wrong-path', `HTTP ${status} at ${at}${meant}`, true);
  }
  const words = serverWords(body, prober.key, 160);
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

function get(endpoint: Endpoint, path: string, { clock, timing }: Prober): Promise<Reply | Error> {
  return new Promise(resolve => {
    const exchange = endpoint.wire.send({ method: 'GET', path }, outcome => {
      callOff();
      resolve(outcome);
    });
    const callOff = clock.after(timing.probeTimeout, () => {
      const late = new NoAnswerInTime(`no answer within ${seconds(timing.probeTimeout)}`);
      resolve(late);
      exchange.abort(late);
    });
  });
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
      parent: textOf(model.parent),
      owner: textOf(model.owned_by),
    });
  }
  return models;
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}
