/** The page's sections on what a decision is made of: agents, numbers, risk, tokens. */
import { curveChart, dotChart } from '../kit/chart.ts';
import {
  count,
  decimal,
  figure,
  html,
  joined,
  percent,
  pMark,
  short,
  type Text,
  table,
  withInterval,
} from '../kit/html.ts';
import type { NumberTable } from './decisions.ts';
import type { Report } from './report.ts';
import { byIds, exactly, inColumn, rowsOf, rowsQuery, type Where } from './rows-query.ts';

const whole = (value: number): string => percent(value, 0);

export function agentSection({ turns }: Report): Text {
  const changing = turns.filter(({ n }) => n > 0);
  const agreeing = turns.filter(({ agreement }) => agreement !== null);
  if (changing.length === 0 && agreeing.length === 0) return '';
  const changes = changing.flatMap(({ agent, toNoRate, toYesRate, toNoIds, toYesIds }) =>
    (
      [
        ['to no approval', toNoRate, toNoIds],
        ['to approval', toYesRate, toYesIds],
      ] as const
    ).flatMap(([way, rate, ids]) =>
      rate ? [{ label: `${agent}, ${way}`, ...rate, rows: rowsQuery(byIds(ids)) }] : [],
    ),
  );
  const drawn = dotChart({
    title: 'Decisions that an agent turned',
    axis: '% of its answers after another agent',
    rows: changes,
    show: whole,
    from: 0,
    to: 0.1,
  });
  const columns = changing[0]?.groups ?? [];
  const byGroup = columns.map(({ column }, at) => {
    const rows = changing.flatMap(({ agent, groups }) =>
      (groups[at]?.rows ?? []).map(({ value, n, toNo, toYes, toNoIds, toYesIds }) => [
        rowsOf([[inColumn(column), exactly(value)]], `${short(agent)}, ${short(value)}`),
        count(n),
        rowsOf(byIds(toNoIds), percent(toNo / n)),
        rowsOf(byIds(toYesIds), percent(toYes / n)),
      ]),
    );
    return html`<details><summary>By ${short(column)}</summary>${table([`agent, ${short(column)}`, 'answers', 'to no approval', 'to approval'], rows)}</details>`;
  });
  const behind = table(
    ['agent', 'answers after another', 'to no approval', 'to approval'],
    changing.map(({ agent, n, toNo, toYes, toNoRate, toYesRate, toNoIds, toYesIds }) => [
      short(agent),
      count(n),
      rowsOf(byIds(toNoIds), `${count(toNo)}: ${withInterval(toNoRate)}`),
      rowsOf(byIds(toYesIds), `${count(toYes)}: ${withInterval(toYesRate)}`),
    ]),
  );
  const agreement = table(
    ['agent', 'records', 'as the last decision', 'kappa'],
    agreeing.map(({ agent, agreement: found }) => [
      short(agent),
      count(found?.n ?? 0),
      percent((found?.same ?? 0) / (found?.n || 1)),
      withInterval(found?.kappa ?? null, value => decimal(value)),
    ]),
  );
  return html`<section><h2>Who changes the decision</h2>
${changing.length === 0 ? '' : figure('Decisions turned, by agent', drawn, behind, 'An agent turns a decision when it differs from the answer just before its own.')}${changing.length === 0 ? '' : joined(byGroup)}
${agreeing.length === 0 ? '' : html`<p><strong>Agreement with the last decision</strong></p>${agreement}`}</section>`;
}

export function numberSection({ numbers }: Report): Text {
  const known = numbers.filter(({ rows }) => rows.length > 0);
  return known.length === 0
    ? ''
    : html`<section><h2>Numbers in the decision</h2>${joined(known.map(numberFigure), '\n')}</section>`;
}

