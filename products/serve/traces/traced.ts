/** What the call of a request takes with it so that it can be followed: its ids, and who is told of its tries. */
import type { FastifyRequest } from 'fastify';
import type { Call } from '../../../engine/core/item/call.ts';
import { noteTry } from '../log/request-line.ts';
import { headersOf, traceContextOf } from '../request-ids.ts';
import type { RequestSpan, Tracer } from './tracer.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** where its trace is kept */
    span: RequestSpan | null;
  }
}

type Traced = Pick<Call, 'requestId' | 'trace' | 'headers' | 'tried'>;

export function traced(
  request: FastifyRequest,
  tracer: Tracer | null,
  { path, model, isStream }: { path: string; model: string; isStream: boolean },
): Traced {
  const { noted } = request;
  const context = traceContextOf(request.headers);
  const span = tracer === null ? null : tracer.begin(context);
  const trace = span?.trace ?? context?.trace;
  if (trace !== undefined) noted.trace = trace;
  if (span !== null) {
    request.span = span;
    const tried: Traced['tried'] = one => {
      noteTry(noted, one);
      span.tried(one, { path, model, isStream });
    };
    return { requestId: request.id, trace: span.trace, headers: () => span.headers(), tried };
  }
  return {
    ...{ requestId: request.id, tried: one => noteTry(noted, one) },
    ...(context !== null && {
      trace: context.trace,
      headers: () => headersOf(context.parent, context.state),
    }),
  };
}
