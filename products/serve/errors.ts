/** What the API says where it refuses: OpenAI's shape, `{"error": {message, type, param, code}}`, all four always there. */
import { isFull } from '../../engine/core/files/durable.ts';
import type { Dialect } from '../../engine/core/item/dialects.ts';

export interface ApiErrorMore {
  /** the field that is wrong */
  param?: string | null;
  code?: string | null;
  /** OpenAI's word for the kind; by the status unless given */
  type?: string;
  headers?: Readonly<Record<string, string>>;
}

/** Thrown by whoever answers a request; http.ts makes the answer of it. */
export class ApiError extends Error {
  override name = 'ApiError';
  readonly status: number;
  readonly type: string;
  readonly param: string | null;
  readonly code: string | null;
  readonly headers: Readonly<Record<string, string>>;
  constructor(
    status: number,
    message: string,
    { param = null, code = null, type, headers = {} }: ApiErrorMore = {},
  ) {
    super(message);
    this.status = status;
    this.type = type ?? (status >= 500 ? 'server_error' : 'invalid_request_error');
    this.param = param;
    this.code = code;
    this.headers = headers;
  }
}

/** 400: the request is wrong; `param` is the field. */
export const badRequest = (
  message: string,
  param: string | null = null,
  code: string | null = null,
): ApiError => new ApiError(400, message, { param, code });

/** … since `param` has a value that does not fit, or is not there. */
export const invalid = (param: string, why: string): ApiError =>
  badRequest(`Invalid value for '${param}': ${why}.`, param, 'invalid_value');
export const missing = (param: string | null): ApiError =>
  badRequest(`Missing required parameter: '${param}'.`, param, 'missing_required_parameter');

/** 404, of what is another owner's too: who asks is not to learn that it is there. */
export const notFound = (message: string, param: string | null = 'id'): ApiError =>
  new ApiError(404, message, { param });

/** To be asked again, as it is, after so many seconds. */
export const comeAgain = (
  status: number,
  message: string,
  code: string,
  seconds: number,
  more: ApiErrorMore = {},
): ApiError =>
  new ApiError(status, message, {
    ...more,
    code,
    headers: { 'retry-after': String(seconds), ...more.headers },
  });

/** Retry-After: as long as it may take until another one is there. */
export const stopping = (): ApiError => comeAgain(503, 'The server is being stopped.', 'stopping', 5);

/** It is being stopped, or has lost DIR to another one: who ends it says why. */
export const isStopping = (error: unknown): boolean => error instanceof ApiError && error.code === 'stopping';

/** What a full disk throws becomes a 507; all else is as it was. */
export const ofDisk = (error: unknown): unknown =>
  isFull(error)
    ? comeAgain(
        507,
        'The disk of the server is full: nothing was kept. Try again when there is room.',
        'insufficient_storage',
        30,
      )
    : error;

/** `act`, with 507 for a full disk. */
export function kept<T>(act: () => T): T {
  try {
    return act();
  } catch (error) {
    throw ofDisk(error);
  }
}

type Told = Pick<ApiError, 'status' | 'message' | 'type' | 'param' | 'code'>;
/** In the shape that the clients of a path read; Anthropic's has neither `param` nor `code`. */
export const bodyOfError = (
  { status, message, type, param, code }: Told,
  shape: Dialect['errors'] = 'openai',
): string =>
  JSON.stringify(
    shape === 'openai'
      ? { error: { message, type, param, code } }
      : { type: 'error', error: { type: anthropicType(status), message } },
  );

const ANTHROPIC_TYPES: Readonly<Record<number, string>> = {
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  503: 'overloaded_error',
  504: 'timeout_error',
};
const anthropicType = (status: number): string =>
  ANTHROPIC_TYPES[status] ?? (status >= 500 ? 'api_error' : 'invalid_request_error');
