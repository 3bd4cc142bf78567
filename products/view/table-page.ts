/** The table: what is chosen, how much it is, and its rows from some place on. view.js reads the rest as they are scrolled to. */
import { cut, number } from '../../engine/core/item/wording.ts';
import { visible } from '../../engine/core/json/visible.ts';
import { count, type Html, html, NONE, short } from '../kit/html.ts';
import { fieldsOfRows, type RowFields } from './cells.ts';
import { columnName, facets, hiddenParts } from './facets.ts';
import { maskOf } from './hide.ts';
import type { Judging } from './judging.ts';
import { LEDGER_COLUMNS } from './ledger-columns.ts';
import { LIVE, type Links } from './links.ts';
import { addressOf, type Query, withTests, wordsOf } from './query.ts';
import { FAILED } from './rows/line-fields.ts';
import type { Column } from './rows/run.ts';
import { hiddenIn, type Selected, VERDICT, type View } from './view.ts';

/** rows of a page */
export const PAGE = 100;
/** characters of a cell */
const LONGEST_CELL = 160;
/** columns of a table, and of the list to choose from */
const MOST_SHOWN = 60;
const MOST_LISTED = 400;

export interface TableParts {
  view: View;
  judging: Judging | null;
  links: Links;
}

/** The columns that are shown: those that were chosen, else those that tell rows apart. */
export function shownOf({ view, judging }: Pick<TableParts, 'view' | 'judging'>, query: Query): string[] {
  const columns = view.columns();
  if (query.show.length > 0) return query.show.slice(0, MOST_SHOWN);
  const judged = judging !== null && (judging.isBegun || view.isSampling) ? [VERDICT] : [];
  return [...judged, ...usual(columns, view.run.state().rows, query)].slice(0, MOST_SHOWN);
}

const FIRST = ['id', 'kind', 'rung', ...FAILED, 'status', 'finish'];
const LAST = ['tries', 'tokens.out', 'seconds', 'model', 'endpoint', 'ordering', 'file'];

/** No index has it: it is made for the rows that are shown. */
const isLookedUp = (name: string): boolean => LEDGER_COLUMNS.some(one => one === name);

function usual(columns: readonly Column[], rows: number, { filters, sort }: Query): string[] {
  // texts that are long are not counted: an answer without values of its own tells rows apart all the same
  const isAnswer = ({ name, kind }: Column): boolean => name === 'out.text' && kind === 'texts';
  const isAlways = (name: string): boolean => name === 'id' || FAILED.includes(name) || isLookedUp(name);
  const tells = columns.filter(column => column.distinct > 1 || isAlways(column.name) || isAnswer(column));
  /** A column in which each row has another value says less of a row than its id. */
  const groups = tells.filter(({ kind, distinct }) => kind === 'numbers' || distinct < rows / 2);
  const named = (names: readonly string[]): string[] =>
    names.filter(name => tells.some(column => column.name === name));
  const of = (group: string, most: number): string[] =>
    [...new Set([...groups, ...tells])]
      .map(({ name }) => name)
      .filter(name => name.startsWith(group) && name !== 'in.id')
      .slice(0, most);
  // a table that fw export wrote has all of these among the columns of its rows
  const decided = [...of('out.', 4), ...of('in.decision', 4)];
  const asked = [...filters.map(({ column }) => column), ...(sort === null ? [] : [sort.column])];
  const all = [...named(FIRST), ...decided, ...of('in.', decided.length === 0 ? 12 : 4), ...named(LAST)];
  return [...new Set([...all, ...asked.filter(name => columns.some(column => column.name === name))])];
}

export interface Cells {
  row: number;
  texts: string[];
}

