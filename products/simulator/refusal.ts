/** What the server does not answer: an HTTP status with vLLM's error body. */

export class Refusal extends Error {
  override name = 'Refusal';
  readonly status: number;
  readonly type: string;
  constructor(status: number, type: string, message: string) {
    super(message);
    this.status = status;
    this.type = type;
  }
}

export const badRequest = (message: string): Refusal => new Refusal(400, 'BadRequestError', message);
export const notFound = (message: string): Refusal => new Refusal(404, 'NotFoundError', message);

/** At the paths of Anthropic in its shape, with vLLM's own names of errors. `code` of the body is the HTTP status, as a number. */
export function refusalBody({ status, type, message }: Refusal, isAnthropic = false): string {
  if (isAnthropic) return JSON.stringify({ type: 'error', error: { type, message } });
  return JSON.stringify({ error: { message, type, param: null, code: status } });
}
