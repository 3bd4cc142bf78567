/** The choice of a model as one page: the table, what each costs, how fast and how good it is; no script, no network. */
import { basename } from 'node:path';
import { counted } from '../../../engine/core/item/wording.ts';
import { type Dot, dotChart } from '../../kit/chart.ts';
import { count, decimal, esc, figure, page, percent, table, tile } from '../../kit/html.ts';
import type { Figure } from '../../kit/statistics.ts';
import {
  type Column,
  type ModelJson,
  type ModelsJson,
  qualityColumns,
  rungsOf,
  share,
  speedColumns,
} from './models-result.ts';

/** With a line break at its end. */
export function modelsPage(all: ModelsJson): string {
  const measured = all.models.filter(({ items }) => items > 0);
  const broken = all.models.filter(each => each.broken !== null);
  return page({
    title: `A choice of ${counted(all.models.length, 'model')}`,
    header: `<h1>Which model for ${esc(basename(all.pipeline))}?</h1>
<p class="dim">${counted(all.items, 'item')}, the same for each, one model after the other; ${esc(all.began)}; fw ${esc(all.version)}</p>
${broken.map(({ name, broken: why }) => `<p><b>${esc(name)} was not measured</b>: ${esc(why ?? '')}</p>`).join('\n')}
${tiles(measured, all)}`,
    main: `<h2>All models</h2>
${mainTable(all, qualityColumns(all))}
${mainTable(all, speedColumns(all))}
<p class="dim">Accepted: items that verification accepts. Valid at first try: answers of agents that fitted as they were first given; in brackets the 95 % interval (Wilson). GPU hours: the GPUs of a model × the time that it took.${all.label === null && all.reference === null ? '' : ` Agreement is over items that were accepted: the same ${esc(all.outcome ?? '')}.`}</p>
${rungTable(all)}
${agreementTable(all)}
${charts(measured)}
${servers(all)}`,
  });
}

function tiles(models: readonly ModelJson[], { label, reference }: ModelsJson): string {
  const best = (of: (each: ModelJson) => number | null, isMost: boolean): ModelJson | undefined =>
    models
      .filter(each => of(each) !== null)
      .sort((a, b) => ((of(a) as number) - (of(b) as number)) * (isMost ? -1 : 1))[0];
  const parts: string[] = [];
  const fastest = best(each => each.items_per_second, true);
  if (fastest)
    parts.push(
      tile(
        'Fastest',
        esc(fastest.name),
        `${decimal(fastest.items_per_second)} items/s, ${decimal(fastest.output_tokens_per_second, 0)} tokens/s`,
      ),
    );
  const valid = best(each => each.first_try?.value ?? null, true);
  if (valid) parts.push(tile('Most often valid at first try', esc(valid.name), share(valid.first_try)));
  const key = label === null ? ('reference' as const) : ('label' as const);
  const right = best(each => each[key]?.share?.value ?? null, true);
  if (right)
    parts.push(
      tile(
        label === null ? `Most like ${esc(reference ?? '')}` : `Most often as ${esc(label)}`,
        esc(right.name),
        share(right[key]?.share ?? null),
      ),
    );
  const cheapest = best(each => each.cost_per_1000_items, false);
  if (cheapest)
    parts.push(
      tile('Cheapest', esc(cheapest.name), `${decimal(cheapest.cost_per_1000_items)} for 1,000 items`),
    );
  return parts.length === 0 ? '' : `<div class="tiles">${parts.join('\n')}</div>`;
}

function mainTable(all: ModelsJson, columns: readonly Column[]): string {
  return table(
    ['model', ...columns.map(([head]) => esc(head))],
    all.models.map(each => [
      esc(each.name),
      ...columns.map(([, cell]) => (each.items > 0 ? esc(cell(each)) : '–')),
    ]),
  );
}

