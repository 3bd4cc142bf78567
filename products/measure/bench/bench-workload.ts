/** What is asked: a workload gives the request of each number, the same for the same number, and others for warming up. */

import type { Endpoint } from '../../../engine/asking/pool/pool-state.ts';
import type { JsonObject } from '../../../engine/core/json/pointer.ts';
import { seeded } from '../../kit/seeded.ts';
import { mean } from './bench-statistics.ts';
import type { Request } from './bench-wire.ts';
import type { Lengths } from './ledger-lengths.ts';

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
