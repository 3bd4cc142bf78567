/**
 * Log probabilities of tokens, made up as the answers are: each token that is said is the likeliest, with a chance between
 * a half and one, and every other one has half of what is left. So they sum to less than 1, and tell nothing.
 */

import { nameBeside } from './filler-words.ts';
import type { Random } from './random.ts';
import { tokenTexts } from './tokens.ts';

export interface Chance {
  token: string;
  /** of base e */
  logprob: number;
}

export interface TokenChances extends Chance {
  /** the likeliest, the token that is said first */
  top: readonly Chance[];
}

/** Of each token of `text`, with the `most` likeliest. */
export function chancesOf(text: string, most: number, random: Random): TokenChances[] {
  return tokenTexts(text).map(token => {
    const chance = 1 - random() ** 2 / 2;
    const said = { token, logprob: logOf(chance) };
    const top: Chance[] = most > 0 ? [said] : [];
    const names = new Set([token]);
    for (let left = (1 - chance) / 2; top.length < most; left /= 2)
      top.push({ token: nameBeside(names, random), logprob: logOf(left) });
    return { ...said, top };
  });
}

/** vLLM writes no −Infinity, which JSON does not know. */
const logOf = (chance: number): number => Math.max(-9999, Math.log(chance));

const bytes = (token: string): string => JSON.stringify([...Buffer.from(token)]);
const one = ({ token, logprob }: Chance, more = ''): string =>
  `{"token":${JSON.stringify(token)},"logprob":${logprob},"bytes":${bytes(token)}${more}}`;

/** As a chat has them. */
export function chatLogprobs(tokens: readonly TokenChances[]): string {
  const each = tokens.map(token =>
    one(token, `,"top_logprobs":[${token.top.map(other => one(other)).join(',')}]`),
  );
  return `{"content":[${each.join(',')}]}`;
}

/** As a completion has them; `offset` is where the first token begins in the text. */
export function completionLogprobs(tokens: readonly TokenChances[], offset: number): string {
  let at = offset;
  const offsets = tokens.map(({ token }) => {
    at += token.length;
    return at - token.length;
  });
  return JSON.stringify({
    text_offset: offsets,
    token_logprobs: tokens.map(({ logprob }) => logprob),
    tokens: tokens.map(({ token }) => token),
    top_logprobs: tokens.map(({ token, logprob, top }) =>
      Object.fromEntries([[token, logprob], ...top.map(other => [other.token, other.logprob])]),
    ),
  });
}
