/** The page's section on strata: what is left of a difference among records of the same risk, of twins, of another group. */
import { count, esc, points, table, withInterval } from '../kit/html.ts';
import type { Report } from './report.ts';
import type { Within } from './reversal.ts';

export function withinSection({ within }: Report): string {
  if (within.length === 0) return '';
  const turned = within.filter(({ reversed }) => reversed).length;
  const named = ({ by }: Within): string =>
    ({ risk: `fifths of ${by.column}`, twins: 'cells of twins', group: by.column })[by.kind];
  const rows = within.map(each => [
    `${esc(each.column)} ${esc(each.value)} against ${esc(each.reference)}`,
    esc(named(each)),
    withInterval(each.whole, points),
    withInterval(each.within, points),
    `${count(each.against)} of ${count(each.strata)}`,
    `${count(each.used)} of ${count(each.of)}`,
    each.reversed ? '<strong>turns round</strong>' : '–',
  ]);
  return `<section><h2>The same, within strata</h2>
<p>${
    turned === 0
      ? 'No difference of groups turns round among records of one stratum, as far as this can tell.'
      : `<strong>${count(turned)} of ${count(within.length)} differences turn round within strata</strong> (Simpson's paradox): what holds of all records does not hold among those that are alike.`
  }</p>
${table(['', 'strata', 'in the whole, points', 'within strata, points', 'strata of the other sign', 'records', ''], rows)}
<p class="dim">Within strata: the mean of the strata's differences, each by the records of both groups in it. Intervals are of 95 % for all rows of the table together, robust to clusters; a difference turns round where both are on their own side of 0.</p></section>`;
}
