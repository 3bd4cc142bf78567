/** A benchmark as one page: HTML and SVG alone, no script, nothing from the network. Whether it may be believed comes first. */
import { counted } from '../../../engine/core/item/wording.ts';
import { count, decimal, html, joined, percent, short, type Text, table, tile } from '../../kit/html.ts';
import { page } from '../../kit/page.ts';
import { charts, nameOf, shown, timelines, within } from './bench-charts.ts';
import { METRICS, type Metric } from './bench-figures.ts';
import type { SpreadJson } from './bench-result.ts';
import { fallingLoads } from './bench-tables.ts';
import type { BenchResult } from './json.ts';

/** With a line break at its end. `results` is not empty. */
export function benchPage(results: readonly BenchResult[]): string {
  const [first] = results as [BenchResult];
  const servers = Math.max(...results.map(({ fw }) => fw.endpoints.length));
  const title = `${first.model_id} on ${counted(servers, 'server')}`;
  return page({
    title: `Benchmark of ${short(title)}`,
    header: html`<h1>What ${short(title)} did</h1>
<p class="dim">${short(first.fw.workload.source)}; ${short(first.fw.began)}; fw ${short(first.fw.version)}${first.label ? `; ${short(first.label)}` : ''}</p>
<p>${verdict(results)}</p>
${tiles(results)}`,
    main: html`${runTable(results)}
${serverTables(results)}
${charts(results)}
${timelines(results)}
${failures(results)}
${serverFacts(results)}
${conditions(results)}`,
  });
}

function verdict(results: readonly BenchResult[]): Text {
  const limited = results.filter(({ fw }) => fw.verdict === 'client-limited').length;
  const lost = results.filter(({ failed, fw }) => failed + fw.incomplete > 0).length;
  const parts = [
    limited === 0
      ? 'The client was not the limit in any run.'
      : html`<b>The client was the limit in ${limited} of ${counted(results.length, 'run')}</b>: those figures are its own.`,
    lost === 0
      ? 'Every request was answered.'
      : html`<b>In ${counted(lost, 'run')} requests failed</b> or were not finished; they are in no latency.`,
  ];
  return joined(parts, ' ');
}

function tiles(results: readonly BenchResult[]): Text {
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
  return html`<div class="tiles">${joined(
    [
      tile(
        'Most output tokens a second',
        shown(most.output_throughput),
        `${short(name(most))}; ${decimal(most.request_throughput)} requests/s`,
      ),
      tile(
        'Shortest median TTFT',
        `${shown(least.median_ttft_ms)} ms`,
        `${short(name(least))}; p99 ${shown(least.p99_ttft_ms)} ms`,
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
    ],
    '\n',
  )}</div>`;
}

function runTable(results: readonly BenchResult[]): Text {
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
      short(name(run)),
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
  const latencies = METRICS.map(
    metric => html`<h3>${WORDS[metric]}, ms</h3>\n${latencyTable(results, metric)}`,
  );
  return html`<h2>All runs</h2>
${table(head, rows)}
${joined(latencies, '\n')}
<p class="dim">In brackets is the 95 % interval: of percentiles by order statistics, of means and rates over windows of the run; ? is an end that so few requests do not have. Steady: tokens/s out of a closed loop without its beginning and its end. Gaps between the tokens of one answer depend on each other, so that ITL has none.</p>${notesOf(results)}`;
}

function notesOf(results: readonly BenchResult[]): Text {
  const notes = fallingLoads(results);
  return notes.length === 0
    ? ''
    : html`\n<ul class="notes">${joined(notes.map(text => html`<li>${pieces(text)}</li>`))}</ul>`;
}

const WORDS = {
  ttft: 'Time to first token (TTFT)',
  tpot: 'Time per output token (TPOT)',
  itl: 'Gaps between tokens (ITL)',
  e2el: 'End-to-end latency (E2EL)',
} as const;

function latencyTable(results: readonly BenchResult[], metric: Metric): Text {
  const name = nameOf(results);
  const figures = ['mean', 'median', 'p90', 'p95', 'p99'] as const;
  const isWhole = metric === 'e2el';
  const head = ['load', 'mean', 'p50', 'p90', 'p95', 'p99', ...(isWhole ? ['p99 from the due time'] : [])];
  const rows = results.map(run => [
    short(name(run)),
    ...figures.map(at => within(run[`${at}_${metric}_ms`], run.fw.intervals[`${at}_${metric}_ms`])),
    ...(isWhole ? [shown(run.fw.e2el_due_ms.p99)] : []),
  ]);
  return table(head, rows);
}

function failures(results: readonly BenchResult[]): Text {
  const name = nameOf(results);
  const rows = results.flatMap(run =>
    run.fw.failures.map(({ code, cause, count: times, message }) => [
      short(name(run)),
      count(times),
      short(code),
      short(cause),
      short(message),
    ]),
  );
  return rows.length === 0
    ? ''
    : html`<h2>Failures</h2>\n${table(['load', 'requests', 'code', 'cause', 'the first one said'], rows)}`;
}

