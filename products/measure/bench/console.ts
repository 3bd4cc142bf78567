/** The table of vllm bench serve, line by line as it prints it, since scripts search for its labels. */
import type { Figures, Metric } from './bench-figures.ts';
import type { Load } from './drive-load.ts';

const WIDTH = 50;

/** As Python's `"{s:{c}^{n}}".format(s, n=50, c)`: the odd one goes to the right. */
function centred(text: string, fill: string): string {
  const left = Math.floor((WIDTH - text.length) / 2);
  return text === ''
    ? fill.repeat(WIDTH)
    : `${fill.repeat(left)}${text}${fill.repeat(WIDTH - text.length - left)}`;
}

const line = (label: string, value: string): string => `${label.padEnd(40)} ${value.padEnd(10)}`;
/** What nobody measured is no 0: `nan` is what a script still reads as a number. */
const whole = (label: string, value: number): string =>
  line(label, Number.isNaN(value) ? 'nan' : String(value));
const fixed = (label: string, value: number): string =>
  line(label, Number.isNaN(value) ? 'nan' : value.toFixed(2));

const HEADS: Record<Metric, [name: string, head: string]> = {
  ttft: ['TTFT', 'Time to First Token'],
  tpot: ['TPOT', 'Time per Output Token (excl. 1st token)'],
  itl: ['ITL', 'Inter-token Latency'],
  e2el: ['E2EL', 'End-to-end Latency'],
};

/** With a line break at its end. */
export function vllmTable(figures: Figures, load: Load): string {
  const { metrics, goodput } = figures;
  const lines = [
    centred(' Serving Benchmark Result ', '='),
    whole('Successful requests:', figures.completed),
    whole('Failed requests:', figures.failed),
    ...(load.kind === 'closed' ? [whole('Maximum request concurrency:', load.concurrency)] : []),
    ...(load.kind === 'open' && load.rate !== Number.POSITIVE_INFINITY && load.from === undefined
      ? [fixed('Request rate configured (RPS):', load.rate)]
      : []),
    fixed('Benchmark duration (s):', figures.duration),
    whole('Total input tokens:', figures.inputTokens),
    whole('Total generated tokens:', figures.outputTokens),
    fixed('Request throughput (req/s):', figures.requestThroughput),
    ...(goodput === null ? [] : [fixed('Request goodput (req/s):', goodput)]),
    fixed('Output token throughput (tok/s):', figures.outputThroughput),
    fixed('Peak output token throughput (tok/s):', figures.peakEvents),
    fixed('Peak concurrent requests:', figures.peakConcurrency),
    fixed('Total token throughput (tok/s):', figures.totalThroughput),
  ];
  for (const [metric, [name, head]] of Object.entries(HEADS)) {
    const spread = metrics[metric as Metric];
    lines.push(
      centred(head, '-'),
      fixed(`Mean ${name} (ms):`, spread.mean),
      fixed(`Median ${name} (ms):`, spread.at[50] as number),
      fixed(`P99 ${name} (ms):`, spread.at[99] as number),
    );
  }
  lines.push(centred('', '='));
  return `${lines.join('\n')}\n`;
}
