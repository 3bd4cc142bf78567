/** Where spans go: OpenTelemetry's own variables of the environment (https://opentelemetry.io/docs/specs/otel/protocol/exporter/). */
import { usageError } from '../../../engine/core/item/failure.ts';

export interface OtlpSettings {
  /** of the collector, its path included */
  url: string;
  /** by turns a name and a value */
  headers: readonly string[];
  /** of the resource: service.name and what OTEL_RESOURCE_ATTRIBUTES says */
  resource: Readonly<Record<string, string>>;
  /** of traces that begin here, the share that is kept; whether a client's own word goes before it */
  ratio: number;
  isParentBased: boolean;
}

const PATH = '/v1/traces';

/** null where no collector is named. Exit 64 for a value that cannot be used. */
export function otlpOf(env: NodeJS.ProcessEnv): OtlpSettings | null {
  const own = env.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT?.trim();
  const base = env.OTEL_EXPORTER_OTLP_ENDPOINT?.trim();
  const url = own || (base ? base.replace(/\/$/, '') + PATH : '');
  if (url === '' || env.OTEL_SDK_DISABLED?.toLowerCase() === 'true') return null;
  if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol))
    throw usageError(
      `OTEL_EXPORTER_OTLP_ENDPOINT: expected a URL such as http://collector:4318, found ${JSON.stringify(url.slice(0, 100))}`,
    );
  const protocol = env.OTEL_EXPORTER_OTLP_TRACES_PROTOCOL ?? env.OTEL_EXPORTER_OTLP_PROTOCOL ?? 'http/json';
  if (!protocol.startsWith('http/'))
    throw usageError(
      `OTEL_EXPORTER_OTLP_PROTOCOL: expected http/json, found ${JSON.stringify(protocol.slice(0, 50))}; collectors take it at port 4318`,
    );
  const headers = pairsOf(env.OTEL_EXPORTER_OTLP_TRACES_HEADERS ?? env.OTEL_EXPORTER_OTLP_HEADERS);
  const resource = Object.fromEntries(pairsOf(env.OTEL_RESOURCE_ATTRIBUTES));
  const service = env.OTEL_SERVICE_NAME || resource['service.name'] || 'fw';
  return {
    url,
    headers: headers.flat(),
    resource: { ...resource, 'service.name': service },
    ...samplerOf(env),
  };
}

function samplerOf({
  OTEL_TRACES_SAMPLER: name = 'parentbased_always_on',
  OTEL_TRACES_SAMPLER_ARG: arg = '1',
}: NodeJS.ProcessEnv) {
  const [, parent, kind] = /^(parentbased_)?(always_on|always_off|traceidratio)$/.exec(name) ?? [];
  if (kind === undefined)
    throw usageError(
      `OTEL_TRACES_SAMPLER: expected always_on, always_off or traceidratio, or parentbased_ and one of them, found ${JSON.stringify(name.slice(0, 50))}`,
    );
  const ratio = kind === 'traceidratio' ? Number(arg) : Number(kind === 'always_on');
  if (!(ratio >= 0 && ratio <= 1))
    throw usageError(
      `OTEL_TRACES_SAMPLER_ARG: expected a number from 0 to 1, found ${JSON.stringify(arg.slice(0, 50))}`,
    );
  return { ratio, isParentBased: parent !== undefined };
}

/** `name=value,name=value`, each value percent-encoded, as in W3C's baggage. */
function pairsOf(text = ''): [name: string, value: string][] {
  return text.split(',').flatMap(pair => {
    const at = pair.indexOf('=');
    const name = pair.slice(0, at).trim();
    if (at < 1 || name === '') return [];
    const value = pair.slice(at + 1).trim();
    try {
      return [[name, decodeURIComponent(value)]];
    } catch {
      return [[name, value]];
    }
  });
}
