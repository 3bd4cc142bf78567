/** The comparison as text, for a person at a terminal. */
import { aligned, cut, number } from '../../engine/core/item/wording.ts';
import { visible } from '../../engine/core/json/visible.ts';
import { LEAST } from '../kit/clusters.ts';
import { decimal, percent, points, pText, withInterval } from '../kit/html.ts';
import type { Comparison, RunRow } from './compare-runs.ts';

const name = (text: string): string => visible(cut(text, 60));

export function comparisonPage(runs: readonly RunRow[], comparisons: readonly Comparison[]): string {
  const lines = [...runLines(runs), ...comparisons.flatMap(each => ['', ...comparisonLines(each)])];
  return `${lines.join('\n')}\n`;
}

/** What nobody counted is no 0. */
const counts = (tokens: number | null): string => (tokens === null ? '–' : number(tokens));

const TIMED = ['calls', 's a try', 'tokens/s a call', 'tokens/s', 'hours', 'GPU hours'];

function runLines(runs: readonly RunRow[]): string[] {
  const isTimed = runs.some(({ ledger }) => ledger !== null);
  const isPriced = runs.some(({ ledger }) => ledger !== null && ledger.cost !== null);
  const head = ['run', 'items', 'trusted', 'clean', 'mended', 'asked again', 'approved', 'tokens in', 'out'];
  const rows = runs.map(({ name: of, seen, trusted, rungs, askedAgain, rate, tokens, ledger }) => {
    const share = (part: number): string => percent(seen === 0 ? null : part / seen);
    const mended = (rungs.repaired ?? 0) + (rungs.coerced ?? 0) + (rungs.defaulted ?? 0);
    const row = [
      ...[name(of), number(seen), share(trusted), share(rungs.clean ?? 0), share(mended), share(askedAgain)],
      ...[
        percent(rate?.value),
        counts(ledger ? ledger.in : tokens.prompt),
        counts(ledger ? ledger.out : tokens.completion),
      ],
    ];
    if (!isTimed) return row;
    if (ledger === null) return [...row, ...TIMED.map(() => '–'), ...(isPriced ? ['–', '–'] : [])];
    const { calls, tries, seconds, out, hours, endpointHours, cost } = ledger;
    return [
      ...row,
      ...[
        number(calls),
        decimal(seconds / (tries || 1)),
        decimal(out === null ? null : out / (seconds || 1), 0),
      ],
      ...[
        decimal(out === null ? null : out / (hours * 3600 || 1), 0),
        decimal(hours),
        decimal(endpointHours),
      ],
      ...(isPriced
        ? [decimal(cost), decimal(seen === 0 || cost === null ? null : (1000 * cost) / seen)]
        : []),
    ];
  });
  const all = isTimed ? [...head, ...TIMED, ...(isPriced ? ['cost', 'a 1,000 items'] : [])] : head;
  return aligned([all, ...rows], all.map((_, at) => at).slice(1));
}

function comparisonLines(comparison: Comparison): string[] {
  const {
    runs,
    matched,
    clusters,
    unit,
    onlyFirst,
    onlySecond,
    identical,
    table,
    equivalence,
    numbers,
    different,
  } = comparison;
  const [first, second] = runs.map(name);
  const [[, won], [lost]] = table;
  const lines = [
    `${second} against ${first}`,
    `  matched by id: ${number(matched)}${clusters < matched ? `, of ${number(clusters)} ${unit}` : ''}; in the first alone ${number(onlyFirst)}, in the second alone ${number(onlySecond)}`,
  ];
  if (matched === 0) return [...lines, '  nothing to compare: no id was decided in both'];
  lines.push(
    `  identical in decision and numbers: ${number(identical)} (${percent(identical / matched)})`,
    `  same decision: ${withInterval(comparison.agreement)}; kappa ${withInterval(comparison.kappa, value => decimal(value))}`,
    `  approval: ${withInterval(comparison.difference, points)} points; ${number(won)} approved in the second alone, ${number(lost)} in the first alone; p ${pText(comparison.p)} raw, ${pText(comparison.holm)} corrected`,
  );
  if (equivalence) {
    const { margin, p, equivalent } = equivalence;
    lines.push(
      `  within ±${decimal(margin * 100, 1)} points: ${equivalent ? 'shown' : 'not shown'} (${p === null ? `fewer than ${LEAST} ${unit} show nothing` : `two one-sided tests, p ${pText(p)}`})`,
    );
  }
  for (const { name: of, n, means, meanDifference, ks } of numbers)
    lines.push(
      `  ${name(of)}: mean ${decimal(means[0])} and ${decimal(means[1])} (${meanDifference > 0 ? '+' : ''}${decimal(meanDifference)}), n ${number(n)}; KS distance ${decimal(ks.d, 3)}, p ${pText(ks.p)} raw, ${pText(ks.holm)} corrected`,
    );
  if (different.length > 0) {
    lines.push('  most different:');
    const rows = different.map(({ id, decisions, numbers: of }) => [
      `    ${name(id)}`,
      decisions[0] === decisions[1] ? decisions[0] : decisions.join(' → '),
      ...Object.entries(of).map(([key, [a, b]]) => `${name(key)} ${a} → ${b}`),
    ]);
    lines.push(...aligned(rows, []));
  }
  return lines;
}
