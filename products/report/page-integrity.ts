/** The page's first section: what was left out, mended and asked again, and whether one group met it more than another. */
import { dotChart } from '../kit/chart.ts';
import {
  count,
  figure,
  html,
  joined,
  leadsTo,
  percent,
  pMark,
  points,
  short,
  type Text,
  table,
  withInterval,
} from '../kit/html.ts';
import { LEVEL } from './family.ts';
import type { FateRow, Integrity } from './integrity.ts';
import type { Report } from './report.ts';
import type { Within } from './reversal.ts';
import { exactly, inColumn, outcomeRows, rowsOf, rowsQuery, type Where } from './rows-query.ts';

export function integritySection({ integrity }: Report): Text {
  const { seen, trusted, rungs, left, leftRows, agents, groups } = integrity;
  const reasons = Object.entries(left);
  return html`<section><h2>Integrity</h2>
<p>${count(seen)} items were read. ${count(trusted)} (${percent(integrity.trustedRate?.value)}) may enter a rate. ${count(integrity.mended)} had an answer that fw mended, ${count(integrity.askedAgain)} an answer that was asked for again.</p>
${table(
  ['rung', 'items'],
  Object.entries(rungs).map(([rung, n]) => [rowsOf([['rung', rung]], rung), count(n)]),
)}
${
  reasons.length === 0
    ? ''
    : table(
        ['left out, because', 'items'],
        reasons.map(([code, n]) => [leadsTo(leftRows[code] ?? '', short(code)), count(n)]),
      )
}
${joined(
  groups.map(each => groupFates(each, leftRows)),
  '\n',
)}
${agents.length === 0 ? '' : agentFates(integrity)}
</section>`;
}

const MENDED: readonly Where[] = (['repaired', 'coerced', 'defaulted'] as const).map(rung => ['rung', rung]);

function groupFates(
  { column, reference, rows }: Integrity['groups'][number],
  leftRows: Integrity['leftRows'],
): Text {
  const recordsOf = (value: string): Where[] => [[inColumn(column), exactly(value)]];
  const drawn = dotChart({
    title: `Share of items that are trusted, by ${column}`,
    axis: 'trusted, % of items',
    rows: rows.flatMap(({ value, trustedRate }) =>
      trustedRate ? [{ label: value, ...trustedRate, rows: rowsQuery(recordsOf(value)) }] : [],
    ),
    show: value => percent(value, 1),
    from: Math.max(
      0,
      1 - 2 * Math.max(0.01, ...rows.slice(0, 30).map(({ trustedRate }) => 1 - (trustedRate?.value ?? 1))),
    ),
    to: 1,
  });
  const share = (part: number, { seen }: FateRow): string => percent(seen === 0 ? null : part / seen);
  const behind = table(
    [
      ...[short(column), 'items', 'trusted', 'left out', 'p, corrected'],
      ...['mended', 'p, corrected', 'asked again', 'p, corrected'],
    ],
    rows.map(row => [
      rowsOf(recordsOf(row.value), short(row.value) + (row.value === reference ? ' (reference)' : '')),
      count(row.seen),
      withInterval(row.trustedRate),
      rowsOf(leftOf(row, column, leftRows), share(row.seen - row.trusted, row)),
      pMark(row.tests['left-out']?.holm),
      rowsOf(row.mended > 0 ? [...recordsOf(row.value), ...MENDED] : [], share(row.mended, row)),
      pMark(row.tests.mended?.holm),
      share(row.askedAgain, row),
      pMark(row.tests['asked-again']?.holm),
    ]),
  );
  const uneven = rows.filter(({ tests }) =>
    Object.values(tests).some(test => test !== null && test.holm < LEVEL),
  );
  const note =
    uneven.length === 0
      ? 'p: against the reference, by whole applications or cells, corrected over all tests of the page. A parser that fails more for one group would show here.'
      : `Not alike: ${uneven
          .slice(0, 6)
          .map(({ value }) => short(value))
          .join(
            ', ',
          )}. What was left out or mended differs by group, so rates may differ for that reason alone.`;
  // a picture of groups that are all whole says nothing
  const isWhole = rows.every(row => row.trusted === row.seen);
  const picture = isWhole
    ? html`<p>All items are trusted, in each of ${count(rows.length)} groups.</p>`
    : drawn;
  return figure(`Which items are trusted, by ${short(column)}`, picture, behind, note);
}

/** The records of a group that enter no rate, where their failures choose them. */
function leftOf({ value, left }: FateRow, column: string, leftRows: Integrity['leftRows']): Where[] {
  const codes = Object.keys(left);
  const isOwn = codes.every(code => leftRows[code] === rowsQuery([['failure', exactly(code)]]));
  if (codes.length === 0 || codes.length > 20 || !isOwn) return [];
  return [[inColumn(column), exactly(value)], ...codes.map((code): Where => ['failure', exactly(code)])];
}

