/**
 * What a terminal shows of a benchmark: the table of vllm bench serve, line by line as it prints it, since scripts search for
 * its labels; below it all loads side by side, with intervals, and whether the figures may be believed.
 */

import { aligned, counted, cut, number } from '../../../engine/core/item/wording.ts';
import { visible } from '../../../engine/core/json/visible.ts';
import type { Run } from './bench.ts';
import type { Figures, Metric } from './bench-figures.ts';
import { loadWords } from './bench-result.ts';
import { type Bounds, meanInterval } from './bench-statistics.ts';
import type { Load } from './drive-load.ts';
import type { BenchResult } from './json.ts';

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

const figure = (value: number | null | undefined, digits = 1): string => {
  if (value === null || value === undefined || Number.isNaN(value)) return '–';
  return Math.abs(value) >= 1000 ? number(Math.round(value)) : value.toFixed(digits);
};

/** `320.1 (300.0–351.2)`; an end that a sample of this size does not have is `?`. */
function within(value: number | undefined, bounds: Bounds | undefined): string {
  if (value === undefined || Number.isNaN(value)) return '–';
  const end = (at: number | null | undefined): string => (at === null || at === undefined ? '?' : figure(at));
  return `${figure(value)} (${end(bounds?.low)}–${end(bounds?.high)})`;
}

export function summaryTable(runs: readonly Run[]): string {
  const several = {
    servers: new Set(runs.map(({ endpoints }) => endpoints.length)).size > 1,
    runs: runs.some(({ of }) => of > 1),
  };
  const head = [
    'load',
    ...(several.servers ? ['servers'] : []),
    ...(several.runs ? ['run'] : []),
    'ok',
    'failed',
    'req/s',
    'tok/s out',
    'steady',
    'TTFT p50 ms',
    'p99',
    'TPOT p50',
    'E2EL p50',
    'p99',
    'client',
  ];
  const rows = runs.map(({ load, endpoints, run, figures, limits }) => {
    const { metrics, bounds } = figures;
    return [
      loadWords(load),
      ...(several.servers ? [String(endpoints.length)] : []),
      ...(several.runs ? [String(run)] : []),
      number(figures.completed),
      number(figures.failed + figures.incomplete),
      figure(figures.requestThroughput, 2),
      figure(figures.outputThroughput),
      figure(figures.steady?.outputThroughput),
      within(metrics.ttft.at[50], bounds.ttft[50]),
      within(metrics.ttft.at[99], bounds.ttft[99]),
      figure(metrics.tpot.at[50], 2),
      within(metrics.e2el.at[50], bounds.e2el[50]),
      within(metrics.e2el.at[99], bounds.e2el[99]),
      limits.length > 0 ? 'client-limited' : 'ok',
    ];
  });
  const right = head.map((_, at) => at).slice(1, -1);
  return `${[...aligned([head, ...rows], right), ...repeatLines(runs)].join('\n')}\n`;
}

/** What the servers say of the same runs; empty where none says anything. */
export function serverTable(runs: readonly Run[]): string {
  if (runs.every(({ server }) => server.seen === 0 && server.gpu === null)) return '';
  const share = (value: number | null | undefined): string =>
    value === null || value === undefined ? '–' : `${Math.round(100 * value)} %`;
  const head = [
    'servers say',
    'TTFT mean ms',
    'ours',
    'gap',
    'queue',
    'prefill',
    'decode',
    'preempted',
    'prefix hits',
    'KV max',
    'running',
    'waiting',
    'GPU',
  ];
  const rows = runs.map(({ load, endpoints, server, figures: { metrics } }) => {
    const { mean } = server;
    const ours = metrics.ttft.mean;
    return [
      `${loadWords(load)}${endpoints.length > 1 ? ` on ${endpoints.length}` : ''}`,
      figure(mean.ttft),
      figure(ours),
      mean.ttft === null ? '–' : figure(ours - mean.ttft),
      figure(mean.queue),
      figure(mean.prefill),
      figure(mean.decode),
      figure(server.preemptions, 0),
      share(server.prefixHits),
      share(server.kvMax),
      figure(server.runningMean),
      figure(server.waitingMean),
      share(server.gpu?.use),
    ];
  });
  return `\n${aligned([head, ...rows], head.map((_, at) => at).slice(1)).join('\n')}\n`;
}

/** Of each load that was run more than once the means over its runs. */
function repeatLines(runs: readonly Run[]): string[] {
  const groups = new Map<string, Run[]>();
  for (const run of runs) {
    const key = `${loadWords(run.load)}, ${counted(run.endpoints.length, 'server')}`;
    groups.set(key, [...(groups.get(key) ?? []), run]);
  }
  const rows: string[][] = [];
  for (const [key, all] of groups) {
    const mean = (of: (run: Run) => number): string => {
      const interval = meanInterval(all.map(of));
      return interval === null
        ? '–'
        : `${figure(interval.value)} (${figure(interval.low)}–${figure(interval.high)})`;
    };
    if (all.length < 2) continue;
    rows.push([
      key,
      String(all.length),
      mean(({ figures }) => figures.requestThroughput),
      mean(({ figures }) => figures.outputThroughput),
      mean(({ figures }) => figures.metrics.ttft.mean),
      mean(({ figures }) => figures.metrics.tpot.mean),
      mean(({ figures }) => figures.metrics.e2el.mean),
    ]);
  }
  if (rows.length === 0) return [];
  const head = ['means over runs', 'runs', 'req/s', 'tok/s out', 'TTFT ms', 'TPOT', 'E2EL'];
  return ['', ...aligned([head, ...rows], [1, 2, 3, 4, 5, 6])];
}

