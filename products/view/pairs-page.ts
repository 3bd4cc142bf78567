/** The table of two runs: in which columns they differ, which pairs, and from what to what. Each leads to its page (pair-page.ts). */
import { number } from '../../engine/core/item/wording.ts';
import { count, type Html, html, NONE, short } from '../kit/html.ts';
import { fieldsIn, type RowFields } from './cells.ts';
import { columnName } from './facets.ts';
import { maskOf } from './hide.ts';
import {
  addressOf,
  byColumn,
  byWay,
  type Chosen,
  type ChosenPairs,
  choose,
  partsOfChosen,
  startingAt,
} from './pair-choice.ts';
import { FEW, movesIn, type PairColumn } from './pair-columns.ts';
import { type Pairs, WAYS, type Way, waysOf } from './pairs.ts';
import { withTests, wordsOf } from './query.ts';
import type { Run } from './rows/run.ts';
import { chooser, notes } from './table-page.ts';
import { hiddenIn, type View } from './view.ts';

export const PAGE = 50;
/** columns that are shown of both, where nobody chose them */
const MOST_VALUES = 6;
/** columns and moves that stand there at once, and those behind a fold */
const FIRST = 12;
const MOST = 200;
const FIRST_MOVES = 8;
/** A longer value makes an address that nobody can send. */
const LONGEST_IN_ADDRESS = 300;

const WORDS: Readonly<Record<Way, string>> = {
  decision: 'any value of the decision',
  rung: 'the rung',
  text: 'the text of an answer',
  first: 'in the first alone',
  second: 'in the second alone',
  same: 'the same',
};

export async function pairsPage(view: View, pairs: Pairs, wanted: Chosen): Promise<Html> {
  const head = html`<h1>Two runs beside each other</h1>
<p class="where dim">first: ${short(pairs.first.paths.join(', '), 200)} · second: ${short(pairs.second.paths.join(', '), 200)}</p>`;
  const found = await choose(view, pairs, wanted);
  if (found === null) return html`${head}${notYet(wanted)}`;
  const { joined, problems, isSearching, asked: chosen } = found;
  const { from } = chosen.query;
  const here = found.chosen.subarray(from, from + PAGE);
  const values = shownOf(view, found);
  const rows: Html[] = [];
  for (const pair of here) {
    const sides = [
      await fieldsAt(pairs.first, joined.first[pair]),
      await fieldsAt(pairs.second, joined.second[pair]),
    ] as const;
    rows.push(rowOf(view, found, pair, { sides, values, chosen }));
  }
  const heads = ['id', ...values].filter(name => !view.isHidden(name));
  // columns beyond those that the index has are compared by nobody
  const told = [...new Set([pairs.first, pairs.second].flatMap(run => run.state().notes))];
  const searching = isSearching
    ? html`<p class="note">The text is still being looked for: <a href="/beside${addressOf(chosen)}">look again</a>.</p>`
    : NONE;
  return html`${head}
${notes(problems, 'problem')}${notes(told, 'note')}${searching}
${filterChips(chosen)}${ways(view, found, chosen)}
${chosen.column === null ? NONE : moveChips(view, pairs, found, { ...chosen, column: chosen.column })}
<div class="tools"><p class="sum" role="status"><b>${count(found.chosen.length)}</b> of <b>${count(found.order.length)}</b> pairs</p>${columnTools(view, values, chosen)}<a class="to-filters" href="#filters">Columns that differ</a></div>
<div class="sides"><aside id="filters" aria-label="Columns in which they differ"><h2>Pairs that differ in</h2>${side(found, chosen)}</aside>
<div class="rows"><div class="scroller" role="region" aria-label="The pairs" tabindex="0"><table><caption class="unseen">Rows of both runs, those that differ in most columns first</caption>
<thead><tr><th scope="col" class="n">Row</th>${heads.map(name => html`<th scope="col" title="${name}">${columnName(name)}</th>`)}<th scope="col">differs by</th></tr></thead><tbody>${rows}</tbody></table>
${here.length === 0 ? html`<p class="empty">No pair is as chosen.</p>` : NONE}</div>
${turning(found.chosen.length, chosen, here.length)}</div></div>`;
}

export const notYet = (chosen: Chosen): Html =>
  html`<p class="note">They are joined once both have been read: <a href="/beside${addressOf(chosen)}">look again</a>.</p>`;

const fieldsAt = async (run: Run, row: number | undefined): Promise<RowFields | null> =>
  row === undefined || row < 0 ? null : fieldsIn(await run.read(row));

