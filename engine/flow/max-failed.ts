/**
 * A run in which everything fails is stopped before it has been paid for (`--max-failed`). By default it stops where the
 * first 200 items all fail; what is left can be asked once the cause is mended.
 */
import { nameIn, problemOf } from '../core/item/account.ts';
import type { Code } from '../core/item/codes.ts';
import { usageError } from '../core/item/failure.ts';
import { type Failure, failureOf, type Item, idOf, isAnswered } from '../core/item/item.ts';
import { counted, number, shown } from '../core/item/wording.ts';

/** So many items in a row do not fail by chance: where 19 of 20 fail, that is one run in 28,000. */
const FIRST = 200;
/** As many items have to be begun before a share of them is judged. */
const LEAST_JUDGED = 200;
/** Causes that are named, the most frequent first. */
const MOST_CAUSES = 3;

/**
 * A model or a server has worked on these, and in vain. What a line is refused for before that costs nothing, and says
 * nothing of other lines: a batch may begin with all those that are too long.
 */
const PAID: ReadonlySet<string> = new Set<Code>([
  'no-valid-answer',
  'zero-confidence',
  'answer-too-long',
  'no-answer',
  'line-too-long',
  'call-failed',
  'call-timeout',
  'call-quarantined',
  'call-crossed',
]);

/** `all`: the first ones all fail; else a number, or a share (0 to 1), of items that fail. */
export type MaxFailed = 'all' | 'none' | { items: number } | { share: number };

/** Exit 64 where it is neither a number from 1 on, nor a percentage, nor `none`. */
export function maxFailedOf(text: string | undefined): MaxFailed {
  if (text === undefined) return 'all';
  if (text === 'none') return 'none';
  const share = /^(\d{1,3}(?:\.\d+)?)%$/.exec(text)?.[1];
  if (share !== undefined && Number(share) > 0 && Number(share) <= 100) return { share: Number(share) / 100 };
  if (/^[1-9]\d{0,14}$/.test(text)) return { items: Number(text) };
  throw usageError(
    `--max-failed: expected a number of items (1 stops at the first that fails), a share such as 20%, or none, found '${text}'`,
  );
}

export interface FailingWatch {
  /** An item begins to be asked; what is returned is handed what became of it. */
  begin(item: Item): (after: Item) => void;
}

/** `stop` is called once, with what was expected and what was found. */
export function watchFailing(most: MaxFailed, stop: (message: string) => void): FailingWatch {
  const causes = new Map<string, { times: number; first: string }>();
  let begun = 0;
  let failed = 0;
  let isOver = most === 'none';
  // items come back in any order, and those that fail are often the fastest: so they count in the order in which they began
  const back = new Map<number, 'failed' | 'passed'>();
  let settled = 0;
  let inVain = 0;

  function over(message?: string): void {
    isOver = true;
    back.clear();
    if (message !== undefined) stop(message);
  }

  function note(item: Item, failure: Failure): void {
    const { code, agent, message } = failure;
    const problem = problemOf(item, failure);
    const cause = `${code}${problem === undefined ? '' : ` (${problem})`}${agent === undefined ? '' : ` of ${agent}`}`;
    const name = nameIn(causes, cause);
    const known = causes.get(name);
    if (known) known.times += 1;
    else causes.set(name, { times: 1, first: `${shown(String(idOf(item)))}: ${message.slice(0, 400)}` });
  }

  function told(): string {
    const most = [...causes].sort((a, b) => b[1].times - a[1].times).slice(0, MOST_CAUSES);
    const words = most.map(([name, { times }]) => (causes.size > 1 ? `${number(times)} ${name}` : name));
    return `${words.join(', ')}\nthe first: ${most[0]?.[1].first}`;
  }

  function judgeFirst(entry: number, outcome: 'failed' | 'passed'): void {
    back.set(entry, outcome);
    for (let next = back.get(settled); next !== undefined; next = back.get(settled)) {
      back.delete(settled++);
      if (next === 'failed') inVain += 1;
    }
    if (inVain >= FIRST)
      over(`expected answers, found none: the first ${FIRST} items that were asked all failed: ${told()}`);
  }

  function judge(entry: number, before: Item, after: Item): void {
    const failure = after === before ? undefined : failureOf(after); // it may have failed in an earlier run
    if (failure === undefined) {
      if (most === 'all') return answersIn(after) > answersIn(before) ? over() : judgeFirst(entry, 'passed');
      return;
    }
    if (failure.code === 'interrupted') return;
    const isPaid = PAID.has(failure.code);
    if (most !== 'all' || isPaid) note(after, failure);
    if (most === 'all') return judgeFirst(entry, isPaid ? 'failed' : 'passed');
    failed += 1;
    if (typeof most === 'string') return;
    const isTooMany =
      'items' in most ? failed >= most.items : failed >= most.share * Math.max(begun, LEAST_JUDGED);
    if (!isTooMany) return;
    const expected =
      'items' in most
        ? `fewer than ${counted(most.items, 'failed item')}`
        : `less than ${100 * most.share} % of items to fail`;
    over(
      `expected ${expected} (--max-failed), found ${number(failed)} of ${number(begun)} that were begun: ${told()}`,
    );
  }

  return {
    begin(before) {
      const entry = begun++;
      return after => {
        if (!isOver) judge(entry, before, after);
      };
    },
  };
}

/** A line may be anything until a stage has looked at it. */
function answersIn({ steps, decision }: Item): number {
  const listed: unknown[] = Array.isArray(steps) ? [...steps, decision] : [decision];
  return listed.filter(step => typeof step === 'object' && step !== null && isAnswered(step as never)).length;
}
