/** What is asked: a workload gives the request of each number, the same for the same number, and others for warming up. */

import { causeOf, serverWords } from '../../../engine/asking/endpoints/endpoint-words.ts';
import { systemClock, TIMING } from '../../../engine/asking/endpoints/pool-clock.ts';
import { callsOf, ledgerFiles, type Tell } from '../../../engine/asking/ledger/read-ledger.ts';
import type { Endpoint } from '../../../engine/asking/pool/pool-state.ts';
import { askingOf } from '../../../engine/asking/pool/probe.ts';
import { dataError, unavailable } from '../../../engine/core/item/failure.ts';
import { counted } from '../../../engine/core/item/wording.ts';
import { isObject, type JsonObject } from '../../../engine/core/json/pointer.ts';
import { seeded } from '../../kit/permute.ts';
import { mean } from './bench-statistics.ts';
import type { Request } from './bench-wire.ts';

export interface Workload {
  /** in words, for the report */
  source: string;
  /** requests that differ; null where there are as many as are wanted */
  size: number | null;
  /** tokens of an answer, as far as they are known before: of made-up prompts */
  outputTokens: number | null;
  requestAt(number: number): Request;
  /** A request that no measured one shares its prompt with. */
  warmUpAt(number: number): Request;
}

export interface Synthetic {
  inputTokens: number;
  outputTokens: number;
  /** tokens that all prompts begin with, of those of the input */
  prefixTokens: number;
  /** each length is drawn evenly between this share below and above; 0: all are the same */
  spread: number;
  seed: number;
  /** of each request those of a call, in turn; then the lengths above are those of the warm-up */
  lengths?: Lengths;
  /** names that are asked for in turn, in place of the model: LoRA adapters */
  adapters?: readonly string[];
}

/** Short words that most tokenizers know as one token each. */
const WORDS =
  'time year people way day man thing woman life child world school state family student group country problem hand part place case week company system program question work number night point home water room mother area money story fact month lot right study book eye job word business issue side kind head house service friend father power hour game line end member law car city name team minute idea body back parent face level office door health person art war history party result change morning reason research girl guy moment air teacher force education'.split(
    ' ',
  );

/** Numbers of warm-up prompts begin here: no measured one has them. */
const WARM_UP_FROM = 1_000_000_000;
const MOST_WARM_UP_TOKENS = 16;

/** How words become tokens on a server: tokens = template + perWord × words. */
export interface Fit {
  template: number;
  perWord: number;
}

/** The words of a prompt that has about so many tokens. */
export function wordsFor({ template, perWord }: Fit, tokens: number): number {
  return Math.max(1, Math.round((tokens - template) / perWord));
}

/** `count` words by a seed and a number; the first of them already differ. */
export function wordsOf(count: number, seed: number, number: number): string {
  const random = seeded(Math.imul(seed + 1, 0x9e3779b1) ^ Math.imul(number + 1, 0x85ebca6b));
  const words: string[] = [];
  for (let i = 0; i < count; i++) words.push(WORDS[Math.floor(random() * WORDS.length)] as string);
  return words.join(' ');
}

export function syntheticWorkload(path: string, model: string, fit: Fit, asked: Synthetic): Workload {
  const { inputTokens, outputTokens, prefixTokens, spread, seed, lengths, adapters = [] } = asked;
  const modelOf = (number: number): string => adapters[number % adapters.length] ?? model;
  const prefixWords = prefixTokens === 0 ? 0 : Math.round(prefixTokens / fit.perWord);
  const prefix = prefixWords === 0 ? '' : `${wordsOf(prefixWords, seed, -1)} `;
  const body = (words: number, most: number, number: number): Request => ({
    path,
    body: streamed({
      model: modelOf(number),
      messages: [{ role: 'user', content: prefix + wordsOf(Math.max(1, words - prefixWords), seed, number) }],
      max_tokens: most,
      temperature: 0,
      ignore_eos: true,
    }),
  });
  const drawn = (length: number, random: () => number): number =>
    spread === 0 ? length : Math.max(1, Math.round(length * (1 - spread + 2 * spread * random())));
  const words = lengths?.source ?? `${inputTokens} tokens in, ${outputTokens} out`;
  const about = [
    spread > 0 ? `±${Math.round(100 * spread)} %` : '',
    prefixTokens > 0 ? `${prefixTokens} of them shared` : '',
    adaptersWords(adapters),
  ];
  return {
    source: ['synthetic', words, ...about.filter(text => text !== '')].join(', '),
    size: null,
    outputTokens: lengths ? mean(lengths.pairs.map(([, answer]) => answer)) : outputTokens,
    requestAt(number) {
      const pair = lengths?.pairs[number % lengths.pairs.length];
      if (pair !== undefined) return body(wordsFor(fit, pair[0]), pair[1], number);
      const random = seeded(Math.imul(seed + 7, 0x27d4eb2f) ^ number);
      return body(wordsFor(fit, drawn(inputTokens, random)), drawn(outputTokens, random), number);
    },
    warmUpAt: number =>
      body(wordsFor(fit, inputTokens), Math.min(outputTokens, MOST_WARM_UP_TOKENS), WARM_UP_FROM + number),
  };
}

