/** Why a batch that has not ended is not asked now. */

/**
 * `disk`: paused, and tried again; `endpoint`, `worker`, `queue`: nobody is there to answer; `model`: somebody is, but not
 * for its models; `budget`: its key has used what it may; `turn`: others run before it.
 */
export const REASONS = ['disk', 'endpoint', 'worker', 'queue', 'model', 'budget', 'turn'] as const;
export type Reason = (typeof REASONS)[number];

export interface Waiting {
  reason: Reason;
  words: string;
}