/** The rows of a selection from `from` on, as texts: fewer than `most` where their lines are long. */
export async function cellsOf(
  { view, judging }: Pick<TableParts, 'view' | 'judging'>,
  selected: Selected,
  { from, most, shown }: { from: number; most: number; shown: readonly string[] },
): Promise<Cells[]> {
  const rows: number[] = [];
  for (let at = from; at < Math.min(selected.count, from + most); at++) rows.push(selected.at(at));
  const read = await fieldsOfRows(view.run, rows, view.facts);
  const first = shown.find(name => name !== VERDICT);
  const textsOf = (one: RowFields): string[] => {
    // what is hidden may stand in another column too, such as a reason that was given
    const mask = view.hide.length === 0 ? null : maskOf(hiddenIn(view, one));
    const texts = shown.map(name => cellText(one, name, name === first, judging));
    return mask === null ? texts : texts.map(mask);
  };
  return read.map(one => ({
    row: one.row,
    texts: textsOf(one),
  }));
}

function cellText(
  { fields, trouble }: RowFields,
  name: string,
  isFirst: boolean,
  judging: Judging | null,
): string {
  if (name === VERDICT) {
    const id = fields.get('id');
    return (id === undefined ? null : judging?.verdictOf(id)) ?? '';
  }
  const text = fields.get(name);
  if (text === undefined) return isFirst && trouble !== null ? `(${trouble})` : '';
  return visible(cut(text, LONGEST_CELL));
}

/** `most` rows of it, or fewer where their lines are long. */
export async function tablePage(
  parts: TableParts,
  selected: Selected,
  most = PAGE,
): Promise<{ main: Html; cells: Cells[] }> {
  const { view, links } = parts;
  const { query } = selected;
  const shown = shownOf(parts, query);
  const cells = await cellsOf(parts, selected, { from: query.from, most, shown });
  const side = await facets(view, selected, shown, links);
  const isLive = links.rows(query) !== null;
  const state = view.run.state();
  const main = html`<h1 class="unseen">Rows of ${short(view.run.paths.join(', '), 300)}</h1>
<div class="tools">
<p class="sum" role="status"><b data-sum="selected">${count(selected.count)}</b> of <b data-sum="of">${count(selected.of)}</b> ${view.isSampling ? 'drawn rows' : 'rows'} <span class="dim" data-sum="progress">${progressWords(view, selected)}</span></p>
${isLive ? tools(view, query, shown) : NONE}
</div>
${chips(query, links)}
${notes([...selected.problems, ...view.hiddenInVain()], 'problem')}${notes([...state.notes, ...(view.facts?.state().notes ?? [])], 'note')}
<div class="sides">
<aside id="filters" aria-label="Values of the columns"><h2>Values${state.done ? NONE : html` <small>of the first ${count(state.rows)} rows, <a href="${links.rows(query) ?? ''}">count anew</a></small>`}</h2>${side}</aside>
<div class="rows">${table({ selected, isDone: state.done, shown, cells, columns: view.columns(), links })}
${isLive ? turning(query, selected, cells.length) : NONE}</div>
</div>
${isLive ? help() : NONE}`;
  return { main, cells };
}

/** What is still being done. */
export function progressWords(view: View, { searching }: Selected): string {
  const { done, read, of: all } = view.run.state();
  const share = (bytes: number, of: number): string => `${of > 0 ? Math.floor((100 * bytes) / of) : 0} %`;
  const ledger = view.facts?.state();
  const words = [
    ...(ledger === undefined || ledger.done
      ? []
      : [`${share(ledger.readBytes, ledger.ofBytes)} of the ledger read`]),
    ...(done ? [] : [`${share(read, all)} read`]),
    ...(view.isSampling && view.sample === null ? ['the sample is drawn when all is read'] : []),
    ...(searching === null || searching.done ? [] : [`${share(searching.bytes, all)} searched`]),
  ];
  return words.length === 0 ? '' : `· ${words.join(' · ')}`;
}

export const notes = (texts: readonly string[], kind: string): Html =>
  texts.length === 0
    ? NONE
    : html`<ul class="${kind}">${texts.slice(0, 20).map(text => html`<li>${short(text, 300)}</li>`)}</ul>`;

