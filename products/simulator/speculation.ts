/**
 * Speculative decoding as an acceptance rate: of each sequence that decodes a step checks `drafted` tokens beside the one
 * that follows, and keeps those up to the first that the model would not have said. How many is counted in sixteenths of a
 * token, the same number at each step: no draw, so that many steps are still one sum. What one sequence is luckier in than
 * another is not modelled.
 */

export interface Speculation {
  /** tokens that are drafted for a sequence and step: vLLM's num_speculative_tokens */
  drafted: number;
  /** sixteenths of a token that a sequence makes in a step, at least 16: vLLM's mean acceptance length */
  made: number;
}

/** Parts of a token that are told apart: of 1.5 to 16 tokens a step at most 2 % are lost in rounding. */
export const PARTS = 16;
/** With more, a sequence might need two blocks of the KV cache for a step. */
export const MOST_DRAFTED = 15;

/**
 * `acceptance` is what vLLM's log calls the average draft acceptance rate, and its counters say: accepted tokens over drafted
 * ones, 0 to 1. Where each position is accepted with chance α once those before it are, it is (α + … + α^k) / k (Leviathan et
 * al., 2023).
 */
export function speculating(drafted: number, acceptance: number): Speculation {
  return { drafted, made: Math.round(PARTS * (1 + drafted * acceptance)) };
}

/** tokens that a step computes of a sequence that decodes */
export const computedIn = (speculation: Speculation | undefined): number => 1 + (speculation?.drafted ?? 0);

/** tokens that a step makes of it */
export const madeIn = (speculation: Speculation | undefined): number =>
  speculation ? speculation.made / PARTS : 1;
