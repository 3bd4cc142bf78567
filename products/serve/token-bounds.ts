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
  {
    max_tokens,
    max_completion_tokens,
    max_output_tokens,
    n,
    prompt: asked,
  }: Readonly<Record<string, unknown>>,
  bytes: number,
  most: number | undefined,
): number {
  const prompt = promptBound(bytes, most);
  const usual = DIALECTS.get(path)?.unsaid ?? UNSAID;
  if (usual === 0) return prompt;
  const said = [max_completion_tokens, max_tokens, max_output_tokens].map(counted).find(one => one !== null);
  const choices = Math.min(Math.max(1, counted(n) ?? 1), MOST_CHOICES) * promptsIn(asked);
  return prompt + choices * Math.min(said ?? usual, most ?? Number.POSITIVE_INFINITY);
}

/** answers to a prompt */
const MOST_CHOICES = 128;

/** A number from 0, also one in quotes: vLLM takes "4000" for 4000. */
function counted(one: unknown): number | null {
  const number = typeof one === 'string' && /^ *\d{1,15} *$/.test(one) ? Number(one) : one;
  return Number.isSafeInteger(number) && Number(number) >= 0 ? Number(number) : null;
}

/** /v1/completions answers each prompt of a list: of texts, or of lists of tokens. One list of tokens is one prompt. */
function promptsIn(asked: unknown): number {
  if (!Array.isArray(asked) || asked.length === 0 || typeof asked[0] === 'number') return 1;
  return asked.length;
}
