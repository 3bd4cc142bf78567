/** Prometheus text: families of samples, and histograms. */

export interface Histogram {
  bounds: readonly number[];
  /** how many fell into each bucket, not yet summed up */
  buckets: number[];
  sum: number;
  count: number;
}

export function histogram(bounds: readonly number[]): Histogram {
  return { bounds, buckets: bounds.map(() => 0), sum: 0, count: 0 };
}

/** Notes `times` samples of one value. */
export function observe(into: Histogram, value: number, times = 1): void {
  const index = into.bounds.findIndex(bound => value <= bound);
  if (index >= 0) into.buckets[index]! += times;
  into.sum += value * times;
  into.count += times;
}

export interface Writer {
  gauge(name: string, help: string, value: number, more?: string): void;
  counter(name: string, help: string, value: number): void;
  /** One family of several samples, each with labels of its own such as `reason="capacity"`. */
  labelled(name: string, kind: 'gauge' | 'counter', help: string, values: { [labels: string]: number }): void;
  distribution(name: string, help: string, histogram: Histogram): void;
  text(): string;
}

/** Every sample has `prefix` before its name and the given labels, values as they are. */
export function prometheus(prefix: string, labels: { [name: string]: string }): Writer {
  const common = Object.entries(labels)
    .map(([name, value]) => `${name}="${escaped(value)}"`)
    .join(',');
  const lines: string[] = [];
  const head = (name: string, kind: string, help: string) =>
    lines.push(`# HELP ${prefix}${name} ${help}`, `# TYPE ${prefix}${name} ${kind}`);
  const sample = (name: string, value: number, more = '') =>
    lines.push(`${prefix}${name}{${common}${more && `,${more}`}} ${value}`);
  return {
    gauge(name, help, value, more) {
      head(name, 'gauge', help);
      sample(name, value, more);
    },
    counter(name, help, value) {
      head(name, 'counter', help);
      sample(`${name}_total`, value);
    },
    labelled(name, kind, help, values) {
      head(name, kind, help);
      const full = kind === 'counter' ? `${name}_total` : name;
      for (const [own, value] of Object.entries(values)) sample(full, value, own);
    },
    distribution(name, help, { bounds, buckets, sum, count }) {
      head(name, 'histogram', help);
      let below = 0;
      bounds.forEach((bound, index) => {
        below += buckets[index]!;
        sample(`${name}_bucket`, below, `le="${bound}"`);
      });
      sample(`${name}_bucket`, count, 'le="+Inf"');
      sample(`${name}_sum`, sum);
      sample(`${name}_count`, count);
    },
    text: () => `${lines.join('\n')}\n`,
  };
}

function escaped(value: string): string {
  return value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n');
}
