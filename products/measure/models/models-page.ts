/** The choice of a model as one page: the table, what each costs, how fast and how good it is; no script, no network. */
import { basename } from 'node:path';
import { counted } from '../../../engine/core/item/wording.ts';
import { type Dot, dotChart } from '../../kit/chart.ts';
import {
  count,
  decimal,
  figure,
  type Html,
  html,
  joined,
  percent,
  short,
  type Text,
  table,
  tile,
} from '../../kit/html.ts';
import { page } from '../../kit/page.ts';
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
    header: html`<h1>Which model for ${short(basename(all.pipeline))}?</h1>
<p class="dim">${counted(all.items, 'item')}, the same for each, one model after the other; ${short(all.began)}; fw ${short(all.version)}</p>
${joined(
  broken.map(
    ({ name, broken: why }) => html`<p><b>${short(name)} was not measured</b>: ${short(why ?? '')}</p>`,
  ),
  '\n',
)}
${tiles(measured, all)}`,
    main: html`<h2>All models</h2>
${mainTable(all, qualityColumns(all))}
${mainTable(all, speedColumns(all))}
<p class="dim">Accepted: items that verification accepts. Valid at first try: answers of agents that fitted as they were first given; in brackets the 95 % interval (Wilson). GPU hours: the GPUs of a model × the time that it took.${all.label === null && all.reference === null ? '' : ` Agreement is over items that were accepted: the same ${short(all.outcome ?? '')}.`}</p>
${rungTable(all)}
${agreementTable(all)}
${charts(measured)}
${servers(all)}`,
  });
}

function tiles(models: readonly ModelJson[], { label, reference }: ModelsJson): Text {
  const best = (of: (each: ModelJson) => number | null, isMost: boolean): ModelJson | undefined =>
    models
      .filter(each => of(each) !== null)
      .sort((a, b) => ((of(a) as number) - (of(b) as number)) * (isMost ? -1 : 1))[0];
  const parts: Html[] = [];
  const fastest = best(each => each.items_per_second, true);
  if (fastest)
    parts.push(
      tile(
        'Fastest',
        short(fastest.name),
        `${decimal(fastest.items_per_second)} items/s, ${decimal(fastest.output_tokens_per_second, 0)} tokens/s`,
      ),
    );
  const valid = best(each => each.first_try?.value ?? null, true);
  if (valid) parts.push(tile('Most often valid at first try', short(valid.name), share(valid.first_try)));
  const key = label === null ? ('reference' as const) : ('label' as const);
  const right = best(each => each[key]?.share?.value ?? null, true);
  if (right)
    parts.push(
      tile(
        label === null ? `Most like ${short(reference ?? '')}` : `Most often as ${short(label)}`,
        short(right.name),
        share(right[key]?.share ?? null),
      ),
    );
  const cheapest = best(each => each.cost_per_1000_items, false);
  if (cheapest)
    parts.push(
      tile('Cheapest', short(cheapest.name), `${decimal(cheapest.cost_per_1000_items)} for 1,000 items`),
    );
  return parts.length === 0 ? '' : html`<div class="tiles">${joined(parts, '\n')}</div>`;
}

function mainTable(all: ModelsJson, columns: readonly Column[]): Text {
  return table(
    ['model', ...columns.map(([head]) => short(head))],
    all.models.map(each => [
      short(each.name),
      ...columns.map(([, cell]) => (each.items > 0 ? short(cell(each)) : '–')),
    ]),
  );
}

function rungTable(all: ModelsJson): Text {
  const { heads, rows } = rungsOf(all);
  if (heads.length === 0) return '';
  const left = all.models.flatMap(({ name, left: causes }) =>
    Object.entries(causes).map(([code, times]) => [short(name), short(code), count(times)]),
  );
  return html`<h3>Items by rung</h3>
${table(
  ['model', ...heads],
  rows.map((counts, at) => [short(all.models[at]?.name ?? ''), ...counts.map(count)]),
)}
${left.length === 0 ? '' : html`<h3>Not accepted</h3>\n${table(['model', 'cause', 'items'], left)}`}`;
}

function agreementTable({ models, label, reference }: ModelsJson): Text {
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
              short(name),
              short(of),
              count(agreement.matched),
              share(agreement.share),
              agreement.kappa === null ? '–' : `${decimal(agreement.kappa.value)}${rangeOf(agreement.kappa)}`,
            ],
          ],
    ),
  );
  return rows.length === 0
    ? ''
    : html`<h3>Agreement</h3>\n${table(['model', 'with', 'items in both', 'the same', 'kappa'], rows)}`;
}

function charts(models: readonly ModelJson[]): Text {
  if (models.length < 2) return '';
  const dot = (
    title: string,
    axis: string,
    of: (each: ModelJson) => { value: number; low: number; high: number } | null,
    show: (value: number) => string,
  ): Text => {
    const rows: Dot[] = models.flatMap(each => {
      const found = of(each);
      return found === null ? [] : [{ label: each.name, ...found }];
    });
    if (rows.length < 2) return '';
    const to = Math.max(...rows.map(({ high }) => high));
    const behind = table(
      ['model', axis, 'low', 'high'],
      rows.map(({ label, value, low, high }) => [short(label), show(value), show(low), show(high)]),
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
  return parts.length === 0 ? '' : html`<h2>Side by side</h2>\n${joined(parts, '\n')}`;
}

/** What the server did not count is no 0. */
const tokens = (of: number | null): string => (of === null ? '–' : count(of));

function servers({ models }: ModelsJson): Text {
  const rows = models.map(each => [
    short(each.name),
    each.model === null ? '–' : short(each.model),
    joined(
      each.endpoints.map(url => short(url)),
      '<br>',
    ),
    count(each.gpus),
    each.price === null ? '–' : decimal(each.price),
    decimal(each.seconds, 1),
    count(each.calls),
    count(each.retries),
    tokens(each.prompt_tokens),
    tokens(each.cached_tokens),
    tokens(each.completion_tokens),
  ]);
  return html`<h2>What was asked</h2>
${table(['model', 'as the servers call it', 'endpoints', 'GPUs', 'price of a GPU hour', 'seconds', 'calls', 'asked again', 'tokens in', 'from a prefix cache', 'tokens out'], rows)}`;
}

const rangeOf = ({ low, high }: Figure): string =>
  low === null || high === null ? '' : ` (${decimal(low)}–${decimal(high)})`;
