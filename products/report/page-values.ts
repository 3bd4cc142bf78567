/** The page's section on the values that were met: which are outcomes, how often, and what stands where there is none. */
import { count, esc, percent, table } from '../kit/html.ts';
import type { Report } from './report.ts';

export function valueSection({ asked, outcomes, approvals, noOutcomes, level, integrity }: Report): string {
  const approved = new Set(approvals);
  const decided = Object.entries(outcomes)
    .sort(([, a], [, b]) => b - a)
    .map(([value, n]) => [
      esc(value),
      count(n),
      percent(level.n === 0 ? null : n / level.n),
      approved.has(value) ? 'approval' : 'another outcome',
    ]);
  const none = noOutcomes.values.map(({ value, count: n }) => [
    value === '' ? '(nothing)' : esc(value),
    count(n),
    '–',
    'no outcome: left out',
  ]);
  const more =
    noOutcomes.others > 0 ? [['(others)', count(noOutcomes.others), '–', 'no outcome: left out']] : [];
  const failed = integrity.seen - level.n - noOutcomes.others - sum(noOutcomes.values);
  const agent = asked.agent === null ? '' : ` of ${esc(asked.agent)}`;
  const left = failed > 0 ? ` ${count(failed)} more were left out for another reason; see Integrity.` : '';
  return `<section><h2>What was decided</h2>
<p>Each value of ${esc(asked.outcome)}${agent}, and what it counts as. Rates are shares of the ${count(level.n)} records that have an outcome.${left}</p>
${table(['value', 'records', 'share', 'counts as'], [...decided, ...none, ...more])}</section>`;
}

const sum = (values: readonly { count: number }[]): number =>
  values.reduce((all, each) => all + each.count, 0);
