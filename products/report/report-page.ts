/** The report as one page: HTML and SVG alone, no script, nothing from the network. What can be trusted comes first. */
import { counted, shellWord } from '../../engine/core/item/wording.ts';
import {
  count,
  decimal,
  type Html,
  html,
  joined,
  leadsTo,
  percent,
  pMark,
  points,
  short,
  type Text,
  tile,
} from '../kit/html.ts';
import { page } from '../kit/page.ts';
import { LEVEL, type Section } from './family.ts';
import type { Judged } from './judged.ts';
import { agentSection, numberSection, riskSection, usageSection } from './page-decisions.ts';
import { groupSection, orderSection, twinSection } from './page-groups.ts';
import { integritySection, valueSection, withinSection } from './page-integrity.ts';
import { judgedSection } from './page-judged.ts';
import type { Report } from './report.ts';
import { MOST_IDS } from './rows-query.ts';

export function pageOf(report: Report): string {
  const { asked, files, integrity } = report;
  const names = files.map(({ path }) => path);
  const more = names.length > 3 ? ` and ${names.length - 3} more` : '';
  return page({
    title: `Report on ${short(counted(integrity.seen, 'item'))}`,
    header: html`<h1>${short(asked.outcome)}: how often “${short(asked.approve)}”, for whom, and how sure</h1>
<p class="dim">${short(names.slice(0, 3).join(', '))}${more}</p>
${tiles(report)}
${findings(report)}
${notes(report)}
<p class="dim">In the pictures a dot is what was counted, the line through it its 95 % interval. To open the records behind a figure: <code>fw view ${short(inShell(names))}${sourced(report)} --report THIS.html</code>, with the name of this page. Where only ids choose them, ${MOST_IDS} at most open.</p>`,
    main: html`${integritySection(report)}
${valueSection(report)}
${joined(
  report.groups.map(table => groupSection(report, table)),
  '\n',
)}
${twinSection(report)}
${judgedSection(report)}
${orderSection(report)}
${agentSection(report)}
${numberSection(report)}
${riskSection(report)}
${withinSection(report)}
${usageSection(report)}
${method(report)}`,
  });
}

/** The files as they are named at a shell; many are its own words. */
const inShell = (names: readonly string[]): string => {
  const words = names.map(shellWord).join(' ');
  return names.length > 3 || names.includes('-') || words.length > 100 ? 'FILES' : words;
};

/** What a reader asks first: how many, how many of them count, is there a difference by group, by order, how sure. */
function tiles(report: Report): Text {
  const { integrity, level, orders } = report;
  const { seen, trusted } = integrity;
  const left = Object.entries(integrity.left)
    .slice(0, 3)
    .map(([code, n]) => leadsTo(integrity.leftRows[code] ?? '', `${count(n)} ${short(code)}`));
  const all = [
    tile(
      'Items, and how many are trusted',
      `${count(trusted)} of ${count(seen)}`,
      seen === trusted ? 'none left out' : html`${count(seen - trusted)} left out: ${joined(left, ', ')}`,
      leftOutByGroup(report),
    ),
    tile(
      `“${short(report.asked.approve)}”, of those trusted`,
      percent(level.rate?.value),
      `95 % interval ${percent(level.rate?.low)} to ${percent(level.rate?.high)}, of ${applications(report)}`,
    ),
    tile('By group', ...(byGroup(report) as [Text, ...Text[]])),
    orders === null
      ? tile('By order', 'one order', 'with several orders of the agents, this says what the order changes')
      : tile(
          'By order',
          `${percent(orders.sameRate?.value)} the same`,
          `decided alike in all ${orders.rows.length} orders, of ${count(orders.complete)} ${level.samples ? 'samples of applications' : 'applications'}`,
          html`rates from ${percent(Math.min(...orders.rows.map(({ rate }) => rate?.value ?? 1)))} to ${percent(Math.max(...orders.rows.map(({ rate }) => rate?.value ?? 0)))}${orders.test ? html`; that all orders approve alike: p ${pMark(orders.test.holm)}, corrected` : ''}`,
        ),
  ];
  if (report.judged) all.push(...judgedTile(report.judged));
  return html`<div class="tiles">${joined(all, '\n')}</div>`;
}

