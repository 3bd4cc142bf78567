/** What a run has seen, in typed arrays: millions of gaps between tokens would be slow and large as objects. */
import type { Code } from '../../../engine/core/item/codes.ts';
import type { Answered, Failed, Outcome } from './timed-answer.ts';

const BLOCK = 4_096;

/** A list of numbers that grows by blocks: doubling would stop the client in the middle of a run. */
export interface Column {
  readonly length: number;
  push(value: number): void;
  values(): Float64Array;
  /** the last `count` of them */
  recent(count: number): Float64Array;
}

export function column(): Column {
  const blocks: Float64Array[] = [];
  let length = 0;
  return {
    get length() {
      return length;
    },
    push(value) {
      const at = length % BLOCK;
      if (at === 0) blocks.push(new Float64Array(BLOCK));
      (blocks.at(-1) as Float64Array)[at] = value;
      length++;
    },
    values() {
      const all = new Float64Array(length);
      for (const [at, block] of blocks.entries())
        all.set(block.subarray(0, Math.min(BLOCK, length - at * BLOCK)), at * BLOCK);
      return all;
    },
    recent(count) {
      const from = Math.max(0, length - count);
      return Float64Array.from(
        { length: length - from },
        (_, i) => blocks[Math.floor((from + i) / BLOCK)]?.[(from + i) % BLOCK] as number,
      );
    },
  };
}

/** One number a request that succeeded; ms, or tokens. NaN where there is none. */
const COLUMNS = [
  'due',
  'sent',
  'end',
  'ttft',
  'firstEvent',
  'firstAnswer',
  'e2el',
  'tpot',
  'prompt',
  'completion',
  'cached',
] as const;
export type ColumnName = (typeof COLUMNS)[number];

/** Failures that a person counts together. */
export interface FailureCount {
  code: Code;
  cause: string;
  count: number;
  /** of the first */
  message: string;
}

/** Causes that are counted apart; a server that words each one differently must not fill the memory. */
const MOST_CAUSES = 64;

/** What vLLM's --save-detailed has of each request, in the order of their ends. */
export interface Detail {
  input: number;
  output: number;
  ttft: number;
  itl: readonly number[];
  latency: number;
  start: number;
  queue: number;
  text: string;
  error: string;
}

export interface Samples {
  add(outcome: Outcome): void;
  readonly completed: number;
  /** without those that were stopped */
  readonly failed: number;
  readonly incomplete: number;
  /** answers whose tokens the server did not count */
  readonly uncounted: number;
  readonly coalesced: number;
  /** of those that succeeded, as the server counted them */
  readonly outputTokens: number;
  /** events with content, of those that succeeded */
  readonly events: number;
  failures(): FailureCount[];
  of(name: ColumnName): Float64Array;
  /** of the last `count` requests that succeeded */
  recent(name: ColumnName, count: number): Float64Array;
  /** gaps between the events with content of one answer, of all of them; ms */
  gaps(): Float64Array;
  /** events with content in each second from the start on */
  perSecond(): readonly number[];
  /** when each request was sent and ended, of all: what ran at once is counted by it */
  spans(): readonly (readonly [sent: number, end: number])[];
  details(): readonly Detail[];
}

/** `start` is when the run began, on the clock of the outcomes. */
export function newSamples({ start, isDetailed }: { start: number; isDetailed: boolean }): Samples {
  const columns = new Map<ColumnName, Column>(COLUMNS.map(name => [name, column()]));
  const gaps = column();
  const seconds: number[] = [];
  const spans: [number, number][] = [];
  const failures = new Map<string, FailureCount>();
  const details: Detail[] = [];
  let [completed, failed, incomplete, uncounted, coalesced, events, tokens] = [0, 0, 0, 0, 0, 0, 0];
  const put = (name: ColumnName, value: number): void => columns.get(name)?.push(value);

  function addAnswer(answer: Answered): void {
    const { contents, usage } = answer;
    completed++;
    if (usage === null) uncounted++;
    coalesced += answer.coalesced;
    events += contents.length;
    tokens += usage?.completion ?? 0;
    for (const name of ['due', 'sent', 'end', 'ttft', 'firstEvent', 'firstAnswer', 'e2el', 'tpot'] as const)
      put(name, answer[name]);
    put('prompt', usage?.prompt ?? Number.NaN);
    put('completion', usage?.completion ?? Number.NaN);
    put('cached', usage?.cached ?? Number.NaN);
    for (let i = 0; i < contents.length; i++) {
      const at = contents[i] as number;
      if (i > 0) gaps.push(at - (contents[i - 1] as number));
      const second = Math.floor((at - start) / 1000);
      seconds[second] = (seconds[second] ?? 0) + 1;
    }
    if (isDetailed)
      details.push({
        input: usage?.prompt ?? 0,
        output: usage?.completion ?? 0,
        ttft: (Number.isNaN(answer.ttft) ? 0 : answer.ttft) / 1000,
        itl: contents.slice(1).map((at, i) => (at - (contents[i] as number)) / 1000),
        latency: answer.e2el / 1000,
        start: (answer.sent - start) / 1000,
        queue: (answer.sent - answer.due) / 1000,
        text: answer.text ?? '',
        error: '',
      });
  }

  function addFailure({ code, cause, message, isIncomplete, sent, due }: Failed): void {
    if (isIncomplete) incomplete++;
    else failed++;
    const known = failures.size < MOST_CAUSES || failures.has(`${code} ${cause}`);
    const key = known ? `${code} ${cause}` : 'others';
    const one = failures.get(key);
    if (one) one.count++;
    else failures.set(key, { code, cause: known ? cause : 'other causes', count: 1, message });
    if (isDetailed)
      details.push({
        input: 0,
        output: 0,
        ttft: 0,
        itl: [],
        latency: 0,
        start: (sent - start) / 1000,
        queue: (sent - due) / 1000,
        text: '',
        error: message,
      });
  }

  return {
    add(outcome) {
      spans.push([outcome.sent, outcome.end]);
      if (outcome.ok) addAnswer(outcome);
      else addFailure(outcome);
    },
    get completed() {
      return completed;
    },
    get failed() {
      return failed;
    },
    get incomplete() {
      return incomplete;
    },
    get uncounted() {
      return uncounted;
    },
    get coalesced() {
      return coalesced;
    },
    get outputTokens() {
      return tokens;
    },
    get events() {
      return events;
    },
    failures: () => [...failures.values()].sort((a, b) => b.count - a.count),
    of: name => (columns.get(name) as Column).values(),
    recent: (name, count) => (columns.get(name) as Column).recent(count),
    gaps: () => gaps.values(),
    perSecond: () => Array.from(seconds, count => count ?? 0),
    spans: () => spans,
    details: () => details,
  };
}
