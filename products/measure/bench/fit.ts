/** How words become tokens on this server: two short requests, whose prompts it counts itself. No tokenizer is needed. */

import { causeOf, serverWords } from '../../../engine/asking/endpoints/endpoint-words.ts';
import { systemClock, TIMING } from '../../../engine/asking/endpoints/pool-clock.ts';
import type { Endpoint } from '../../../engine/asking/pool/pool-state.ts';
import { askingOf } from '../../../engine/asking/pool/probe.ts';
import { unavailable } from '../../../engine/core/item/failure.ts';
import { isObject } from '../../../engine/core/json/pointer.ts';
import { chatPath, type Fit, wordsOf } from './bench-workload.ts';

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
