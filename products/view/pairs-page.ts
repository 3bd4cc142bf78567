/** The table of two runs: what differs most comes first, and each pair leads to its page (beside-page.ts). */
import { number } from '../../engine/core/item/wording.ts';
import { count, type Html, html, NONE, short } from '../kit/html.ts';
import type { Joined } from './beside.ts';
import { besideParts, type Side } from './beside-page.ts';
import { fieldsIn, type RowFields } from './cells.ts';
import { columnName } from './facets.ts';
import { hideIn, maskOf } from './hide.ts';
import { countOf, type Pairs, WAYS, type Way, waysOf } from './pairs.ts';
import type { Run } from './rows/run.ts';
import { hiddenIn, type View } from './view.ts';

const PAGE = 50;
/** values of the decision that are shown of both */
const MOST_VALUES = 4;

export interface Chosen {
  way: Way | null;
  from: number;
}

const WORDS: Readonly<Record<Way, string>> = {
  decision: 'another decision',
  rung: 'another rung',
  text: 'another text',
  first: 'in the first alone',
  second: 'in the second alone',
  same: 'the same',
};

const addressOf = ({ way, from }: Chosen): string => {
  const parts = new URLSearchParams({
    ...(way !== null && { differs: way }),
    ...(from > 0 && { from: `${from}` }),
  });
  return parts.size === 0 ? '' : `?${parts}`;
};

/** The pairs that are chosen, in their order. */
export function chosenPairs(view: View, joined: Joined, way: Way | null): number[] {
  const { sample } = view;
  const drawn = sample === null ? null : new Set(sample.rows);
  const chosen: number[] = [];
  for (const pair of joined.order) {
    if (way !== null && !waysOf(joined, pair).includes(way)) continue;
    if (view.isSampling && !drawn?.has(joined.first[pair] as number)) continue;
    chosen.push(pair);
  }
  return chosen;
}

export async function pairsPage(view: View, pairs: Pairs, chosen: Chosen): Promise<Html> {
  const head = html`<h1>Two runs beside each other</h1>
<p class="where dim">first: ${short(pairs.first.paths.join(', '), 200)} · second: ${short(pairs.second.paths.join(', '), 200)}</p>`;
  const joined = pairs.joined();
  if (joined === null)
    return html`${head}<p class="note">They are joined once both have been read: <a href="/beside${addressOf(chosen)}">look again</a>.</p>`;
  const all = chosenPairs(view, joined, chosen.way);
  const here = all.slice(chosen.from, chosen.from + PAGE);
  const sides: [RowFields | null, RowFields | null][] = [];
  for (const pair of here)
    sides.push([
      await fieldsAt(pairs.first, joined.first[pair]),
      await fieldsAt(pairs.second, joined.second[pair]),
    ]);
  const values = view
    .columns()
    .map(({ name }) => name)
    .filter(name => name.startsWith('out.'))
    .slice(0, MOST_VALUES);
  const rows = here.map((pair, at) =>
    rowOf(view, joined, pair, { sides: sides[at] ?? [null, null], values, chosen }),
  );
  const heads = ['id', 'rung', ...values].filter(name => !view.isHidden(name));
  return html`${head}
${ways(view, joined, chosen)}
<div class="scroller" role="region" aria-label="The pairs" tabindex="0"><table><caption class="unseen">Rows of both runs, those that differ most first</caption>
<thead><tr><th scope="col" class="n">Row</th><th scope="col">differs by</th>${heads.map(name => html`<th scope="col">${columnName(name)}</th>`)}</tr></thead><tbody>${rows}</tbody></table>
${here.length === 0 ? html`<p class="empty">No pair is as chosen.</p>` : NONE}</div>
${turning(all.length, chosen, here.length)}`;
}

const fieldsAt = async (run: Run, row: number | undefined): Promise<RowFields | null> =>
  row === undefined || row < 0 ? null : fieldsIn(await run.read(row));

function ways(view: View, joined: Joined, { way }: Chosen): Html {
  // a rung that is hidden is not told by how many differ in it either
  const shown = WAYS.filter(each => countOf(joined, each) > 0 && !(each === 'rung' && view.isHidden('rung')));
  const link = (to: Way | null, words: string, rows: number): Html =>
    html`<li><a class="chip" href="/beside${addressOf({ way: to, from: 0 })}"${way === to ? html` aria-current="true"` : NONE}>${words} <b>${count(rows)}</b></a></li>`;
  return html`<ul class="chips" aria-label="By what they differ">${link(null, 'all', joined.order.length)}${shown.map(each => link(each, WORDS[each], countOf(joined, each)))}</ul>`;
}

