/** The report as one page: HTML and SVG alone, no script, nothing from the network. What can be trusted comes first. */
import { counted } from '../item/words.ts';
import { count, esc, page, percent, points, pText, tile } from './html.ts';
import { agentSection, numberSection, riskSection, usageSection } from './page-decisions.ts';
import { groupSection, orderSection, twinSection } from './page-groups.ts';
import { integritySection } from './page-integrity.ts';
import type { Report } from './report.ts';

export function pageOf(report: Report): string {
  const { asked, files, integrity } = report;
  const names = files.map(({ path }) => path);
  const more = names.length > 3 ? ` and ${names.length - 3} more` : '';
  return page({
    title: `Report on ${esc(counted(integrity.seen, 'item'))}`,
    header: `<h1>${esc(asked.outcome)}: how often “${esc(asked.approve)}”, for whom, and how sure</h1>
<p class="dim">${esc(names.slice(0, 3).join(', '))}${more}</p>
${tiles(report)}
${notes(report)}
<p class="dim">In the pictures a dot is what was counted, the line through it its 95 % interval.</p>`,
    main: `${integritySection(report)}
${report.groups.map(table => groupSection(report, table)).join('\n')}
${twinSection(report)}
${orderSection(report)}
${agentSection(report)}
${numberSection(report)}
${riskSection(report)}
${usageSection(report)}
${method(report)}`,
  });
}

/** What a reader asks first: how many, how many of them count, is there a difference by group, by order, how sure. */
function tiles(report: Report): string {
  const { integrity, level, orders } = report;
  const { seen, trusted } = integrity;
  const left = Object.entries(integrity.left)
    .slice(0, 3)
    .map(([code, n]) => `${count(n)} ${esc(code)}`);
  const all = [
    tile(
      'Items, and how many are trusted',
      `${count(trusted)} of ${count(seen)}`,
      seen === trusted ? 'none left out' : `${count(seen - trusted)} left out: ${left.join(', ')}`,
      leftOutByGroup(report),
    ),
    tile(
      `“${esc(report.asked.approve)}”, of those trusted`,
      percent(level.rate?.value),
      `95 % interval ${percent(level.rate?.low)} to ${percent(level.rate?.high)}, of ${count(level.applicants)} applications`,
    ),
    tile('By group', ...(byGroup(report) as [string, ...string[]])),
    orders === null
      ? tile('By order', 'one order', 'with several orders of the agents, this says what the order changes')
      : tile(
          'By order',
          `${percent(orders.sameRate?.value)} the same`,
          `decided alike in all ${orders.rows.length} orders, of ${count(orders.complete)} applications`,
          `rates from ${percent(Math.min(...orders.rows.map(({ rate }) => rate?.value ?? 1)))} to ${percent(Math.max(...orders.rows.map(({ rate }) => rate?.value ?? 0)))}; p ${pText(orders.test?.p)} that all orders approve alike`,
        ),
  ];
  return `<div class="tiles">${all.join('\n')}</div>`;
}

/** Whether those left out are of one group more than of another. */
function leftOutByGroup({ integrity }: Report): string {
  const found = integrity.groups.flatMap(({ column, rows }) =>
    rows
      .filter(({ tests }) => Object.values(tests).some(test => test !== null && test.holm < 0.05))
      .map(({ value }) => `${column} ${value}`),
  );
  if (integrity.groups.length === 0) return '';
  if (integrity.groups.every(({ tests }) => tests === 0))
    return 'nothing was left out, mended or asked again in any group';
  if (found.length === 0)
    return 'no group was left out, mended or asked again more than the reference, as far as this can tell';
  return `<strong>not alike in all groups:</strong> ${esc(found.slice(0, 4).join(', '))}; see Integrity`;
}

/** The largest difference that was found, from twins where there are some. */
function byGroup(report: Report): string[] {
  const { groups, twins, noise } = report;
  if (groups.length === 0) return ['no groups', '--group COLUMN compares the values of a column'];
  const rows = groups.flatMap(table => {
    const paired = twins.find(({ column }) => column === table.column);
    const found = paired
      ? paired.rows.map(({ value, net, holm }) => ({ value, difference: net, holm }))
      : table.rows
          .filter(({ small }) => !small)
          .map(({ value, difference, holm }) => ({ value, difference, holm }));
    const known = found.filter(row => row.difference !== null && row.holm !== null);
    return known.map(row => ({
      ...row,
      column: table.column,
      reference: table.reference ?? '',
      paired: paired !== undefined,
    }));
  });
  const sure = rows.filter(({ holm }) => (holm as number) < 0.05);
  const largest = rows.toSorted(
    (a, b) => Math.abs(b.difference?.value ?? 0) - Math.abs(a.difference?.value ?? 0),
  )[0];
  if (largest === undefined)
    return ['nothing to compare', 'no group has enough records beside the reference'];
  const { difference, column, value, reference, paired, holm } = largest;
  const floor = noise.pairs > 0 ? `; the same question asked again flips ${percent(noise.rate?.value)}` : '';
  return [
    `${points(difference?.value)} points`,
    `the largest difference: ${esc(column)} ${esc(value)} against ${esc(reference)}${paired ? ', between twins' : ''}; 95 % interval ${points(difference?.low)} to ${points(difference?.high)}; p ${pText(holm)}`,
    `${sure.length} of ${rows.length} comparisons have p below 0.05 after Holm's correction${floor}`,
  ];
}

function notes({ notes: all }: Report): string {
  return all.length === 0
    ? ''
    : `<ul class="notes">${all.map(text => `<li>${text.length > 400 ? esc(text) : text.split(' ').map(esc).join(' ')}</li>`).join('')}</ul>`;
}

function method({ asked, method: by, version, files, tests }: Report): string {
  const rows = files
    .slice(0, 100)
    .map(({ path, lines, kinds, orderings }) => [
      esc(path),
      count(lines),
      esc(kinds.join(', ') || 'empty'),
      esc(orderings.length > 2 ? `${orderings.length} orderings` : orderings.join('; ') || '–'),
    ]);
  const list = rows.map(
    ([path, lines, kinds, orderings]) =>
      `<li>${path}: ${lines} lines (${kinds}), orderings: ${orderings}</li>`,
  );
  return `<section><h2>How this was counted</h2>
<p>Of each id the first line counts. A record enters a rate when verification accepts it (rungs ${esc(asked.accept.join(', '))}) and its outcome is not blank. A blank group is left out of that group's table alone. “${esc(asked.approve)}” is an approval, every other value is none.</p>
<p>The lines in the pictures and the figures in brackets are 95 % intervals. Where records are independent: Wilson for rates, Newcombe for differences, Katz for ratios, and Fisher's exact test. Where an application or a cell of twins is there several times, it is drawn as a whole: a cluster bootstrap of ${count(by.resamples)} resamples (seed ${by.seed}), and the p of a cluster-robust error. Twins: exact McNemar. Orders: Cochran's Q. p values are corrected by Holm within each table. Tests made: ${count(tests)}. A group of fewer than ${by.least} records, or less than ${percent(by.leastShare, 0)} of all, is shown and not judged.</p>
<p>A ratio or a difference is no verdict: what follows from it is for people to say. Each figure's ids are in <code>fw report --json</code> (the first ${by.ids}); <code>fw explain ID FILE</code> tells their stories.</p>
<ul class="notes">${list.join('\n')}</ul>
<p class="dim">fw ${esc(version)}</p></section>`;
}
