/**
 * Spans on their way to a collector: OTLP over HTTP, as JSON. They wait for each other for a second, and for the collector
 * only up to a bound: what it does not take is dropped and counted, and that is said once until it takes some again.
 */
import { openWire, sendWithin, type Wire } from '../../../engine/asking/endpoints/wire.ts';
import { version } from '../../../engine/core/config/package.ts';
import type { Say } from '../../../engine/core/item/say.ts';
import { counted } from '../../../engine/core/item/wording.ts';
import type { OtlpSettings } from './otlp-settings.ts';

export type Value = string | number | boolean | readonly string[] | undefined;
export type Attributes = Readonly<Record<string, Value>>;

/** As OTLP has it: ids in hex, times in nanoseconds since 1970. */
export interface Span {
  traceId: string;
  spanId: string;
  parentSpanId?: string | undefined;
  name: string;
  kind: number;
  startTimeUnixNano: string;
  endTimeUnixNano: string;
  attributes: unknown[];
  events?: unknown[];
  status?: { code: number };
}

/** ms that a span waits for others; spans that are sent at once, and that may wait */
const SOON = 1_000;
const TOGETHER = 512;
const MOST = 4_096;
/** ms for the answer of a collector */
const PATIENCE = 10_000;
/** … at the end */
const LAST = 2_000;

export class Exporter {
  readonly #settings: OtlpSettings;
  readonly #say: Say;
  readonly #wire: Wire;
  readonly #path: string;
  #waiting: Span[] = [];
  #timer: NodeJS.Timeout | null = null;
  #sending: Promise<void> | null = null;
  #lost = 0;
  #isTold = false;

  constructor(settings: OtlpSettings, say: Say) {
    this.#settings = settings;
    this.#say = say;
    const { origin, pathname, search } = new URL(settings.url);
    this.#path = pathname + search;
    this.#wire = openWire(origin, undefined);
  }

  /** spans that no collector has */
  get lost(): number {
    return this.#lost;
  }

  add(span: Span): void {
    if (this.#waiting.length >= MOST) return this.#drop(1, `more than ${MOST} wait for it`);
    this.#waiting.push(span);
    if (this.#waiting.length >= TOGETHER) void this.#send();
    else this.#timer ??= setTimeout(() => void this.#send(), SOON).unref();
  }

  /** Sends what waits. */
  async close(): Promise<void> {
    const late = new Promise<void>(resolve => setTimeout(resolve, LAST).unref());
    const all = async (): Promise<void> => {
      await this.#sending;
      while (this.#waiting.length > 0) await this.#send();
    };
    await Promise.race([all(), late]);
    void this.#wire.close();
  }

  #send(): Promise<void> {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    this.#sending ??= this.#post(this.#waiting.splice(0, TOGETHER)).finally(() => {
      this.#sending = null;
      if (this.#waiting.length >= TOGETHER) void this.#send();
      else if (this.#waiting.length > 0) this.#timer ??= setTimeout(() => void this.#send(), SOON).unref();
    });
    return this.#sending;
  }

  async #post(spans: readonly Span[]): Promise<void> {
    if (spans.length === 0) return;
    const { headers, resource } = this.#settings;
    const scope = { name: 'fairwatch', version: version() };
    const body = {
      resourceSpans: [{ resource: { attributes: attributesOf(resource) }, scopeSpans: [{ scope, spans }] }],
    };
    const request = {
      method: 'POST',
      path: this.#path,
      headers,
      body: Buffer.from(JSON.stringify(body)),
    } as const;
    const reply = await sendWithin(this.#wire, request, PATIENCE);
    if (reply instanceof Error)
      return this.#drop(spans.length, (reply as NodeJS.ErrnoException).code ?? reply.name);
    if (reply.status < 200 || reply.status > 299) return this.#drop(spans.length, `HTTP ${reply.status}`);
    if (this.#isTold)
      this.#say(
        `traces: the collector takes spans again; ${counted(this.#lost, 'span')} were dropped in all`,
        { event: 'traces-sent', dropped: this.#lost },
      );
    this.#isTold = false;
  }

  #drop(spans: number, why: string): void {
    this.#lost += spans;
    if (this.#isTold) return;
    this.#isTold = true;
    // its path and its headers may be secret
    this.#say(
      `traces: ${new URL(this.#settings.url).origin} does not take spans (${why}): they are dropped until it does`,
      {
        ...{ event: 'traces-dropped', level: 'warn' },
      },
    );
  }
}

/** What is undefined is left out. */
export function attributesOf(attributes: Attributes): unknown[] {
  const all: unknown[] = [];
  for (const key in attributes) {
    const value = attributes[key];
    if (value !== undefined) all.push({ key, value: anyValue(value) });
  }
  return all;
}

function anyValue(value: Exclude<Value, undefined>): unknown {
  if (typeof value === 'string') return { stringValue: value };
  if (typeof value === 'boolean') return { boolValue: value };
  if (typeof value !== 'number') return { arrayValue: { values: value.map(one => ({ stringValue: one })) } };
  return Number.isInteger(value) ? { intValue: String(value) } : { doubleValue: value };
}
