/** The page's sections on groups: approval, ratio, twins, orders. */
import { counted } from '../../engine/core/item/wording.ts';
import { dotChart, gridChart, MOST_DOTS } from '../kit/chart.ts';
import {
  count,
  decimal,
  figure,
  html,
  joined,
  percent,
  pMark,
  points,
  short,
  type Text,
  table,
  withInterval,
} from '../kit/html.ts';
import type { GroupTable } from './groups.ts';
import type { OrderTable } from './orders.ts';
import type { Report } from './report.ts';
import { byIds, exactly, inColumn, outcomeRows, rowsOf, rowsQuery, type Where } from './rows-query.ts';
import type { TwinTable } from './twins.ts';

const whole = (value: number): string => percent(value, 0);

export function groupSection(report: Report, group: GroupTable): Text {
  const { asked, level, twins } = report;
  const { column, reference, rows, blank, method, clusters } = group;
  const recordsOf = (value: string): Where[] => [[inColumn(column), exactly(value)]];
  const decided = outcomeRows(report);
  const also = (value: string, outcome: Where[] | null): Where[] =>
    outcome === null ? [] : [...recordsOf(value), ...outcome];
  const rates = dotChart({
    title: `Approval by ${column}`,
    axis: `“${asked.approve}”, % of those trusted`,
    rows: rows.flatMap(({ value, rate, small }) =>
      rate ? [{ label: value, ...rate, faint: small, rows: rowsQuery(recordsOf(value)) }] : [],
    ),
    show: whole,
    from: 0,
    to: 1,
    marks: level.rate ? [{ at: level.rate.value, label: 'all' }] : [],
  });
  const ratios = rows.flatMap(({ value, ratio, small }) =>
    ratio ? [{ label: value, ...ratio, faint: small, rows: rowsQuery(recordsOf(value)) }] : [],
  );
  const drawn =
    ratios.length === 0
      ? ''
      : dotChart({
          title: `Ratio of approval to ${reference}, by ${column}`,
          axis: `approval rate / that of ${reference}`,
          rows: ratios,
          show: value => decimal(value, 1),
          from: 0.7,
          to: 1.1,
          marks: [
            { at: 0.8, label: 'four fifths' },
            { at: 1, label: 'equal' },
          ],
        });
  const isApart = method === 'independent';
  const what = asked.twins.length > 0 ? 'cells' : 'applications';
  const isPaired = twins.some(each => each.column === column);
  const behind = table(
    [
      ...[short(column), 'n', what, 'approved', 'not', 'rate', 'ratio', 'difference, points', 'shortfall'],
      ...(isApart ? ['z'] : []),
      ...['p, raw', 'p, corrected'],
    ],
    rows.map(row => [
      rowsOf(
        recordsOf(row.value),
        short(row.value) + (row.value === reference ? ' (reference)' : row.small ? ' (few)' : ''),
      ),
      count(row.n),
      count(row.clusters),
      rowsOf(row.approved > 0 ? also(row.value, decided.approved) : [], count(row.approved)),
      rowsOf(row.approved < row.n ? also(row.value, decided.others) : [], count(row.n - row.approved)),
      withInterval(row.rate),
      withInterval(row.ratio, value => decimal(value, 3)),
      withInterval(row.difference, points),
      decimal(row.shortfall, 1),
      ...(isApart ? [decimal(row.z, 2)] : []),
      pMark(row.p),
      pMark(row.holm),
    ]),
  );
  const how = isApart
    ? 'Each record is independent of the others.'
    : `${asked.twins.length > 0 ? 'Cells of twins' : 'Applications'} are there several times: intervals and p are those of ${count(clusters)} of them as a whole.`;
  const tested = isPaired ? ' What is tested is the difference between twins, below.' : '';
  const note = `${how}${tested}${blank > 0 ? ` ${count(blank)} blank, left out.` : ''}${rows.some(({ small }) => small) ? ` Pale: too few ${what} to be judged.` : ''}`;
  const ratio =
    drawn === ''
      ? ''
      : figure(
          `Ratio to ${short(reference ?? '')}`,
          drawn,
          behind,
          'Adverse impact ratio. Four fifths is a rule of thumb of US hiring law, and no threshold here. Shortfall: approvals missing to the rate of the reference.',
        );
  return html`<section><h2>By ${short(column)}</h2>
${figure(`Approval by ${short(column)}`, rates, behind, note)}
${ratio}</section>`;
}