function chips(query: Query, links: Links): Html {
  const chip = (words: Html, without: Query): Html => {
    const to = links.rows({ ...without, from: 0 });
    return to === null
      ? html`<li class="chip">${words}</li>`
      : html`<li><a class="chip" href="${to}" title="Remove">${words}<span class="x" aria-hidden="true">×</span><span class="unseen"> remove</span></a></li>`;
  };
  const all = query.filters.flatMap(({ column, tests }) =>
    tests.map(test =>
      chip(
        html`${columnName(column)} ${short(wordsOf(test), 80)}`,
        withTests(
          query,
          column,
          tests.filter(other => other !== test),
        ),
      ),
    ),
  );
  if (query.text !== '') all.push(chip(html`holds “${short(query.text, 80)}”`, { ...query, text: '' }));
  if (all.length === 0) return NONE;
  return html`<ul class="chips" aria-label="Chosen">${all}</ul>`;
}

function tools(view: View, query: Query, shown: readonly string[]): Html {
  const search =
    view.hide.length > 0
      ? html`<p class="dim">No search: it would tell what is hidden.</p>`
      : html`<form action="/" role="search" class="one"><input type="search" id="q" name="q" value="${query.text}" placeholder="Text in the lines" aria-label="Text in the lines, prompts and answers" autocomplete="off">${hiddenParts({ ...query, text: '', from: 0 })}<button class="quiet">Search</button></form>`;
  return html`${search}
<details class="choose"><summary>Columns</summary><form action="/">${hiddenParts({ ...query, show: [], from: 0 })}
${chooser(view.columns(), shown)}<button>Show these</button> <a href="${LIVE.rows({ ...query, show: [] })}">The usual ones</a></form></details>
<a class="to-filters" href="#filters">Values</a>`;
}

/** A box for each column: those of `shown` are ticked. */
export function chooser(columns: readonly Column[], shown: readonly string[]): Html {
  const known = new Map(columns.map(column => [column.name, column]));
  const own = shown.filter(name => known.has(name) || name === VERDICT);
  const names = [...own, ...columns.map(({ name }) => name).filter(name => !own.includes(name))];
  const boxes = names
    .slice(0, MOST_LISTED)
    .map(
      name =>
        html`<label><input type="checkbox" name="show" value="${name}"${own.includes(name) ? html` checked` : NONE}>${columnName(name)} <span class="dim">${name === VERDICT ? 'what was judged' : count(known.get(name)?.distinct ?? 0)}</span></label>`,
    );
  const rest = names.length - boxes.length;
  const more =
    rest === 0
      ? NONE
      : html`<label class="typed">One of ${count(rest)} others, by its name <input name="show" autocomplete="off"></label>`;
  return html`<fieldset><legend>Columns, and how many different values each has</legend>${boxes}</fieldset>${more}`;
}

interface TableOptions {
  /** all rows have been read */
  isDone: boolean;
  selected: Selected;
  shown: readonly string[];
  cells: readonly Cells[];
  columns: readonly Column[];
  links: Links;
}

function table({ selected, isDone, shown, cells, columns, links }: TableOptions): Html {
  const { query, count: all } = selected;
  const kinds = new Map(columns.map(({ name, kind }) => [name, kind]));
  const isNumber = shown.map(
    (name, at) => kinds.get(name) === 'numbers' || isNumeric(cells.map(({ texts }) => texts[at] ?? '')),
  );
  const classes = shown.map(
    (name, at) =>
      `${isNumber[at] ? 'n ' : ''}w${widthOf(
        name,
        cells.map(({ texts }) => texts[at] ?? ''),
      )}`,
  );
  const heads = shown.map((name, at) => head(name, classes[at] as string, query, links));
  const rows = cells.map(({ row, texts }, at) => {
    const data = shown.map((name, column) => cell(name, texts[column] as string, classes[column] as string));
    return html`<tr aria-rowindex="${query.from + at + 2}"><th scope="row" class="n"><a href="${links.item(row, query)}" aria-label="Row ${row + 1}">${count(row + 1)}</a></th>${data}</tr>`;
  });
  // the columns of this page, also where others would be shown once more rows are read
  const search = addressOf({ ...query, show: shown, from: 0 });
  // rows that are still read may have longer numbers than those that are here
  const placeWidth = count(selected.of).length <= 6 && isDone ? 'w6' : 'w12';
  const nothing =
    cells.length === 0
      ? html`<p class="empty">${selected.of === 0 ? 'No rows have been read yet.' : 'No row is as chosen.'}</p>`
      : NONE;
  return html`<div class="scroller" role="region" aria-label="The rows" tabindex="0" data-search="${search}" data-query="${addressOf({ ...query, from: 0 })}" data-from="${query.from}" data-count="${all}" data-columns="${JSON.stringify(shown)}" data-classes="${JSON.stringify(classes)}">
<table aria-rowcount="${all + 1}" aria-colcount="${shown.length + 1}"><caption class="unseen">The rows that are chosen</caption>
<thead><tr aria-rowindex="1"><th scope="col" class="n ${placeWidth}">Row</th>${heads}</tr></thead>
<tbody>${rows}</tbody></table>
${nothing}</div>`;
}

