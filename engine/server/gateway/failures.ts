/** What a client of the gateway is told where its request got no answer: OpenAI's shape, and the server's own words. */
import { CallFailure } from '../../item/call.ts';
import { isObject } from '../../json/pointer.ts';
import { NO_PLACE } from '../../pool/live.ts';
import { type EndpointStats, isThere } from '../../pool/stats.ts';
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
  /** of the endpoints that serve it, why none is up; null where one is */
  down: string | null;
}

/** Why none of the endpoints is up that serve `model`, or of all of them where none is known to; null where one is. */
export function downIn(all: readonly EndpointStats[], model: string): string | null {
  const serving = all.filter(({ models }) => models.includes(model));
  const meant = serving.length > 0 ? serving : all;
  return meant.some(isThere) ? null : [...new Set(meant.map(({ cause }) => cause))].join('; ');
}

const because = (down: string): string => (down === '' ? '' : ` (${down})`);

/** the code where servers are away, and not full */
const DOWN = 'unavailable';

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

function errorOf({ code, message }: CallFailure, { model, wait, isOver, isSeen, down }: Where): ApiError {
  if (code === 'no-such-model' && isSeen)
    return new ApiError(404, `The model \`${model}\` does not exist or you do not have access to it.`, {
      param: 'model',
      code: 'model_not_found',
    });
  if (code === 'no-such-model')
    return new ApiError(
      503,
      down === null
        ? `No model server that is up is known to serve \`${model}\`.`
        : `No model server is up${because(down)}.`,
      { code: DOWN, headers: AGAIN },
    );
  if (isOver) return new ApiError(503, 'The server is being stopped.', { code: 'stopping', headers: AGAIN });
  if (code === 'interrupted' && message.startsWith(NO_PLACE)) {
    const waited = `${wait / 1000} s`;
    if (down === null)
      return new ApiError(
        503,
        `No model server had a place for \`${model}\` within ${waited}${message.slice(NO_PLACE.length)}.`,
        { code: 'overloaded', headers: AGAIN },
      );
    return new ApiError(
      503,
      `No model server that serves \`${model}\` is up${because(down)}, and none came back within ${waited}.`,
      { code: DOWN, headers: AGAIN },
    );
  }
  if (code === 'call-timeout') return new ApiError(504, message, { code });
  return new ApiError(502, message, { code });
}
