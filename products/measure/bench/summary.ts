/** What is said below vLLM's table: all loads side by side, with intervals, and whether the figures may be believed. */
import { aligned, counted, cut, number } from '../../../engine/core/item/wording.ts';
import { visible } from '../../../engine/core/json/visible.ts';
import type { Run } from './bench.ts';
import { loadWords as wordsOf } from './bench-result.ts';
import { type Bounds, meanInterval } from './bench-statistics.ts';
import type { Load } from './drive-load.ts';
import { loadJson } from './json.ts';

/** `4 at a time`, `2/s`. */
export const loadWords = (load: Load): string => wordsOf(loadJson(load));

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
