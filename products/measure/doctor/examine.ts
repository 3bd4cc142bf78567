/**
 * The examination of one endpoint: at most a dozen requests, one after the other, so that what is measured is not
 * measured against ourselves.
 *
 *   models ─ which server, which version ─ metrics ─ short answer ─ schema, twice ─ same seed, twice ─ long prompt,
 *   twice ─ metrics again, where the answers do not tell of the prefix cache ─ other seed, streamed
 *
 * Where a plain question gets no answer, nothing more is asked.
 */

import type { Key } from '../../../engine/asking/endpoints/endpoint-words.ts';
import { type ModelMap, servedNameOf } from '../../../engine/asking/endpoints/model-names.ts';
import type { Clock, Timing } from '../../../engine/asking/endpoints/pool-clock.ts';
import {
  isLmStudio,
  KIND_NAMES,
  KINDS,
  type KindName,
  kindByWords,
  mayBeTgi,
  OPENAI_VERSION,
  type Told,
} from '../../../engine/asking/endpoints/server-kinds.ts';
import {
  hasSeries,
  labelsOf,
  metricsPath,
  type Page,
  pageOf,
} from '../../../engine/asking/endpoints/server-load.ts';
import type { EndpointSetting } from '../../../engine/asking/endpoints/settings.ts';
import { createEndpoint } from '../../../engine/asking/pool/pool-state.ts';
import {
  type Asking,
  askingOf,
  type Heard,
  objectIn,
  type ProbeResult,
  probe,
  type Served,
} from '../../../engine/asking/pool/probe.ts';
import { type Facts, type Guided, isSilence } from './endpoint-facts.ts';
import { newWord, type Questions, questionsFor, readAnswer, readStream } from './examined-answer.ts';

/** A server in use must hardly notice. */
const MOST_CALLS = 12;

export interface Examiner {
  key: Key | undefined;
  /** the model that a person named, and other names of models (--model-map) */
  wanted: string | undefined;
  modelMap?: ModelMap | undefined;
  /** ms that an endpoint may take in all */
  most: number;
  clock: Clock;
  timing: Timing;
  /** makes words that nobody can guess */
  word?: () => string;
}

/** Asks one endpoint. Never throws on what a server does: that is among the facts. */
export async function examine(setting: EndpointSetting, examiner: Examiner): Promise<Facts> {
  const endpoint = createEndpoint(setting, 0, examiner.key);
  const until = examiner.clock.now() + examiner.most;
  const asking = askingOf(endpoint, examiner, until);
  try {
    const started = examiner.clock.now();
    const found = await probe(endpoint, { ...examiner, watch: asking.watch });
    const facts = factsOf(setting, examiner, found, asking.heads);
    facts.roundTrip = examiner.clock.now() - started;
    if (facts.hindrance === undefined) await look(facts, endpoint.prefix, asking, examiner);
    facts.skew = asking.skew();
    facts.calls = 1 + asking.calls();
    return facts;
  } finally {
    await endpoint.wire.close();
  }
}

function factsOf(
  setting: EndpointSetting,
  { wanted, modelMap }: Examiner,
  found: ProbeResult,
  heads: Asking['heads'],
): Facts {
  const { models, hindrance, cause, endpoint } = found;
  const model = modelOf(models, wanted, modelMap);
  return {
    setting,
    key: endpoint.key,
    wanted,
    hindrance: hindrance && { kind: hindrance, cause: cause ?? '' },
    models,
    model,
    kind: kindByWords(models, heads) ?? 'unknown',
    version: heads[OPENAI_VERSION],
    context: model?.maxModelLength,
    batch: undefined,
    metrics: { before: undefined, after: undefined, status: undefined },
    skew: undefined,
    roundTrip: undefined,
    trivial: undefined,
    guided: [],
    same: [],
    prioritised: undefined,
    streamed: undefined,
    prefix: [],
    calls: 0,
  };
}

/** The named one, as a run finds it; else the only one, or the first that is no adapter of another. */
function modelOf(models: readonly Served[], wanted: string | undefined, map?: ModelMap): Served | undefined {
  if (wanted !== undefined) {
    const served = servedNameOf(
      wanted,
      models.map(({ id }) => id),
      map,
    );
    return models.find(({ id }) => id === served);
  }
  return models.find(({ parent }) => parent === undefined) ?? models[0];
}

