/**
 * Servers that say nothing at all, to a call or to a GET: frozen ones (`SIGSTOP`, a machine that is suspended), and those
 * behind a network that swallows what it is sent. Their connections stay open, so that nothing else tells. A server whose
 * engine hangs answers a GET all the same, and is no case of this: patience.ts finds that one by its calls.
 */
import { medianOf, slowestOf, type Timing } from '../endpoints/pool-clock.ts';
import type { Endpoint } from './pool-state.ts';

/** Looks in a row that tell something, of a server that answers while it has calls, and of one that does not. */
const LOOKS = 3;
/** Where nothing is known of a server that has calls: so many times as long. */
const UNKNOWN_FACTOR = 4;

type Looked = Pick<Endpoint, 'signs' | 'running'>;

/** It said something: an answer, a refusal, a piece of a stream. */
export function noteHeard({ signs }: Pick<Endpoint, 'signs'>, now: number): void {
  signs.heardAt = now;
}

/** It was looked at, by a GET. `isHeard`: it said something, whatever that was. */
export function noteLooked({ signs, running }: Looked, isHeard: boolean, now: number): void {
  if (!isHeard) {
    signs.muteLooks++;
    return;
  }
  if (signs.muteLooks > 0) signs.heardAtWork = 0;
  else if (running.length > 0) signs.heardAtWork++;
  signs.muteLooks = 0;
  signs.heardAt = now;
}

/** Whether it is taken for gone: a few looks and all that it was asked had no answer for long enough. */
export function isMute(endpoint: Endpoint, timing: Timing, now: number): boolean {
  const { signs, running } = endpoint;
  const limit = running.length === 0 ? timing.timeoutFloor : muteFor(endpoint, timing);
  return signs.muteLooks >= LOOKS && now - signs.heardAt >= limit;
}

/**
 * How long it may be mute, in ms, while it has calls. One with a single thread says nothing while it works, so that only of
 * those that were heard meanwhile it is known that they are gone; the others may take as long as without a sign of work.
 */
function muteFor({ signs, latencies }: Endpoint, timing: Timing): number {
  const { timeoutFloor, timeoutFactor, answersToKnow } = timing;
  if (signs.heardAtWork >= LOOKS) return timeoutFloor;
  if (latencies.count === 0) return UNKNOWN_FACTOR * timeoutFloor;
  const usual = latencies.count < answersToKnow ? slowestOf(latencies) : medianOf(latencies);
  return Math.max(timeoutFloor, timeoutFactor * usual);
}

/** Whether it left a call unanswered, and a look too, and was not heard since: nobody who waits is sent there. */
export function isMuteSoFar({ signs }: Pick<Endpoint, 'signs'>): boolean {
  return signs.muteLooks > 0 && signs.unansweredAt > signs.heardAt;
}

/**
 * Whether its silence tells who waits for a call that it is gone: it answers a look no more, and is not one with a single
 * thread that is known to take `ms` or longer for an answer.
 */
export function isMuteFor({ signs, latencies }: Pick<Endpoint, 'signs' | 'latencies'>, ms: number): boolean {
  return (
    signs.muteLooks > 0 && (signs.heardAtWork >= LOOKS || latencies.count === 0 || slowestOf(latencies) < ms)
  );
}

/** Drops the calls that it has, as if it had died: they are asked elsewhere. */
export function dropCalls({ running }: Pick<Endpoint, 'running'>, why: string): void {
  // backwards, since each leaves at once
  for (let i = running.length - 1; i >= 0; i--) running[i]?.exchange?.abort(new Error(why));
}
