/**
 * A batch: what of it is kept, the states that the API knows, and which follows which.
 *
 *   validating ─► in_progress ─► finalizing ─► completed
 *       │  │          │  └─────────────────► expired
 *       │  └────────► cancelling ──────────► cancelled
 *       └─► failed                            (failed is of validation alone)
 */
import type { JsonObject } from '../../../engine/core/json/pointer.ts';
import type { Models } from '../gateway/served-models.ts';

export const STATUSES = [
  ...(['validating', 'failed', 'in_progress', 'finalizing', 'completed'] as const),
  ...(['expired', 'cancelling', 'cancelled'] as const),
];
export type Status = (typeof STATUSES)[number];

const NEXT: Readonly<Record<Status, readonly Status[]>> = {
  validating: ['in_progress', 'failed', 'cancelling'],
  in_progress: ['finalizing', 'expired', 'cancelling'],
  finalizing: ['completed'],
  cancelling: ['cancelled'],
  ...{ failed: [], completed: [], expired: [], cancelled: [] },
};

/** Nothing follows them. */
export const isFinal = (status: Status): boolean => NEXT[status].length === 0;

export interface BatchError {
  code: string;
  message: string;
  /** 1-based */
  line: number | null;
  param: string | null;
}

export interface Counts {
  total: number;
  completed: number;
  failed: number;
}

/** Why lines have failed. */
export interface FailureGroup {
  /** of the line, or `HTTP 400` where a server refused it */
  code: string;
  count: number;
  examples: { custom_id: string; message: string }[];
}

/** tokens of all answers */
export interface BatchUsage {
  input: number;
  cached: number;
  output: number;
  reasoning: number;
}

/** The files of a batch that has ended: ids that they have, or will have once they are placed; null where there is none. */
export interface Outputs {
  output: string | null;
  error: string | null;
  /** bytes of its lines, before they are placed */
  bytes?: { output: number; error: number };
}

export type Times = Partial<Record<`${Status}_at`, number>>;

/** What is kept of a batch. Times are Unix seconds. */
export interface BatchRecord {
  id: string;
  owner: string;
  /** of the key that made it, whose tokens these are; null without keys */
  key: string | null;
  endpoint: string;
  input_file_id: string;
  /** as it was given, and in seconds */
  completion_window: string;
  window: number;
  status: Status;
  created_at: number;
  times: Times;
  errors: BatchError[];
  counts: Counts;
  usage: BatchUsage;
  /** of its lines; `errors` are of its validation */
  failures: FailureGroup[];
  metadata: Record<string, string> | null;
  /** the models that its lines name, and the one where it is one */
  models: string[];
  model: string | null;
  /** what the aliases that its lines name stood for when it was validated: for all of it, whatever they stand for since */
  aliases?: Models;
  /** seconds that its files are kept; null for as long as all */
  outputs_kept: number | null;
  /** its lines are all written, and its files have their ids; null until then */
  outputs: Outputs | null;
  /** SHA-256 of the body that made it, and the key that a client gave: one that is sent again makes no second batch */
  asked: { body: string; idempotency: string | null };
  /**
   * When its ledger was removed, for its owner has deleted all of its files; null: as soon as the last of them is gone too.
   * Absent: nobody has asked for it.
   */
  forgotten?: number | null;
  /** Of one that is being deleted: files that go with it. */
  leaving?: string[];
}

/** The record in its next state. A step that the API does not know is a bug. */
export function moved(
  record: BatchRecord,
  status: Status,
  now: number,
  more: Partial<BatchRecord> = {},
): BatchRecord {
  if (!NEXT[record.status].includes(status))
    throw new Error(
      `${record.id}: expected a step that a batch may take, found ${record.status} to ${status}`,
    );
  const times = { ...record.times, [`${status}_at`]: Math.floor(now / 1000) };
  return { ...record, ...more, status, times };
}

/** Unix seconds; of one that has not ended it is 0. */
export const endedAt = ({ status, times }: BatchRecord): number =>
  isFinal(status) ? (times[`${status}_at`] ?? 0) : 0;

export const expiresAt = ({ created_at, window }: BatchRecord): number => created_at + window;

const DAY = 24 * 60 * 60;
/** Of the batches of an owner, one with half the time gets twice as much: it is over with its window, so none starves. */
export const weightOf = ({ window }: BatchRecord): number => DAY / window;

/** As OpenAI shows a batch; files are named once they are there. */
export function shown(record: BatchRecord): JsonObject {
  const { id, endpoint, model, errors, input_file_id, completion_window, status, counts, usage, metadata } =
    record;
  const { outputs, times, created_at } = record;
  const isThere = isFinal(status);
  const { input, cached, output, reasoning } = usage;
  const used = input + output > 0 || status === 'completed';
  return {
    id,
    object: 'batch',
    endpoint,
    model,
    errors: errors.length === 0 ? null : { object: 'list', data: errors as unknown as JsonObject[] },
    input_file_id,
    completion_window,
    status,
    output_file_id: (isThere && outputs?.output) || null,
    error_file_id: (isThere && outputs?.error) || null,
    created_at,
    in_progress_at: times.in_progress_at ?? null,
    expires_at: expiresAt(record),
    finalizing_at: times.finalizing_at ?? null,
    completed_at: times.completed_at ?? null,
    failed_at: times.failed_at ?? null,
    expired_at: times.expired_at ?? null,
    cancelling_at: times.cancelling_at ?? null,
    cancelled_at: times.cancelled_at ?? null,
    request_counts: { ...counts },
    usage: used
      ? {
          input_tokens: input,
          input_tokens_details: { cached_tokens: cached },
          output_tokens: output,
          output_tokens_details: { reasoning_tokens: reasoning },
          total_tokens: input + output,
        }
      : null,
    metadata,
  };
}
