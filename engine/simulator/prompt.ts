/**
 * A prompt as the prefix cache sees it: how many tokens, and for each whole block a hash of everything up to its end.
 * Two prompts that begin with the same messages share the blocks of what they have in common; a block that is filled in
 * part by what differs is not shared. Tokens are counted as everywhere in the simulator (see tokens.ts).
 */
import {
  type Asked,
  BLOCK,
  CHARACTERS_PER_TOKEN,
  PER_MESSAGE,
  PER_PROMPT,
  promptTokensOf,
  tokensOf,
} from './tokens.ts';

export interface Prompt {
  /** tokens, those of the chat template included */
  tokens: number;
  /** two words for each whole block, from the first on; where they end, nothing can be shared */
  blocks: Int32Array;
}

/** Two multiplicative hashes, which see two characters at a time; together 64 bits, so that no two texts meet. */
export function promptOf(asked: Asked): Prompt {
  const tokens = typeof asked === 'string' ? tokensOf(asked) : promptTokensOf(asked);
  const whole = Math.floor(tokens / BLOCK);
  const blocks = new Int32Array(2 * whole);
  let [low, high, count, block] = [0x243f6a88, 0x13198a2e, 0, 0];

  const end = () => {
    // the last mixing spreads the newest characters over all bits, without which tables would crowd
    const mixed = Math.imul(low ^ (low >>> 15), 0x85ebca6b);
    blocks[2 * block] = mixed ^ (mixed >>> 13);
    blocks[2 * block + 1] = high;
    block++;
  };
  const add = (text: string) => {
    for (let at = 0; at < text.length; at += CHARACTERS_PER_TOKEN) {
      // beyond its end a text gives NaN, which the shifts make 0
      low =
        Math.imul(low ^ (text.charCodeAt(at) | (text.charCodeAt(at + 1) << 16)), 0x9e3779b1) ^ (low >>> 16);
      high = (Math.imul(high, 0x27d4eb2f) + (text.charCodeAt(at + 2) | (text.charCodeAt(at + 3) << 16))) | 0;
      high ^= low >>> 13;
      if (++count % BLOCK === 0) end();
    }
  };
  if (typeof asked === 'string') {
    add(asked);
    return { tokens, blocks };
  }
  for (const { role, content } of asked) {
    // the tokens of a template stand before the text of their message, and tell roles apart
    add(role.padEnd(PER_MESSAGE * CHARACTERS_PER_TOKEN).slice(0, PER_MESSAGE * CHARACTERS_PER_TOKEN));
    add(content);
  }
  add(' '.repeat(PER_PROMPT * CHARACTERS_PER_TOKEN));
  return { tokens, blocks };
}
