/**
 * The form of an answer (the schema, choice or regex that a server is to decode by) at a server that does not know the
 * field: calls go there without it from then on. Answers are checked against the form all the same, and asked again where
 * they do not fit, so what is lost is what guided decoding saves. The body that is on record, and its key, know nothing of
 * it. A schema that a server does not like is another matter: that is told as the refusal that it is. So are requests of
 * others (`call.raw`): whoever wrote a field means it.
 */
import type { Say } from '../../core/item/say.ts';
import { FORM_FIELDS, unknownFields } from '../endpoints/endpoint-words.ts';
import type { Reply } from '../endpoints/wire.ts';
import type { Endpoint, Ticket } from './pool-state.ts';

/** Bytes of a refusal that are read. */
const MOST = 8_192;

/** Whether the reply, a 400 or 422, refuses the form that the call carried: then it is to be asked again without. */
export function refusesForm(ticket: Ticket, endpoint: Endpoint, { body }: Reply, warn: Say): boolean {
  const { call } = ticket;
  if (call.raw || ticket.isFormless) return false;
  const named = unknownFields(body.toString('utf8', 0, MOST)).filter(field =>
    call.tail.includes(`"${field}"`),
  );
  if (named.length === 0) return false;
  const { url, lacks } = endpoint;
  if (!lacks.forms.has(call.model))
    warn(
      `${url} does not know ${named.join(', ')}: its calls go without, and its answers are checked all the same`,
      { event: 'endpoint-without-forms', level: 'warn', endpoint: url },
    );
  lacks.forms.add(call.model);
  return true;
}

/** The body without the form that it asks for. */
export function formless(body: Buffer): Buffer {
  const request = JSON.parse(body.toString()) as Record<string, unknown>;
  for (const field of FORM_FIELDS) delete request[field];
  return Buffer.from(JSON.stringify(request));
}
