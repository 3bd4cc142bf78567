/**
 * The priority that lines of batches carry where live calls are streamed beside them (vLLM's field `priority`: lower runs
 * sooner, 0 where there is none), so that a server with `--scheduling-policy priority` lets live calls go first. It is
 * added to the bytes that go out: the body that is on record, and its key, know nothing of it.
 *
 *   unknown ──(one call carries it)──> tried ──200──> taken
 *                                        └────400──> refused: that call is asked again without it
 *
 * That a server takes it does not show that it goes by it: vLLM's engine of today passes over it where it schedules as
 * calls come. Nothing here depends on it: batches have what the first tokens of live calls leave them (live-share.ts). A
 * server that is no vLLM is not tried: SGLang, say, begins with the largest number.
 */
import { DIALECTS } from '../../core/item/dialects.ts';
import type { Say } from '../../core/item/say.ts';
import { spanOf } from '../../core/json/span.ts';
import type { Reply } from '../endpoints/wire.ts';
import { formless, refusesForm, valued } from './form-refused.ts';
import type { Endpoint, Ticket } from './pool-state.ts';

/** Of a line of a batch; live calls have vLLM's own 0. A line that asks for a larger number keeps it. */
export const BATCH_PRIORITY = 10;

const CLOSING_BRACE = 0x7d;
const NAME = 'priority';

/** The body as it goes out: with a priority, or with the form in TGI's words, or without a form that the server does not know (form-refused.ts). */
export function bodyFor(ticket: Ticket, endpoint: Endpoint): Buffer {
  const { call } = ticket;
  ticket.carries = null;
  ticket.isFormless = !call.raw && endpoint.lacks.forms.has(call.model);
  ticket.isValued = !call.raw && !ticket.isFormless && endpoint.lacks.valued.has(call.model);
  if (ticket.isFormless) {
    endpoint.lacks.formless++;
    return formless(call.body);
  }
  if (ticket.isValued) return valued(call.body);
  if (call.live !== undefined || !call.raw || DIALECTS.get(call.path)?.hasPriority !== true) return call.body;
  const { priority, share, isVllm } = endpoint;
  const isTrial = priority === 'unknown' && isVllm && (share?.state().places ?? null) !== null;
  if (!isTrial && priority !== 'taken') return call.body;
  const body = withPriority(call.body, BATCH_PRIORITY);
  if (body === call.body) return body; // what comes of its own number says nothing of ours
  ticket.carries = isTrial ? 'trial' : 'known';
  if (isTrial) endpoint.priority = 'tried';
  return body;
}

/** Whether the reply refuses what the server does not know, a priority or a form: then the call is asked again without. */
export function takesLess(ticket: Ticket, endpoint: Endpoint, got: Reply | Error, warn: Say): boolean {
  if (refusesPriority(ticket, endpoint, got)) return true;
  const isRefusal = !(got instanceof Error) && (got.status === 400 || got.status === 422);
  return isRefusal && refusesForm(ticket, endpoint, got, warn);
}

/** Whether the reply refuses the priority that the call carried: then none carries one. */
function refusesPriority({ carries }: Ticket, endpoint: Endpoint, got: Reply | Error): boolean {
  if (carries === null) return false;
  const status = got instanceof Error ? 0 : got.status;
  if (status === 200) endpoint.priority = 'taken';
  else if (carries === 'trial') endpoint.priority = 'unknown';
  const isRefusal = status === 400 || status === 422;
  if (!isRefusal || !(carries === 'trial' || (got as Reply).body.includes(NAME))) return false;
  endpoint.priority = 'refused';
  return true;
}

/**
 * `body`, a JSON object with a member or more, with this priority, or a larger one that it has; all else byte for byte. Of
 * two members of one name servers take the last.
 */
export function withPriority(body: Buffer, priority: number): Buffer {
  if (body.includes(`"${NAME}"`)) {
    const text = body.toString();
    const own = (JSON.parse(text) as { priority?: unknown }).priority;
    // one that is no number is refused as what it is
    if (own !== undefined && !(typeof own === 'number' && own < priority)) return body;
    const span = own === undefined ? null : spanOf(text, [NAME]);
    const replaced = span && text.slice(0, span.from) + priority + text.slice(span.to);
    if (replaced && (JSON.parse(replaced) as { priority?: unknown }).priority === priority)
      return Buffer.from(replaced);
  }
  const end = body.lastIndexOf(CLOSING_BRACE);
  return Buffer.concat([body.subarray(0, end), Buffer.from(`,"${NAME}":${priority}`), body.subarray(end)]);
}
