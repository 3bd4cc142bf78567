/** What a client of the gateway is told where its request got no answer: the shape of its path, and the server's own words. */

import { LEDGER_BROKEN, NO_PLACE } from '../../../engine/asking/pool/part.ts';
import { type EndpointStats, isThere } from '../../../engine/asking/pool/pool-stats.ts';
import { CallFailure } from '../../../engine/core/item/call.ts';
import type { Dialect } from '../../../engine/core/item/dialects.ts';
import { isObject } from '../../../engine/core/json/pointer.ts';
import { ApiError, bodyOfError, comeAgain, stopping } from '../errors.ts';

export interface Said {
  status: number;
  headers: Readonly<Record<string, string>>;
  body: string;
  /** of the error, for the log */
  code: string;
  /** for the operator */
  log?: string;
}

export interface Where {
  /** the model as the client calls it */
  name: string;
  /** the models that an alias stands for; null where it is none */
  targets: readonly string[] | null;
  /** ms that a request may wait for a place */
  wait: number;
  /** this server is being stopped */
  isOver: boolean;
  /** every endpoint has said what it serves: a model that none named does not exist */
  isSeen: boolean;
  /** of the endpoints that serve it, why none is up; null where one is */
  down: string | null;
}

/** Why none of the endpoints is up that serve one of `models`, or of all of them where none is known to; null where one is. */
export function downIn(all: readonly EndpointStats[], models: readonly string[]): string | null {
  const serving = all.filter(one => models.some(model => one.models.includes(model)));
  const meant = serving.length > 0 ? serving : all;
  return meant.some(isThere) ? null : [...new Set(meant.map(({ cause }) => cause))].join('; ');
}

const because = (down: string): string => (down === '' ? '' : ` (${down})`);

/** seconds after which to ask again what found no place */
const AGAIN = 5;

export function answerOf(error: unknown, where: Where, shape: Dialect['errors'] = 'openai'): Said {
  if (!(error instanceof CallFailure)) throw error;
  const { message, response } = error;
  const status = response?.status_code ?? 0;
  const isOurKey = status === 401 || status === 403;
  // one below 400, such as a redirect, is no answer: a client would take it for one
  const isTheirs = status >= 400 && !isOurKey && error.code !== 'no-such-path';
  if (response !== undefined && isTheirs)
    return {
      status,
      code: `HTTP ${status}`,
      headers: status === 429 || status === 503 ? { 'retry-after': String(AGAIN) } : {},
      body: isObject(response.body)
        ? JSON.stringify(response.body)
        : bodyOfError(new ApiError(status, message), shape),
    };
  const said = errorOf(error, where);
  return {
    status: said.status,
    headers: said.headers,
    body: bodyOfError(said, shape),
    code: said.code ?? said.type,
    ...(isOurKey && { log: `an endpoint refuses the key that it is asked with: ${message}` }),
  };
}

function errorOf({ code, message }: CallFailure, where: Where): ApiError {
  const { name, targets, wait, isOver, isSeen, down } = where;
  if (isOver) return stopping();
  if (code === 'no-such-model' && isSeen && targets === null) return noSuchModel(name);
  if (code === 'interrupted' && message.includes(LEDGER_BROKEN)) return notOnRecord();
  if (code === 'no-such-model')
    return notServed(
      down === null
        ? `that is up is known to serve ${inWords(where)}`
        : `is up${because(down)}${targets === null ? '' : ` to serve ${inWords(where)}`}`,
    );
  if (code === 'interrupted' && message.startsWith(NO_PLACE)) {
    const waited = `${wait / 1000} s`;
    if (down !== null)
      return notServed(
        `that serves ${inWords(where)} is up${because(down)}, and none came back within ${waited}`,
      );
    const why = message.slice(NO_PLACE.length);
    return comeAgain(
      503,
      `No model server had a place for \`${name}\` within ${waited}${why}.`,
      'overloaded',
      AGAIN,
    );
  }
  if (code === 'no-such-path') return new ApiError(404, message, { code: 'path_not_served' });
  if (code === 'call-timeout') return new ApiError(504, message, { code });
  return new ApiError(502, message, { code });
}

/** A model that the key may not name is none to it. */
export const noSuchModel = (name: string): ApiError =>
  new ApiError(404, `The model \`${name}\` does not exist or you do not have access to it.`, {
    param: 'model',
    code: 'model_not_found',
  });

/** Before a request is asked, and for one that was: an answer that is not on record is not given. */
export const notOnRecord = (): ApiError =>
  comeAgain(
    507,
    'The server cannot keep its record: its disk is full, or cannot be written to.',
    'insufficient_storage',
    AGAIN,
  );

/** An alias that the config names exists, whoever is away; so does a model that a server had. */
const notServed = (what: string): ApiError =>
  comeAgain(503, `No model server ${what}.`, 'model_not_served', AGAIN);

function inWords({ name, targets }: Where): string {
  const names = targets?.map(target => `\`${target}\``).join(' or ');
  return names === undefined ? `\`${name}\`` : `\`${name}\`, which stands for ${names}`;
}
