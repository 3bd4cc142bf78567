/**
 * What the lines of a batch may use, of the budget of the key that made it. A line waits while a minute is used up, or while
 * calls in flight may need the rest of the day; once the day is used up the batch ends, and its other lines say so.
 */
import type { Call } from '../../../engine/core/item/call.ts';
import type { Access } from '../access.ts';
import { boundOf } from '../token-bounds.ts';
import type { BatchRecord } from './batch-state.ts';

export interface LineBudget {
  /** Resolves once the call may be asked: gives its place back when it has ended. At once where `isOver` says that nothing is asked any more. */
  begin(call: Call, most: number | undefined, isOver: () => boolean): Promise<() => void> | (() => void);
  /** Tokens of an answer that was asked for now. */
  charge(tokens: number): void;
  /** Whoever waits looks again. */
  wake(): void;
}

const nothing = (): void => {};

/** `onSpent` is told when the day is used up. */
export function lineBudget(
  { id, key }: Pick<BatchRecord, 'id' | 'key'>,
  { budgets, rulesOf }: Pick<Access, 'budgets' | 'rulesOf'>,
  onSpent: () => void,
): LineBudget {
  async function waited(owner: string, bound: number, isOver: () => boolean): Promise<() => void> {
    for (;;) {
      if (isOver()) return nothing;
      const got = budgets.beginLine(owner, rulesOf(owner), bound);
      if (typeof got === 'function') return got;
      if (got.isSpent) {
        onSpent();
        return nothing;
      }
      await budgets.changed();
    }
  }
  return {
    begin(call, most, isOver) {
      if (key === null) return nothing;
      const { rpm, tpm, tokens_per_day } = rulesOf(key);
      if (rpm === undefined && tpm === undefined && tokens_per_day === undefined) return nothing;
      return waited(
        key,
        boundOf(call.path, JSON.parse(call.body.toString()), call.body.length, most),
        isOver,
      );
    },
    charge: tokens => budgets.charge(key, tokens, id),
    wake: () => budgets.look(),
  };
}