/** What a reader needs to do it again, or to doubt it. */
function conditions(results: readonly BenchResult[]): Text {
  const name = nameOf(results);
  const [first] = results as [BenchResult];
  const rows = results.map(run => {
    const { client, workload } = run.fw;
    return [
      short(name(run)),
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
    run.fw.client.limits.map(text => html`<li>${short(name(run))}: ${pieces(text)}</li>`),
  );
  return html`<h2>The client, and what was asked</h2>
${table(['load', 'seconds', 'loop at work', 'cores', 'saw late, mean ms', 'saw late, p99 ms', 'waited for a processor', 'sent late p99 ms', 'came together', 'asked before', 'without usage'], rows)}
${limits.length === 0 ? '' : html`<ul class="notes">${joined(limits)}</ul>`}
${lengths(results)}
<p>Seed ${first.fw.workload.seed}${
    first.fw.goodput === null
      ? ''
      : `; good: ${short(
          Object.entries(first.fw.goodput)
            .map(([key, most]) => `${key} at most ${most} ms`)
            .join(', '),
        )}`
  }.</p>
<details><summary>The body of the first request</summary><p>${pieces(first.fw.workload.body, LONGEST_BODY)}</p></details>
<h2>What the words mean</h2>
<ul class="notes">${joined(
    Object.entries(first.fw.formulas).map(
      ([word, text]) => html`<li><b>${short(word)}</b>: ${pieces(text)}</li>`,
    ),
  )}</ul>`;
}

/** Bytes of a prompt that fills a long context; the file has all of it. */
const LONGEST_BODY = 200_000;

/** Longer texts than names. */
const pieces = (text: string, most = 4_000): string => short(text, most);

/** What the servers counted in each run, beside what was seen here. */
function serverTables(results: readonly BenchResult[]): Text {
  const name = nameOf(results);
  const said = results.flatMap(run => (run.fw.server === null ? [] : [{ run, server: run.fw.server }]));
  if (said.length === 0)
    return html`<h2>What the servers say</h2>
<p>Nothing: none of them has metrics that are known here.</p>`;
  const times = said.map(({ run, server }) => [
    short(name(run)),
    shown(run.mean_ttft_ms),
    shown(server.mean_ttft_ms),
    decimal(server.gap_ttft_ms, 1),
    shown(server.mean_queue_ms),
    shown(server.mean_prefill_ms),
    shown(server.mean_decode_ms),
    shown(run.mean_e2el_ms),
    shown(server.mean_e2el_ms),
    decimal(server.gap_e2el_ms, 1),
  ]);
  const load = said.map(({ run, server }) => [
    short(name(run)),
    shown(server.running_mean),
    shown(server.waiting_mean),
    percent(server.kv_max),
    server.preemptions === null ? '–' : count(server.preemptions),
    percent(server.prefix_hits),
    server.requests === null ? '–' : count(server.requests),
    server.output_tokens === null ? '–' : count(server.output_tokens),
    percent(server.gpu_use),
    percent(server.gpu_memory),
  ]);
  const partial = said.filter(({ run, server }) => server.seen < run.fw.endpoints.length);
  return html`<h2>What the servers say</h2>
<h3>Means of their histograms, ms</h3>
${table(['load', 'TTFT here', 'theirs', 'gap', 'in the queue', 'prefill', 'decode', 'E2EL here', 'theirs', 'gap'], times)}
<p class="dim">The gap is the network, HTTP and this client: one that grows with the load is the client's.</p>
<h3>Their load</h3>
${table(['load', 'running', 'waiting', 'KV cache, most', 'preempted', 'prefix hits', 'requests ended', 'tokens out', 'GPU in use', 'GPU memory'], load)}
<p class="dim">Running and waiting are means over the seconds of the run, of all servers together.${
    partial.length === 0
      ? ''
      : ` In ${counted(partial.length, 'run')} not every server had metrics, or one of them began again: it is left out.`
  }</p>`;
}

/** Which servers were measured, as far as they say it. */
function serverFacts(results: readonly BenchResult[]): Text {
  const known = new Map(
    results.flatMap(({ fw }) =>
      fw.servers.flatMap(facts => (facts === null ? [] : [[facts.url, facts] as const])),
    ),
  );
  const rows = [...known.values()].map(({ url, version, root, max_model_len: length, settings }) => [
    short(url),
    version === null ? 'it does not say' : short(version),
    root === null ? '–' : short(root),
    length === null ? '–' : count(length),
    Object.keys(settings).length === 0
      ? 'it names none'
      : joined(
          Object.entries(settings).map(([flag, value]) => `${short(flag)}=${short(value)}`),
          '<br>',
        ),
  ]);
  return html`<h2>The servers</h2>\n${table(['endpoint', 'version', 'weights', 'context', 'settings that it names'], rows)}`;
}

/** Mean and spread of both lengths of each run: without these a number of tokens a second means nothing. */
export function lengths(results: readonly BenchResult[]): Text {
  const name = nameOf(results);
  const cells = ({ n, mean, std, min, p50, p99, max }: SpreadJson): string[] => [
    count(n),
    ...[mean, std, min, p50, p99, max].map(shown),
  ];
  const rows = results.flatMap(run => [
    [`${short(name(run))}: prompts`, ...cells(run.fw.workload.input_tokens)],
    [`${short(name(run))}: answers`, ...cells(run.fw.workload.output_tokens)],
  ]);
  return html`<h3>Tokens of prompts and answers, as the server counted them</h3>
${table(['load', 'n', 'mean', 'deviation', 'least', 'p50', 'p99', 'most'], rows)}`;
}