/** The columns that were chosen, else those in which pairs differ, that of the choice first. */
function shownOf(view: View, { columns, asked }: ChosenPairs): string[] {
  const { column, query } = asked;
  const all = columns.map(({ name }) => name);
  // a step often says what the decision says
  const decided = all.filter(name => !name.startsWith('step.'));
  const usual = (decided.length > 0 ? decided : all).slice(0, MOST_VALUES);
  const names = query.show.length > 0 ? query.show.filter(name => name !== 'id') : usual;
  return [...new Set([...(column === null ? [] : [column]), ...names])].filter(name => !view.isHidden(name));
}

/** What was chosen by the columns of the rows, as the table of one run has it. */
function filterChips(chosen: Chosen): Html {
  const { query } = chosen;
  const chip = (words: Html, without: Chosen): Html =>
    html`<li><a class="chip" href="/beside${addressOf(startingAt(without, 0))}" title="Remove">${words}<span class="x" aria-hidden="true">×</span><span class="unseen"> remove</span></a></li>`;
  const all = query.filters.flatMap(({ column, tests }) =>
    tests.map(test => {
      const others = tests.filter(other => other !== test);
      return chip(html`${columnName(column)} ${short(wordsOf(test), 80)}`, {
        ...chosen,
        query: withTests(query, column, others),
      });
    }),
  );
  if (query.text !== '')
    all.push(chip(html`holds “${short(query.text, 80)}”`, { ...chosen, query: { ...query, text: '' } }));
  return all.length === 0 ? NONE : html`<ul class="chips" aria-label="Rows of the first run">${all}</ul>`;
}

function ways(view: View, found: ChosenPairs, chosen: Chosen): Html {
  // a rung that is hidden is not told by how many differ in it either
  const shown = WAYS.filter(each => found.ways[each] > 0 && !(each === 'rung' && view.isHidden('rung')));
  const link = (to: Way | null, words: string, rows: number): Html =>
    html`<li><a class="chip" href="/beside${addressOf(byWay(chosen, to))}"${chosen.way === to && (to !== null || chosen.column === null) ? html` aria-current="true"` : NONE}>${words} <b>${count(rows)}</b></a></li>`;
  return html`<ul class="chips" aria-label="By what they differ">${link(null, 'all', found.order.length)}${shown.map(each => link(each, WORDS[each], found.ways[each]))}</ul>`;
}

/** From which value to which, in the column that is chosen by. */
function moveChips(view: View, pairs: Pairs, found: ChosenPairs, chosen: Chosen & { column: string }): Html {
  const { keys, joined, ofColumn } = found;
  const { column } = chosen;
  const moves = keys === null ? null : movesIn(keys, joined, ofColumn);
  const mask = maskOf(pairs.hiddenValues(view));
  if (moves === null)
    return html`<p class="dim">${columnName(column)} has too many values to list from what to what it goes.</p>`;
  if (moves.some(({ from, to }) => mask(from) !== from || mask(to) !== to))
    return html`<p class="dim">${columnName(column)}: from what to what is not told, since its values hold what is hidden.</p>`;
  const chips = moves.slice(0, MOST).map(({ from, to, count: rows }) => {
    const words = html`${valueWords(from)} → ${valueWords(to)} <b>${count(rows)}</b>`;
    if (from.length + to.length > LONGEST_IN_ADDRESS)
      return html`<li><span class="chip">${words}</span></li>`;
    const isOn = chosen.from === from && chosen.to === to;
    const address = addressOf(byColumn(chosen, column, isOn ? undefined : { from, to }));
    return html`<li><a class="chip" href="/beside${address}"${isOn ? html` aria-current="true"` : NONE}>${words}</a></li>`;
  });
  const rest = moves.length - chips.length;
  const more =
    chips.length <= FIRST_MOVES
      ? NONE
      : html`<details><summary>${count(moves.length - FIRST_MOVES)} more</summary><ul class="chips">${chips.slice(FIRST_MOVES)}</ul>${rest > 0 ? html`<p class="dim">and ${count(rest)} others</p>` : NONE}</details>`;
  return html`<section class="moves"><h2>${columnName(column)} <small>in ${count(ofColumn.length)} pairs, from the first run to the second</small></h2><ul class="chips" aria-label="From what to what">${chips.slice(0, FIRST_MOVES)}</ul>${more}</section>`;
}

const valueWords = (value: string): Html => (value === '' ? html`<i>none</i>` : html`${short(value, 60)}`);

