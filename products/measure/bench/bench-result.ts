/** A run as its file has it (schemas/bench.schema.json), as far as pages and comparisons read it; and the reading of such files. */
import { readFileSync } from 'node:fs';
import { dataError } from '../../../engine/core/item/failure.ts';
import { cut } from '../../../engine/core/item/wording.ts';
import { isObject } from '../../../engine/core/json/pointer.ts';
import { visible } from '../../../engine/core/json/visible.ts';
import { METRICS, type Metric } from './bench-figures.ts';
import type { Load as Asked } from './drive-load.ts';
import { type BenchResult, latencyKeys } from './json.ts';

export type Load = BenchResult['fw']['load'];
export type SpreadJson = BenchResult['fw']['e2el_due_ms'];

const TOKENS = ['total_input_tokens', 'total_output_tokens', 'output_throughput', 'total_token_throughput'];

/**
 * A run with null for what nobody measured. Where its file does not say it, a latency of 0 throughout is none, and so are
 * tokens of answers that nobody counted.
 */
export function withUnknown(run: BenchResult): BenchResult {
  const { fw, completed } = run;
  const isNone = (metric: Metric): boolean => latencyKeys(metric).every(key => !run[key]);
  // tokens that come together have no gap: a mean of 0, where something was streamed
  const none = METRICS.filter(metric => isNone(metric) && (metric !== 'itl' || isNone('ttft')));
  const isUncounted = completed > 0 && fw.workload.output_tokens?.n === 0;
  const unknown = fw.unknown ?? [...none.flatMap(latencyKeys), ...(isUncounted ? TOKENS : [])];
  const steady = isUncounted && fw.steady ? { ...fw.steady, output_throughput: null } : fw.steady;
  return {
    ...run,
    ...Object.fromEntries(unknown.filter(isFigure).map(key => [key, null])),
    fw: { ...fw, steady },
  };
}

const isFigure = (key: unknown): key is string =>
  typeof key === 'string' &&
  (TOKENS.includes(key) || METRICS.some(metric => (latencyKeys(metric) as string[]).includes(key)));

/** `4 at a time`, `2/s`. */
export function loadWords(load: Load | Asked): string {
  if (load.kind === 'closed') return `${load.concurrency} at a time`;
  const { rate, burstiness, from } = load;
  const isInfinite = (value: number | 'inf'): boolean =>
    value === 'inf' || value === Number.POSITIVE_INFINITY;
  if (isInfinite(rate)) return 'all at once';
  const shape = burstiness === 1 ? '' : isInfinite(burstiness) ? ', even' : `, burstiness ${burstiness}`;
  return from === undefined ? `${rate}/s${shape}` : `${from} to ${rate}/s${shape}`;
}

/** Bytes of a file that is read; with --detailed a million requests have more, and are not needed here. */
const MOST_BYTES = 512 * 1024 * 1024;

/** The runs of a file of `fw bench --json`. Exit 65 where it is none. */
export function readResults(path: string): BenchResult[] {
  let value: unknown;
  try {
    const bytes = readFileSync(path);
    if (bytes.length > MOST_BYTES)
      throw dataError(`${path}: expected at most ${MOST_BYTES} bytes, found ${bytes.length}`);
    value = JSON.parse(bytes.toString());
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (error instanceof SyntaxError)
      throw dataError(`${path}: expected JSON, found: ${visible(cut(message, 100))}`);
    if (code === undefined) throw error;
    throw dataError(
      `${path}: expected a file of fw bench --json, found ${code === 'ENOENT' ? 'none' : code}`,
    );
  }
  const list: unknown[] = Array.isArray(value) ? value : [value];
  for (const [index, result] of list.entries()) {
    const wrong = wrongIn(result);
    if (wrong !== null)
      throw dataError(
        `${path}: expected runs of fw bench --json, found ${wrong}${list.length > 1 ? ` in run ${index + 1}` : ''}`,
      );
  }
  if (list.length === 0) throw dataError(`${path}: expected runs of fw bench --json, found none`);
  return (list as BenchResult[]).map(withUnknown);
}

const NUMBERS = [
  'duration',
  'completed',
  'failed',
  'request_throughput',
  'output_throughput',
  'total_token_throughput',
];

/** What is missing of what is compared; a file of vLLM's own has no `fw`. */
function wrongIn(result: unknown): string | null {
  if (!isObject(result)) return 'no object';
  const { fw } = result;
  if (!isObject(fw) || fw.bench !== 1) return 'none of its own ("fw": {"bench": 1})';
  const metrics = ['ttft', 'tpot', 'itl', 'e2el'].flatMap(metric =>
    ['mean', 'median', 'p99'].map(figure => `${figure}_${metric}_ms`),
  );
  const missing = [...NUMBERS, ...metrics].find(key => !Number.isFinite(result[key]));
  if (missing !== undefined) return `no number at ${missing}`;
  const { load, endpoints, workload, windows } = fw;
  if (!isObject(load) || (load.kind !== 'closed' && load.kind !== 'open')) return 'no load at fw.load';
  if (!Array.isArray(endpoints)) return 'no list at fw.endpoints';
  if (!isObject(workload) || typeof workload.source !== 'string') return 'no workload at fw.workload';
  if (windows !== null && !isWindows(windows)) return 'no windows at fw.windows';
  return null;
}

function isWindows(value: unknown): boolean {
  const lists = ['ttft', 'tpot', 'e2el', 'requests', 'tokens'];
  return (
    isObject(value) &&
    lists.every(name => Array.isArray(value[name]) && (value[name] as unknown[]).every(Number.isFinite))
  );
}

// Runs as rows of a table, for spreadsheets: the keys of vLLM, one line a run.

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
