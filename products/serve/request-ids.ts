/**
 * What a client may say of its request so that it can be found again: `x-request-id`, and W3C's `traceparent` and
 * `tracestate` (https://www.w3.org/TR/trace-context/). They go into the log, the record and the headers of the model
 * server, so that only what has their form is taken; anything else is as if it had not been said.
 */
import type { IncomingHttpHeaders } from 'node:http';
import { randomHex } from './ids.ts';

/** Letters, digits and what UUIDs, base64 and proxies put between them. Several headers come joined by a comma: none is taken. */
const ID = /^[\w.:=+/@~;-]{1,128}$/;

/** The client's own id where it has one, else a new one. It need not be unique: two requests may say the same. */
export function requestIdOf({ 'x-request-id': id }: IncomingHttpHeaders): string {
  return typeof id === 'string' && ID.test(id) ? id : newRequestId();
}

export const newRequestId = (): string => `req_${randomHex(12)}`;

/** Of the trace that a request belongs to. */
export interface TraceContext {
  /** 32 and 16 hex digits */
  trace: string;
  span: string;
  isSampled: boolean;
  /** as they came */
  parent: string;
  state: string | undefined;
}

/** Version 00, or a later one whose beginning is the same. */
const PARENT = /^(?!ff)([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.{0,200})?$/;
const STATE = /^[\x20-\x7e]{1,512}$/;
const ZEROS = /^0+$/;

/** null where there is none, or not one. */
export function traceContextOf({ traceparent, tracestate }: IncomingHttpHeaders): TraceContext | null {
  if (typeof traceparent !== 'string') return null;
  const [parent, version, trace = '', span = '', flags = '', more] = PARENT.exec(traceparent) ?? [];
  if (parent === undefined || ZEROS.test(trace) || ZEROS.test(span)) return null;
  if (version === '00' && more !== undefined) return null;
  const state = typeof tracestate === 'string' && STATE.test(tracestate) ? tracestate : undefined;
  return {
    trace,
    span,
    isSampled: (Number.parseInt(flags, 16) & 1) === 1,
    parent: parentOf(trace, span, flags),
    state,
  };
}

export const parentOf = (trace: string, span: string, flags: string): string =>
  `00-${trace}-${span}-${flags}`;

/** Headers of what is asked on its behalf, by turns a name and a value. */
export const headersOf = (parent: string, state: string | undefined): readonly string[] =>
  state === undefined ? ['traceparent', parent] : ['traceparent', parent, 'tracestate', state];
