/** The text format of Prometheus (version 0.0.4) as far as fw writes it, and the rules of `promtool check metrics` on names. */

export interface Sample {
  name: string;
  labels: Record<string, string>;
  value: number;
}

const SAMPLE = /^([a-z_]+)(?:\{(.*)\})? (-?[\d.e+-]+|NaN|[+-]?Inf)$/;
const LABEL = /([a-z_]+)="((?:[^"\\]|\\.)*)"(?:,|$)/gy;

const TYPES = ['counter', 'gauge', 'histogram', 'summary'];
const NO_BASE_UNITS =
  'ns us ms s sec m h d b kb mb gb kib mib gib nanoseconds microseconds milliseconds minutes hours days bits kilobytes megabytes gigabytes percent'.split(
    ' ',
  );

export function samplesOf(page: string): Sample[] {
  return linesOf(page).flatMap(line => sampleIn(line) ?? []);
}

/** What is wrong with a page; nothing where Prometheus takes it. */
export function complaintsAbout(page: string): string[] {
  const complaints: string[] = [];
  const helps = new Set<string>();
  const types = new Map<string, string>();
  for (const line of page.split('\n')) {
    const [, kind, name, rest] = /^# (HELP|TYPE) (\S+) (.+)$/.exec(line) ?? [];
    if (kind === 'HELP') helps.add(name as string);
    if (kind === 'TYPE') types.set(name as string, rest as string);
  }
  for (const [name, type] of types) {
    const odd = name.split('_').find(word => TYPES.includes(word) || NO_BASE_UNITS.includes(word));
    if (odd !== undefined)
      complaints.push(`${name}: no name of a type or of a unit that is none of the base: ${odd}`);
    if (type !== 'histogram' && /_(bucket|sum|count)$/.test(name))
      complaints.push(`${name}: the name of a part of a histogram`);
    if (!helps.has(name)) complaints.push(`${name}: no help`);
    if (type === 'counter' && !name.endsWith('_total')) complaints.push(`${name}: a counter ends in _total`);
    if (type !== 'counter' && name.endsWith('_total'))
      complaints.push(`${name}: only a counter ends in _total`);
  }
  const seen = new Set<string>();
  for (const line of linesOf(page)) {
    const sample = sampleIn(line);
    if (sample === null) {
      complaints.push(`no sample: ${line}`);
      continue;
    }
    const series = line.slice(0, line.lastIndexOf(' '));
    if (seen.has(series)) complaints.push(`${series}: twice`);
    if ('quantile' in sample.labels || ('le' in sample.labels && !sample.name.endsWith('_bucket'))) {
      complaints.push(`${series}: a label that is kept for histograms`);
    }
    seen.add(series);
    const family = types.has(sample.name) ? sample.name : sample.name.replace(/_(bucket|sum|count)$/, '');
    if (!types.has(family)) complaints.push(`${sample.name}: no type`, `${sample.name}: no help`);
  }
  return complaints;
}

function linesOf(page: string): string[] {
  return page.split('\n').filter(line => line !== '' && !line.startsWith('#'));
}

function sampleIn(line: string): Sample | null {
  const [, name, labels = '', value] = SAMPLE.exec(line) ?? [];
  if (name === undefined) return null;
  const found = [...labels.matchAll(LABEL)].map(([, label, text]) => [label as string, text as string]);
  return {
    name,
    labels: Object.fromEntries(found),
    value: Number((value as string).replace('Inf', 'Infinity')),
  };
}
