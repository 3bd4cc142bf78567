/**
 * Prompts for the engine: tokens, and a hash for each whole block, as products/simulator/prompt.ts makes them, with what a
 * plan of some hundred thousand calls needs: how many characters a token has is measured and need not be whole; the
 * system message that all calls of an agent begin with is read once; text is read as it is in the body, escaped; and
 * behind what two prompts can have in common nothing is hashed, because no other call would find it.
 */
import type { Prompt } from '../simulator/prompt.ts';
import { BLOCK, PER_MESSAGE, PER_PROMPT } from '../simulator/tokens.ts';

/** A message: its content is `text` from `from` to `to`. */
export interface MessagePart {
  role: string;
  text: string;
  from: number;
  to: number;
  /** as between the quotes of a JSON string */
  isEscaped: boolean;
}

/** What prompts begin with that begin with the same messages. */
export interface Prefix extends Prompt {
  low: number;
  high: number;
}

const EMPTY: Prefix = { low: 0x243f6a88, high: 0x13198a2e, tokens: 0, blocks: new Int32Array(0) };

export function messagePart(role: string, text: string): MessagePart {
  return { role, text, from: 0, to: text.length, isEscaped: false };
}

export function prefixOf(parts: readonly MessagePart[], charactersPerToken: number): Prefix {
  return extended(EMPTY, parts, charactersPerToken, 0, Number.POSITIVE_INFINITY);
}

/** A prompt of `prefix` and what follows; of its first part no other prompt has more than `shared` characters. */
export function promptAfter(
  prefix: Prefix,
  parts: readonly MessagePart[],
  charactersPerToken: number,
  shared = Number.POSITIVE_INFINITY,
): Prompt {
  return extended(prefix, parts, charactersPerToken, PER_PROMPT, shared);
}

const BACKSLASH = 92;
const LETTER_U = 117;

/** Characters of a part, without what escapes them. */
function charactersOf({ text, from, to, isEscaped }: MessagePart): number {
  let characters = to - from;
  if (!isEscaped) return characters;
  for (let at = text.indexOf('\\', from); at >= 0 && at < to; ) {
    const isCode = text.charCodeAt(at + 1) === LETTER_U;
    characters -= isCode ? 5 : 1;
    at = text.indexOf('\\', at + (isCode ? 6 : 2));
  }
  return characters;
}

function extended(
  prefix: Prefix,
  parts: readonly MessagePart[],
  charactersPerToken: number,
  atEnd: number,
  shared: number,
): Prefix {
  const characters = parts.map(charactersOf);
  let total = prefix.tokens + atEnd;
  for (const count of characters) total += PER_MESSAGE + Math.ceil(count / charactersPerToken);
  const most = prefix.tokens + PER_MESSAGE + shared / charactersPerToken;
  const blocks = new Int32Array(2 * Math.floor(Math.min(total, most) / BLOCK));
  blocks.set(prefix.blocks);
  const last = blocks.length / 2;
  let { low, high, tokens } = prefix;
  let block = Math.floor(tokens / BLOCK);

  const end = (): void => {
    const mixed = Math.imul(low ^ (low >>> 15), 0x85ebca6b);
    blocks[2 * block] = mixed ^ (mixed >>> 13);
    blocks[2 * block + 1] = high;
    block++;
  };
  const template = (count: number, what: number): void => {
    for (let token = 0; token < count; token++) {
      low = Math.imul(low ^ what, 0x9e3779b1) ^ (low >>> 16);
      high = (Math.imul(high, 0x27d4eb2f) + low) | 0;
      if (++tokens % BLOCK === 0) end();
    }
  };
  const content = ({ text, from, isEscaped }: MessagePart, characters: number): void => {
    const count = Math.ceil(characters / charactersPerToken);
    let at = from;
    let read = 0;
    for (let token = 0; token < count && block < last; ) {
      // up to the end of a block, or of the text
      const until = Math.min(count, token + BLOCK - (tokens % BLOCK));
      const stop = until === count ? characters : until * charactersPerToken;
      for (; read < stop; read++) {
        let code = text.charCodeAt(at++);
        if (isEscaped && code === BACKSLASH) {
          code = text.charCodeAt(at++);
          // \u and its four digits are one character, which its digits tell from others well enough
          for (const end = code === LETTER_U ? at + 4 : at; at < end; at++) {
            code = (code << 4) ^ text.charCodeAt(at);
          }
          code ^= BACKSLASH << 8;
        }
        low = Math.imul(low ^ code, 0x9e3779b1) ^ (low >>> 16);
        high = (Math.imul(high, 0x27d4eb2f) + low) | 0;
      }
      tokens += until - token;
      token = until;
      if (tokens % BLOCK === 0) end();
    }
  };
  for (const [index, part] of parts.entries()) {
    if (block >= last) break;
    template(PER_MESSAGE, part.role.charCodeAt(0));
    content(part, characters[index] as number);
  }
  if (block < last) template(atEnd, 1);
  return { low, high, tokens: total, blocks };
}
