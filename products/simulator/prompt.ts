/**
 * A prompt as the prefix cache sees it: how many tokens, and for each whole block a hash of everything up to its end.
 * Two prompts that begin with the same messages share the blocks of what they have in common; a block that is filled in
 * part by what differs is not shared. Tokens are counted as everywhere in the simulator (see tokens.ts).
 */
import {
  BLOCK,
  CHARACTERS_PER_TOKEN,
  PER_MESSAGE,
  PER_PROMPT,
  type PromptInput,
  promptTokensOf,
  tokensOf,
} from './tokens.ts';

export interface Prompt {
  /** tokens, those of the chat template included */
  tokens: number;
  /** two words for each whole block, from the first on; where they end, nothing can be shared */
  blocks: Int32Array;
}

export function promptOf(asked: PromptInput): Prompt {
  const tokens = typeof asked === 'string' ? tokensOf(asked) : promptTokensOf(asked);
  const blocks = new Int32Array(2 * Math.floor(tokens / BLOCK));
  state.set(START);
  if (typeof asked === 'string') add(asked, 0, blocks);
  else {
    let done = 0;
    for (const { role, content } of asked) {
      // the template's tokens come before the text of their message, and tell roles apart
      done = add(role.padEnd(HEADER).slice(0, HEADER), done, blocks);
      done = add(content, done, blocks);
    }
    add(ENDING, done, blocks);
  }
  return { tokens, blocks };
}

const HEADER = PER_MESSAGE * CHARACTERS_PER_TOKEN;
const ENDING = ' '.repeat(PER_PROMPT * CHARACTERS_PER_TOKEN);

/** Two multiplicative hashes, each of which sees half of the characters; together 64 bits, so that no two texts meet. */
const START = Int32Array.of(0x243f6a88, 0x13198a2e);
/** Between two texts of a prompt. Outside of the loop, whose numbers would be objects if a closure shared them. */
const state = new Int32Array(2);

/** Texts are hashed from here, two characters a word: reading them one by one takes twice the time. */
const PIECE = 16_384;
const bytes = Buffer.alloc(2 * PIECE + 8);
const words = new Int32Array(bytes.buffer, bytes.byteOffset, PIECE / 2);

/** Hashes a text after `before` tokens, and notes each block that ends in it; how many tokens there are then. */
function add(text: string, before: number, blocks: Int32Array): number {
  let count = before;
  for (let from = 0; from < text.length; from += PIECE) {
    const written = bytes.write(text.length <= PIECE ? text : text.slice(from, from + PIECE), 'utf16le');
    // the last token of a text may have fewer characters
    bytes.fill(0, written, written + 2 * CHARACTERS_PER_TOKEN);
    count = addWords(Math.ceil(written / 2 / CHARACTERS_PER_TOKEN), count, blocks);
  }
  return count;
}

function addWords(tokens: number, before: number, blocks: Int32Array): number {
  let low = state[0]!;
  let high = state[1]!;
  let count = before;
  for (let token = 0; token < tokens; token++) {
    low = Math.imul(low ^ words[2 * token]!, 0x9e3779b1) ^ (low >>> 16);
    high = ((Math.imul(high, 0x27d4eb2f) + words[2 * token + 1]!) | 0) ^ (low >>> 13);
    count++;
    if (count % BLOCK === 0) {
      // spreads the newest characters over all bits, without which a table of such hashes would crowd
      const mixed = Math.imul(low ^ (low >>> 15), 0x85ebca6b);
      blocks[2 * (count / BLOCK) - 2] = mixed ^ (mixed >>> 13);
      blocks[2 * (count / BLOCK) - 1] = high;
    }
  }
  state[0] = low;
  state[1] = high;
  return count;
}
