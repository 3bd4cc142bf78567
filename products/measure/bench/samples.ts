/** What a run has seen, in typed arrays: millions of gaps between tokens would be slow and large as objects. */
import type { Code } from '../../../engine/core/item/codes.ts';
import { percentile, sorted } from './bench-statistics.ts';
import type { Answered, Failed, Outcome } from './timed-answer.ts';

const BLOCK = 4_096;

/** A list of numbers that grows by blocks: doubling would stop the client in the middle of a run. */
class Column {
  readonly #blocks: Float64Array[] = [];
  #length = 0;

  push(value: number): void {
    const at = this.#length % BLOCK;
    if (at === 0) this.#blocks.push(new Float64Array(BLOCK));
    (this.#blocks.at(-1) as Float64Array)[at] = value;
    this.#length++;
  }

  values(): Float64Array {
    const all = new Float64Array(this.#length);
    for (const [at, block] of this.#blocks.entries())
      all.set(block.subarray(0, Math.min(BLOCK, this.#length - at * BLOCK)), at * BLOCK);
    return all;
  }

  /** The last `count` of them. */
  recent(count: number): Float64Array {
    const from = Math.max(0, this.#length - count);
    return Float64Array.from(
      { length: this.#length - from },
      (_, i) => this.#blocks[Math.floor((from + i) / BLOCK)]?.[(from + i) % BLOCK] as number,
    );
  }
}

/** One number a request that succeeded; ms, or tokens. NaN where there is none. */
const TIMES = ['due', 'sent', 'end', 'ttft', 'firstEvent', 'firstAnswer', 'e2el', 'tpot'] as const;
const TOKENS = ['prompt', 'completion', 'cached'] as const;
const COLUMNS = [...TIMES, ...TOKENS];
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

export class Samples {
  readonly #start: number;
  readonly #isDetailed: boolean;
  readonly #columns = Object.fromEntries(COLUMNS.map(name => [name, new Column()])) as Record<
    ColumnName,
    Column
  >;
  readonly #gaps = new Column();
  readonly #perSecond: number[] = [];
  readonly #failures = new Map<string, FailureCount>();
  /** when each request was sent and ended, of all: what ran at once is counted by it */
  readonly spans: (readonly [sent: number, end: number])[] = [];
  readonly details: Detail[] = [];
  completed = 0;
  /** without those that were stopped */
  failed = 0;
  incomplete = 0;
  /** answers whose tokens the server did not count */
  uncounted = 0;
  coalesced = 0;
  /** of those that succeeded, as the server counted them */
  outputTokens = 0;
  /** events with content, of those that succeeded */
  events = 0;

  /** `start` is when the run began, on the clock of the outcomes. */
  constructor({ start, isDetailed }: { start: number; isDetailed: boolean }) {
    this.#start = start;
    this.#isDetailed = isDetailed;
  }

  add(outcome: Outcome): void {
    this.spans.push([outcome.sent, outcome.end]);
    if (outcome.ok) this.#addAnswer(outcome);
    else this.#addFailure(outcome);
  }

  #addAnswer(answer: Answered): void {
    const { contents, usage } = answer;
    const columns = this.#columns;
    this.completed++;
    if (usage === null) this.uncounted++;
    this.coalesced += answer.coalesced;
    this.events += contents.length;
    this.outputTokens += usage?.completion ?? 0;
    for (const name of TIMES) columns[name].push(answer[name]);
    for (const name of TOKENS) columns[name].push(usage?.[name] ?? Number.NaN);
    for (let i = 0; i < contents.length; i++) {
      const at = contents[i] as number;
      if (i > 0) this.#gaps.push(at - (contents[i - 1] as number));
      const second = Math.floor((at - this.#start) / 1000);
      this.#perSecond[second] = (this.#perSecond[second] ?? 0) + 1;
    }
    if (!this.#isDetailed) return;
    this.#detail(answer, {
      input: usage?.prompt ?? 0,
      output: usage?.completion ?? 0,
      ttft: (Number.isNaN(answer.ttft) ? 0 : answer.ttft) / 1000,
      itl: contents.slice(1).map((at, i) => (at - (contents[i] as number)) / 1000),
      latency: answer.e2el / 1000,
      text: answer.text ?? '',
    });
  }

  #addFailure(failed: Failed): void {
    const { code, cause, message, isIncomplete } = failed;
    if (isIncomplete) this.incomplete++;
    else this.failed++;
    const isApart = this.#failures.size < MOST_CAUSES || this.#failures.has(`${code} ${cause}`);
    const key = isApart ? `${code} ${cause}` : 'others';
    const counted = this.#failures.get(key);
    if (counted) counted.count++;
    else this.#failures.set(key, { code, cause: isApart ? cause : 'other causes', count: 1, message });
    if (this.#isDetailed) this.#detail(failed, { error: message });
  }

  #detail({ sent, due }: Outcome, more: Partial<Detail>): void {
    const times = { start: (sent - this.#start) / 1000, queue: (sent - due) / 1000 };
    this.details.push({
      ...{ input: 0, output: 0, ttft: 0, itl: [], latency: 0, text: '', error: '' },
      ...times,
      ...more,
    });
  }

  failures(): FailureCount[] {
    return [...this.#failures.values()].sort((a, b) => b.count - a.count);
  }

  readonly of = (name: ColumnName): Float64Array => this.#columns[name].values();

  /** Of the last `count` requests that succeeded. */
  recent(name: ColumnName, count: number): Float64Array {
    return this.#columns[name].recent(count);
  }

  /** Gaps between the events with content of one answer, of all of them; ms. */
  gaps(): Float64Array {
    return this.#gaps.values();
  }

  /** Events with content in each second from the start on. */
  perSecond(): readonly number[] {
    return Array.from(this.#perSecond, count => count ?? 0);
  }
}

/** sent − due of each request that was answered, ms. */
export const lateness = (samples: Pick<Samples, 'of'>): Float64Array => {
  const due = samples.of('due');
  return samples.of('sent').map((at, i) => at - (due[i] as number));
};

/** Rates are those of the last seconds, percentiles those of the last answers; NaN and null where there is none. */
export interface Live {
  seconds: number;
  completed: number;
  failed: number;
  underWay: number;
  requestRate: number;
  tokenRate: number;
  /** ms */
  ttft50: number;
  ttft99: number;
  tpot50: number;
  /** as the servers said last */
  server: { running: number; waiting: number; kv: number | null; gpu: number | null } | null;
}

const WINDOW_MS = 5_000;
/** Answers whose percentiles are shown: sorting more of them would make the client late. */
const RECENT = 500;

export interface Looking {
  samples: Samples;
  start: number;
  now(): number;
  underWay(): number;
  server(): Live['server'];
}

/** Each call looks anew; rates are since a call some seconds ago. */
export function liveOf({ samples, start, now, underWay, server }: Looking): () => Live {
  const marks = [{ at: start, completed: 0, tokens: 0 }];
  return () => {
    const at = now();
    const { completed, outputTokens: tokens } = samples;
    while (marks.length > 1 && (marks[1]?.at as number) <= at - WINDOW_MS) marks.shift();
    const [from] = marks as [(typeof marks)[number]];
    marks.push({ at, completed, tokens });
    const rate = (count: number): number => (at > from.at ? (1000 * count) / (at - from.at) : 0);
    const recent = (name: 'ttft' | 'tpot'): Float64Array =>
      sorted(samples.recent(name, RECENT).filter(value => !Number.isNaN(value)));
    const [ttft, tpot] = [recent('ttft'), recent('tpot')];
    return {
      seconds: (at - start) / 1000,
      completed,
      failed: samples.failed,
      underWay: underWay(),
      requestRate: rate(completed - from.completed),
      tokenRate: rate(tokens - from.tokens),
      ttft50: percentile(ttft, 50),
      ttft99: percentile(ttft, 99),
      tpot50: percentile(tpot, 50),
      server: server(),
    };
  };
}
