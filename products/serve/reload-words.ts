/** What is another than before, as the log says it. No secret is said, and of a webhook no path: paths of hooks are often secrets. */
import type { Models } from './gateway/served-models.ts';
import type { ServeFile, Told } from './serve-config.ts';
import type { WebhookTarget } from './webhooks.ts';

/** Of the file: said below in their own words. */
const OWN: ReadonlySet<string> = new Set([
  ...['listen', 'data', 'redis', 'redis_prefix', 'lease'],
  ...['models', 'webhooks', 'discover', 'limits', 'pool', 'grace', 'disk_reserve'],
  ...['record', 'log', 'log_level'],
]);

const textOf = (value: unknown): string => JSON.stringify(value) ?? '';

/** `later`: the names of what only a restart changes. */
export function differences(before: Told, after: Told): { changed: string[]; later: string[] } {
  const changed = [
    ...modelWords(before.settings.gateway.models, after.settings.gateway.models),
    ...hookWords(before.settings.webhooks, after.settings.webhooks),
    ...namedWords('discover', before.settings.discover, after.settings.discover),
    ...valueWords(before.said, after.said),
  ];
  if (before.settings.grace !== after.settings.grace)
    changed.push(`grace is ${after.settings.grace / 1000} s now`);
  const limits = [before.settings.limits, after.settings.limits] as const;
  for (const name of ['file', 'lines', 'line'] as const)
    if (limits[0][name] !== limits[1][name]) changed.push(`limits.${name} is ${limits[1][name]} now`);
  return { changed, later: laterIn(before, after) };
}

function laterIn(before: Told, after: Told): string[] {
  const fixed = ({ data, settings, pool, log }: Told): Record<string, unknown> => ({
    data,
    listen: [settings.host, settings.port],
    'redis, redis_prefix or lease': settings.queue,
    disk_reserve: settings.diskReserve,
    record: settings.gateway.isRecordRequired,
    'log or log_level': log,
    'limits.body': settings.limits.body,
    'limits.uploads': settings.limits.uploads,
    'pool.model': pool.model,
    'pool.in_flight': pool.inFlight,
    'pool.api_key_env': pool.key?.name,
    'pool.retry_budget': pool.retryBudget,
    'pool.timeout': pool.timeout,
    'pool.overflow': pool.overflow,
  });
  const now = fixed(before);
  return Object.entries(fixed(after)).flatMap(([name, value]) =>
    textOf(value) === textOf(now[name]) ? [] : [name],
  );
}

function valueWords(before: ServeFile, after: ServeFile): string[] {
  const keys = new Set([...Object.keys(before), ...Object.keys(after)]) as Set<keyof ServeFile>;
  return [...keys].flatMap(key => {
    const [was, is] = [textOf(before[key]), textOf(after[key])];
    if (OWN.has(key) || was === is) return [];
    const now = is === '' ? 'is as usual again' : `is ${is} now`;
    return [`${key} ${now}${was === '' ? '' : ` (was ${was})`}`];
  });
}

const targetOf = (to: Models[string]): string =>
  typeof to === 'string' ? to : to.map(({ model, weight = 1 }) => `${model}:${weight}`).join(', ');

function modelWords(before: Models, after: Models): string[] {
  const names = new Set([...Object.keys(before), ...Object.keys(after)]);
  return [...names].flatMap(name => {
    const [was, is] = [before[name], after[name]];
    if (textOf(was) === textOf(is)) return [];
    if (is === undefined) return [`alias ${name} removed`];
    return [
      was === undefined
        ? `alias ${name} added: ${targetOf(is)}`
        : `alias ${name} now ${targetOf(is)} (was ${targetOf(was)})`,
    ];
  });
}

function hookWords(before: readonly WebhookTarget[], after: readonly WebhookTarget[]): string[] {
  const known = new Map(before.map(one => [`${one.owner}\n${one.url}`, one]));
  const words = after.flatMap(one => {
    const name = `${one.owner}\n${one.url}`;
    const was = known.get(name);
    known.delete(name);
    if (was === undefined) return [`${hookName(one)} added`];
    return textOf(was) === textOf(one) ? [] : [`${hookName(one)} changed`];
  });
  return [...words, ...[...known.values()].map(one => `${hookName(one)} removed`)];
}

const hookName = ({ owner, url }: WebhookTarget): string =>
  `webhook of ${owner} to ${URL.canParse(url) ? new URL(url).origin : 'no address'}`;

function namedWords(name: string, before: readonly unknown[], after: readonly unknown[]): string[] {
  return textOf(before) === textOf(after) ? [] : [`${name} has ${after.length} entries now`];
}