function agentFates({ agents, groups }: Integrity): Text {
  const share = (part: number, all: number): string => percent(all === 0 ? null : part / all);
  const all = table(
    ['agent', 'answers', 'clean', 'mended', 'unknown', 'failed', 'asked again'],
    agents.map(({ agent, answers, rungs, askedAgain }) => [
      short(agent),
      count(answers),
      share(rungs.clean ?? 0, answers),
      share((rungs.repaired ?? 0) + (rungs.coerced ?? 0) + (rungs.defaulted ?? 0), answers),
      share(rungs.unknown ?? 0, answers),
      rowsOf(rungs.failed ? [['agent', exactly(agent)]] : [], share(rungs.failed ?? 0, answers)),
      share(askedAgain, answers),
    ]),
  );
  const byGroup = groups.map(({ column, agents: rows }) => {
    const body = table(
      [`agent, ${short(column)}`, 'answers', 'failed', 'mended', 'asked again'],
      rows.map(({ agent, value, answers, failed, mended, askedAgain }) => [
        rowsOf([[inColumn(column), exactly(value)]], `${short(agent)}, ${short(value)}`),
        count(answers),
        share(failed, answers),
        share(mended, answers),
        share(askedAgain, answers),
      ]),
    );
    return html`<details><summary>Each agent by ${short(column)}</summary>${body}</details>`;
  });
  return html`<p><strong>Answers, by agent</strong></p>${all}${joined(byGroup)}`;
}

export function valueSection(report: Report): Text {
  const { asked, outcomes, approvals, noOutcomes, level, integrity } = report;
  const rows = outcomeRows(report);
  const approved = new Set(approvals);
  const decided = Object.entries(outcomes)
    .sort(([, a], [, b]) => b - a)
    .map(([value, n]) => [
      rowsOf(rows.value(value), short(value)),
      count(n),
      percent(level.n === 0 ? null : n / level.n),
      approved.has(value) ? 'approval' : 'another outcome',
    ]);
  const none = noOutcomes.values.map(({ value, count: n }) => [
    value === '' ? '(nothing)' : rowsOf(rows.value(value), short(value)),
    count(n),
    '–',
    'no outcome: left out',
  ]);
  const more =
    noOutcomes.others > 0 ? [['(others)', count(noOutcomes.others), '–', 'no outcome: left out']] : [];
  const failed = integrity.seen - level.n - noOutcomes.others - sum(noOutcomes.values);
  const agent = asked.agent === null ? '' : ` of ${short(asked.agent)}`;
  const left = failed > 0 ? ` ${count(failed)} more were left out for another reason; see Integrity.` : '';
  return html`<section><h2>What was decided</h2>
<p>Each value of ${short(asked.outcome)}${agent}, and what it counts as. Rates are shares of the ${count(level.n)} records that have an outcome.${left}</p>
${table(['value', 'records', 'share', 'counts as'], [...decided, ...none, ...more])}</section>`;
}

const sum = (values: readonly { count: number }[]): number =>
  values.reduce((all, each) => all + each.count, 0);

export function withinSection({ within }: Report): Text {
  if (within.length === 0) return '';
  const turned = within.filter(({ reversed }) => reversed).length;
  const named = ({ by }: Within): string =>
    ({ risk: `fifths of ${by.column}`, twins: 'cells of twins', group: by.column })[by.kind];
  const rows = within.map(each => [
    rowsOf(
      [each.value, each.reference].map((value): Where => [inColumn(each.column), exactly(value)]),
      `${short(each.column)} ${short(each.value)} against ${short(each.reference)}`,
    ),
    short(named(each)),
    withInterval(each.whole, points),
    withInterval(each.within, points),
    `${count(each.against)} of ${count(each.strata)}`,
    `${count(each.used)} of ${count(each.of)}`,
    each.reversed ? html`<strong>turns round</strong>` : '–',
  ]);
  return html`<section><h2>The same, within strata</h2>
<p>${
    turned === 0
      ? 'No difference of groups turns round among records of one stratum, as far as this can tell.'
      : html`<strong>${count(turned)} of ${count(within.length)} differences turn round within strata</strong> (Simpson's paradox): what holds of all records does not hold among those that are alike.`
  }</p>
${table(['', 'strata', 'in the whole, points', 'within strata, points', 'strata of the other sign', 'records', ''], rows)}
<p class="dim">Within strata: the mean of the strata's differences, each by the records of both groups in it. Intervals are of 95 % for all rows of the table together, robust to clusters; a difference turns round where both are on their own side of 0.</p></section>`;
}
