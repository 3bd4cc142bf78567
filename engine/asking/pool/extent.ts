/** How much a call may write, and how much it has to read: what its body says, and what the server's context holds. */
import type { Call } from '../../core/item/call.ts';
import { writesNothing } from '../../core/item/dialects.ts';
import { isObject, type JsonObject } from '../../core/json/pointer.ts';

export interface Extent {
  /** tokens, of all its choices together; 0 where its URL writes none, null where nothing says how many */
  write: number | null;
  /** its body says so, and not only the context of the model */
  isSaid: boolean;
  /** bytes of its body */
  read: number;
}

/** Tokens that an answer is taken to need where nothing says how many it may have. */
export const ASSUMED_TOKENS = 4_096;
/** vLLM takes no more sequences of one request (VLLM_MAX_N_SEQUENCES). */
const MOST_SEQUENCES = 16_384;

/** `context`: tokens of prompt and answer together that the model takes there, where the server says so. */
export function extentOf({ path, body }: Pick<Call, 'path' | 'body'>, context: number | undefined): Extent {
  const read = body.length;
  if (writesNothing(path)) return { write: 0, isSaid: true, read };
  const asked = objectIn(body);
  const { max_completion_tokens, max_tokens, max_output_tokens } = asked;
  const said = [max_completion_tokens, max_tokens, max_output_tokens].find(isCount);
  const each = Math.min(said ?? Number.POSITIVE_INFINITY, context ?? Number.POSITIVE_INFINITY);
  const write = Number.isFinite(each) ? each * sequencesOf(asked) : null;
  return { write, isSaid: said !== undefined, read };
}

/** Sequences that are written for one request: `n` or `best_of` for each of its prompts. */
function sequencesOf({ n, best_of, prompt }: JsonObject): number {
  const choices = Math.max(isCount(n) ? n : 1, isCount(best_of) ? best_of : 1);
  // a list of numbers is one prompt, as tokens
  const prompts = Array.isArray(prompt) && typeof prompt[0] !== 'number' ? prompt.length : 1;
  return Math.min(MOST_SEQUENCES, choices * Math.max(1, prompts));
}

const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) > 0;

function objectIn(body: Buffer): JsonObject {
  try {
    const value: unknown = JSON.parse(body.toString());
    return isObject(value) ? value : {};
  } catch {
    return {}; // a form, such as that of an upload
  }
}
