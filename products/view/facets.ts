/**
 * The side part: for each column that is shown, and for rung, failure and kind where they differ, how often each value is
 * there. A click on a value keeps the rows that have it, or leaves them out.
 */
import { count, type Html, html, NONE, short } from '../kit/html.ts';
import { maskOf } from './hide.ts';
import type { Links } from './links.ts';
import { partsOf, type Query, testsOf, textOfTest, withTests } from './query.ts';
import { FAILED } from './rows/line-fields.ts';
import type { Column } from './rows/run.ts';
import type { Counts } from './rows/selection.ts';
import type { Selected, View } from './view.ts';

/** Shown whatever the columns of the table are. */
const ALWAYS = ['rung', ...FAILED, 'kind', 'file'];
const MOST_FACETS = 20;
/** values that stand there at once, and those behind a fold */
const FIRST_VALUES = 8;
const MOST_VALUES = 60;
const MOST_NUMBERS = 24;
/** A longer value makes an address that nobody can send. */
const LONGEST_IN_ADDRESS = 300;

export async function facets(
  view: View,
  selected: Selected,
  shown: readonly string[],
  links: Links,
): Promise<Html> {
  const columns = new Map(view.columns().map(column => [column.name, column]));
  const filtered = selected.query.filters.map(({ column }) => column);
  const names = [...new Set([...filtered, ...ALWAYS, ...shown])].filter(name => {
    const column = columns.get(name);
    return (
      column !== undefined &&
      (column.distinct > 1 || FAILED.includes(name) || filtered.includes(name)) &&
      name !== 'row' &&
      name !== 'id'
    );
  });
  // they are the same in any order, and found faster in that of the file
  const unsorted =
    selected.query.sort === null ? selected : await view.select({ ...selected.query, sort: null });
  const mask = maskOf(view.hiddenValues());
  const made: Html[] = [];
  for (const name of names.slice(0, MOST_FACETS)) {
    const column = columns.get(name) as Column;
    // of a column that is chosen by, the values that could be chosen too
    const within = filtered.includes(name)
      ? await view.select(withTests(unsorted.query, name, []))
      : unsorted;
    const counts = within.counts(name, MOST_VALUES);
    const tells = counts.values.some(({ value }) => mask(value) !== value);
    made.push(tells ? untold(name) : facet(column, counts, selected, links));
  }
  return html`${made}`;
}

const untold = (name: string): Html =>
  html`<section class="facet"><h3>${columnName(name)}</h3><p class="dim">Not counted: its values hold what is hidden.</p></section>`;

function facet(column: Column, counts: Counts, selected: Selected, links: Links): Html {
  const { name } = column;
  const { query } = selected;
  const isRange = counts.low !== null && counts.high !== null && counts.low < counts.high;
  // of many numbers, each is the number of hardly any row
  const hasFew = counts.kind === 'values' && !(isRange && column.distinct > MOST_NUMBERS);
  const most = counts.values.reduce((top, { count: rows }) => Math.max(top, rows), counts.none);
  const entries = hasFew ? [...counts.values] : [];
  if (counts.none > 0) entries.push({ value: '', count: counts.none });
  const lines = entries.map(entry => valueLine(name, entry, { most, query, links }));
  const rest = lines.slice(FIRST_VALUES);
  const others =
    hasFew && counts.others > 0
      ? html`<p class="dim">${count(counts.others)} rows with other values</p>`
      : NONE;
  const more =
    rest.length > 0
      ? html`<details><summary>${count(rest.length)} more</summary><ul>${rest}</ul>${others}</details>`
      : others;
  const id = `of-${name}`;
  return html`<section class="facet" aria-labelledby="${id}"><h3 id="${id}" title="${name}">${columnName(name)}</h3>
${lines.length > 0 ? html`<ul>${lines.slice(0, FIRST_VALUES)}</ul>` : NONE}
${more}
${links.rows(query) !== null ? field(name, counts, selected) : isRange ? html`<p class="dim">${counts.low ?? ''} to ${counts.high ?? ''}</p>` : NONE}</section>`;
}

/** Where there are too many values to list, one is typed; of numbers a range. */
function field(name: string, { kind, low, high }: Counts, { query }: Selected): Html {
  const isRange = low !== null && high !== null && low < high;
  if (!isRange && kind !== 'texts') return NONE;
  const tests = testsOf(query, name);
  const before = tests.length === 1 && tests[0] ? textOfTest(tests[0]) : '';
  const hint = isRange ? `${low}..${high}` : 'the whole value';
  const words = isRange ? `Range of ${name}, such as ${low}..${high}` : `Value of ${name}`;
  return html`<form action="/" class="one"><input name="${name}" value="${before}" placeholder="${hint}" aria-label="${words}" required autocomplete="off">
${hiddenParts(withTests(query, name, []))}<button class="quiet">Set</button></form>`;
}

function valueLine(
  name: string,
  { value, count: rows }: { value: string; count: number },
  { most, query, links }: { most: number; query: Query; links: Links },
): Html {
  const tests = testsOf(query, name);
  const [is, not] = [false, true].map(isNot =>
    tests.find(test => 'value' in test && test.value === value && test.isNot === isNot),
  );
  const toggled = (found: (typeof tests)[number] | undefined, isNot: boolean): string | null => {
    if (value.length > LONGEST_IN_ADDRESS) return null;
    const others = tests.filter(test => test !== is && test !== not);
    return links.rows(withTests(query, name, found ? others : [...others, { isNot, value }]));
  };
  const [to, away] = [toggled(is, false), toggled(not, true)];
  const said = value === '' ? 'none' : short(value, 80);
  const share = most === 0 ? 0 : (100 * rows) / most;
  const text = html`<span class="v">${value === '' ? html`<i>none</i>` : html`${said}`}</span><span class="c">${count(rows)}</span>`;
  const bar = html`<svg class="share" viewBox="0 0 100 2" preserveAspectRatio="none" aria-hidden="true"><rect width="${share.toFixed(2)}" height="2"></rect></svg>`;
  const main =
    to === null
      ? html`<span class="on">${text}</span>`
      : html`<a class="on" href="${to}"${is ? html` aria-current="true"` : NONE}>${text}</a>`;
  const leave =
    away === null
      ? NONE
      : html`<a class="not" href="${away}" aria-label="${not ? 'again with' : 'without'} ${said}" title="${not ? 'again with' : 'without'} ${said}"${not ? html` aria-current="true"` : NONE}>≠</a>`;
  return html`<li data-is="${name === 'rung' || name === 'failure' ? value : ''}">${main}${leave}${bar}</li>`;
}

/** The state as hidden fields of a form, which gives no address by itself. */
export const hiddenParts = (query: Query): Html =>
  html`${partsOf(query).map(([key, value]) => html`<input type="hidden" name="${key}" value="${value}">`)}`;

/** `step.risk_manager.` is smaller than `risk_score`. */
export function columnName(name: string): Html {
  const at = name.lastIndexOf('.') + 1;
  return at > 0 && at < name.length
    ? html`<span class="pre">${short(name.slice(0, at), 60)}</span>${short(name.slice(at), 60)}`
    : html`${short(name, 80)}`;
}
