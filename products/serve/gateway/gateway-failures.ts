/** What a client of the gateway is told where its request got no answer: OpenAI's shape, and the server's own words. */

import { NO_PLACE } from '../../../engine/asking/pool/live-calls.ts';
import { CallFailure } from '../../../engine/core/item/call.ts';
import { isObject } from '../../../engine/core/json/pointer.ts';
import { ApiError, bodyOfError } from '../errors.ts';

export interface Said {
  status: number;
  headers: Readonly<Record<string, string>>;
  body: string;
  /** for the operator */
  log?: string;
}

export interface Where {
  model: string;
  /** ms that a request may wait for a place */
  wait: number;
  /** this server is being stopped */
  isOver: boolean;
  /** every endpoint has said what it serves: a model that none named does not exist */
  isSeen: boolean;
  /** any endpoint is up */
  isAnyUp: boolean;
}

/** seconds after which to ask again what found no place */
const AGAIN = { 'retry-after': '5' };

export function answerOf(error: unknown, where: Where): Said {
  if (!(error instanceof CallFailure)) throw error;
  const { message, response } = error;
  const status = response?.status_code ?? 0;
  const isOurKey = status === 401 || status === 403;
  // one below 400, such as a redirect, is no answer: a client would take it for one
  if (response !== undefined && status >= 400 && !isOurKey)
    return {
      status,
      headers: status === 429 || status === 503 ? AGAIN : {},
      body: isObject(response.body)
        ? JSON.stringify(response.body)
        : bodyOfError(new ApiError(status, message)),
    };
  const said = errorOf(error, where);
  return {
    status: said.status,
    headers: said.headers,
    body: bodyOfError(said),
    ...(isOurKey && { log: `an endpoint refuses the key that it is asked with: ${message}` }),
  };
}

function errorOf({ code, message }: CallFailure, { model, wait, isOver, isSeen, isAnyUp }: Where): ApiError {
  if (code === 'no-such-model' && isSeen)
    return new ApiError(404, `The model \`${model}\` does not exist or you do not have access to it.`, {
      param: 'model',
      code: 'model_not_found',
    });
  if (code === 'no-such-model')
    return new ApiError(
      503,
      isAnyUp ? `No model server that is up is known to serve \`${model}\`.` : 'No model server is up.',
      { code: 'overloaded', headers: AGAIN },
    );
  if (isOver) return new ApiError(503, 'The server is being stopped.', { code: 'stopping', headers: AGAIN });
  if (code === 'interrupted' && message.startsWith(NO_PLACE))
    return new ApiError(
      503,
      `No model server had a place for \`${model}\` within ${wait / 1000} s${message.slice(NO_PLACE.length)}.`,
      {
        code: 'overloaded',
        headers: AGAIN,
      },
    );
  if (code === 'call-timeout') return new ApiError(504, message, { code });
  return new ApiError(502, message, { code });
}