export function twinSection({ twins, noise, asked, level }: Report): Text {
  if (asked.twins.length === 0) return '';
  const floor =
    noise.pairs === 0
      ? 'No question was asked twice, so the noise floor is unknown: how many of these flips come without any swap cannot be said. Name a second run of the same items, with another seed, as one more FILE.'
      : `Noise floor: of ${count(noise.pairs)} pairs of answers to the same question, ${withInterval(noise.rate)} differ.`;
  const none = html`<p>No twins: no two trusted records are alike in these columns and differ in a group.</p>`;
  return html`<section><h2>Twins: the same case, another group</h2>
<p>Twins are alike in ${short(asked.twins.join(', '))} and in their order${level.samples ? ' and sample' : ''}. ${floor}</p>
${
  twins.length === 0
    ? none
    : joined(
        twins.map(each => twinFigures(each, noise)),
        '\n',
      )
}</section>`;
}

function twinFigures(
  { column, reference, cells, invariantRate, partial, rows }: TwinTable,
  noise: Report['noise'],
): Text {
  const net = dotChart({
    title: `Difference between twins, by ${column}`,
    axis: `approval rate less that of ${reference}, points`,
    rows: rows.flatMap(({ value, net: each, ids }) =>
      each ? [{ label: value, ...each, rows: rowsQuery(byIds(ids.flat())) }] : [],
    ),
    show: points,
    from: -0.05,
    to: 0.05,
    marks: [{ at: 0, label: 'no difference' }],
  });
  const flips = dotChart({
    title: `Twins decided differently, by ${column}`,
    axis: `pairs with ${reference} that differ, %`,
    rows: rows.flatMap(({ value, flips: each, ids }) =>
      each ? [{ label: value, ...each, rows: rowsQuery(byIds(ids.flat())) }] : [],
    ),
    show: whole,
    from: 0,
    to: 0.1,
    ...(noise.rate && { band: { ...noise.rate, label: 'noise floor' } }),
  });
  const several = rows.some(({ orders }) => orders.length > 0);
  const behind = table(
    [
      short(column),
      'cells',
      'pairs',
      `${short(reference)} alone approved`,
      'group alone approved',
      'differ',
      'differ, above noise (points)',
      'net, points',
      'p, raw',
      'p, corrected',
    ],
    rows.map(row => [
      short(row.value),
      count(row.cells),
      count(row.pairs),
      count(row.referenceOnly),
      count(row.groupOnly),
      rowsOf(byIds(row.ids.flat()), withInterval(row.flips)),
      withInterval(row.aboveNoise, points),
      withInterval(row.net, points),
      pMark(row.p),
      pMark(row.holm),
    ]),
  );
  const byOrder = several
    ? html`<details><summary>Each order alone (p corrected within this table; no findings of the page)</summary>${table(
        [
          `${short(column)}, order`,
          'pairs',
          `${short(reference)} alone`,
          'group alone',
          'p, raw',
          'p, Holm in this table',
        ],
        rows.flatMap(({ value, orders }) =>
          orders.map(each => [
            rowsOf(
              [
                ...[value, reference].map((of): Where => [inColumn(column), exactly(of)]),
                ['ordering', exactly(each.order)],
              ],
              `${short(value)}, ${short(each.order)}`,
            ),
            count(each.pairs),
            count(each.referenceOnly),
            count(each.groupOnly),
            pMark(each.p),
            pMark(each.holm),
          ]),
        ),
      )}</details>`
    : '';
  const isOnePair = rows.every(({ mcnemar }) => mcnemar !== null);
  const how = isOnePair
    ? 'p: exact McNemar.'
    : 'A cell has several pairs, of orders, samples or names: p swaps the group and the reference in whole cells, and intervals take a cell as one.';
  return html`<p>All twins by ${short(column)} agree in ${withInterval(invariantRate)} of ${counted(cells, 'cell')}${several ? ', each order counted' : ''}${partial > 0 ? `; ${count(partial)} more lack a twin` : ''}.</p>
${figure(`What the group changes between twins, by ${short(column)}`, net, behind, how)}
${figure(`How often twins differ at all, by ${short(column)}`, flips, behind)}${byOrder}`;
}

