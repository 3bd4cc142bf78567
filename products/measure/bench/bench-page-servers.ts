/** What the page has of the servers: what they say of each run, which they are, and how long what was asked of them is. */
import { counted } from '../../../engine/core/item/wording.ts';
import { count, decimal, esc, percent, table } from '../../kit/html.ts';
import { nameOf, shown } from './bench-charts.ts';
import type { BenchResult, SpreadJson } from './bench-result.ts';

/** What the servers counted in each run, beside what was seen here. */
export function serverTables(results: readonly BenchResult[]): string {
  const name = nameOf(results);
  const said = results.flatMap(run => (run.fw.server === null ? [] : [{ run, server: run.fw.server }]));
  if (said.length === 0)
    return '<h2>What the servers say</h2>\n<p>Nothing: none of them has metrics that are known here.</p>';
  const times = said.map(({ run, server }) => [
    esc(name(run)),
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
    esc(name(run)),
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
  return `<h2>What the servers say</h2>
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
export function serverFacts(results: readonly BenchResult[]): string {
  const known = new Map(
    results.flatMap(({ fw }) =>
      fw.servers.flatMap(facts => (facts === null ? [] : [[facts.url, facts] as const])),
    ),
  );
  const rows = [...known.values()].map(({ url, version, root, max_model_len: length, settings }) => [
    esc(url),
    version === null ? 'it does not say' : esc(version),
    root === null ? '–' : esc(root),
    length === null ? '–' : count(length),
    Object.entries(settings)
      .map(([flag, value]) => `${esc(flag)}=${esc(value)}`)
      .join('<br>') || 'it names none',
  ]);
  return `<h2>The servers</h2>\n${table(['endpoint', 'version', 'weights', 'context', 'settings that it names'], rows)}`;
}

/** Mean and spread of both lengths of each run: without these a number of tokens a second means nothing. */
export function lengths(results: readonly BenchResult[]): string {
  const name = nameOf(results);
  const cells = ({ n, mean, std, min, p50, p99, max }: SpreadJson): string[] => [
    count(n),
    ...[mean, std, min, p50, p99, max].map(shown),
  ];
  const rows = results.flatMap(run => [
    [`${esc(name(run))}: prompts`, ...cells(run.fw.workload.input_tokens)],
    [`${esc(name(run))}: answers`, ...cells(run.fw.workload.output_tokens)],
  ]);
  return `<h3>Tokens of prompts and answers, as the server counted them</h3>
${table(['load', 'n', 'mean', 'deviation', 'least', 'p50', 'p99', 'most'], rows)}`;
}