/** Of whoever judged most: how often the decision is found right. */
function judgedTile({ judges }: Judged): Html[] {
  const [most] = judges.toSorted((a, b) => b.right + b.wrong - (a.right + a.wrong));
  if (!most?.rate) return [];
  const { by, rate, right, wrong, small, kappa } = most;
  return [
    tile(
      `Found right by ${short(by, 40)}`,
      percent(rate.value),
      `95 % interval ${percent(rate.low)} to ${percent(rate.high)}, of ${count(right + wrong)} said to be right or wrong${small ? ', which are few' : ''}`,
      kappa === null ? '' : `kappa of the model and the judge ${decimal(kappa.value)}`,
    ),
  ];
}

/** What is counted: an application that was asked in several orders, or several times, is one. */
function applications({ level }: Report): string {
  const all = counted(level.applicants, 'application');
  const cells = level.clusters < level.applicants ? ` in ${counted(level.clusters, 'cell')} of twins` : '';
  return `${all}${cells}${level.samples ? ', each asked several times' : ''}`;
}

/** What is asked of each section, in the words of the sentence on the correction. */
const ASKED: { [name in Section]: string } = {
  groups: 'of approval between groups',
  order: 'of the order',
  integrity: 'of what was left out, mended or asked again',
  numbers: 'of numbers',
};

/** What the page calls a finding, and how its tests are corrected together. */
function findings({ family, level }: Report): Text {
  const { tests, sections, findings: found } = family;
  if (tests === 0)
    return html`<p class="dim">This page tests nothing: it compares no groups and no orders, or all of them are of too few ${level.clusters < level.applicants ? 'cells of twins' : 'applications'} to be judged.</p>`;
  const parts = sections.map(
    ({ name, tests: n }) => `${sections.length > 1 ? `${count(n)} ` : ''}${ASKED[name]}`,
  );
  const isShared = sections.length > 1 && sections.some(({ name }) => name === 'groups');
  const how = isShared
    ? html`corrected together, four fifths of the 5 % for approval between groups and one for the others (Holm's procedure with weights)`
    : tests > 1
      ? html`corrected together (Holm's procedure)`
      : 'so there is nothing to correct';
  const by = html`${counted(tests, 'test')} on this page, ${parts.join(', ')}; ${how}. Over data without any effect, at most 5 of 100 such pages have a finding.`;
  const named: Text[] = found
    .slice(0, MOST_FINDINGS)
    .map(({ what, holm }) => html`${short(what)} (p ${pMark(holm)}, corrected)`);
  if (found.length > named.length) named.push(`and ${count(found.length - named.length)} more`);
  const head = found.length === 0 ? 'No finding.' : `${counted(found.length, 'finding')}:`;
  return html`<p><strong>${head}</strong> ${joined(named, '; ')}${named.length > 0 ? '.' : ''}</p><p class="dim">${by}</p>`;
}

const MOST_FINDINGS = 10;

/** Whether those left out are of one group more than of another. */
function leftOutByGroup({ integrity }: Report): Text {
  const found = integrity.groups.flatMap(({ column, rows }) =>
    rows
      .filter(({ tests }) => Object.values(tests).some(test => test !== null && test.holm < LEVEL))
      .map(({ value }) => `${column} ${value}`),
  );
  if (integrity.groups.length === 0) return '';
  const { seen, trusted, mended, askedAgain } = integrity;
  if (seen === trusted && mended + askedAgain === 0)
    return 'nothing was left out, mended or asked again in any group';
  if (
    integrity.groups.every(({ rows }) => rows.every(({ tests }) => Object.values(tests).every(test => !test)))
  )
    return 'too few of any group to say whether one was left out more than another';
  if (found.length === 0)
    return 'no group was left out, mended or asked again more than the reference, as far as this can tell';
  return html`<strong>not alike in all groups:</strong> ${short(found.slice(0, 4).join(', '))}; see Integrity`;
}

