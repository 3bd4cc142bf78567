/**
 * What is there: each endpoint's GET /models, asked before anything else. It tells whether the endpoint can be used,
 * which models it serves and how long a prompt may be; where it cannot be used, it tells a person why.
 */
import type { Clock, Timing } from './clock.ts';
import { isObject } from './completion.ts';
import type { Endpoint } from './health.ts';
import { hide, type Key } from './secret.ts';
import type { Reply } from './wire.ts';
import { causeOf, NoAnswerInTime, seconds, serverWords } from './words.ts';

export interface Served {
  id: string;
  /** tokens of prompt and answer together, where the server says so */
  maxModelLength: number | undefined;
  /** the weights behind the name, where the server says so */
  root: string | undefined;
}

/** What one endpoint answered: its models, or why it cannot be used. */
export interface Finding {
  endpoint: Endpoint;
  models: Served[];
  /** in words; undefined where the endpoint can be used */
  cause: string | undefined;
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
  const outcome = await get(endpoint, `${endpoint.prefix}/models`, prober);
  if (outcome instanceof Error) return unusable(endpoint, causeOf(outcome, prober.key), false);
  const { status, body } = outcome;
  if (status === 200) {
    const models = readModels(body, prober.key);
    if (models) return { endpoint, models, cause: undefined, settled: true };
    return unusable(
      endpoint,
      `${endpoint.url}/models is no OpenAI-style list of models: is this the right server?`,
      true,
    );
  }
  if (status === 401 || status === 403) return unusable(endpoint, refusedKey(status, prober.key), true);
  if (status === 503) return unusable(endpoint, 'HTTP 503: it is still loading, or overloaded', false);
  if (status === 404) return unusable(endpoint, await notFound(endpoint, prober), true);
  const words = serverWords(body, prober.key, 160);
  return unusable(
    endpoint,
    `HTTP ${status} at ${endpoint.url}/models${words && `: "${words}"`}`,
    status < 500,
  );
}

function unusable(endpoint: Endpoint, cause: string, settled: boolean): Finding {
  return { endpoint, models: [], cause, settled };
}

export function refusedKey(status: number, key: Key | undefined): string {
  if (key) return `HTTP ${status}: the key of ${key.name} was refused`;
  return `HTTP ${status}: it wants a key, and none was given: set FW_API_KEY, or name a variable by --api-key-env`;
}

async function notFound(endpoint: Endpoint, prober: Prober): Promise<string> {
  const wrong = `HTTP 404 at ${endpoint.url}/models: is the path right?`;
  if (endpoint.prefix.endsWith('/v1')) return wrong;
  const nearby = await get(endpoint, `${endpoint.prefix}/v1/models`, prober);
  const found = !(nearby instanceof Error) && nearby.status === 200 && readModels(nearby.body, undefined);
  return found ? `HTTP 404 at ${endpoint.url}/models; did you mean ${endpoint.url}/v1?` : wrong;
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
    const length = model.max_model_len;
    models.push({
      id: model.id,
      maxModelLength: Number.isSafeInteger(length) ? (length as number) : undefined,
      // it goes into the ledger
      root: typeof model.root === 'string' ? hide(model.root, key) : undefined,
    });
  }
  return models;
}