const MOST_TOLD = 20;

/** What must be known of a run before its figures are believed, a line each. */
export function notesOf(
  { load, endpoints, figures, limits, driven, repeated, client, closing, server }: Run,
  outputTokens: number | null,
): string[] {
  const notes: string[] = [];
  const of = `${loadWords(load)}${endpoints.length > 1 ? ` on ${endpoints.length} servers` : ''}: `;
  for (const reason of limits)
    notes.push(`${of}client-limited: ${reason}; use fewer streams, or a machine with more free processors`);
  for (const { code, cause, count, message } of driven.samples.failures().slice(0, MOST_TOLD)) {
    const first = message === cause ? '' : `; the first: ${visible(cut(message, 300))}`;
    notes.push(`${of}${counted(count, 'request')} failed: ${code}, ${visible(cause)}${first}`);
  }
  if (figures.uncounted > 0)
    notes.push(
      `${of}${counted(figures.uncounted, 'answer')} without usage: their tokens are unknown, and in no figure`,
    );
  if (figures.completed > 0 && figures.metrics.ttft.n === 0)
    notes.push(`${of}no answer was streamed: there is no TTFT, TPOT or ITL, only E2EL`);
  for (const url of closing)
    notes.push(
      `${of}${url} closes connections behind its answers: each request opens one of its own, and TTFT has that in it`,
    );
  if (server.restarted) notes.push(`${of}a server began again in the run: what it counts is left out`);
  const ours = figures.completed + figures.failed + figures.incomplete;
  if (server.seen === server.of && server.requests !== null && server.requests > ours)
    notes.push(
      `${of}the servers ended ${number(server.requests)} requests in this time, of which ${number(ours)} are of this run: somebody else uses them`,
    );
  if (repeated > 0)
    notes.push(
      `${of}${counted(repeated, 'request')} had been asked before: a prefix cache may have known them`,
    );
  if (figures.coalescedShare > 0.01)
    notes.push(
      `${of}${Math.round(100 * figures.coalescedShare)} % of the tokens came together with the one before: gaps of 0 ms are in ITL`,
    );
  if (
    outputTokens !== null &&
    figures.output.n > 0 &&
    Math.abs(figures.output.mean / outputTokens - 1) > 0.02
  )
    notes.push(
      `${of}expected answers of ${outputTokens} tokens, found ${figure(figures.output.mean)} on average: the server does not honour ignore_eos`,
    );
  if (load.kind === 'open' && client.latenessP99 !== null)
    notes.push(
      `${of}requests were sent ${client.latenessP99.toFixed(1)} ms late at the 99th percentile; E2EL from the due time: p50 ${figure(figures.e2elDue.at[50])}, p99 ${figure(figures.e2elDue.at[99])} ms`,
    );
  return notes;
}

// Tokens a second that fall where more is asked at once: a server that batches does not do that by itself, so why?

/** Less than this share of what a smaller load had. */
const FALLS_BELOW = 0.95;
const FULL = 0.95;

/** A sentence for each closed loop that gave less than a smaller one on as many servers. */
export function fallingLoads(results: readonly BenchResult[]): string[] {
  const notes: string[] = [];
  const closed = results.flatMap(run => {
    const { load } = run.fw;
    const rate = run.fw.steady?.output_throughput ?? run.output_throughput;
    return load.kind === 'closed' && rate !== null ? [{ run, at: load.concurrency, rate }] : [];
  });
  for (const { run, at, rate } of closed) {
    const better = closed
      .filter(other => other.at < at && other.run.fw.endpoints.length === run.fw.endpoints.length)
      .sort((a, b) => b.rate - a.rate)[0];
    if (better === undefined || !(rate < FALLS_BELOW * better.rate)) continue;
    notes.push(
      `${loadWords(run.fw.load)}: ${number(Math.round(rate))} tokens/s out, less than the ${number(Math.round(better.rate))} of ${loadWords(better.run.fw.load)}: ${reasonOf(run)}`,
    );
  }
  return notes;
}

function reasonOf({ failed, fw: { verdict, server } }: BenchResult): string {
  const reasons: string[] = [];
  if (verdict === 'client-limited') reasons.push('the client was the limit');
  if (failed > 0) reasons.push(`${counted(failed, 'request')} failed`);
  if (server?.preemptions)
    reasons.push(
      `the servers preempted ${counted(server.preemptions, 'request')}, whose work was done again`,
    );
  if ((server?.kv_max ?? 0) > FULL) reasons.push('the KV cache was full');
  if (server && (server.waiting_mean ?? 0) > (server.running_mean ?? 0))
    reasons.push('more requests waited than ran: the batch is small (--max-num-seqs)');
  if (reasons.length > 0) return reasons.join('; ');
  return server === null
    ? 'the servers have no metrics that would say why'
    : 'neither the client nor the queue, the KV cache or preemptions say why';
}
