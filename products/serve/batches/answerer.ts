/** Who answers the lines of a batch: this server, over its pool (answer-here.ts), or workers (answer-by-workers.ts). */
import type { EndpointPool } from '../../../engine/asking/pool/part.ts';
import type { PoolAsked } from '../../../engine/running/run.ts';
import type { OptionsOfStage } from '../../../engine/running/stage-options.ts';
import type { Ending } from './batch-output.ts';
import type { BatchRecord } from './batch-state.ts';

export interface Answering {
  /** what answers the lines */
  placed: OptionsOfStage;
  openPool(asked: PoolAsked): EndpointPool;
  /** Asks nothing more; what is under way may finish. */
  stop(): void;
  /** Nothing is waited for any more. */
  abort(): void;
}

export interface AnsweringOptions {
  record: BatchRecord;
  /** of the batch */
  folder: string;
  /** why the rest is not asked; null while it is */
  ending(): Ending | null;
  /** told the tokens of answers that were asked for now */
  onTokens(tokens: number): void;
}

/** bytes that an answer may have on the wire at most, and of an item beside its request and its answer */
const MOST_ANSWER = 16 * 1024 * 1024;
const ROOM = 64 * 1024;

/** Bytes of a line with its answer; `maxLine` without. */
export const withAnswer = (maxLine: number): number => maxLine + MOST_ANSWER + ROOM;
