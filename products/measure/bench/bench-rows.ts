/** Runs as rows of a table, for spreadsheets: the keys of vLLM, one line a run. */
import type { BenchResult } from './bench-result.ts';

/** Columns in their order, without the lists of --detailed. */
const COLUMNS = [
  'date',
  'label',
  'model_id',
  'load',
  'request_rate',
  'burstiness',
  'max_concurrency',
  'servers',
  'run',
  'verdict',
  'num_prompts',
  'completed',
  'failed',
  'incomplete',
  'duration',
  'total_input_tokens',
  'total_output_tokens',
  'request_throughput',
  'request_goodput',
  'output_throughput',
  'total_token_throughput',
  'max_output_tokens_per_s',
  'max_concurrent_requests',
  ...['ttft', 'tpot', 'itl', 'e2el'].flatMap(metric =>
    ['mean', 'median', 'std', 'p90', 'p95', 'p99'].map(figure => `${figure}_${metric}_ms`),
  ),
  'p99_e2el_due_ms',
];

/** RFC 4180, with a header; a cell that a spreadsheet would take for a formula gets a quote before it. */
export function csvOf(results: readonly BenchResult[]): string {
  const rows = results.map(result => {
    const { fw } = result;
    const own: Record<string, unknown> = {
      load: fw.load.kind,
      servers: fw.endpoints.length,
      run: fw.run,
      verdict: fw.verdict,
      incomplete: fw.incomplete,
      p99_e2el_due_ms: fw.e2el_due_ms.p99,
    };
    return csvLine(COLUMNS.map(name => own[name] ?? (result as unknown as Record<string, unknown>)[name]));
  });
  return `${[csvLine(COLUMNS), ...rows].join('\r\n')}\r\n`;
}

/** RFC 4180, without its line break. */
export const csvLine = (values: readonly unknown[]): string => values.map(cell).join(',');

function cell(value: unknown): string {
  if (value === null || value === undefined) return '';
  const text = String(value);
  const safe = typeof value === 'string' && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