/** In how many pairs each column differs. */
function side({ columns }: ChosenPairs, chosen: Chosen): Html {
  if (columns.length === 0) return html`<p class="dim">No column of what came out differs.</p>`;
  const most = columns.reduce((top, { differs }) => Math.max(top, differs), 0);
  const line = ({ name, differs }: PairColumn): Html => {
    const isOn = name === chosen.column;
    const share = ((100 * differs) / most).toFixed(2);
    return html`<li><a class="on" href="/beside${addressOf(byColumn(chosen, isOn ? null : name))}" title="${name}"${isOn ? html` aria-current="true"` : NONE}><span class="v">${columnName(name)}</span><span class="c">${count(differs)}</span></a><svg class="share" viewBox="0 0 100 2" preserveAspectRatio="none" aria-hidden="true"><rect width="${share}" height="2"></rect></svg></li>`;
  };
  const section = (words: string, of: readonly PairColumn[]): Html => {
    if (of.length === 0) return NONE;
    const rest = of.slice(FIRST, MOST);
    const left = of.length > MOST ? html`<p class="dim">and ${count(of.length - MOST)} others</p>` : NONE;
    const more =
      rest.length === 0
        ? NONE
        : html`<details><summary>${count(of.length - FIRST)} more</summary><ul>${rest.map(line)}</ul>${left}</details>`;
    return html`<section class="facet"><h3>${words}</h3><ul>${of.slice(0, FIRST).map(line)}</ul>${more}</section>`;
  };
  const few = columns.filter(({ values }) => values <= FEW);
  return html`${section(`Up to ${FEW} values`, few)}${section('More values', columns.slice(few.length))}`;
}

function columnTools(view: View, shown: readonly string[], chosen: Chosen): Html {
  const kept = partsOfChosen(startingAt({ ...chosen, query: { ...chosen.query, show: [] } }, 0));
  const fields = kept.map(([key, value]) => html`<input type="hidden" name="${key}" value="${value}">`);
  const usual = addressOf({ ...chosen, query: { ...chosen.query, show: [] } });
  return html`<details class="choose"><summary>Columns</summary><form action="/beside">${fields}
${chooser(view.columns(), shown)}<button>Show these</button> <a href="/beside${usual}">The usual ones</a></form></details>`;
}

interface RowParts {
  sides: readonly [RowFields | null, RowFields | null];
  values: readonly string[];
  chosen: Chosen;
}

/** The words of a column of a pair: what it is in both, or from what to what. */
function rowOf(view: View, { joined }: ChosenPairs, pair: number, { sides, values, chosen }: RowParts): Html {
  const [a, b] = sides;
  const mask = maskOf(sides.flatMap(side => (side === null ? [] : hiddenIn(view, side))));
  const row = joined.first[pair] as number;
  const words = row < 0 ? 'second' : count(row + 1);
  const differs = waysOf(joined, pair).filter(way => !(way === 'rung' && view.isHidden('rung')));
  const cells = ['id', ...values]
    .filter(name => !view.isHidden(name))
    .map(name => {
      const [left, right] = [a, b].map(side => side?.fields.get(name) ?? '').map(mask) as [string, string];
      if (name === 'id' || a === null || b === null || left === right)
        return html`<td>${short(left === '' ? right : left, 80)}</td>`;
      return html`<td class="changed">${valueWords(left)} → <b>${valueWords(right)}</b></td>`;
    });
  const by = differs
    .map(way => (way === 'decision' || way === 'text' || way === 'rung' ? way : WORDS[way]))
    .join(', ');
  return html`<tr><th scope="row" class="n"><a href="/beside/${pair}${addressOf(startingAt(chosen, 0))}" aria-label="Pair of row ${words}">${words}</a></th>${cells}<td class="dim">${by}</td></tr>`;
}

function turning(all: number, chosen: Chosen, here: number): Html {
  const { from } = chosen.query;
  if (from === 0 && here >= all) return NONE;
  const link = (to: number, words: string, rel: string): Html =>
    html`<a rel="${rel}" href="/beside${addressOf(startingAt(chosen, to))}">${words}</a>`;
  return html`<nav class="turn" aria-label="Pages of pairs">${from > 0 ? link(Math.max(0, from - PAGE), 'Before', 'prev') : NONE}<span>Pairs ${number(Math.min(all, from + 1))} to ${number(from + here)} of ${number(all)}</span>${from + here < all ? link(from + PAGE, 'Next', 'next') : NONE}</nav>`;
}
