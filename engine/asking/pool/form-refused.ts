/**
 * The form of an answer (the schema, choice or regex that a server is to decode by) at a server that does not know the
 * field: calls go there without it from then on. TGI knows the field and wants the schema of it as `value`: it gets that.
 * Answers are checked against the form all the same, and asked again where they do not fit, so what is lost is what guided
 * decoding saves. The body that is on record, and its key, know nothing of
 * it. A schema that a server does not like is another matter: that is told as the refusal that it is. So are requests of
 * others (`call.raw`): whoever wrote a field means it.
 */
import type { Say } from '../../core/item/say.ts';
import { isObject } from '../../core/json/pointer.ts';
import { FORM_FIELDS, unknownFields } from '../endpoints/endpoint-words.ts';
import type { Reply } from '../endpoints/wire.ts';
import type { Endpoint, Ticket } from './pool-state.ts';

/** Bytes of a refusal that are read. */
const MOST = 8_192;

/** TGI: `response_format: missing field `value``; of one that was started without grammars: `grammar` is not supported. */
const WANTS_VALUE = /response_format: missing field .?value/i;
const NO_GRAMMAR = /grammar.{0,3} is not supported/i;

/** Whether the reply, a 400 or 422, refuses the form that the call carried: then it is to be asked again without. */
export function refusesForm(ticket: Ticket, endpoint: Endpoint, { body }: Reply, warn: Say): boolean {
  const { call } = ticket;
  if (call.raw || ticket.isFormless) return false;
  const words = body.toString('utf8', 0, MOST);
  const isGrammar = ticket.isValued && NO_GRAMMAR.test(words);
  const unknown = isGrammar ? ['response_format'] : unknownFields(words);
  const named = unknown.filter(field => call.tail.includes(`"${field}"`));
  if (named.length === 0) return false;
  const { url, lacks } = endpoint;
  if (!ticket.isValued && WANTS_VALUE.test(words)) {
    lacks.valued.add(call.model);
    return true;
  }
  if (!lacks.forms.has(call.model))
    warn(
      `${url} does not know ${named.join(', ')}: its calls go without, and its answers are checked all the same`,
      { event: 'endpoint-without-forms', level: 'warn', endpoint: url },
    );
  lacks.forms.add(call.model);
  return true;
}

/** The body with the schema that it asks for as TGI wants it. */
export function valued(body: Buffer): Buffer {
  const request = JSON.parse(body.toString()) as Record<string, unknown>;
  const { response_format: form } = request;
  const made = isObject(form) ? form.json_schema : undefined;
  if (isObject(made)) request.response_format = { type: 'json', value: made.schema };
  return Buffer.from(JSON.stringify(request));
}

/** The body without the form that it asks for. */
export function formless(body: Buffer): Buffer {
  const request = JSON.parse(body.toString()) as Record<string, unknown>;
  for (const field of FORM_FIELDS) delete request[field];
  return Buffer.from(JSON.stringify(request));
}