interface RowParts {
  sides: readonly [RowFields | null, RowFields | null];
  values: readonly string[];
  chosen: Chosen;
}

function rowOf(view: View, joined: Joined, pair: number, { sides, values, chosen }: RowParts): Html {
  const [a, b] = sides;
  const mask = maskOf(sides.flatMap(side => (side === null ? [] : hiddenIn(view, side))));
  const row = joined.first[pair] as number;
  const words = row < 0 ? 'second' : count(row + 1);
  const differs = waysOf(joined, pair).filter(way => !(way === 'rung' && view.isHidden('rung')));
  const cells = ['id', 'rung', ...values]
    .filter(name => !view.isHidden(name))
    .map(name => {
      const [left, right] = [a, b].map(side => {
        const text = side?.fields.get(name);
        return text === undefined ? undefined : mask(text);
      });
      if (name === 'id' || a === null || b === null || left === right)
        return html`<td>${short(left ?? right ?? '', 80)}</td>`;
      return html`<td class="changed">${short(left ?? 'none', 40)} → <b>${short(right ?? 'none', 40)}</b></td>`;
    });
  return html`<tr><th scope="row" class="n"><a href="/beside/${pair}${addressOf({ ...chosen, from: 0 })}" aria-label="Pair of row ${words}">${words}</a></th><td>${differs.map(way => WORDS[way].replace(/^another /, '')).join(', ')}</td>${cells}</tr>`;
}

function turning(all: number, { way, from }: Chosen, here: number): Html {
  if (from === 0 && here >= all) return NONE;
  const link = (to: number, words: string, rel: string): Html =>
    html`<a rel="${rel}" href="/beside${addressOf({ way, from: to })}">${words}</a>`;
  return html`<nav class="turn" aria-label="Pages of pairs">${from > 0 ? link(Math.max(0, from - PAGE), 'Before', 'prev') : NONE}<span>Pairs ${number(Math.min(all, from + 1))} to ${number(from + here)} of ${number(all)}</span>${from + here < all ? link(from + PAGE, 'Next', 'next') : NONE}</nav>`;
}

/** One pair; null where there is none of this number. */
export async function pairPage(view: View, pairs: Pairs, pair: number, chosen: Chosen): Promise<Html | null> {
  const joined = pairs.joined();
  if (joined === null || pair >= joined.order.length) return null;
  const all = chosenPairs(view, joined, chosen.way);
  if (view.isSampling && !chosenPairs(view, joined, null).includes(pair)) return null;
  const read = [
    await sideAt(view, pairs.first, joined.first[pair] as number),
    await sideAt(view, pairs.second, joined.second[pair] as number),
  ] as const;
  const values = read.flatMap(({ hidden }) => hidden);
  const isBlind = view.hide.length > 0;
  const hidden = {
    has: (column: string) => view.isHidden(column),
    mask: maskOf(values),
    hidesAnswers: view.hide.some(name => /^(?:out|step)\./.test(name)),
  };
  const parts = besideParts([read[0].side, read[1].side], {
    hidden: isBlind ? hidden : null,
    links: { raw: null, filter: () => null },
  });
  const at = all.indexOf(pair);
  const link = (to: number | undefined, words: string, rel: string): Html =>
    to === undefined
      ? html`<span class="dim">${words}</span>`
      : html`<a rel="${rel}" href="/beside/${to}${addressOf({ ...chosen, from: 0 })}">${words}</a>`;
  const id = read[0].id || read[1].id || `Pair ${pair + 1}`;
  return html`<nav class="place" aria-label="Pairs"><a class="back" href="/beside${addressOf({ ...chosen, from: Math.max(0, at - (at % PAGE)) })}">All pairs</a>
${link(at > 0 ? all[at - 1] : undefined, 'Before', 'prev')}<span>${count(at + 1)} of ${count(all.length)} pairs</span>${link(at < 0 ? undefined : all[at + 1], 'Next', 'next')}</nav>
${hideIn(html`<h1>${short(id, 300)}</h1>${parts}`, values).html}`;
}

async function sideAt(
  view: View,
  run: Run,
  row: number,
): Promise<{ side: Side; hidden: string[]; id: string }> {
  const [name = ''] = run.paths;
  if (row < 0) return { side: { line: null, text: '', isRow: false, name }, hidden: [], id: '' };
  const read = await run.read(row);
  const { fields } = fieldsIn(read);
  const hidden = hiddenIn(view, { fields });
  const line = read.text === null ? null : read.value;
  const id = fields.get('id') ?? '';
  return {
    side: { line, text: read.text ?? '', isRow: read.isRow, name: `${name}:${read.line}` },
    hidden,
    id,
  };
}
