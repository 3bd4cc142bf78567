/** A benchmark as one page: HTML and SVG alone, no script, nothing from the network. Whether it may be believed comes first. */
import { counted } from '../../../engine/core/item/wording.ts';
import { count, decimal, esc, page, percent, table, tile } from '../../kit/html.ts';
import { charts, nameOf, shown, timelines, within } from './bench-charts.ts';
import { METRICS, type Metric } from './bench-figures.ts';
import { lengths, serverFacts, serverTables } from './bench-page-servers.ts';
import type { BenchResult } from './bench-result.ts';
import { fallingLoads } from './falling.ts';

/** With a line break at its end. `results` is not empty. */
export function benchPage(results: readonly BenchResult[]): string {
  const [first] = results as [BenchResult];
  const servers = Math.max(...results.map(({ fw }) => fw.endpoints.length));
  const title = `${first.model_id} on ${counted(servers, 'server')}`;
  return page({
    title: `Benchmark of ${esc(title)}`,
    header: `<h1>What ${esc(title)} did</h1>
<p class="dim">${esc(first.fw.workload.source)}; ${esc(first.fw.began)}; fw ${esc(first.fw.version)}${first.label ? `; ${esc(first.label)}` : ''}</p>
<p>${verdict(results)}</p>
${tiles(results)}`,
    main: `${runTable(results)}
${serverTables(results)}
${charts(results)}
${timelines(results)}
${failures(results)}
${serverFacts(results)}
${conditions(results)}`,
  });
}

function verdict(results: readonly BenchResult[]): string {
  const limited = results.filter(({ fw }) => fw.verdict === 'client-limited').length;
  const lost = results.filter(({ failed, fw }) => failed + fw.incomplete > 0).length;
  const parts = [
    limited === 0
      ? 'The client was not the limit in any run.'
      : `<b>The client was the limit in ${limited} of ${counted(results.length, 'run')}</b>: those figures are its own.`,
    lost === 0
      ? 'Every request was answered.'
      : `<b>In ${counted(lost, 'run')} requests failed</b> or were not finished; they are in no latency.`,
  ];
  return parts.join(' ');
}

function tiles(results: readonly BenchResult[]): string {
  const most = results.reduce((best, each) =>
    (each.output_throughput ?? -1) > (best.output_throughput ?? -1) ? each : best,
  );
  const least = results.reduce((best, each) =>
    (each.median_ttft_ms ?? Number.POSITIVE_INFINITY) < (best.median_ttft_ms ?? Number.POSITIVE_INFINITY)
      ? each
      : best,
  );
  const name = nameOf(results);
  const { input_tokens: input, output_tokens: output, cached_share: cached } = most.fw.workload;
  return `<div class="tiles">${[
    tile(
      'Most output tokens a second',
      shown(most.output_throughput),
      `${esc(name(most))}; ${decimal(most.request_throughput)} requests/s`,
    ),
    tile(
      'Shortest median TTFT',
      `${shown(least.median_ttft_ms)} ms`,
      `${esc(name(least))}; p99 ${shown(least.p99_ttft_ms)} ms`,
    ),
    tile(
      'Tokens of a request',
      `${decimal(input.mean, 0)} in, ${decimal(output.mean, 0)} out`,
      `deviation ${decimal(input.std, 0)} and ${decimal(output.std, 0)}; from the prefix cache: ${cached === null ? 'the server does not say' : percent(cached)}`,
    ),
    tile(
      'Requests',
      count(results.reduce((sum, { completed }) => sum + completed, 0)),
      `in ${counted(results.length, 'run')}; ${count(results.reduce((sum, { failed }) => sum + failed, 0))} failed`,
    ),
  ].join('\n')}</div>`;
}

function runTable(results: readonly BenchResult[]): string {
  const name = nameOf(results);
  const head = [
    'load',
    'answered',
    'failed',
    'requests/s',
    'good/s',
    'tokens/s out',
    'steady',
    'tokens/s in and out',
    'client',
  ];
  const rows = results.map(run => {
    const { intervals, verdict: client, incomplete } = run.fw;
    return [
      esc(name(run)),
      count(run.completed),
      count(run.failed + incomplete),
      within(run.request_throughput, intervals.request_throughput),
      run.request_goodput === null ? '–' : decimal(run.request_goodput),
      within(run.output_throughput, intervals.output_throughput),
      shown(run.fw.steady?.output_throughput),
      shown(run.total_token_throughput),
      client,
    ];
  });
  const latencies = METRICS.map(metric => `<h3>${WORDS[metric]}, ms</h3>\n${latencyTable(results, metric)}`);
  return `<h2>All runs</h2>
${table(head, rows)}
${latencies.join('\n')}
<p class="dim">In brackets is the 95 % interval: of percentiles by order statistics, of means and rates over windows of the run; ? is an end that so few requests do not have. Steady: tokens/s out of a closed loop without its beginning and its end. Gaps between the tokens of one answer depend on each other, so that ITL has none.</p>${notesOf(results)}`;
}

