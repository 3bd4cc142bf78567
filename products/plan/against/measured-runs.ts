/**
 * Runs that somebody has measured, as a file has them: CSV with a line for each stage (the columns below), or what
 * `fw bench --json` writes. All times are in ms.
 */
import { readSmallFile } from '../../../engine/core/config/yaml.ts';
import { dataError } from '../../../engine/core/item/failure.ts';
import { isObject } from '../../../engine/core/json/pointer.ts';

export interface MeasuredRun {
  /** line of the file, or number of the result */
  place: string;
  /** stages of one server have the same */
  server: string;
  /** null: the file does not say it */
  model: string | null;
  gpu: string | null;
  tp: number | null;
  maxNumSeqs: number | null;
  maxNumBatchedTokens: number | null;
  kvTokens: number | null;
  load: { rate: number; burstiness: number } | { concurrency: number };
  requests: number;
  /** tokens of a prompt, of which `shared` begin those of its group; who asks again asks the same; `users` null: nobody does */
  prompt: { shared: number; own: number; groups: number; users: number | null };
  output: number;
  /** tokens as the client counted them, where they are others: its gaps are so many */
  counted: number;
  measured: Record<FigureName, number | null>;
}

export const FIGURES = [
  'e2e_mean',
  'itl_mean',
  'ttft_mean',
  'e2e_p90',
  'e2e_p99',
  'ttft_p90',
  'ttft_p99',
] as const;
export type FigureName = (typeof FIGURES)[number];

/** Exit 65 where the file is none, naming the line and the column. */
export function readMeasured(path: string): MeasuredRun[] {
  const text = readSmallFile(path, 'measured runs');
  const runs = /^\s*[[{]/.test(text) ? benchRuns(text, path) : tableRuns(text, path);
  if (runs.length === 0) throw dataError(`${path}: expected measured runs, found none`);
  return runs;
}

const MOST_RUNS = 10_000;

function tableRuns(text: string, path: string): MeasuredRun[] {
  const lines = text.replaceAll('\r', '').split('\n');
  const head = (lines[0] ?? '').split(',').map(name => name.trim());
  if (lines.length > MOST_RUNS)
    throw dataError(`${path}: expected at most ${MOST_RUNS} lines, found ${lines.length}`);
  return lines.flatMap((line, index) => {
    if (index === 0 || line.trim() === '') return [];
    const place = `${path}:${index + 1}`;
    if (line.includes('"')) throw dataError(`${place}: expected a line without quotes, found one`);
    const cells = line.split(',');
    if (cells.length !== head.length)
      throw dataError(
        `${place}: expected ${head.length} columns, as the first line has, found ${cells.length}`,
      );
    return [runOfRow(new Map(head.map((name, at) => [name, (cells[at] as string).trim()])), place)];
  });
}

function runOfRow(row: ReadonlyMap<string, string>, place: string): MeasuredRun {
  const text = (name: string): string | null => row.get(name) || null;
  const optional = (name: string): number | null => {
    const cell = text(name);
    if (cell === null) return null;
    const value = Number(cell);
    if (!Number.isFinite(value) || value < 0 || value > 1e12)
      throw dataError(`${place}: expected a number in ${name}, found "${cell.slice(0, 80)}"`);
    return value;
  };
  const number = (name: string): number => {
    const value = optional(name);
    if (value === null || value === 0)
      throw dataError(`${place}: expected a number above 0 in ${name}, found none`);
    return value;
  };
  const output = number('output_len');
  const measured = Object.fromEntries(FIGURES.map(name => [name, optional(name)])) as MeasuredRun['measured'];
  const { e2e_mean: e2e, ttft_mean: ttft, itl_mean: itl } = measured;
  const implied = e2e !== null && ttft !== null && itl ? (e2e - ttft) / itl + 1 : output;
  const shared = optional('system_prompt_len') ?? 0;
  const blocks = optional('kv_blocks');
  const groups = optional('system_prompts') ?? 1;
  const rate = number('rate');
  return {
    place,
    server: text('exp') ?? [text('model'), text('hardware'), text('tp')].join(' '),
    model: text('model'),
    gpu: text('hardware'),
    tp: optional('tp'),
    maxNumSeqs: optional('max_num_seqs'),
    maxNumBatchedTokens: optional('max_num_batched_tokens'),
    kvTokens: blocks === null ? null : blocks * BLOCK,
    load: { rate, burstiness: 1 },
    requests: Math.max(1, Math.min(MOST_REQUESTS, Math.floor(rate * number('duration')))),
    prompt: {
      shared,
      own: number('question_len'),
      groups,
      users: text('users_per_prompt') === null ? null : groups * number('users_per_prompt'),
    },
    output,
    counted: Math.abs(implied / output - 1) > COUNTS_ALIKE ? implied : output,
    measured,
  };
}

/** of a KV block */
const BLOCK = 16;
const MOST_REQUESTS = 1_000_000;
/** (E2E − TTFT) / ITL + 1 is the number of tokens, but for what means of different samples differ by. */
const COUNTS_ALIKE = 0.05;

function benchRuns(text: string, path: string): MeasuredRun[] {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw dataError(`${path}: expected JSON, found: ${(error as Error).message}`);
  }
  return [value].flat().map((result, at) => runOfBench(result, `${path}, result ${at + 1}`));
}

function runOfBench(result: unknown, place: string): MeasuredRun {
  if (!isObject(result)) throw dataError(`${place}: expected a result of fw bench --json, found none`);
  const number = (name: string): number => {
    const found = result[name];
    if (typeof found === 'number' && Number.isFinite(found) && found > 0) return found;
    throw dataError(
      `${place}: expected a number above 0 in ${name}, found ${JSON.stringify(found) ?? 'none'}`,
    );
  };
  const known = (name: string): number | null => {
    const found = result[name];
    return typeof found === 'number' && found > 0 ? found : null;
  };
  const completed = number('completed');
  const output = Math.round(number('total_output_tokens') / completed);
  const rate = result.request_rate;
  const concurrency = known('max_concurrency');
  if (concurrency === null && typeof rate !== 'number')
    throw dataError(`${place}: expected request_rate or max_concurrency, found neither`);
  return {
    place,
    server: typeof result.model_id === 'string' ? result.model_id : 'server',
    model: typeof result.model_id === 'string' ? result.model_id : null,
    gpu: null,
    tp: null,
    maxNumSeqs: null,
    maxNumBatchedTokens: null,
    kvTokens: null,
    load:
      concurrency === null
        ? { rate: number('request_rate'), burstiness: known('burstiness') ?? Number.POSITIVE_INFINITY }
        : { concurrency },
    requests: Math.min(MOST_REQUESTS, completed),
    prompt: { shared: 0, own: Math.round(number('total_input_tokens') / completed), groups: 1, users: null },
    output,
    counted: output,
    measured: {
      e2e_mean: known('mean_e2el_ms'),
      itl_mean: known('mean_itl_ms'),
      ttft_mean: known('mean_ttft_ms'),
      e2e_p90: known('p90_e2el_ms'),
      e2e_p99: known('p99_e2el_ms'),
      ttft_p90: known('p90_ttft_ms'),
      ttft_p99: known('p99_ttft_ms'),
    },
  };
}
