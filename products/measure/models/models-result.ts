/** What was measured, as `--json` has it, and as one table for a person. */

import { aligned, cut, number } from '../../../engine/core/item/wording.ts';
import { visible } from '../../../engine/core/json/visible.ts';
import { decimal, percent } from '../../kit/html.ts';
import type { Interval } from '../../kit/statistics.ts';
import { csvLine } from '../bench/bench-result.ts';
import type { Agreement } from './answer-figures.ts';
import type { Choice, Measured, Outcome } from './measure-models.ts';

export interface Told extends Pick<Choice, 'pipeline' | 'outcome' | 'label' | 'reference'> {
  version: string;
  began: string;
}

export type ModelsJson = ReturnType<typeof modelsJson>;
export type ModelJson = ModelsJson['models'][number];

export function modelsJson({ items, models }: Outcome, told: Told) {
  return { bench_models: 1 as const, ...told, items, models: models.map(each => modelJson(each)) };
}

function modelJson(each: Measured) {
  const { quality, seconds, gpus, price } = each;
  const { items } = quality;
  const perSecond = (count: number): number | null => (seconds > 0 ? count / seconds : null);
  const gpuHours = (gpus * seconds) / 3600;
  // a prompt has a token at least: a server that says none has not counted
  const isCounted = each.promptTokens > 0;
  const perThousand = items > 0 ? (1000 * gpuHours) / items : null;
  return {
    name: each.name,
    model: each.model,
    endpoints: each.endpoints,
    broken: each.broken,
    seconds,
    items_per_second: perSecond(items),
    calls: each.calls,
    retries: each.retries,
    latency_p50_ms: each.latency?.p50 ?? null,
    latency_p99_ms: each.latency?.p99 ?? null,
    prompt_tokens: isCounted ? each.promptTokens : null,
    completion_tokens: isCounted ? each.completionTokens : null,
    cached_tokens: isCounted ? each.cachedTokens : null,
    output_tokens_per_second: isCounted ? perSecond(each.completionTokens) : null,
    gpu_use: each.gpuUse,
    items,
    accepted: quality.accepted,
    accepted_share: items > 0 ? quality.accepted / items : null,
    answers: quality.answers,
    first_try: quality.firstTry,
    rungs: quality.rungs,
    left: Object.fromEntries(quality.left),
    label: quality.label,
    reference: quality.reference,
    gpus,
    gpu_hours: gpuHours,
    gpu_hours_per_1000_items: perThousand,
    price,
    cost: price === null ? null : price * gpuHours,
    cost_per_1000_items: price === null || perThousand === null ? null : price * perThousand,
  };
}

const figure = (value: number | null, digits: number): string =>
  value !== null && Math.abs(value) >= 1000 ? number(Math.round(value)) : decimal(value, digits);

/** Small numbers keep two digits that mean something. */
const small = (value: number | null): string =>
  value === null ? '–' : value !== 0 && value < 0.1 ? String(Number(value.toPrecision(2))) : figure(value, 2);

export const share = (interval: Interval | null): string =>
  interval === null ? '–' : `${percent(interval.value)} (${percent(interval.low)}–${percent(interval.high)})`;

const agreed = (agreement: Agreement | null): string => share(agreement?.share ?? null);

export type Column = [head: string, cell: (each: ModelJson) => string];

/** How good the answers were. */
export function qualityColumns({ label, reference }: ModelsJson): Column[] {
  const columns: Column[] = [
    ['items', each => number(each.items)],
    ['accepted', each => percent(each.accepted_share)],
    ['valid at first try', each => share(each.first_try)],
  ];
  if (label !== null) columns.push([`as ${visible(cut(label, 40))}`, each => agreed(each.label)]);
  if (reference !== null) columns.push(['as the reference', each => agreed(each.reference)]);
  return columns;
}

/** How fast they came, and what they cost. */
export function speedColumns({ models }: ModelsJson): Column[] {
  const per = (each: ModelJson, tokens: number | null): string =>
    figure(each.items > 0 && tokens !== null ? tokens / each.items : null, 0);
  const columns: Column[] = [
    ['items/s', each => small(each.items_per_second)],
    ['tokens/s out', each => figure(each.output_tokens_per_second, 1)],
    ['tokens in / item', each => per(each, each.prompt_tokens)],
    ['out / item', each => per(each, each.completion_tokens)],
    ['call p50 ms', each => figure(each.latency_p50_ms, 0)],
    ['p99', each => figure(each.latency_p99_ms, 0)],
  ];
  if (models.some(({ gpu_use: use }) => use !== null)) columns.push(['GPU', each => percent(each.gpu_use)]);
  columns.push(['GPU h / 1,000', each => small(each.gpu_hours_per_1000_items)]);
  if (models.some(({ price }) => price !== null))
    columns.push(['cost / 1,000', each => small(each.cost_per_1000_items)]);
  return columns;
}

const RUNGS = ['clean', 'repaired', 'coerced', 'unknown', 'defaulted', 'failed'];

/** Items of each model by their rung, where any has it. */
export function rungsOf({ models }: ModelsJson): { heads: string[]; rows: number[][] } {
  const heads = RUNGS.filter(rung => models.some(({ rungs }) => (rungs[rung] ?? 0) > 0));
  return { heads, rows: models.map(({ rungs }) => heads.map(rung => rungs[rung] ?? 0)) };
}

/** The whole choice on one screen, with a line break at its end. */
export function modelsTable(all: ModelsJson): string {
  const block = (title: string, columns: readonly Column[]): string[] =>
    aligned(
      [
        [title, ...columns.map(([head]) => head)],
        ...all.models.map(each => [
          each.name,
          ...columns.map(([, cell]) => (each.items > 0 ? cell(each) : '–')),
        ]),
      ],
      columns.map((_, at) => at + 1),
    );
  const lines = [...block('quality', qualityColumns(all)), '', ...block('speed and cost', speedColumns(all))];
  const { heads, rows } = rungsOf(all);
  if (heads.length > 0)
    lines.push(
      '',
      ...aligned(
        [
          ['items by rung', ...heads],
          ...rows.map((counts, at) => [all.models[at]?.name ?? '', ...counts.map(number)]),
        ],
        heads.map((_, at) => at + 1),
      ),
    );
  for (const { name, broken, left } of all.models) {
    if (broken !== null) lines.push('', `${name}: not measured: ${visible(cut(broken, 300))}`);
    const causes = Object.entries(left).slice(0, 5);
    if (causes.length > 0)
      lines.push(
        '',
        `${name}: not accepted: ${causes.map(([code, count]) => `${number(count)} ${visible(cut(code, 60))}`).join(', ')}`,
      );
  }
  return `${lines.join('\n')}\n`;
}

/** A line a model, for spreadsheets. */
export function modelsCsv({ models }: ModelsJson): string {
  const flat = models.map(({ endpoints, rungs, left: _, first_try: first, label, reference, ...each }) => ({
    ...each,
    endpoints: endpoints.join(' '),
    first_try: first?.value ?? null,
    label_share: label?.share?.value ?? null,
    label_kappa: label?.kappa?.value ?? null,
    reference_share: reference?.share?.value ?? null,
    reference_kappa: reference?.kappa?.value ?? null,
    ...Object.fromEntries(RUNGS.map(rung => [rung, rungs[rung] ?? 0])),
  }));
  const names = Object.keys(flat[0] ?? {});
  const rows = flat.map(each => names.map(name => (each as Record<string, unknown>)[name]));
  return [names, ...rows].map(row => `${csvLine(row)}\r\n`).join('');
}