function notesOf(results: readonly BenchResult[]): string {
  const notes = fallingLoads(results);
  return notes.length === 0
    ? ''
    : `\n<ul class="notes">${notes.map(text => `<li>${pieces(text)}</li>`).join('')}</ul>`;
}

const WORDS = {
  ttft: 'Time to first token (TTFT)',
  tpot: 'Time per output token (TPOT)',
  itl: 'Gaps between tokens (ITL)',
  e2el: 'End-to-end latency (E2EL)',
} as const;

function latencyTable(results: readonly BenchResult[], metric: Metric): string {
  const name = nameOf(results);
  const figures = ['mean', 'median', 'p90', 'p95', 'p99'] as const;
  const isWhole = metric === 'e2el';
  const head = ['load', 'mean', 'p50', 'p90', 'p95', 'p99', ...(isWhole ? ['p99 from the due time'] : [])];
  const rows = results.map(run => [
    esc(name(run)),
    ...figures.map(at => within(run[`${at}_${metric}_ms`], run.fw.intervals[`${at}_${metric}_ms`])),
    ...(isWhole ? [shown(run.fw.e2el_due_ms.p99)] : []),
  ]);
  return table(head, rows);
}

function failures(results: readonly BenchResult[]): string {
  const name = nameOf(results);
  const rows = results.flatMap(run =>
    run.fw.failures.map(({ code, cause, count: times, message }) => [
      esc(name(run)),
      count(times),
      esc(code),
      esc(cause),
      esc(message),
    ]),
  );
  return rows.length === 0
    ? ''
    : `<h2>Failures</h2>\n${table(['load', 'requests', 'code', 'cause', 'the first one said'], rows)}`;
}

/** What a reader needs to do it again, or to doubt it. */
function conditions(results: readonly BenchResult[]): string {
  const name = nameOf(results);
  const [first] = results as [BenchResult];
  const rows = results.map(run => {
    const { client, workload } = run.fw;
    return [
      esc(name(run)),
      decimal(run.duration, 1),
      percent(client.loop_utilisation),
      decimal(client.cores),
      decimal(client.lag_mean_ms, 1),
      decimal(client.lag_p99_ms, 1),
      percent(client.waited),
      decimal(client.lateness_p99_ms, 1),
      percent(client.coalesced_share),
      count(workload.repeated),
      count(workload.uncounted),
    ];
  });
  const limits = results.flatMap(run =>
    run.fw.client.limits.map(text => `<li>${esc(name(run))}: ${pieces(text)}</li>`),
  );
  return `<h2>The client, and what was asked</h2>
${table(['load', 'seconds', 'loop at work', 'cores', 'saw late, mean ms', 'saw late, p99 ms', 'waited for a processor', 'sent late p99 ms', 'came together', 'asked before', 'without usage'], rows)}
${limits.length === 0 ? '' : `<ul class="notes">${limits.join('')}</ul>`}
${lengths(results)}
<p>Seed ${first.fw.workload.seed}${
    first.fw.goodput === null
      ? ''
      : `; good: ${esc(
          Object.entries(first.fw.goodput)
            .map(([key, most]) => `${key} at most ${most} ms`)
            .join(', '),
        )}`
  }.</p>
<details><summary>The body of the first request</summary><p>${pieces(first.fw.workload.body, LONGEST_BODY)}</p></details>
<h2>What the words mean</h2>
<ul class="notes">${Object.entries(first.fw.formulas)
    .map(([word, text]) => `<li><b>${esc(word)}</b>: ${pieces(text)}</li>`)
    .join('')}</ul>`;
}

/** Bytes of a prompt that fills a long context; the file has all of it. */
const LONGEST_BODY = 200_000;

/** Longer texts than `esc` shows. */
function pieces(text: string, most = 4_000): string {
  const whole = text.slice(0, most);
  const parts: string[] = [];
  for (let at = 0; at < whole.length; at += 100) parts.push(esc(whole.slice(at, at + 100)));
  return parts.join('') + (text.length > most ? '…' : '');
}
