/** The page of one row: where it stands in what was chosen, what is in it, and what a judge says of it. */
import { VERDICTS } from '../../engine/audit/labels-file.ts';
import { isObject, type JsonObject, join } from '../../engine/core/json/pointer.ts';
import { show } from '../../engine/core/json/show.ts';
import { count, type Html, html, NONE, short } from '../kit/html.ts';
import { fieldsIn } from './cells.ts';
import { hideIn, maskOf, placesIn } from './hide.ts';
import { type ItemContext, itemParts } from './item-page.ts';
import type { Judging } from './judging.ts';
import { LIVE, type Links } from './links.ts';
import { ALL_ROWS, addressOf, withTests } from './query.ts';
import type { RowText } from './rows/run.ts';
import type { Selected, View } from './view.ts';

/** Values of one line that may be judged each for itself. */
const MOST_PATHS = 200;

/** What is known beside the files: agents, a schema, what may be done about a failure. */
export type Known = Pick<ItemContext, 'agents' | 'schema' | 'advice'>;

export interface OneParts {
  view: View;
  judging: Judging | null;
  links: Links;
  known: Known;
}

export interface One {
  title: string;
  main: Html;
}

export async function onePage(parts: OneParts, row: number, selected: Selected): Promise<One> {
  const { view, judging, links } = parts;
  const read = await view.run.read(row);
  const line = read.text === null ? null : read.value;
  const { fields } = fieldsIn(read, view.facts);
  const hidden = [...fields].filter(([name]) => view.isHidden(name));
  const values = hidden.map(([, value]) => value);
  const id = fields.get('id') ?? '';
  const told =
    read.trouble === null ? NONE : html`<p class="problem" role="alert">${short(read.trouble, 500)}</p>`;
  // what the parts themselves leave out is not found again; what they do not know of is
  const content = html`<h1>${id === '' ? `Row ${count(row + 1)}` : short(id, 300)}</h1>
<p class="where dim">${short(`${read.file}:${read.line}`, 300)} · row ${count(row + 1)}</p>${told}${read.text === null ? NONE : partsOf(parts, read, read.text, values)}`;
  const shown = hideIn(content, values).html;
  const places = view.hide.length === 0 ? 0 : placesIn(shown);
  const title = hideIn(html`${id === '' ? `Row ${row + 1}` : short(id, 60)}`, values).html;
  const main = html`${place(row, selected, links, view)}
${judging === null ? NONE : judgePanel({ row, line, selected, judging, view })}
${view.hide.length === 0 ? NONE : hiddenWords(view.hide, hidden.length, places)}
${shown}`;
  return { title: plain(title), main };
}

function partsOf(
  { view, links, known }: OneParts,
  read: RowText,
  text: string,
  values: readonly string[],
): Html {
  const isBlind = view.hide.length > 0;
  const columns = new Set(view.columns().map(({ name }) => name));
  return itemParts(read.value, text, {
    ...known,
    isRow: read.isRow,
    joined: read.joined,
    facts: view.facts,
    hidden: isBlind
      ? {
          has: column => view.isHidden(column),
          mask: maskOf(values),
          hidesAnswers: view.hide.some(name => /^(?:out|step)\./.test(name)),
        }
      : null,
    links: {
      raw: isBlind ? null : links.raw(read.row),
      filter: (column, value) =>
        columns.has(column) ? links.rows(withTests(ALL_ROWS, column, [{ isNot: false, value }])) : null,
    },
  });
}

/** The text of what was made of a text alone. */
const plain = ({ text }: Html): string =>
  text
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&quot;', '"')
    .replaceAll('&#39;', "'")
    .replaceAll('&amp;', '&');

function place(row: number, selected: Selected, links: Links, view: View): Html {
  const { query, count: all } = selected;
  const at = selected.indexOf(row);
  const back = links.rows({ ...query, from: Math.max(0, at) }) ?? 'index.html';
  const link = (to: number, words: string, rel: string): Html =>
    to < 0 || to >= all
      ? html`<span class="dim">${words}</span>`
      : html`<a rel="${rel}" href="${links.item(selected.at(to), query)}">${words}</a>`;
  const words = view.isSampling ? 'drawn rows' : 'rows';
  const stands =
    at < 0
      ? `not among the ${count(all)} ${words} that are chosen`
      : `${count(at + 1)} of ${count(all)} ${words}`;
  return html`<nav class="place" aria-label="Rows"><a class="back" href="${back}">All ${words}</a>
${at < 0 ? NONE : link(at - 1, 'Before', 'prev')}<span>${stands}</span>${at < 0 ? NONE : link(at + 1, 'Next', 'next')}</nav>`;
}

/** Nobody is to believe that more is hidden than is. */
function hiddenWords(columns: readonly string[], found: number, places: number): Html {
  const has = found === 0 ? 'this row has none of them' : `${count(places)} places on this page are hidden`;
  return html`<p class="note">Hidden: ${columns.map(name => short(name, 60)).join(', ')}; ${has}. Other words for the same, parts of a word, and what an image shows cannot be hidden.</p>`;
}

