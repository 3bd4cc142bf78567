/** How many tokens a request may need, by its bytes and what it says. */

/** of English and of JSON, on average */
const BYTES_PER_TOKEN = 4;
/** tokens that an answer is taken to need whose request names no `max_tokens` */
const UNSAID = 1_024;
/** what a server takes for a completion that names none */
const UNSAID_COMPLETION = 16;

/** Tokens of a prompt, by the bytes of its request. `most`: tokens that prompt and answer have at most, where that is known. */
export const promptBound = (bytes: number, most: number | undefined): number =>
  Math.min(Math.ceil(bytes / BYTES_PER_TOKEN), most ?? Number.POSITIVE_INFINITY);

/** Tokens that a request may need, with its prompt. */
export function boundOf(
  path: string,
  { max_tokens, max_completion_tokens, n }: Readonly<Record<string, unknown>>,
  bytes: number,
  most: number | undefined,
): number {
  const prompt = promptBound(bytes, most);
  if (path.endsWith('/embeddings')) return prompt;
  const said = [max_completion_tokens, max_tokens].find(one => Number.isSafeInteger(one) && Number(one) >= 0);
  const usual = path.endsWith('/chat/completions') ? UNSAID : UNSAID_COMPLETION;
  const choices = Number.isSafeInteger(n) ? Math.min(Math.max(1, Number(n)), 128) : 1;
  return prompt + choices * Math.min(Number(said ?? usual), most ?? Number.POSITIVE_INFINITY);
}
