/**
 * Spans of OpenTelemetry: of each request of the gateway, of each try at a model server as its child, and of each batch that
 * has ended. Names are those of the conventions for HTTP and for generative AI (semantic-conventions-genai, in development);
 * texts of requests and answers are in none.
 */
import { hash } from 'node:crypto';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Tried } from '../../../engine/core/item/call.ts';
import { DIALECTS } from '../../../engine/core/item/dialects.ts';
import type { Say } from '../../../engine/core/item/say.ts';
import { type BatchRecord, STATUSES } from '../batches/batch-state.ts';
import { randomHex } from '../ids.ts';
import { headersOf, parentOf, type TraceContext } from '../request-ids.ts';
import { type Attributes, attributesOf, Exporter } from './exporter.ts';
import type { OtlpSettings } from './otlp-settings.ts';

const INTERNAL = 1;
const SERVER = 2;
const CLIENT = 3;
const ERROR = { code: 2 };

const operationOf = (path: string): string => DIALECTS.get(path)?.operation ?? path;

/** ms → ns, of which the last six digits are nought but for a fraction of a millisecond */
const nano = (ms: number): string =>
  `${Math.floor(ms)}${String(Math.floor((ms % 1) * 1e6)).padStart(6, '0')}`;

export class Tracer {
  readonly #settings: OtlpSettings;
  readonly #exporter: Exporter;

  constructor(settings: OtlpSettings, say: Say) {
    this.#settings = settings;
    this.#exporter = new Exporter(settings, say);
  }

  close = (): Promise<void> => this.#exporter.close();

  /** null for a request that is not kept. `context`: the client's. */
  begin(context: TraceContext | null): RequestSpan | null {
    const { isParentBased, ratio } = this.#settings;
    if (context !== null && isParentBased)
      return context.isSampled ? new RequestSpan(this.#exporter, context) : null;
    const trace = context?.trace ?? randomHex(16);
    return isKept(trace, ratio) ? new RequestSpan(this.#exporter, context, trace) : null;
  }

  /** A batch that has ended, with its states as events; it belongs to no trace of a client. */
  batch(record: BatchRecord): void {
    const { id, owner, key, status, created_at, times, counts, usage, endpoint, model } = record;
    const end = times[`${status}_at`];
    const traceId = hash('sha256', id, 'hex').slice(0, 32);
    if (end === undefined || !isKept(traceId, this.#settings.ratio)) return;
    const isBad = status === 'failed' || status === 'expired';
    this.#exporter.add({
      ...{ traceId, spanId: traceId.slice(0, 16), name: 'batch', kind: INTERNAL },
      ...{ startTimeUnixNano: nano(created_at * 1000), endTimeUnixNano: nano(end * 1000) },
      attributes: attributesOf({
        ...{
          'gen_ai.operation.name': operationOf(endpoint),
          'gen_ai.request.model': model ?? undefined,
        },
        ...{ 'gen_ai.usage.input_tokens': usage.input, 'gen_ai.usage.output_tokens': usage.output },
        ...{ 'fw.batch.id': id, 'fw.owner': owner, 'fw.key.id': key ?? undefined, 'fw.batch.status': status },
        ...{
          'fw.batch.lines': counts.total,
          'fw.batch.completed': counts.completed,
          'fw.batch.failed': counts.failed,
        },
        'error.type': isBad ? status : undefined,
      }),
      events: STATUSES.flatMap(one => {
        const at = times[`${one}_at`];
        return at === undefined ? [] : [{ name: one, timeUnixNano: nano(at * 1000) }];
      }),
      ...(isBad && { status: ERROR }),
    });
  }
}

/** By the last 56 bits of the id, which every sampler of the trace sees (W3C Trace Context 2). */
const isKept = (trace: string, ratio: number): boolean =>
  ratio >= 1 || Number.parseInt(trace.slice(-14), 16) / 2 ** 56 < ratio;

/** A request of the gateway, until it is over. */
export class RequestSpan {
  readonly trace: string;
  readonly #exporter: Exporter;
  readonly #parent: TraceContext | null;
  readonly #span = randomHex(8);
  /** of the try that is under way */
  #child = '';

  constructor(exporter: Exporter, parent: TraceContext | null, trace = (parent as TraceContext).trace) {
    this.#exporter = exporter;
    this.#parent = parent;
    this.trace = trace;
  }

  /** Headers of its next try, whose span is the parent of what the server tells. */
  headers(): readonly string[] {
    this.#child = randomHex(8);
    return headersOf(parentOf(this.trace, this.#child, '01'), this.#parent?.state);
  }

  /** A try has ended. */
  tried(
    { endpoint, outcome, time, ms, ttft, finish, usage }: Tried,
    { path, model, isStream }: { path: string; model: string; isStream: boolean },
  ): void {
    const { hostname, port, protocol } = new URL(endpoint);
    const operation = operationOf(path);
    const isAnswer = outcome === 'answer';
    this.#exporter.add({
      ...{
        traceId: this.trace,
        spanId: this.#child,
        parentSpanId: this.#span,
        name: `${operation} ${model}`,
        kind: CLIENT,
      },
      ...{ startTimeUnixNano: nano(time - ms), endTimeUnixNano: nano(time) },
      attributes: attributesOf({
        ...{
          'gen_ai.operation.name': operation,
          'gen_ai.provider.name': DIALECTS.get(path)?.errors ?? 'openai',
          'gen_ai.request.model': model,
        },
        ...{
          'gen_ai.request.stream': isStream || undefined,
          'gen_ai.response.finish_reasons': finish === undefined ? undefined : [finish],
        },
        'gen_ai.response.time_to_first_chunk': ttft === undefined ? undefined : ttft / 1000,
        ...{ 'gen_ai.usage.input_tokens': usage?.prompt, 'gen_ai.usage.output_tokens': usage?.completion },
        'gen_ai.usage.cache_read.input_tokens': usage?.cached,
        ...{ 'server.address': hostname, 'server.port': Number(port) || (protocol === 'https:' ? 443 : 80) },
        'error.type': isAnswer ? undefined : outcome.replace(/^HTTP /, ''),
      }),
      ...(!isAnswer && { status: ERROR }),
    });
  }

  end({ id, method, routeOptions, noted, caller }: FastifyRequest, { raw, elapsedTime }: FastifyReply): void {
    const end = Date.now();
    const status = raw.headersSent ? raw.statusCode : undefined;
    const isBad = status === undefined || status >= 500;
    const attributes: Attributes = {
      ...{
        'http.request.method': method,
        'http.route': routeOptions.url,
        'http.response.status_code': status,
      },
      ...{ 'fw.request.id': id, 'fw.owner': caller.owner, 'fw.key.id': caller.key ?? undefined },
      ...{ 'fw.tries': noted.tries, 'fw.cached': noted.cached },
      'error.type': status === undefined ? 'client_closed_request' : isBad ? String(status) : undefined,
    };
    this.#exporter.add({
      ...{
        traceId: this.trace,
        spanId: this.#span,
        parentSpanId: this.#parent?.span,
        name: `${method} ${routeOptions.url}`,
      },
      ...{ kind: SERVER, startTimeUnixNano: nano(end - elapsedTime), endTimeUnixNano: nano(end) },
      attributes: attributesOf(attributes),
      ...(isBad && { status: ERROR }),
    });
  }
}