function head(name: string, kind: string, query: Query, links: Links): Html {
  const { sort } = query;
  const own = sort?.column === name ? sort : null;
  const next =
    own === null ? { column: name, isDown: false } : own.isDown ? null : { column: name, isDown: true };
  const to =
    name === VERDICT || name === 'id' || isLookedUp(name)
      ? null
      : links.rows({ ...query, sort: next, from: 0 });
  const mark =
    own === null ? NONE : html`<span class="sorted" aria-hidden="true">${own.isDown ? '▼' : '▲'}</span>`;
  const text = html`${columnName(name)}${mark}`;
  const said = own === null ? NONE : html` aria-sort="${own.isDown ? 'descending' : 'ascending'}"`;
  return html`<th scope="col" class="${kind}" title="${name}"${said}>${to === null ? text : html`<a href="${to}">${text}</a>`}</th>`;
}

/** Of these the value has a colour beside its word. */
const COLOURED: ReadonlySet<string> = new Set(['rung', 'failure', VERDICT]);

const cell = (name: string, text: string, kind: string): Html =>
  html`<td class="${kind}"${COLOURED.has(name) && text !== '' ? html` data-is="${text}"` : NONE}>${text}</td>`;

/** Letters that its cells need, of a few widths: a column that becomes wider while rows come by would move all others. */
const WIDTHS = [6, 9, 12, 16, 22, 32];
function widthOf(name: string, texts: readonly string[]): number {
  const longest = texts.reduce((most, { length }) => Math.max(most, length), Math.min(name.length, 14));
  return WIDTHS.find(width => width >= longest) ?? 32;
}

function isNumeric(texts: readonly string[]): boolean {
  const filled = texts.filter(text => text !== '');
  return filled.length > 0 && filled.every(text => text.length < 24 && Number.isFinite(Number(text)));
}

function turning(query: Query, { count: all }: Selected, here: number): Html {
  const link = (from: number, words: string, rel: string): Html =>
    html`<a rel="${rel}" href="${LIVE.rows({ ...query, from })}">${words}</a>`;
  const next = query.from + here;
  if (query.from === 0 && next >= all) return NONE;
  const place =
    here === 0 ? 'No rows here' : `Rows ${number(query.from + 1)} to ${number(next)} of ${number(all)}`;
  return html`<nav class="turn" aria-label="Pages of rows">${query.from > 0 ? link(Math.max(0, query.from - PAGE), 'Before', 'prev') : NONE}<span>${place}</span>${next < all ? link(next, 'Next', 'next') : NONE}</nav>`;
}

const help = (): Html => html`<dialog id="keys" aria-labelledby="keys-head"><h2 id="keys-head">Keys</h2>
<dl class="keys"><dt><kbd>j</kbd> <kbd>k</kbd> or arrows</dt><dd>next row, row before</dd><dt><kbd>Enter</kbd></dt><dd>open the row</dd>
<dt><kbd>Home</kbd> <kbd>End</kbd></dt><dd>first row, last row</dd><dt><kbd>/</kbd></dt><dd>search</dd><dt><kbd>Esc</kbd></dt><dd>back</dd></dl>
<form method="dialog"><button>Close</button></form></dialog>`;
