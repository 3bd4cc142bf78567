/** A request of the gateway as it was sent: what of it decides where it goes, and the bytes that go on. */
import { whyNoForm } from '../../../engine/asking/endpoints/form-body.ts';
import { type Dialect, refusedField } from '../../../engine/core/item/dialects.ts';
import { isObject, type JsonObject } from '../../../engine/core/json/pointer.ts';
import { spanOf } from '../../../engine/core/json/span.ts';
import { badRequest, invalid } from '../errors.ts';
import { isSharedPriority, readObject } from '../http-body.ts';
import type { Choice, Names, Standing } from './served-models.ts';

export interface Request extends Choice {
  /** as it was read */
  fields: JsonObject;
  stream: boolean;
  /** the model as the client calls it */
  name: string;
  body: Buffer;
}

export const LONGEST_NAME = 300;

/** What of a request decides where it goes. Its body goes on as the bytes that came, but for an alias. 400 where it is none. */
export function readRequest(
  sent: unknown,
  { refused, isForm }: Dialect,
  names: Names,
  standing: Standing,
): Request {
  const request = readObject(sent);
  const { model, stream = false, user, metadata, priority } = request;
  if (model === undefined)
    throw badRequest('you must provide a model parameter', 'model', 'missing_required_parameter');
  if (typeof model !== 'string' || model === '' || model.length > LONGEST_NAME)
    throw invalid('model', 'expected the name of a model');
  if (stream !== null && typeof stream !== 'boolean') throw invalid('stream', 'expected true or false');
  const wrong = refused && refusedField(refused, request);
  if (wrong)
    throw badRequest(
      `Unsupported parameter: '${wrong.field}': ${wrong.why}.`,
      wrong.field,
      'unsupported_parameter',
    );
  const why = isForm ? whyNoForm(request) : null;
  if (why !== null) throw badRequest(`Bad request: ${why}.`, null, 'invalid_value');
  // nobody goes before the others by asking for it
  if (!isSharedPriority(priority))
    throw invalid('priority', 'expected a whole number from 0: 0 is what every request of the gateway has');
  const body = sent as Buffer;
  const person = user ?? (isObject(metadata) ? metadata.user_id : undefined);
  const who = (): string => (typeof person === 'string' && person !== '' ? person : body.toString('latin1'));
  const choice = names.choose(model, who, standing);
  return {
    model: choice.model,
    arm: choice.arm,
    fields: request,
    name: model,
    stream: stream === true,
    body: choice.model === model ? body : renamed(body, choice.model),
  };
}

/** The same bytes with another model: to write the object anew would change numbers that JavaScript cannot hold. */
function renamed(body: Buffer, model: string): Buffer {
  const text = body.toString();
  const span = spanOf(text, ['model']);
  const renamed = span && text.slice(0, span.from) + JSON.stringify(model) + text.slice(span.to);
  if (renamed && (JSON.parse(renamed) as { model?: unknown }).model === model) return Buffer.from(renamed);
  throw badRequest("Expected one 'model', found several.", 'model', 'invalid_value');
}
