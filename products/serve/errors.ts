/** What the API says where it refuses: OpenAI's shape, `{"error": {message, type, param, code}}`, all four always there. */

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
  constructor(status: number, message: string, more: ApiErrorMore = {}) {
    super(message);
    const {
      param = null,
      code = null,
      type = status >= 500 ? 'server_error' : 'invalid_request_error',
    } = more;
    this.status = status;
    this.type = type;
    this.param = param;
    this.code = code;
    this.headers = more.headers ?? {};
  }
}

/** 400: the request is wrong; `param` is the field. */
export const badRequest = (
  message: string,
  param: string | null = null,
  code: string | null = null,
): ApiError => new ApiError(400, message, { param, code });

/** 404, of what is another owner's too: who asks is not to learn that it is there. */
export const notFound = (message: string, param: string | null = 'id'): ApiError =>
  new ApiError(404, message, { param });

/** Retry-After: as long as it may take until another one is there. */
export const stopping = (): ApiError =>
  new ApiError(503, 'The server is being stopped.', {
    ...{ code: 'stopping', headers: { 'retry-after': '5' } },
  });

export function bodyOfError({
  message,
  type,
  param,
  code,
}: Pick<ApiError, 'message' | 'type' | 'param' | 'code'>): string {
  return JSON.stringify({ error: { message, type, param, code } });
}
