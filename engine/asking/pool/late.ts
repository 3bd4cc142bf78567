/**
 * Looks at the calls that endpoints have, and drops those that had their time: without an answer, as patience.ts judges;
 * and with one that has begun and does not come.
 */
import { counted } from '../../core/item/wording.ts';
import { NoAnswerInTime, seconds } from '../endpoints/endpoint-words.ts';
import type { Timing } from '../endpoints/pool-clock.ts';
import { noteHeard } from './mute.ts';
import { createJudge, LIVE_SHARE } from './patience.ts';
import type { Endpoint, Ticket } from './pool-state.ts';
import { noteTurn, postponeSigns } from './signs-of-work.ts';

/** `suspendedMs`: how long this process was suspended, which is nobody's fault. */
export function dropLateCalls(
  endpoints: readonly Endpoint[],
  timing: Timing,
  now: number,
  suspendedMs: number,
): void {
  const judge = createJudge(endpoints, timing, now);
  const { timeout, timeoutFloor, timeoutBorrowed, timeoutUnknown } = timing;
  const least = timeout ?? Math.min(timeoutFloor, timeoutBorrowed, timeoutUnknown);
  for (const endpoint of endpoints) {
    if (suspendedMs > 0) postponeSigns(endpoint, suspendedMs);
    // Backwards, because a call that is dropped while it connects leaves at once and another takes its index.
    for (let i = endpoint.running.length - 1; i >= 0; i--) {
      const ticket = endpoint.running[i] as Ticket;
      if (suspendedMs > 0) postpone(ticket, suspendedMs);
      if (noteReceived(ticket, now)) noteHeard(endpoint, now);
      noteTurn(ticket.turn, ticket.sentAt, endpoint.signs);
      const overrun = ticket.exchange?.overrun ?? null;
      if (overrun !== null) {
        ticket.exchange?.abort(overrun);
        continue;
      }
      // a stream comes as fast as the model writes
      const isStream = ticket.begunAt !== null && ticket.call.sink !== undefined;
      const { live } = ticket.call;
      const soonest = live ? Math.min(least, live.answer * LIVE_SHARE) : least;
      const isOld = now - ticket.sentAt > soonest && !isStream;
      const why = (isOld ? judge(endpoint, ticket) : null) ?? slowness(ticket, isStream, timing, now);
      if (why !== null) ticket.exchange?.abort(new NoAnswerInTime(why));
    }
  }
}

/** As if all of it had come `ms` later. */
function postpone(ticket: Ticket, ms: number): void {
  ticket.askedAt += ms;
  ticket.sentAt += ms;
  ticket.turn.from += ms;
  ticket.receivedAt += ms;
  if (ticket.begunAt !== null) ticket.begunAt += ms;
  if (ticket.firstSentAt !== null) ticket.firstSentAt += ms;
}

/** What has come of its answer since the last look; whether there was any. */
function noteReceived(ticket: Ticket, now: number): boolean {
  const received = ticket.exchange?.received ?? null;
  if (received === null) {
    ticket.begunAt = null;
    return false;
  }
  const isHeld = ticket.call.sink?.isHeld === true;
  if (ticket.begunAt !== null && received === ticket.received && !isHeld) return false;
  ticket.begunAt ??= now;
  ticket.received = received;
  ticket.receivedAt = now;
  return true;
}

/** Why an answer that has begun is given up, in words; null while it is not. */
function slowness(
  { begunAt, received, receivedAt }: Ticket,
  isStream: boolean,
  { begunGap, leastRate }: Timing,
  now: number,
): string | null {
  if (begunAt === null) return null;
  if (now - receivedAt > begunGap) return `the answer began, and nothing more came for ${seconds(begunGap)}`;
  if (isStream) return null;
  // as Apache's mod_reqtimeout judges those who send: some time for the first bytes, and more for many
  const took = now - begunAt;
  if (took <= begunGap + (received / leastRate) * 1000) return null;
  return `the answer came too slowly: ${counted(received, 'byte')} within ${seconds(took)}`;
}