interface Panel {
  row: number;
  line: JsonObject | null;
  selected: Selected;
  judging: Judging;
  view: View;
}

const KEYS = { right: 'y', wrong: 'x', unsure: 'u' } as const;

function judgePanel({ row, line, selected, judging, view }: Panel): Html {
  const refusal = judging.refusal(line);
  if (refusal !== null || line === null)
    return html`<p class="dim">It cannot be judged: ${refusal ?? ''}</p>`;
  const own = judging.own(line);
  const whole = own.find(({ path }) => path === '');
  const buttons = VERDICTS.map(
    verdict =>
      html`<button name="verdict" value="${verdict}" data-key="${KEYS[verdict]}" class="verdict"${whole?.verdict === verdict ? html` aria-pressed="true"` : html` aria-pressed="false"`}>${verdict} <kbd>${KEYS[verdict]}</kbd></button>`,
  );
  const others = judging.others(line);
  return html`<section class="judge" aria-labelledby="judge-head"><h2 id="judge-head" class="unseen">What do you say?</h2>
<form method="post" action="/label" data-judge><input type="hidden" name="row" value="${row}"><input type="hidden" name="query" value="${addressOf(selected.query)}">
<div class="buttons">${buttons}</div>
<label>Note <kbd>m</kbd><input name="note" value="${whole?.note ?? ''}" maxlength="4000" autocomplete="off"></label>
<label>Of <kbd>v</kbd><select name="path"><option value="">the whole line</option>${optionsOf(line, view)}</select></label>
<button name="verdict" value="back" data-key="z" class="quiet" formnovalidate>Take back the last <kbd>z</kbd></button>
</form>
<p class="judged" role="status">${judgedWords(judging, view)}${others.length > 0 ? ` · also judged by ${others.map(by => short(by, 40)).join(', ')}` : ''}</p>
${own.length === 0 ? NONE : html`<ul class="earlier">${own.map(({ path, verdict, note }) => html`<li><b data-is="${verdict}">${verdict}</b> ${path === '' ? 'the whole line' : short(path, 120)}${note === undefined ? NONE : html` <q>${short(note, 300)}</q>`}</li>`)}</ul>`}
</section>`;
}

/** `12 of 50 judged`, `12 judged`. */
export function judgedWords(judging: Judging, { sample, drawnFields }: View): string {
  if (sample === null) return `judging as ${judging.by}, into ${judging.path}`;
  const done = drawnFields.filter(({ fields }) => judging.verdictOf(fields.get('id') ?? '') !== null).length;
  return `${count(done)} of ${count(sample.rows.length)} judged, by ${judging.by}`;
}

/** Each value of the answers, by its place in the line. */
function optionsOf(line: JsonObject, view: View): Html[] {
  const options: Html[] = [];
  const walk = (value: unknown, path: string, depth: number): void => {
    if (options.length >= MOST_PATHS) return;
    if (depth > 0 && (isObject(value) || Array.isArray(value)))
      for (const [key, below] of Object.entries(value)) walk(below, join(path, key), depth - 1);
    else if (value !== undefined)
      options.push(
        html`<option value="${path}">${short(path, 100)}${view.hide.length > 0 ? '' : `: ${short(show(value), 60)}`}</option>`,
      );
  };
  const { decision, steps, business_decision: legacy } = line;
  if (isObject(decision)) walk(decision.output, '/decision/output', 3);
  if (isObject(legacy)) walk(legacy, '/business_decision', 3);
  if (Array.isArray(steps))
    steps.slice(0, 50).forEach((step, at) => {
      if (isObject(step)) walk(step.output, `/steps/${at}/output`, 3);
    });
  return options;
}

/** The next place after a row was judged: the next row, or the table after the last one. */
export function nextAddress(selected: Selected, row: number): string {
  const { query } = selected;
  const at = selected.indexOf(row);
  return at >= 0 && at + 1 < selected.count
    ? LIVE.item(selected.at(at + 1), query)
    : LIVE.rows({ ...query, from: Math.max(0, at) });
}

export const keysOfOne =
  (): Html => html`<dialog id="keys" aria-labelledby="keys-head"><h2 id="keys-head">Keys</h2>
<dl class="keys"><dt><kbd>n</kbd> <kbd>p</kbd></dt><dd>next row, row before</dd><dt><kbd>Esc</kbd></dt><dd>all rows</dd>
<dt><kbd>y</kbd> <kbd>x</kbd> <kbd>u</kbd></dt><dd>right, wrong, unsure</dd><dt><kbd>m</kbd></dt><dd>write a note, <kbd>Enter</kbd> to leave it</dd>
<dt><kbd>v</kbd></dt><dd>judge one value</dd><dt><kbd>z</kbd></dt><dd>take back what was said last</dd></dl>
<form method="dialog"><button>Close</button></form></dialog>`;