/** A body that asks for a stream with the tokens of the answer at its end. */
export function streamed(body: JsonObject): Buffer {
  return Buffer.from(JSON.stringify({ ...body, stream: true, stream_options: { include_usage: true } }));
}

export const chatPath = ({ prefix }: Pick<Endpoint, 'prefix'>): string => `${prefix}/chat/completions`;

const adaptersWords = (adapters: readonly string[]): string =>
  adapters.length === 0 ? '' : `for ${adapters.join(', ')} in turn`;

/** The same requests, of which each asks for the next of these adapters. */
export function askedOfAdapters(requests: readonly Request[], adapters: readonly string[]): Request[] {
  if (adapters.length === 0) return [...requests];
  return requests.map(({ path, body }, at) => {
    const asked = { ...(JSON.parse(body.toString()) as JsonObject), model: adapters[at % adapters.length] };
    return { path, body: Buffer.from(JSON.stringify(asked)) };
  });
}

/** Of requests that somebody brought along, the workload that takes them in their order, again and again. */
export function ownWorkload(source: string, requests: readonly Request[], warmUp: Workload): Workload {
  return {
    source,
    size: requests.length,
    outputTokens: null,
    requestAt: number => requests[number % requests.length] as Request,
    warmUpAt: warmUp.warmUpAt,
  };
}

// How words become tokens on this server: two short requests, whose prompts it counts itself. No tokenizer is needed.

const SHORT = 16;
const LONG = 144;
/** Time for the two together, ms: a model may have to be loaded first. */
const PATIENCE_MS = 300_000;
/** A server that is busy, or fails now and then, can still be measured. */
const MOST_TRIES = 10;
const BETWEEN_TRIES_MS = 100;

/** Exit 69 where the server does not answer, or does not count (`usage`). */
export async function fitWords(endpoint: Endpoint, model: string, seed: number): Promise<Fit> {
  const asking = askingOf(endpoint, { clock: systemClock, timing: TIMING }, systemClock.now() + PATIENCE_MS);
  /** The tokens of a prompt of so many words, or what was found in place of them; `isBusy`: another try may do. */
  const ask = async (words: number): Promise<number | { found: string; isBusy: boolean }> => {
    const heard = await asking.post(chatPath(endpoint), {
      model,
      messages: [{ role: 'user', content: wordsOf(words, seed, -2) }],
      max_tokens: 1,
    });
    if (heard instanceof Error) return { found: causeOf(heard, endpoint.key), isBusy: true };
    const { status, body } = heard;
    if (status !== 200) {
      const found = `HTTP ${status}: ${serverWords(body, endpoint.key)}`;
      return { found, isBusy: status === 429 || status >= 500 };
    }
    let reply: unknown;
    try {
      reply = JSON.parse(body.toString());
    } catch {
      return { found: 'an answer that is not JSON', isBusy: false };
    }
    const usage: unknown = isObject(reply) ? reply.usage : undefined;
    const tokens = isObject(usage) ? usage.prompt_tokens : undefined;
    return Number.isSafeInteger(tokens)
      ? (tokens as number)
      : { found: 'no usage in the answer', isBusy: false };
  };
  const tokensOf = async (words: number): Promise<number> => {
    for (let tries = 1; ; tries++) {
      const told = await ask(words);
      if (typeof told === 'number') return told;
      if (!told.isBusy || tries === MOST_TRIES)
        throw unavailable(
          `expected ${endpoint.url} to answer a short prompt and to count its tokens, found ${told.found}; fw doctor says more`,
        );
      await new Promise<void>(done => systemClock.after(BETWEEN_TRIES_MS, done));
    }
  };
  const short = await tokensOf(SHORT);
  const long = await tokensOf(LONG);
  if (long <= short)
    throw unavailable(
      `expected ${endpoint.url} to count more tokens of a longer prompt, found ${short} and ${long}`,
    );
  const perWord = (long - short) / (LONG - SHORT);
  return { perWord, template: short - SHORT * perWord };
}

// The lengths that a run really had, from its ledger: prompts and answers are made up, their tokens are not.

export interface Lengths {
  /** in words, for the report */
  source: string;
  /** tokens of prompt and answer of each call, in the order of the ledger */
  pairs: readonly (readonly [prompt: number, answer: number])[];
}

/** More than a benchmark of an hour asks; all are held in memory. */
const MOST = 1_000_000;
/** Beyond the context of any model: then a server counts something else. */
const MOST_TOKENS = 10_000_000;

/** Of the calls that were answered, and whose tokens the server counted. Exit 65 where there are none. */
export function lengthsIn(path: string, tell: Tell): Lengths {
  const pairs: [number, number][] = [];
  for (const file of ledgerFiles(path, tell)) {
    for (const { call } of callsOf(file, tell)) {
      const { prompt = 0, completion = 0 } = (call.outcome === 'answer' && call.usage) || {};
      const areCounts = prompt >= 1 && completion >= 1 && prompt <= MOST_TOKENS && completion <= MOST_TOKENS;
      if (areCounts && pairs.length < MOST) pairs.push([prompt, completion]);
    }
  }
  if (pairs.length === 0)
    throw dataError(`--ledger ${path}: expected answers with their tokens, found none; run some items first`);
  return { source: `the lengths of ${counted(pairs.length, 'call')} of ${path}`, pairs };
}