function numberFigure({ name, column, reference, rows, curves }: NumberTable): Text {
  const title = column === null ? name : `${name}, by ${column}`;
  const recordsOf = (value: string): Where[] => (column === null ? [] : [[inColumn(column), exactly(value)]]);
  const drawn = curveChart({
    title,
    x: name,
    y: '% of decisions at or below',
    curves: curves.map(({ value, points }) => ({
      label: value,
      rows: rowsQuery(recordsOf(value)),
      points: points.map(([share, x]) => [x, share] as const),
    })),
    showX: value => decimal(value, Math.abs(value) >= 10 || Number.isInteger(value) ? 0 : 1),
    showY: whole,
    from: 0,
    to: 1,
  });
  const behind = table(
    [
      short(column ?? ''),
      'n',
      'mean',
      'lower quartile',
      'median',
      'upper quartile',
      'KS distance',
      'p, raw',
      'p, corrected',
    ],
    rows.map(({ value, n, mean, quartiles, ks }) => [
      rowsOf(recordsOf(value), short(value) + (value === reference ? ' (reference)' : '')),
      count(n),
      decimal(mean),
      ...quartiles.map(each => decimal(each)),
      decimal(ks?.d, 3),
      pMark(ks?.p),
      pMark(ks?.holm),
    ]),
  );
  const note =
    rows.length > curves.length
      ? `The ${curves.length} largest of ${count(rows.length)} groups are drawn.`
      : '';
  return figure(
    short(title),
    drawn,
    behind,
    `${note} KS: two-sample Kolmogorov-Smirnov against the reference, by whole applications or cells.`,
  );
}

const DRAWN = 6;

export function riskSection({ risk, groups, asked }: Report): Text {
  if (risk === null) return '';
  const { column, bands, blank } = risk;
  const bandName = ({ from, to }: (typeof bands)[number]): string =>
    `${decimal(from, 0)} to ${decimal(to, 0)}`;
  const columns = groups.length === 0 ? [null] : groups;
  const figures = columns.map((group, at) => {
    const values = group === null ? ['all'] : group.rows.slice(0, DRAWN).map(({ value }) => value);
    const rowOf = (band: (typeof bands)[number], value: string) =>
      group === null ? band : band.groups[at]?.rows.find(row => row.value === value);
    const recordsOf = (value: string): Where[] =>
      group === null ? [] : [[inColumn(group.column), exactly(value)]];
    const curves = values.map(value => ({
      label: value,
      rows: rowsQuery(recordsOf(value)),
      points: bands.flatMap((band, nth): [number, number][] => {
        const rate = rowOf(band, value)?.rate;
        return rate ? [[nth + 1, rate.value]] : [];
      }),
    }));
    const drawn = curveChart({
      title: `Approval by fifths of ${column}`,
      x: `fifth of ${column}, the lowest first`,
      y: `“${asked.approve}”, % of trusted records`,
      curves: curves.filter(({ points }) => points.length > 0),
      showX: value => (Number.isInteger(value) ? String(value) : ''),
      showY: whole,
      from: 0,
      to: 1,
      dots: true,
    });
    const all = group === null ? ['all'] : group.rows.map(({ value }) => value);
    const behind = table(
      [short(group?.column ?? ''), ...bands.map(band => short(bandName(band)))],
      all.map(value => [
        rowsOf(recordsOf(value), short(value)),
        ...bands.map(band => withInterval(rowOf(band, value)?.rate ?? null)),
      ]),
    );
    return figure(
      `Approval by ${short(column)}${group === null ? '' : ` and ${short(group.column)}`}`,
      drawn,
      behind,
    );
  });
  const overall = table(
    [`${short(column)}`, 'n', 'approved', 'rate'],
    bands.map(band => [short(bandName(band)), count(band.n), count(band.approved), withInterval(band.rate)]),
  );
  return html`<section><h2>Level and risk</h2>
<p>Groups can be alike because everybody is approved. This shows how approval follows ${short(column)}.${blank > 0 ? ` ${count(blank)} records have no number there.` : ''}</p>
${overall}
${joined(figures, '\n')}</section>`;
}

export function usageSection({ tokens, time, integrity }: Report): Text {
  if (tokens === null && time === null) return '';
  const rows = integrity.agents.map(({ agent, answers, prompt, completion, uncounted }) => [
    short(agent),
    count(answers),
    prompt === 0 ? '–' : count(prompt),
    prompt === 0 ? '–' : count(completion),
    decimal(answers === uncounted ? null : completion / (answers - uncounted), 0),
  ]);
  const uncounted = integrity.agents.reduce((sum, each) => sum + each.uncounted, 0);
  const unknown = uncounted > 0 ? ` Of ${count(uncounted)} more answers nobody counted them.` : '';
  const all =
    tokens === null
      ? ''
      : html`<p>${count(tokens.prompt)} tokens in, ${count(tokens.completion)} out, of the answers that were taken.${unknown} What was asked again costs more: <code>fw ledger cost</code>.</p>${table(['agent', 'answers', 'tokens in', 'tokens out', 'out, each'], rows)}`;
  const when =
    time === null ? '' : html`<p>Results are dated from ${short(time.from)} to ${short(time.to)}.</p>`;
  return html`<section><h2>Tokens and time</h2>${all}${when}</section>`;
}
