/**
 * What an agent is shown: the prompt, then each earlier answer under its agent's name. The chain asks with this text,
 * and the `input` of a turn in the legacy document is this text again, so both are built here.
 */
import { wordsOf } from '../../answers/answers-of-line.ts';
import { ItemFailure } from '../../core/item/failure.ts';
import type { Step } from '../../core/item/item.ts';
import type { Agents } from './load-agents.ts';

/** What one answer adds to the context of the agents after it; `words` as `wordsOf` has them. */
export function turnText(display: string, words: string): string {
  return `\n\n${display}:\n${words}`;
}

/**
 * The context after `steps`. A step without an output is never left out: the next agent would answer as if nobody had
 * been asked, and the answer would pass for one of the whole chain. Such an item fails with `no-valid-answer`; a step
 * of an agent that the folder does not have, with `unknown-agent`.
 */
export function contextAfter(prompt: string, steps: readonly Step[], agents: Agents): string {
  let context = prompt;
  for (const { agent, output } of steps) {
    const display = agents.byKey.get(agent)?.display;
    if (display === undefined) {
      throw new ItemFailure(
        'unknown-agent',
        `expected an agent of the agents folder, found a step of '${agent}'`,
        {
          agent,
        },
      );
    }
    if (output === undefined) {
      throw new ItemFailure(
        'no-valid-answer',
        `expected an answer of ${agent} to build on, found a failed step`,
        {
          agent,
        },
      );
    }
    context += turnText(display, wordsOf(output));
  }
  return context;
}

/**
 * Whether a text that an agent was shown holds the prompt. Older scripts may have put words of their own around it, so
 * nothing more can be asked of their turns.
 */
export function showsPrompt(input: string, prompt: string): boolean {
  // a fifth of the time of startsWith, and of a verify it was a tenth
  return input.slice(0, prompt.length) === prompt || input.includes(prompt.trim());
}
