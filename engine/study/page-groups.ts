/** The page's sections on groups: approval, ratio, twins, orders. */
import { dotChart, gridChart, MOST_DOTS } from './chart.ts';
import type { GroupTable } from './groups.ts';
import { count, decimal, esc, figure, percent, points, pText, table, withInterval } from './html.ts';
import type { OrderTable } from './orders.ts';
import type { Report } from './report.ts';
import type { TwinTable } from './twins.ts';

const whole = (value: number): string => percent(value, 0);

export function groupSection({ asked, level }: Report, group: GroupTable): string {
  const { column, reference, rows, blank, method, clusters } = group;
  const rates = dotChart({
    title: `Approval by ${column}`,
    axis: `“${asked.approve}”, % of those trusted`,
    rows: rows.flatMap(({ value, rate, small }) => (rate ? [{ label: value, ...rate, faint: small }] : [])),
    show: whole,
    from: 0,
    to: 1,
    marks: level.rate ? [{ at: level.rate.value, label: 'all' }] : [],
  });
  const ratios = rows.flatMap(({ value, ratio, small }) =>
    ratio ? [{ label: value, ...ratio, faint: small }] : [],
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
  const behind = table(
    [esc(column), 'n', 'approved', 'rate', 'ratio', 'difference, points', 'shortfall', 'z', 'p', 'p, Holm'],
    rows.map(row => [
      esc(row.value) + (row.value === reference ? ' (reference)' : row.small ? ' (few)' : ''),
      count(row.n),
      count(row.approved),
      withInterval(row.rate),
      withInterval(row.ratio, value => decimal(value, 3)),
      withInterval(row.difference, points),
      decimal(row.shortfall, 1),
      decimal(row.z, 2),
      pText(row.p),
      pText(row.holm),
    ]),
  );
  const how =
    method === 'independent'
      ? 'Each record is independent of the others.'
      : `Applications, or cells of twins, are there several times: intervals are those of ${count(clusters)} such clusters, drawn as a whole.`;
  const note = `${how}${blank > 0 ? ` ${count(blank)} blank, left out.` : ''}${rows.some(({ small }) => small) ? ' Pale: too few to be judged.' : ''}`;
  const ratio =
    drawn === ''
      ? ''
      : figure(
          `Ratio to ${esc(reference ?? '')}`,
          drawn,
          behind,
          'Adverse impact ratio. Four fifths is a rule of thumb of US hiring law, and no threshold here. Shortfall: approvals missing to the rate of the reference.',
        );
  return `<section><h2>By ${esc(column)}</h2>
${figure(`Approval by ${esc(column)}`, rates, behind, note)}
${ratio}</section>`;
}

export function twinSection({ twins, noise, asked }: Report): string {
  if (asked.twins.length === 0) return '';
  const floor =
    noise.pairs === 0
      ? 'No question was asked twice, so the noise floor is unknown: how many of these flips come without any swap cannot be said. Name a second run of the same items, with another seed, as one more FILE.'
      : `Noise floor: of ${count(noise.pairs)} answers to a question that was asked before, ${withInterval(noise.rate)} differ from the first.`;
  const none = '<p>No twins: no two trusted records are alike in these columns and differ in a group.</p>';
  return `<section><h2>Twins: the same case, another group</h2>
<p>Twins are alike in ${esc(asked.twins.join(', '))} and in their order. ${floor}</p>
${twins.length === 0 ? none : twins.map(each => twinFigures(each, noise)).join('\n')}</section>`;
}

function twinFigures(
  { column, reference, cells, invariant, partial, rows }: TwinTable,
  noise: Report['noise'],
): string {
  const net = dotChart({
    title: `Difference between twins, by ${column}`,
    axis: `approval rate less that of ${reference}, points`,
    rows: rows.flatMap(({ value, net: each }) => (each ? [{ label: value, ...each }] : [])),
    show: points,
    from: -0.05,
    to: 0.05,
    marks: [{ at: 0, label: 'no difference' }],
  });
  const flips = dotChart({
    title: `Twins decided differently, by ${column}`,
    axis: `pairs with ${reference} that differ, %`,
    rows: rows.flatMap(({ value, flips: each }) => (each ? [{ label: value, ...each }] : [])),
    show: whole,
    from: 0,
    to: 0.1,
    ...(noise.rate && { band: { ...noise.rate, label: 'noise floor' } }),
  });
  const several = rows.some(({ orders }) => orders.length > 0);
  const behind = table(
    [
      esc(column),
      'pairs',
      `${esc(reference)} alone approved`,
      'group alone approved',
      'differ',
      'differ, above noise (points)',
      'net, points',
      'p',
      'p, Holm',
      'McNemar',
    ],
    rows.map(row => [
      esc(row.value),
      count(row.pairs),
      count(row.referenceOnly),
      count(row.groupOnly),
      withInterval(row.flips),
      withInterval(row.aboveNoise, points),
      withInterval(row.net, points),
      pText(row.p),
      pText(row.holm),
      pText(row.mcnemar),
    ]),
  );
  const byOrder = several
    ? `<details><summary>Each order alone, exact McNemar</summary>${table(
        [`${esc(column)}, order`, 'pairs', `${esc(reference)} alone`, 'group alone', 'p', 'p, Holm'],
        rows.flatMap(({ value, orders }) =>
          orders.map(each => [
            `${esc(value)}, ${esc(each.order)}`,
            count(each.pairs),
            count(each.referenceOnly),
            count(each.groupOnly),
            pText(each.p),
            pText(each.holm),
          ]),
        ),
      )}</details>`
    : '';
  const share = cells === 0 ? '–' : percent(invariant / cells);
  return `<p>All twins by ${esc(column)} agree in ${share} of ${count(cells)} cells${partial > 0 ? `; ${count(partial)} more cells lack a twin` : ''}.</p>
${figure(`What the group changes between twins, by ${esc(column)}`, net, behind, several ? 'A cell is there in several orders: p and intervals take the cell as one.' : 'p: exact McNemar.')}
${figure(`How often twins differ at all, by ${esc(column)}`, flips, behind)}${byOrder}`;
}

export function orderSection({ orders, asked }: Report): string {
  if (orders === null) return '';
  const { rows, complete, same, test } = orders;
  const drawn = dotChart({
    title: 'Approval by order',
    axis: `“${asked.approve}”, % of those trusted`,
    rows: rows.map(({ rate }, nth) => ({ label: `order ${nth + 1}`, value: 0, low: 0, high: 0, ...rate })),
    show: whole,
    from: 0,
    to: 1,
  });
  const behind = table(
    ['order', 'n', 'approved', 'rate'],
    rows.map(({ order, n, approved, rate }, nth) => [
      `${nth + 1}: ${esc(order)}`,
      count(n),
      count(approved),
      withInterval(rate),
    ]),
  );
  const name =
    test === null
      ? ''
      : test.name === 'mcnemar'
        ? 'exact McNemar'
        : `Cochran's Q ${decimal(test.q)}, ${test.df} degrees of freedom`;
  return `<section><h2>By order of the agents</h2>
<p>${count(same)} of ${count(complete)} applications that were decided in every order (${withInterval(orders.sameRate)}) have the same decision in all of them. ${test === null ? '' : `That all orders approve alike: p ${pText(test.p)} (${name}).`} Mean kappa between two orders: ${decimal(orders.kappa)}.</p>
${figure('Approval by order', drawn, behind)}
<ol class="dim">${rows
    .slice(0, MOST_DOTS)
    .map(({ order }) => `<li>${esc(order.replaceAll(',', ', '))}</li>`)
    .join('')}</ol>
${agreement(orders)}</section>`;
}

function agreement({ rows, agreement: cells }: OrderTable): string {
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
  });
  const behind = table(
    ['orders', 'same decision'],
    cells.flatMap((list, a) =>
      list
        .slice(0, a)
        .map((share, b) => [
          `${a + 1}: ${esc(labels[a] ?? '')} and ${b + 1}: ${esc(labels[b] ?? '')}`,
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
