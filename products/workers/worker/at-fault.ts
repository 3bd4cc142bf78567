/**
 * Whether it is the worker that is at fault, and not the line: a line that fails here is answered with its failure, once and
 * for all, so what another worker could do better goes back unanswered.
 */
import { type Answer, type Call, CallFailure } from '../../../engine/core/item/call.ts';
import { type Fatal, unavailable } from '../../../engine/core/item/failure.ts';
import type { Task } from '../protocol.ts';

export interface GuardOptions {
  /** An endpoint refused the key, or has not the model that it had: in words. */
  onUnfit(why: string): void;
  /** Nothing was ever answered, and much refused. */
  onUseless(error: Fatal): void;
}

/** Refusals without any answer after which a worker gives up, as a run does. */
const MOST_REFUSED = 20;

export function createGuard({ onUnfit, onUseless }: GuardOptions) {
  let answered = false;
  let refused = 0;

  const unasked = (message: string): CallFailure => new CallFailure('interrupted', message);

  /** What the call is told that failed so. */
  function judged(failure: CallFailure, { raw }: Call, { models }: Task): CallFailure {
    const { code, message, ofKey } = failure;
    if (ofKey) {
      onUnfit(`an endpoint refuses to be asked: ${message}`);
      return unasked(message);
    }
    // the coordinator gives work to those that have its models: this one had it a moment ago
    if (code === 'no-such-model' && models.length > 0) {
      onUnfit(message);
      return unasked(message);
    }
    if (code !== 'call-refused' || raw || answered) return failure;
    refused += 1;
    if (refused < MOST_REFUSED) return failure;
    onUseless(
      unavailable(
        `expected answers, found none: ${refused} calls were refused, the last with: ${message}\n` +
          'fix what the server complains about, then start the worker again',
      ),
    );
    return unasked(message);
  }

  return async (call: Call, task: Task, ask: (call: Call) => Promise<Answer>): Promise<Answer> => {
    try {
      const answer = await ask(call);
      answered ||= !answer.replayed;
      return answer;
    } catch (error) {
      throw error instanceof CallFailure ? judged(error, call, task) : error;
    }
  };
}