/** The largest difference that was found, from twins where there are some. */
function byGroup(report: Report): Text[] {
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
  const sure = rows.filter(({ holm }) => (holm as number) < LEVEL);
  const largest = rows.toSorted(
    (a, b) => Math.abs(b.difference?.value ?? 0) - Math.abs(a.difference?.value ?? 0),
  )[0];
  if (largest === undefined)
    return ['nothing to compare', 'no group has enough records beside the reference'];
  const { difference, column, value, reference, paired, holm } = largest;
  const floor = noise.pairs > 0 ? `; the same question asked again flips ${percent(noise.rate?.value)}` : '';
  return [
    `${points(difference?.value)} points`,
    html`the largest difference: ${short(column)} ${short(value)} against ${short(reference)}${paired ? ', between twins' : ''}; 95 % interval ${points(difference?.low)} to ${points(difference?.high)}; p ${pMark(holm)}, corrected`,
    `${sure.length} of ${rows.length} comparisons are findings${floor}`,
  ];
}

function notes({ notes: all }: Report): Text {
  return all.length === 0
    ? ''
    : html`<ul class="notes">${joined(
        all.map(
          text =>
            html`<li>${
              text.length > 400
                ? short(text)
                : text
                    .split(' ')
                    .map(word => short(word))
                    .join(' ')
            }</li>`,
        ),
      )}</ul>`;
}

function otherwise({ otherwise: words, schema }: Report['asked']): string {
  const named = words === null ? 'nothing' : words.map(word => `“${short(word)}”`).join(', ');
  const said = schema ? 'what the schema of the agent allows beside it is another outcome' : '';
  const rest = `${schema ? 'where no schema says it, ' : ''}${named} ${words?.length === 1 || words === null ? 'is' : 'are'} another outcome`;
  return `${[said, rest].filter(Boolean).join('; ')}, and any other value is no outcome, and no denial`;
}

function method({ asked, method: by, version, files, family }: Report): Text {
  const rows = files
    .slice(0, 100)
    .map(({ path, lines, kinds, orderings }) => [
      short(path),
      count(lines),
      short(kinds.join(', ') || 'empty'),
      short(orderings.length > 2 ? `${orderings.length} orderings` : orderings.join('; ') || '–'),
    ]);
  const list = rows.map(
    ([path = '', lines = '', kinds = '', orderings = '']) =>
      html`<li>${path}: ${lines} lines (${kinds}), orderings: ${orderings}</li>`,
  );
  return html`<section><h2>How this was counted</h2>
<p>Of each id the first line counts. A record enters a rate when verification accepts it (rungs ${short(asked.accept.join(', '))}) and has an outcome. A blank group is left out of that group's table alone. “${short(asked.approve)}” is an approval; ${otherwise(asked)}.</p>
<p>What is counted, tested and drawn is what is independent: an application with all its orders, samples and shared answers is one${asked.twins.length > 0 ? ', and so is a cell of twins' : '; applications are taken as independent of each other, unless --twins says which are of one case'}. The lines in the pictures and the figures in brackets are 95 % intervals. Where each application is one record: Wilson for rates, Newcombe for differences, Katz for ratios. Else they are those of whole applications or cells: their error is what each adds to a figure, with Student's t. Fewer than ${by.least}, or hardly any that differ, have exact intervals (Clopper and Pearson), in which each counts as one case; these hold more often than 95 %.</p>
<p>p is the chance of a difference as large or larger if nothing made a difference: Fisher's exact test where each application is one record, exact McNemar where a cell of twins is one pair; else the names of the groups are dealt anew among whole applications, or swapped in whole cells (seed ${by.seed}). Orders: Cochran's Q where each application stands alone, else repeated measures by cell with the correction of Greenhouse and Geisser. Numbers: Kolmogorov-Smirnov, in the same way by whole applications. Tests made and corrected together: ${count(family.tests)}. A p is “raw” before the correction. A group of fewer than ${by.least} applications or cells, or with less than ${percent(by.leastShare, 0)} of all records, is shown and not judged: it is no test of the page. Each order of twins alone is a look into the data and no test of the page either.</p>
<p>A ratio or a difference is no verdict: what follows from it is for people to say. Each figure's ids are in <code>fw report --json</code> (the first ${by.ids}); <code>fw explain ID FILE</code> tells their stories.</p>
<ul class="notes">${joined(list, '\n')}</ul>
<p class="dim">fw ${short(version)}</p></section>`;
}

const sourced = ({ source }: Report): string =>
  source === null ? '' : ` --source ${short(inShell([source.path]))}`;
