/** How an answer ends: at its own end, at what stops it, or at the most tokens that it may have. */

import type { JsonObject as Schema } from '../../engine/core/json/pointer.ts';
import { fitLength } from './filler-words.ts';
import { badRequest } from './refusal.ts';
import { CHARACTERS_PER_TOKEN, tokenIds, tokensOf } from './tokens.ts';

export interface Ended {
  text: string;
  /** generated, those that stopped it among them */
  tokens: number;
  finish: 'stop' | 'length';
  /** the text, or the id of the token, that stopped it */
  stopReason: string | number | null;
}

export interface Bounds {
  /** tokens */
  least: number;
  most: number;
  /** there is a form that allows nothing beyond it, so that only white space inside of JSON makes it longer */
  hasForm: boolean;
}

/** Ends `spoken` as `question` asks for; `more` is what a model goes on with. @throws Refusal */
export function endedAs(question: Schema, spoken: string, bounds: Bounds, more: () => string): Ended {
  const { most } = bounds;
  // vLLM's ignore_eos: the model continues to the limit, as measurements need
  const endless = question.ignore_eos === true;
  const room = most * CHARACTERS_PER_TOKEN;
  const long = endless ? fitLength(spoken, room, room, more) : stretched(spoken, bounds, more);
  const isWhole = !endless && tokensOf(long) <= most;
  const text = isWhole ? long : long.slice(0, room);
  return (
    stopped(text, question, bounds.least) ?? {
      text,
      tokens: tokensOf(text),
      finish: isWhole ? 'stop' : 'length',
      stopReason: null,
    }
  );
}

function stretched(spoken: string, { least, most, hasForm }: Bounds, more: () => string): string {
  if (tokensOf(spoken) >= least) return spoken;
  const needed = least * CHARACTERS_PER_TOKEN;
  if (!hasForm) return fitLength(spoken, needed, most * CHARACTERS_PER_TOKEN, more);
  if (/^[{[]./s.test(spoken)) return spoken[0] + ' '.repeat(needed - spoken.length) + spoken.slice(1);
  throw badRequest(
    `min_tokens: the answer has ${tokensOf(spoken)} tokens and its form allows no more, got ${least}.`,
  );
}

/** What of `text` is said before the first stop that comes after `least` tokens. */
function stopped(text: string, question: Schema, least: number): Ended | undefined {
  const { stop, stop_token_ids, include_stop_str_in_output: isKept } = question;
  const begin = least * CHARACTERS_PER_TOKEN;
  let first: { from: number; to: number; reason: string | number } | undefined;
  for (const reason of [stop ?? []].flat() as string[]) {
    const from = text.indexOf(reason, Math.max(0, begin - reason.length + 1));
    const to = from + reason.length;
    if (from >= 0 && (first === undefined || to < first.to)) first = { from, to, reason };
  }
  if (Array.isArray(stop_token_ids) && stop_token_ids.length > 0) {
    const ids = new Set<unknown>(stop_token_ids);
    const at = tokenIds(text, tokensOf(text)).findIndex((id, index) => index >= least && ids.has(id));
    const from = at * CHARACTERS_PER_TOKEN;
    const to = from + CHARACTERS_PER_TOKEN;
    if (at >= 0 && (first === undefined || to < first.to))
      first = { from, to, reason: tokenIds(text, at + 1)[at]! };
  }
  if (first === undefined) return undefined;
  const { from, to, reason } = first;
  return {
    text: text.slice(0, isKept === true ? to : from),
    tokens: tokensOf(text.slice(0, to)),
    finish: 'stop',
    stopReason: reason,
  };
}
