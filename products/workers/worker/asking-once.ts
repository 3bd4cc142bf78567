/**
 * Two parts may have the same lines for a while, where a coordinator that was started again cut one that it did not know to
 * be held. A call that one of them has under way the other one waits for.
 */
import { type Answer, type Call, CallFailure } from '../../../engine/core/item/call.ts';

const isInterrupted = (error: unknown): boolean =>
  error instanceof CallFailure && error.code === 'interrupted';

/** For one of the parts; `asked` are the calls that all of them have under way, by their keys. */
export function askingOnce(asked: Map<string, Promise<Answer>>) {
  let hasLeft = false;
  let go: (reason: CallFailure) => void = () => {};
  const left = new Promise<never>((_resolve, reject) => {
    go = reject;
  });
  left.catch(() => {}); // who waits for nobody does not hear of it
  return {
    async once(call: Call, ask: (call: Call) => Promise<Answer>): Promise<Answer> {
      for (let same = asked.get(call.key); same !== undefined && !hasLeft; same = asked.get(call.key)) {
        try {
          return { ...(await Promise.race([same, left])), replayed: true };
        } catch (error) {
          // with the part that had asked it: then this one asks it itself
          if (!isInterrupted(error)) throw error;
        }
      }
      if (hasLeft) return ask(call);
      const answer = ask(call).finally(() => {
        if (asked.get(call.key) === answer) asked.delete(call.key);
      });
      asked.set(call.key, answer);
      return answer;
    },
    /** This part asks nothing more: `stop` does it, and nobody is waited for. */
    leave(stop: () => void): void {
      stop();
      hasLeft = true;
      go(new CallFailure('interrupted', 'The part was handed back before this call was answered.'));
    },
  };
}
