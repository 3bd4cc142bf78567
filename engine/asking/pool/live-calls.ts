/**
 * Calls that somebody waits for: each of them ends within its own limits, whatever the servers do. What batches can wait
 * for (a server that is away, one that refuses for ever or never answers) ends a live call with an error that says why.
 */
import { CallFailure, type LiveLimits } from '../../core/item/call.ts';
import { NoAnswerInTime, seconds } from '../endpoints/endpoint-words.ts';
import { NO_PLACE } from './part.ts';
import type { Ticket } from './pool-state.ts';

/** What to do about a call now: end it, or give up the try that is under way. */
export type Overdue = { ends: CallFailure } | { givesUp: NoAnswerInTime };

/** null while it is within `limits`. `now` and the times of the ticket are ms of the pool's clock. */
export function overdue(ticket: Ticket, limits: LiveLimits, now: number): Overdue | null {
  const { askedAt, sentAt, at, exchange, call, atServers } = ticket;
  const isStream = call.sink !== undefined;
  if (at === null) {
    if (now - askedAt > limits.answer) return { ends: tooLate(limits.answer, ticket) };
    return now - askedAt - atServers > limits.place ? { ends: noPlace(ticket, limits.place) } : null;
  }
  if (isStream && exchange?.passedOn) {
    const begunAt = ticket.begunAt ?? now;
    const why = `The stream had not ended after ${seconds(limits.stream)}.`;
    return now - begunAt > limits.stream ? { ends: new CallFailure('call-timeout', why) } : null;
  }
  if (now - askedAt > limits.answer) return { ends: tooLate(limits.answer, ticket) };
  return isStream && now - sentAt > limits.firstByte
    ? { givesUp: new NoAnswerInTime(`no first byte within ${seconds(limits.firstByte)}`) }
    : null;
}

function tooLate(limit: number, { causes }: Ticket): CallFailure {
  const last = causesOf(causes);
  return new CallFailure('call-timeout', `No answer within ${seconds(limit)}${last && `: ${last}`}.`);
}

/** Where servers sent it away until now, their refusal is the answer. */
function noPlace({ sentAwayWith, causes }: Ticket, limit: number): CallFailure {
  const last = causesOf(causes);
  if (sentAwayWith === null) return new CallFailure('interrupted', NO_PLACE + (last && `: ${last}`));
  const message = `Every model server sent the request away for ${seconds(limit)}: ${last}`;
  const body = { error: { message, type: 'overloaded_error', param: null, code: 'overloaded' } };
  return new CallFailure('call-refused', message, { status_code: sentAwayWith, body });
}

const causesOf = (causes: Ticket['causes']): string => [...new Set(causes?.values())].join('; ');

/** Looks at all live calls of a pool, at each tick. */
export function createLiveCalls(cancel: (ticket: Ticket, why: CallFailure) => void) {
  const open = new Map<Ticket, LiveLimits>();
  return {
    opened(ticket: Ticket): void {
      if (ticket.call.live) open.set(ticket, ticket.call.live);
    },
    ended(ticket: Ticket): void {
      open.delete(ticket);
    },
    sweep(now: number): void {
      for (const [ticket, limits] of open) {
        const due = overdue(ticket, limits, now);
        if (due === null) continue;
        if ('ends' in due) cancel(ticket, due.ends);
        else ticket.exchange?.abort(due.givesUp);
      }
    },
  };
}