export function orderSection(report: Report): Text {
  const { orders, asked, level } = report;
  if (orders === null) return '';
  const { approved } = outcomeRows(report);
  const recordsOf = (order: string): Where[] => [['ordering', exactly(order)]];
  const { rows, complete, same } = orders;
  const drawn = dotChart({
    title: 'Approval by order',
    axis: `“${asked.approve}”, % of those trusted`,
    rows: rows.map(({ order, rate }, nth) => ({
      ...{ label: `order ${nth + 1}`, value: 0, low: 0, high: 0, ...rate },
      rows: rowsQuery(recordsOf(order)),
    })),
    show: whole,
    from: 0,
    to: 1,
  });
  const behind = table(
    ['order', 'n', 'approved', 'rate'],
    rows.map(({ order, n, approved: hits, rate }, nth) => [
      rowsOf(recordsOf(order), `${nth + 1}: ${short(order)}`),
      count(n),
      rowsOf(hits > 0 && approved ? [...recordsOf(order), ...approved] : [], count(hits)),
      withInterval(rate),
    ]),
  );
  const those = level.samples ? 'samples of applications' : 'applications';
  return html`<section><h2>By order of the agents</h2>
<p>${count(same)} of ${count(complete)} ${those} that were decided in every order (${withInterval(orders.sameRate)}) have the same decision in all of them. ${orders.records.length === 0 ? '' : html`${rowsOf(byIds(orders.records), 'The others')} were decided both ways. `}${testWords(orders)} Mean kappa between two orders: ${decimal(orders.kappa)}.</p>
${figure('Approval by order', drawn, behind)}
<ol class="dim">${joined(
    rows.slice(0, MOST_DOTS).map(({ order }) => html`<li>${short(order.replaceAll(',', ', '))}</li>`),
  )}</ol>
${agreement(orders)}</section>`;
}

function testWords({ test, complete }: OrderTable): Text {
  if (test === null) return complete === 0 ? '' : 'No test: no order approves more than another in any case.';
  const name = {
    mcnemar: 'exact McNemar',
    'cochran-q': html`Cochran's Q ${decimal(test.q)}, ${test.df} degrees of freedom`,
    swap: 'the two orders swapped in whole cells or applications',
    'repeated-measures': `repeated measures by whole cells or applications, F ${decimal(test.q)}, Greenhouse and Geisser`,
    shuffle: 'orders dealt anew in each cell or application, which are few',
  }[test.name];
  return html`That all orders approve alike: p ${pMark(test.p)} raw, ${pMark(test.holm)} corrected (${name}).`;
}

function agreement({ rows, agreement: cells }: OrderTable): Text {
  const labels = rows.slice(0, cells.length).map(({ order }) => order);
  const known = cells.flatMap((list, a) =>
    list.filter((each, b): each is number => a !== b && each !== null),
  );
  if (known.length === 0) return '';
  const [low, high] = [Math.min(...known), Math.max(...known)];
  const drawn = gridChart({
    title: 'Agreement between orders',
    labels,
    cells,
    show: whole,
    from: low - 0.02,
    to: high,
    rowsOf: (a, b) =>
      rowsQuery([...new Set([a, b])].map((at): Where => ['ordering', exactly(labels[at] ?? '')])),
  });
  const behind = table(
    ['orders', 'same decision'],
    cells.flatMap((list, a) =>
      list
        .slice(0, a)
        .map((share, b) => [
          `${a + 1}: ${short(labels[a] ?? '')} and ${b + 1}: ${short(labels[b] ?? '')}`,
          percent(share),
        ]),
    ),
  );
  return figure(
    'Applications decided alike, % of those in both orders',
    drawn,
    behind,
    `From ${percent(low)} to ${percent(high)}. Rows and columns are the orders by their numbers above.`,
  );
}
