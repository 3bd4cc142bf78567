/** How many tokens a request may need, by its bytes and what it says. */
import { DIALECTS, tokensOfBytes } from '../../engine/core/item/dialects.ts';

/** tokens that an answer of a path is taken to need that nobody knows, where its request does not say how many it may have */
const UNSAID = 1_024;

/** Tokens of a prompt, by the bytes of its request. `most`: tokens that prompt and answer have at most, where that is known. */
export const promptBound = (bytes: number, most: number | undefined): number =>
  Math.min(tokensOfBytes(bytes), most ?? Number.POSITIVE_INFINITY);

/** Tokens that a request may need, with its prompt. */
export function boundOf(
  path: string,
  { max_tokens, max_completion_tokens, max_output_tokens, n }: Readonly<Record<string, unknown>>,
  bytes: number,
  most: number | undefined,
): number {
  const prompt = promptBound(bytes, most);
  const usual = DIALECTS.get(path)?.unsaid ?? UNSAID;
  if (usual === 0) return prompt;
  const isSaid = (one: unknown): boolean => Number.isSafeInteger(one) && Number(one) >= 0;
  const said = [max_completion_tokens, max_tokens, max_output_tokens].find(isSaid);
  const choices = Number.isSafeInteger(n) ? Math.min(Math.max(1, Number(n)), 128) : 1;
  return prompt + choices * Math.min(Number(said ?? usual), most ?? Number.POSITIVE_INFINITY);
}
