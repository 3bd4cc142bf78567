/** The page's section on what people said of the records. */
import { dotChart } from '../kit/chart.ts';
import {
  count,
  decimal,
  figure,
  html,
  joined,
  NONE,
  percent,
  short,
  type Text,
  table,
  withInterval,
} from '../kit/html.ts';
import type { Judged } from './judged.ts';
import type { JudgeRow, VerdictCounts } from './judged-lines.ts';
import type { Report } from './report.ts';
import { byIds, exactly, inColumn, rowsOf, rowsQuery, type Where } from './rows-query.ts';

const whole = (value: number): string => percent(value, 0);

export function judgedSection({ judged, asked, groups }: Report): Text {
  if (judged === null) return NONE;
  const { judges, notes } = judged;
  const units = asked.twins.length > 0 ? 'cells' : 'applications';
  const known = judges.filter(({ judged: n }) => n > 0);
  const said = known.length === 0 ? html`<p>No judgement of a whole line holds.</p>` : ofJudges(known, units);
  return html`<section><h2>Judged by people</h2>
<p>What people said of lines that they looked at. The share right is of those said to be right or wrong; unsure ones are counted, and in no share. Nothing here is tested, and nothing is a finding of the page.</p>
${notesOf(notes)}
${said}
${joined(groups.map(({ column }) => ofGroup(known, column)))}
${pointers(judges)}
${between(judged)}</section>`;
}

const notesOf = (notes: readonly string[]): Text =>
  notes.length === 0
    ? NONE
    : html`<ul class="notes">${joined(notes.map(text => html`<li>${short(text, 400)}</li>`))}</ul>`;

/** What is drawn of some judgements: its name, the counts, and the query of the records. */
type Drawn = readonly [label: string, counts: VerdictCounts, rows?: string];

const dotsOf = (rows: readonly Drawn[], title: string): Text =>
  dotChart({
    title,
    axis: '% right, of those said to be right or wrong',
    rows: rows.flatMap(([label, { rate, small }, query = '']) =>
      rate ? [{ label, ...rate, faint: small, rows: query }] : [],
    ),
    show: whole,
    from: 0,
    to: 1,
  });

const drawnIf = (rows: readonly Drawn[], title: string): Text =>
  rows.some(([, { rate }]) => rate !== null) ? dotsOf(rows, title) : NONE;

/** The counts of verdicts as cells; those that are wrong or unsure lead to their records. */
const cellsOf = ({ right, wrong, unsure, clusters, rate, ids }: VerdictCounts): Text[] => [
  count(right),
  rowsOf(wrong > 0 ? byIds(ids.wrong) : [], count(wrong)),
  rowsOf(unsure > 0 ? byIds(ids.unsure) : [], count(unsure)),
  count(clusters),
  withInterval(rate),
];

function ofJudges(judges: readonly JudgeRow[], units: string): Text {
  const rows = judges.map(row => [row.by, row] as const);
  const behind = table(
    [
      ...['judge', 'judged', 'right', 'wrong', 'unsure', units, 'share right'],
      ...['another answer', 'not there', 'in no rate', 'hidden'],
    ],
    judges.map(row => [
      short(row.by) + (row.small ? ' (few)' : ''),
      count(row.judged),
      ...cellsOf(row),
      rowsOf(byIds(row.otherText.ids), count(row.otherText.n)),
      count(row.missing.n),
      rowsOf(byIds(row.leftOut.ids), count(row.leftOut.n)),
      row.hidden.length === 0
        ? '–'
        : short(row.hidden.map(({ column, judged }) => `${column} (${count(judged)})`).join(', ')),
    ]),
  );
  const title = 'How often each judge finds the decision right';
  const model = table(
    [
      'judge',
      'decisions',
      'both approve',
      'the model alone',
      'the judge alone',
      'neither',
      'kappa',
      'not known',
    ],
    judges.map(({ by, table: of, kappa, unknown }) => {
      const [[neither, judge], [alone, both]] = of;
      return [
        ...[short(by), count(neither + judge + alone + both)],
        ...[both, alone, judge, neither].map(count),
        withInterval(kappa, value => decimal(value)),
        count(unknown),
      ];
    }),
  );
  return html`${figure(title, drawnIf(rows, title), behind, few(judges))}
<p><strong>The model and the judge</strong></p>
<p class="dim">What the judge would have decided: the model's decision where it is right; where it is wrong the value that the judge gave, else the other one, if there are only two. Kappa is the agreement beyond chance: 1 is full agreement, 0 what chance gives.</p>
${model}`;
}

const few = (rows: readonly VerdictCounts[]): string =>
  rows.some(({ small }) => small) ? 'Pale: too few to say much.' : '';

function ofGroup(judges: readonly JudgeRow[], column: string): Text {
  const rows = judges.flatMap(({ by, groups }) => {
    const own = groups.find(each => each.column === column)?.rows ?? [];
    return own.map(row => ({ by, row }));
  });
  if (rows.length === 0) return NONE;
  const isOne = judges.length === 1;
  const recordsOf = (value: string): Where[] => [[inColumn(column), exactly(value)]];
  const labelled = rows.map(
    ({ by, row }) =>
      [isOne ? row.value : `${row.value}, ${by}`, row, rowsQuery(recordsOf(row.value))] as const,
  );
  const behind = table(
    [short(column), ...(isOne ? [] : ['judge']), 'right', 'wrong', 'unsure', 'cases', 'share right'],
    rows.map(({ by, row }) => [
      rowsOf(recordsOf(row.value), short(row.value) + (row.small ? ' (few)' : '')),
      ...(isOne ? [] : [short(by)]),
      ...cellsOf(row),
    ]),
  );
  const title = `How often the decision is found right, by ${column}`;
  return figure(short(title), drawnIf(labelled, title), behind, few(rows.map(({ row }) => row)));
}

function pointers(judges: readonly JudgeRow[]): Text {
  const rows = judges.flatMap(({ by, pointers: own }) =>
    own.map(row => [
      `${short(row.path)}, ${short(by)}`,
      ...cellsOf(row),
      count(row.otherText),
      count(row.missing),
    ]),
  );
  return rows.length === 0
    ? NONE
    : html`<p><strong>Single values</strong></p>${table(
        [
          ...['where, judge', 'right', 'wrong', 'unsure', 'cases', 'share right'],
          ...['another answer', 'not there'],
        ],
        rows,
      )}`;
}

function between({ between: rows }: Judged): Text {
  return rows.length === 0
    ? NONE
    : html`<p><strong>The judges among themselves</strong>, over what both judged: right, wrong or unsure.</p>${table(
        ['judges', 'both judged', 'the same', 'agreement', 'kappa'],
        rows.map(({ judges: [one, other], n, same, agreement, kappa, small }) => [
          `${short(one)} and ${short(other)}${small ? ' (few)' : ''}`,
          count(n),
          count(same),
          withInterval(agreement),
          withInterval(kappa, value => decimal(value)),
        ]),
      )}`;
}
