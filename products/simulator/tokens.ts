/**
 * Tokens as the simulator counts them: about four characters each, which is near what a Llama tokenizer makes of
 * English and JSON. /tokenize, usage, the context limit and the metrics all count with the functions here.
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