async function look(facts: Facts, prefix: string, asking: Asking, examiner: Examiner): Promise<void> {
  await introduce(facts, prefix, asking);
  const path = `${prefix}/chat/completions`;
  const questions = facts.model && questionsFor(facts.model.id, facts.context, examiner.word ?? newWord);
  if (questions) await converse(facts, questions, body => asking.post(path, body));
  await lookAtLoaded(facts, rootOf(prefix), asking);
  // The answers tell of the prefix cache only where the server was started with --enable-prompt-tokens-details.
  const told = facts.prefix.some(one => !isSilence(one) && one.usage?.cached !== undefined);
  const spare = asking.calls() + 2 < MOST_CALLS;
  if (
    facts.prefix.length > 0 &&
    !told &&
    spare &&
    facts.metrics.before &&
    hasSeries(facts.metrics.before, 'vllm:')
  ) {
    facts.metrics.after = await scrape(facts, prefix, asking);
  }
  if (questions && !isSilence(facts.trivial) && facts.kind === 'vLLM' && asking.calls() + 2 < MOST_CALLS) {
    const heard = await asking.post(path, { ...questions.trivial, priority: 1, max_tokens: 1 });
    facts.prioritised = readAnswer(heard, facts.key);
  }
  // Last, because llama.cpp closes the connection behind a stream without having said so: the next request would be lost.
  if (questions && !isSilence(facts.trivial)) {
    facts.streamed = readStream(await asking.post(path, questions.streamed), facts.key);
  }
}

/** Which server it is, by the routes that only it has, and what it says of itself. */
async function introduce(facts: Facts, prefix: string, asking: Asking): Promise<void> {
  for (const kind of candidates(facts)) {
    if (await saysSo(kind, facts, rootOf(prefix), asking)) break;
  }
  if (facts.kind !== 'unknown' && KINDS[facts.kind].metrics === null) return;
  const page = await scrape(facts, prefix, asking);
  facts.metrics.before = page;
  if (page === undefined) return;
  facts.batch ??= batchIn(page);
  if (facts.kind !== 'unknown') return;
  const named = ({ metrics }: { metrics: string | null }) => metrics !== null && hasSeries(page, metrics);
  facts.kind = KIND_NAMES.find(name => named(KINDS[name])) ?? 'unknown';
}

/** Whom its pages are asked as: a dozen requests are to do for one of which nothing is known too. */
function candidates({ kind, models }: Facts): readonly KindName[] {
  if (kind !== 'unknown') return [kind];
  return mayBeTgi(models) ? ['TGI', 'vLLM'] : ['vLLM', 'Ollama'];
}

/** Asks what only `kind` answers so, until something is known of it. */
async function saysSo(kind: KindName, facts: Facts, root: string, asking: Asking): Promise<boolean> {
  for (const { path, read } of KINDS[kind].about) {
    const heard = await asking.get(root + path);
    if (!(heard instanceof Error)) facts.roundTrip = Math.min(facts.roundTrip ?? Infinity, heard.took);
    const said = objectIn(heard);
    if (said === undefined) continue;
    if (facts.kind === 'unknown' && isLmStudio(said)) {
      facts.kind = 'LM Studio';
      return true;
    }
    const told = read(said, facts.model?.id);
    if (told === undefined) continue;
    note(facts, told);
    // gateways have a /version too: that one is a vLLM its metrics may say
    if (facts.kind === 'unknown' && kind !== 'vLLM') facts.kind = kind;
    return true;
  }
  return false;
}

function note(facts: Facts, { version, context, batch }: Told): void {
  facts.version ??= version;
  facts.context ??= context;
  facts.batch ??= batch;
}

/** Some say how long a prompt may be only of a model that is loaded, which it is now. */
async function lookAtLoaded(facts: Facts, root: string, asking: Asking): Promise<void> {
  const loaded = facts.kind === 'unknown' ? undefined : KINDS[facts.kind].loaded;
  const said = loaded && objectIn(await asking.get(root + loaded.path));
  const told = said && loaded.read(said, facts.model?.id);
  if (told) note(facts, told);
}

async function converse(
  facts: Facts,
  questions: Questions,
  post: (body: object) => Promise<Heard | Error>,
): Promise<void> {
  const ask = async (body: object) => readAnswer(await post(body), facts.key);
  facts.trivial = await ask(questions.trivial);
  if (isSilence(facts.trivial)) return;
  const guided: Guided[] = [];
  for (const { body, key, words } of questions.guided) guided.push({ outcome: await ask(body), key, words });
  facts.guided = guided;
  facts.same = [await ask(questions.same), await ask(questions.same)];
  facts.prefix = [await ask(questions.prefix), await ask(questions.prefix)];
}

async function scrape(facts: Facts, prefix: string, asking: Asking): Promise<Page | undefined> {
  const heard = await asking.get(metricsPath(prefix));
  if (heard instanceof Error) return undefined;
  facts.metrics.status = heard.status;
  return heard.status === 200 ? pageOf(heard.body) : undefined;
}

/** What a server has beside its API, it has beside /v1. */
function rootOf(prefix: string): string {
  return prefix.replace(/\/v1$/, '');
}

function batchIn(page: Page): number | undefined {
  const said = ['max_num_seqs', 'scheduler_config_max_num_seqs'].flatMap(label =>
    labelsOf(page, 'vllm:vllm_config_info', label),
  );
  return countOrNone(Number(said[0]));
}

function countOrNone(value: unknown): number | undefined {
  return Number.isSafeInteger(value) && (value as number) > 0 ? (value as number) : undefined;
}
