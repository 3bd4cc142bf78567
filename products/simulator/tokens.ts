/**
 * Tokens as the simulator counts them: about four characters each, which is near what a Llama tokenizer makes of
 * English and JSON. /tokenize, usage, the context limit and the metrics all count with the functions here.
 *
 * And a prompt as the prefix cache sees it: how many tokens, and for each whole block a hash of everything up to its end.
 * Two prompts that begin with the same messages share the blocks of what they have in common; a block that is filled in
 * part by what differs is not shared.
 */

export interface Message {
  role: string;
  content: string;
}

/** What a model is asked: messages, which a chat template is put around, or a text as it is. */
export type PromptInput = readonly Message[] | string;

/** What a chat template adds around each message (role, header and end markers), and before the answer. */
export const PER_MESSAGE = 4;
export const PER_PROMPT = 3;

export const CHARACTERS_PER_TOKEN = 4;

export function tokensOf(text: string): number {
  return Math.ceil(text.length / CHARACTERS_PER_TOKEN);
}

export function promptTokensOf(messages: readonly Message[]): number {
  let tokens = PER_PROMPT;
  for (const { content } of messages) tokens += PER_MESSAGE + tokensOf(content);
  return tokens;
}

/** The tokens of an answer, cut between UTF-16 pairs and never inside one. */
export function tokenTexts(text: string): string[] {
  const characters = [...text];
  const tokens: string[] = [];
  for (let at = 0; at < characters.length; at += CHARACTERS_PER_TOKEN)
    tokens.push(characters.slice(at, at + CHARACTERS_PER_TOKEN).join(''));
  return tokens;
}

/** `count` token ids below 128,000, the same for the same text; the four characters of a token give its id. */
export function tokenIds(text: string, count: number): number[] {
  return Array.from({ length: count }, (_, index) => {
    let id = 0;
    for (let at = index * CHARACTERS_PER_TOKEN; at < (index + 1) * CHARACTERS_PER_TOKEN; at++) {
      id = (id * 31 + (at < text.length ? text.charCodeAt(at) : 0)) % 128_000;
    }
    return id;
  });
}

/** Tokens of a KV block; vLLM caches whole ones. */
export const BLOCK = 16;

export interface Prompt {
  /** tokens, those of the chat template included */
  tokens: number;
  /** two words for each whole block, from the first on; where they end, nothing can be shared */
  blocks: Int32Array;
}

/** Messages that prompts begin with, read once: the state of the two hashes behind them. */
export interface Prefix extends Prompt {
  low: number;
  high: number;
}

/** Two multiplicative hashes, each of which sees half of the characters; together 64 bits, so that no two texts meet. */
const NOTHING: Prefix = { low: 0x243f6a88, high: 0x13198a2e, tokens: 0, blocks: new Int32Array(0) };

/**
 * A token may have any number of characters, here and below: a tokenizer was measured. `salt`: what else has to be the same
 * where blocks are shared, such as the model.
 */
export function promptOf(asked: PromptInput, charactersPerToken = CHARACTERS_PER_TOKEN, salt = ''): Prompt {
  const start = salt === '' ? NOTHING : saltedWith(salt);
  if (typeof asked !== 'string') return promptAfter(start, asked, charactersPerToken);
  const blocks = new Int32Array(2 * Math.floor(Math.ceil(asked.length / charactersPerToken) / BLOCK));
  state.set([start.low, start.high]);
  return { tokens: add(asked, charactersPerToken, 0, blocks), blocks };
}

function saltedWith(salt: string): Prefix {
  state.set([NOTHING.low, NOTHING.high]);
  add(salt, 1, 0, new Int32Array(2 * Math.ceil(salt.length / BLOCK)));
  return { ...NOTHING, low: state[0]!, high: state[1]! };
}

export function prefixOf(messages: readonly Message[], charactersPerToken: number): Prefix {
  return extended(NOTHING, messages, charactersPerToken, '', Number.POSITIVE_INFINITY);
}

/**
 * A prompt of `prefix` and what follows. Of its first message no other prompt has more than `shared` characters: behind
 * them nothing is hashed, because no other prompt would find it.
 */
export function promptAfter(
  prefix: Prefix,
  messages: readonly Message[],
  charactersPerToken: number,
  shared = Number.POSITIVE_INFINITY,
): Prompt {
  const { tokens, blocks } = extended(prefix, messages, charactersPerToken, ENDING, shared);
  return { tokens, blocks };
}

