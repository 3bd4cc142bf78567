/** What is known of servers, in numbers and in words, for who says what holds a run up. */

import type { ConcurrencyLevel, EndpointStats } from '../../asking/pool/pool-stats.ts';
import { counted, cut, number, percent, timeWords } from '../../core/item/wording.ts';
import { visible } from '../../core/json/visible.ts';

/** Answers from which on a level says what a server makes, and how fast it can be. */
const MIN_LEVEL_ANSWERS = 4;
const MIN_OTHER_ANSWERS = 2;
/** A level is lower than another if it has so many times fewer calls. */
const HALF = 1.7;
/** Twice the calls bring less than this times the answers: the server is full. */
const GAIN = 1.3;

/**
 * How many calls a server takes at a time, as its answers tell; null where more calls still bring more answers, or too
 * few answers are there to say. With n calls there, itself among them, an answer takes t(n) a token, so the server makes
 * n / t(n) (Little's law, L = λW). Where twice as many calls bring no more of that, they wait for each other, and it takes
 * as many at a time as it would need to make the most at the speed of its fastest answers.
 */
export function slotsOf(levels: readonly ConcurrencyLevel[]): number | null {
  const seen = levels.map(({ calls, answers, ms, tokens }) => ({
    answers,
    calls: calls / answers,
    each: ms / (tokens || answers),
  }));
  const madeBy = ({ calls, each }: (typeof seen)[number]): number => calls / each;
  const known = seen.filter(({ answers }) => answers >= MIN_LEVEL_ANSWERS);
  const top = known.at(-1);
  const lower = known.filter(({ calls }) => top !== undefined && calls <= top.calls / HALF);
  if (top === undefined || lower.length === 0) return null;
  // as a power of the calls: 1 where none waits for another, 0 where all do. The least over the lower levels, for between
  // one and two rounds of all places the second waits, and nothing has been gained yet
  const gains = lower.map(one => Math.log(madeBy(top) / madeBy(one)) / Math.log(top.calls / one.calls));
  if (Math.min(...gains) > Math.log2(GAIN)) return null;
  const fastest = Math.min(
    ...seen.filter(({ answers }) => answers >= MIN_OTHER_ANSWERS).map(({ each }) => each),
  );
  return Math.max(1, Math.round(Math.max(...known.map(madeBy)) * fastest));
}

type ServerView = Pick<EndpointStats, 'url' | 'inFlight' | 'oldest' | 'load' | 'answered'>;

/** `http://gpu2:8005/v1: 3 calls there, the oldest for 40 s; it says …, and 1 more with calls` */
export function oldestWords(there: readonly ServerView[]): string {
  const { url, inFlight, oldest, load, answered } = there.reduce((old, one) =>
    (one.oldest ?? 0) > (old.oldest ?? -1) ? one : old,
  );
  const said = load
    ? `; it says ${number(load.running)} running, ${number(load.waiting)} waiting, KV ${percent(load.kv, 1)}`
    : '';
  const more = there.length > 1 ? `, and ${there.length - 1} more with calls` : '';
  const never = answered === 0 ? '; it has answered none yet' : '';
  return `${url}: ${counted(inFlight, 'call')} there, the oldest for ${timeWords(oldest ?? 0)}${never}${said}${more}`;
}

/** Why endpoints cannot be asked: one of them, and how many others. */
export function absent(
  endpoints: readonly Pick<EndpointStats, 'url' | 'state' | 'cause' | 'pausedFor' | 'failed'>[],
): string {
  const first = endpoints.find(({ state }) => state !== 'up') ?? endpoints[0];
  if (first === undefined) return 'none is named';
  const { url, state, cause, pausedFor, failed } = first;
  const others = endpoints.length > 1 ? `, and ${endpoints.length - 1} more` : '';
  if (state === 'up') {
    // it is back: what it did meanwhile is in its counts
    const [kind, times] = Object.entries(failed).sort((a, b) => b[1] - a[1])[0] ?? [];
    return `${url} is up again${kind === undefined ? '' : `, after ${number(times as number)} ${kind}`}${others}`;
  }
  const how = state === 'paused' ? `paused for another ${timeWords(pausedFor)}` : state;
  return `${url} is ${how}${cause === '' ? '' : ` (${visible(cut(cause, 200))})`}${others}`;
}

export function sumOf<A>(list: readonly A[], of: (one: A) => number): number {
  return list.reduce((sum, one) => sum + of(one), 0);
}
