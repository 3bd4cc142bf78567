/**
 * Prompts of a load as the prefix cache sees them, without a text: which blocks of which are the same. A prompt begins
 * with what its group shares (a system prompt) and goes on with what its user has alone.
 */
import { BLOCK, type Prompt } from '../../simulator/tokens.ts';

export interface Shape {
  tokens: number;
  /** what all of the group begin with, in tokens */
  shared: number;
  group: number;
  /** who has the rest: the same for prompts of one user, of which one continues the other */
  own: number;
}

/** Two different multipliers, so that no two blocks have both words in common. */
const [LOW, HIGH] = [0x9e3779b1, 0x85ebca6b];

export function promptLike({ tokens, shared, group, own }: Shape): Prompt {
  const blocks = new Int32Array(2 * Math.floor(tokens / BLOCK));
  for (let index = 0; index < blocks.length / 2; index++) {
    const isShared = (index + 1) * BLOCK <= shared;
    const whose = isShared ? 2 * group : 2 * own + 1;
    blocks[2 * index] = Math.imul(whose + 1, LOW) ^ Math.imul(index + 1, HIGH);
    blocks[2 * index + 1] = (isShared ? -1 - group : own) ^ (index << 20);
  }
  return { tokens, blocks };
}