const HEADER = PER_MESSAGE * CHARACTERS_PER_TOKEN;
const ENDING = ' '.repeat(PER_PROMPT * CHARACTERS_PER_TOKEN);

function extended(
  prefix: Prefix,
  messages: readonly Message[],
  charactersPerToken: number,
  ending: string,
  shared: number,
): Prefix {
  let tokens = prefix.tokens + tokensOf(ending);
  for (const { content } of messages) tokens += PER_MESSAGE + Math.ceil(content.length / charactersPerToken);
  const most = prefix.tokens + PER_MESSAGE + shared / charactersPerToken;
  const blocks = new Int32Array(2 * Math.floor(Math.min(tokens, most) / BLOCK));
  blocks.set(prefix.blocks);
  state[0] = prefix.low;
  state[1] = prefix.high;
  let count = prefix.tokens;
  for (const { role, content } of messages) {
    // the template's tokens come before the text of their message, and tell roles apart
    count = add(role.padEnd(HEADER).slice(0, HEADER), CHARACTERS_PER_TOKEN, count, blocks);
    count = add(content, charactersPerToken, count, blocks);
  }
  if (ending) count = add(ending, CHARACTERS_PER_TOKEN, count, blocks);
  return { tokens, blocks, low: state[0]!, high: state[1]! };
}

/** Both hashes between two texts. Outside of the loops, whose numbers would be objects if a closure shared them. */
const state = new Int32Array(2);

/** Texts are hashed from here, two characters a word: reading them one by one takes four times as long. */
const LONG = 16_384;
const buffer = Buffer.alloc(2 * LONG + 8);
const wordsOf = ({ buffer, byteOffset, length }: Buffer) => new Int32Array(buffer, byteOffset, length >> 2);
const shortWords = wordsOf(buffer);

/** Hashes a text after `before` tokens, and notes each block that ends in it; how many tokens there are then. */
function add(text: string, charactersPerToken: number, before: number, blocks: Int32Array): number {
  const isShort = text.length <= LONG;
  const bytes = isShort ? buffer : Buffer.alloc(2 * (text.length + 4 - (text.length % 4)));
  const words = isShort ? shortWords : wordsOf(bytes);
  const written = bytes.write(text, 'utf16le');
  // four characters are hashed at a time; the last may be fewer
  if (isShort) bytes.fill(0, written, written + 8);
  const after = before + Math.ceil(text.length / charactersPerToken);
  let low = state[0]!;
  let high = state[1]!;
  let word = 0;
  for (let count = before; count < after && 2 * count < BLOCK * blocks.length; ) {
    // up to the end of a block, or of the text
    count = Math.min(after, count + BLOCK - (count % BLOCK));
    const end =
      count < after ? Math.ceil((count - before) * charactersPerToken) : 4 * Math.ceil(text.length / 4);
    for (const stop = 2 * Math.floor(end / 4); word < stop; word += 2) {
      low = Math.imul(low ^ words[word]!, 0x9e3779b1) ^ (low >>> 16);
      high = ((Math.imul(high, 0x27d4eb2f) + words[word + 1]!) | 0) ^ (low >>> 13);
    }
    if (count % BLOCK > 0) continue;
    const rest = end % 4;
    const first = rest === 0 ? 0 : words[word]! & (rest === 1 ? 0xffff : -1);
    const second = rest === 3 ? words[word + 1]! & 0xffff : 0;
    // spreads the newest characters over all bits, without which a table of such hashes would crowd
    const newest = low ^ Math.imul(first, 0x9e3779b1);
    const mixed = Math.imul(newest ^ (newest >>> 15), 0x85ebca6b);
    blocks[(2 * count) / BLOCK - 2] = mixed ^ (mixed >>> 13);
    blocks[(2 * count) / BLOCK - 1] = high ^ Math.imul(second, 0x27d4eb2f) ^ first;
  }
  state[0] = low;
  state[1] = high;
  return after;
}

const MOST_PREFIXES = 1_000;

/** The prefix cache, in its simplest true form: a system prompt that was seen before is cached, the rest is not. */
export function prefixCache(): (asked: PromptInput) => number {
  const seen = new Set<string>();
  return asked => {
    const first = asked[0];
    if (typeof first !== 'object' || first.role !== 'system') return 0;
    if (seen.has(first.content)) {
      return Math.floor((PER_MESSAGE + tokensOf(first.content)) / BLOCK) * BLOCK;
    }
    if (seen.size >= MOST_PREFIXES) seen.delete(seen.values().next().value!);
    seen.add(first.content);
    return 0;
  };
}