function rungTable(all: ModelsJson): string {
  const { heads, rows } = rungsOf(all);
  if (heads.length === 0) return '';
  const left = all.models.flatMap(({ name, left: causes }) =>
    Object.entries(causes).map(([code, times]) => [esc(name), esc(code), count(times)]),
  );
  return `<h3>Items by rung</h3>
${table(
  ['model', ...heads],
  rows.map((counts, at) => [esc(all.models[at]?.name ?? ''), ...counts.map(count)]),
)}
${left.length === 0 ? '' : `<h3>Not accepted</h3>\n${table(['model', 'cause', 'items'], left)}`}`;
}

function agreementTable({ models, label, reference }: ModelsJson): string {
  const rows = models.flatMap(({ name, ...each }) =>
    (
      [
        [label, each.label],
        [reference, each.reference],
      ] as const
    ).flatMap(([of, agreement]) =>
      of === null || agreement === null
        ? []
        : [
            [
              esc(name),
              esc(of),
              count(agreement.matched),
              share(agreement.share),
              agreement.kappa === null ? '–' : `${decimal(agreement.kappa.value)}${rangeOf(agreement.kappa)}`,
            ],
          ],
    ),
  );
  return rows.length === 0
    ? ''
    : `<h3>Agreement</h3>\n${table(['model', 'with', 'items in both', 'the same', 'kappa'], rows)}`;
}

function charts(models: readonly ModelJson[]): string {
  if (models.length < 2) return '';
  const dot = (
    title: string,
    axis: string,
    of: (each: ModelJson) => { value: number; low: number; high: number } | null,
    show: (value: number) => string,
  ): string => {
    const rows: Dot[] = models.flatMap(each => {
      const found = of(each);
      return found === null ? [] : [{ label: each.name, ...found }];
    });
    if (rows.length < 2) return '';
    const to = Math.max(...rows.map(({ high }) => high));
    const behind = table(
      ['model', axis, 'low', 'high'],
      rows.map(({ label, value, low, high }) => [esc(label), show(value), show(low), show(high)]),
    );
    return figure(title, dotChart({ title, axis, rows, show, from: 0, to }), behind);
  };
  const point = (value: number | null) => (value === null ? null : { value, low: value, high: value });
  const parts = [
    dot(
      'Answers that were valid at first try',
      'share',
      each => each.first_try,
      value => percent(value, 0),
    ),
    dot(
      'The same as the label',
      'share',
      each => each.label?.share ?? null,
      value => percent(value, 0),
    ),
    dot(
      'The same as the reference',
      'share',
      each => each.reference?.share ?? null,
      value => percent(value, 0),
    ),
    dot(
      'Items a second',
      'items/s',
      each => point(each.items_per_second),
      value => decimal(value),
    ),
    dot(
      'GPU hours for 1,000 items',
      'GPU hours',
      each => point(each.gpu_hours_per_1000_items),
      value => decimal(value, 3),
    ),
    dot(
      'Cost of 1,000 items',
      'in the currency of the prices',
      each => point(each.cost_per_1000_items),
      value => decimal(value, 3),
    ),
  ].filter(text => text !== '');
  return parts.length === 0 ? '' : `<h2>Side by side</h2>\n${parts.join('\n')}`;
}

/** What the server did not count is no 0. */
const tokens = (of: number | null): string => (of === null ? '–' : count(of));

function servers({ models }: ModelsJson): string {
  const rows = models.map(each => [
    esc(each.name),
    each.model === null ? '–' : esc(each.model),
    each.endpoints.map(esc).join('<br>'),
    count(each.gpus),
    each.price === null ? '–' : decimal(each.price),
    decimal(each.seconds, 1),
    count(each.calls),
    count(each.retries),
    tokens(each.prompt_tokens),
    tokens(each.cached_tokens),
    tokens(each.completion_tokens),
  ]);
  return `<h2>What was asked</h2>
${table(['model', 'as the servers call it', 'endpoints', 'GPUs', 'price of a GPU hour', 'seconds', 'calls', 'asked again', 'tokens in', 'from a prefix cache', 'tokens out'], rows)}`;
}

const rangeOf = ({ low, high }: Figure): string =>
  low === null || high === null ? '' : ` (${decimal(low)}–${decimal(high)})`;
