/** The pictures of the page: figures by load, latency against throughput, and what came in each second. */
import { counted } from '../../../engine/core/item/wording.ts';
import { curveChart, type Dot, dotChart, MOST_DOTS } from '../../kit/chart.ts';
import { count, decimal, figure, html, joined, percent, short, type Text, table } from '../../kit/html.ts';
import { loadWords } from './bench-result.ts';
import type { BenchResult } from './json.ts';

/** What tells a run from the others. */
export const nameOf = (results: readonly BenchResult[]) => {
  const servers = new Set(results.map(({ fw }) => fw.endpoints.length)).size > 1;
  const runs = results.some(({ fw }) => fw.of > 1);
  return ({ fw }: BenchResult): string =>
    [
      loadWords(fw.load),
      ...(servers ? [`on ${counted(fw.endpoints.length, 'server')}`] : []),
      ...(runs ? [`run ${fw.run}`] : []),
    ].join(', ');
};

/** Three digits are enough of a figure that is measured. */
export function shown(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return '–';
  return Math.abs(value) >= 1000 ? count(Math.round(value)) : decimal(value, Math.abs(value) >= 100 ? 0 : 1);
}

export type Ends = readonly [number | null, number | null] | null | undefined;

export function within(value: number | null, ends: Ends): Text {
  if (!ends || value === null) return shown(value);
  const end = (at: number | null): string => (at === null ? '?' : shown(at));
  return `${shown(value)} (${end(ends[0])}–${end(ends[1])})`;
}

interface Measure {
  title: string;
  axis: string;
  key: keyof BenchResult & string;
}

const MEASURES: readonly Measure[] = [
  { title: 'Output tokens a second, by load', axis: 'tokens/s', key: 'output_throughput' },
  { title: 'Median time to first token, by load', axis: 'ms', key: 'median_ttft_ms' },
  { title: 'Time to first token at the 99th percentile, by load', axis: 'ms', key: 'p99_ttft_ms' },
  { title: 'Median time per output token, by load', axis: 'ms', key: 'median_tpot_ms' },
  { title: 'End-to-end latency at the 99th percentile, by load', axis: 'ms', key: 'p99_e2el_ms' },
];

export function charts(results: readonly BenchResult[]): Text {
  const name = nameOf(results);
  const figures = MEASURES.map(({ title, axis, key }) => {
    const rows: Dot[] = results.flatMap(run => {
      const value = run[key] as number | null;
      if (value === null) return []; // nobody measured it
      const [low, high] = run.fw.intervals[key] ?? [null, null];
      return {
        label: name(run),
        value,
        low: Math.min(value, low ?? value),
        high: Math.max(value, high ?? value),
        faint: run.fw.verdict === 'client-limited',
      };
    });
    const drawn = dotChart({ title, axis, rows, show: shown, from: 0, to: 0 });
    const behind = table(
      ['load', axis, 'low', 'high'],
      results.map(run => {
        const [low = null, high = null] = run.fw.intervals[key] ?? [];
        return [short(name(run)), shown(run[key] as number | null), shown(low), shown(high)];
      }),
    );
    const more = rows.length > MOST_DOTS ? ` The first ${MOST_DOTS} are drawn.` : '';
    return figure(
      title,
      drawn,
      behind,
      `The line is the 95 % interval; one that ends at its dot has no end there, for want of requests. Pale: client-limited.${more}`,
    );
  });
  return html`<h2>By load</h2>\n${joined(figures, '\n')}\n${tradeOff(results)}`;
}

/** What a request costs its user where the servers do more: a curve for each number of servers and kind of load. */
function tradeOff(results: readonly BenchResult[]): Text {
  const kindOf = ({ fw }: BenchResult): string =>
    `${counted(fw.endpoints.length, 'server')}, ${fw.load.kind === 'closed' ? 'closed loop' : 'open loop'}`;
  const kinds = [...new Set(results.map(kindOf))].slice(0, MOST_CURVES);
  const curves = kinds.map(kind => ({
    label: kind,
    points: results
      .filter(run => kindOf(run) === kind && run.completed > 0)
      .flatMap(run => (run.p99_e2el_ms === null ? [] : [[run.request_throughput, run.p99_e2el_ms] as const]))
      .sort(([a], [b]) => a - b),
  }));
  if (!curves.some(({ points }) => points.length >= 3)) return '';
  const title = 'Latency at the 99th percentile against throughput';
  const to = Math.max(...curves.flatMap(({ points }) => points.map(([, y]) => y)));
  const drawn = curveChart({
    title,
    x: 'requests/s',
    y: 'E2EL p99, ms',
    curves: curves.filter(({ points }) => points.length > 0),
    showX: shown,
    showY: shown,
    from: 0,
    to,
    dots: true,
  });
  const behind = table(
    ['servers', 'requests/s', 'E2EL p99 ms'],
    curves.flatMap(({ label, points }) => points.map(([x, y]) => [label, decimal(x), shown(y)])),
  );
  return figure(title, drawn, behind);
}

const MOST_CURVES = 6;
const MOST_SECONDS = 3_600;

export function timelines(results: readonly BenchResult[]): Text {
  const name = nameOf(results);
  const shownRuns = results.slice(0, MOST_CURVES);
  const parts = (
    [
      ['Tokens that came in each second', 'events/s', 'events'],
      ['Requests under way', 'requests', 'under_way'],
      ['Requests that waited at the servers', 'requests', 'waiting'],
      ['KV cache in use, the fullest of the servers', 'share', 'kv'],
    ] as const
  ).map(([title, y, key]) => {
    const curves = shownRuns
      .map(run => ({
        label: name(run),
        points: run.fw.timeline[key].slice(0, MOST_SECONDS).map((value, second) => [second, value] as const),
      }))
      .filter(({ points }) => points.length >= 2);
    const isSaid = curves.some(({ points }) => points.some(([, value]) => value > 0));
    if (!isSaid) return '';
    const to = Math.max(
      key === 'kv' ? 0.01 : 1,
      ...curves.flatMap(({ points }) => points.map(([, value]) => value)),
    );
    const drawn = curveChart({
      title,
      x: 'seconds since the start of the run',
      y,
      curves,
      showX: shown,
      showY: key === 'kv' ? value => percent(value, 0) : shown,
      from: 0,
      to,
    });
    const longest = curves.reduce((most, { points }) => Math.max(most, points.length), 0);
    const rows = Array.from({ length: longest }, (_, second) => [
      String(second),
      ...curves.map(({ points }) => shown(points[second]?.[1])),
    ]);
    return figure(
      title,
      drawn,
      table(['second', ...curves.map(({ label }) => short(label))], rows),
      results.length > MOST_CURVES ? `The first ${MOST_CURVES} runs.` : '',
    );
  });
  const drawnParts = parts.filter(part => part !== '');
  return drawnParts.length === 0 ? '' : html`<h2>Over time</h2>\n${joined(drawnParts, '\n')}`;
}
